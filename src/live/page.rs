//! The page as HTML, whole and in the parts that the script swaps.

use super::api::Filter;
use super::board::PageView;
use super::overview::{Overview, PartitionState, PoolState};
use super::waiting::waiting;
use crate::present::document::{Cell, Columns, Table};
use crate::present::html::{section as report_section, table};
use crate::present::markup::Markup;
use crate::present::plots::PlotError;
use crate::present::words;
use kvset_core::units::window::WindowKind;

/// The whole page.
pub(super) fn whole(overview: &Overview, view: &PageView, filter: &Filter) -> Result<String, PlotError> {
    let mut out = Markup::default();
    out.raw(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n",
    );
    out.element("<title>", &title(view), "</title>\n");
    out.raw(
        "<link rel=\"icon\" href=\"/live.svg\" type=\"image/svg+xml\">\n\
         <link rel=\"stylesheet\" href=\"/live.css\">\n<script src=\"/live.js\" defer></script>\n</head>\n\
         <body>\n<header>\n<h1>KV cache capacity</h1>\n\
         <p id=\"connection\" role=\"status\">Reload to see what is new.</p>\n",
    );
    out.markup(&summary(overview)).markup(&navigation(overview, view, filter)).raw("</header>\n<main>\n");
    out.markup(&shown(view, filter)?).markup(&standing(overview)).raw("</main>\n<footer>\n<p>Made by kvset ");
    out.raw(env!("CARGO_PKG_VERSION")).raw(
        ". Sizes are rounded up to three digits and counted in powers of 1024. For programs: \
         <a href=\"/api/v1/estimates\">estimates</a>, <a href=\"/api/v1/pools\">pools</a>, \
         <a href=\"/api/v1/openapi.json\">their description</a>, <a href=\"/metrics\">metrics</a>.</p>\n\
         </footer>\n</body>\n</html>\n",
    );
    Ok(out.into_string())
}

/// What the window is called: the pool that is shown.
fn title(view: &PageView) -> String {
    let pool = view.shown.as_ref().and_then(|(_, pool)| pool.name.as_deref());
    format!("{}: KV cache capacity", pool.unwrap_or("kvset"))
}

/// The parts that change while nothing is published: what there is to see, and how partitions stand.
pub(super) fn status(overview: &Overview, view: &PageView, filter: &Filter) -> String {
    let mut out = summary(overview);
    out.markup(&navigation(overview, view, filter)).markup(&standing(overview));
    out.into_string()
}

/// The part that shows one pool and window.
pub(super) fn section(view: &PageView, filter: &Filter) -> Result<String, PlotError> {
    Ok(shown(view, filter)?.into_string())
}

fn shown(view: &PageView, filter: &Filter) -> Result<Markup, PlotError> {
    let mut out = Markup::default();
    out.raw("<div data-part=\"section\" data-tag=\"").text(&view.tag).raw("\"");
    match &view.shown {
        Some((window, pool)) => {
            // What a reader who chose nothing looks at stays, whatever comes before it later.
            let query = query(pool.name.as_deref().unwrap_or_default(), Some(*window));
            out.raw(" data-query=\"").attribute(&query);
            out.raw("\" data-title=\"").attribute(&title(view)).raw("\">\n");
            out.markup(&Markup::from_backend(report_section("pool-1", pool)?));
        }
        None => {
            out.raw(">\n<div class=\"lead\"><p>").text(&nothing(filter)).raw("</p></div>\n");
        }
    }
    out.raw("</div>\n");
    Ok(out)
}

fn nothing(filter: &Filter) -> String {
    match (&filter.pool, filter.window) {
        (None, None) => "No estimate yet. The first one appears when a window has closed.".to_owned(),
        (Some(pool), None) => format!("No estimate of pool {pool} yet on this instance."),
        (None, Some(window)) => format!("No estimate of window {window} yet."),
        (Some(pool), Some(window)) => {
            format!("No estimate of pool {pool} for window {window} yet on this instance.")
        }
    }
}

/// Pools and windows to choose from, and problems.
fn navigation(overview: &Overview, view: &PageView, filter: &Filter) -> Markup {
    let (name, window) = match &view.shown {
        Some((window, pool)) => (pool.name.as_deref(), Some(*window)),
        None => (filter.pool.as_deref(), filter.window),
    };
    let mut out = Markup::default();
    out.raw("<div data-part=\"navigation\">\n");
    if !overview.pools.is_empty() {
        out.raw("<nav aria-label=\"Pools\">\n<span class=\"kv-quiet\">Pool</span>\n<ul>\n");
        for pool in &overview.pools {
            // The window stays chosen where the other pool has it.
            let kept = window.filter(|window| pool.windows.contains(window));
            out.markup(&link(&pool.pool, kept, name == Some(&pool.pool), &pool.pool));
        }
        out.raw("</ul>\n</nav>\n");
    }
    if overview.pools_not_shown > 0 {
        let more = words::counted(overview.pools_not_shown, "pool is", "pools are");
        out.raw("<p class=\"kv-quiet\">").text(&more).raw(" not shown: see http.max_pool_labels.</p>\n");
    }
    let chosen = overview.pools.iter().find(|pool| name == Some(&pool.pool));
    if let Some(pool) = chosen.filter(|pool| !pool.windows.is_empty()) {
        out.raw("<nav aria-label=\"Windows\">\n<span class=\"kv-quiet\">Window</span>\n<ul>\n");
        for kind in &pool.windows {
            out.markup(&link(&pool.pool, Some(*kind), window == Some(*kind), &kind.to_string()));
        }
        out.raw("</ul>\n</nav>\n");
    }
    if view.shown.is_none() {
        out.raw("<p class=\"kv-quiet\">").text(&waiting(overview, filter)).raw("</p>\n");
    }
    out.markup(&problems(overview)).raw("</div>\n");
    out
}

/// The query that asks for a pool and a window.
fn query(pool: &str, window: Option<WindowKind>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("pool", pool);
    if let Some(window) = window {
        query.append_pair("window", &window.to_string());
    }
    query.finish()
}

fn link(pool: &str, window: Option<WindowKind>, current: bool, text: &str) -> Markup {
    let mut out = Markup::default();
    out.raw("<li><a href=\"/?").attribute(&query(pool, window)).raw("\"");
    out.raw(if current { " aria-current=\"page\">" } else { ">" }).text(text).raw("</a></li>\n");
    out
}

fn problems(overview: &Overview) -> Markup {
    let mut out = Markup::default();
    if overview.problems.is_empty() {
        return out;
    }
    out.raw("<ul class=\"problems\" aria-label=\"Problems\">\n");
    for problem in &overview.problems {
        out.raw("<li>");
        if let Some(partition) = problem.partition {
            out.raw("Partition ").text(&partition.to_string()).raw(": ");
        }
        if let Some(pool) = &problem.pool {
            out.raw("Pool ").text(pool).raw(": ");
        }
        out.text(&problem.message).raw("</li>\n");
    }
    out.raw("</ul>\n");
    out
}

/// How far the whole instance is, in a line.
fn summary(overview: &Overview) -> Markup {
    let places = &overview.partitions;
    let mut text = words::counted(places.len() as u64, "partition", "partitions");
    let lags: Option<Vec<u64>> = places.iter().map(|place| place.lag_records).collect();
    match lags {
        Some(lags) => {
            let behind = lags.into_iter().fold(0, u64::saturating_add);
            text += &format!(", {} behind, ", words::counted(behind, "record", "records"));
        }
        None => text += ", lag not known yet, ",
    }
    match places.iter().filter_map(|place| place.snapshot_age_ms).max() {
        Some(age) => text += &format!("oldest snapshot {} ago.", seconds(age)),
        None => text += "no snapshot yet.",
    }
    let mut out = Markup::default();
    out.element("<p class=\"kv-quiet\" data-part=\"summary\">", &text, "");
    out.raw(" <a href=\"#instance\">Details</a></p>\n");
    out
}

/// A length of time in milliseconds as whole seconds.
fn seconds(ms: u64) -> String {
    words::elapsed(i64::try_from(ms / 1000).unwrap_or(i64::MAX / 1000).saturating_mul(1000))
}

/// How pools and partitions stand.
fn standing(overview: &Overview) -> Markup {
    let mut out = Markup::default();
    out.raw("<section id=\"instance\" data-part=\"standing\">\n<h2>This instance</h2>\n");
    let columns: Columns<'_, PartitionState> = &[
        ("partition", &|place| Cell::Figure(place.partition.to_string())),
        ("state", &|place| if place.restoring { "catching up" } else { "following" }.into()),
        ("records behind", &|place| Cell::known(place.lag_records, Cell::Count)),
        ("next offset", &|place| {
            Cell::known(place.next_offset, |next| Cell::Count(u64::try_from(next).unwrap_or(0)))
        }),
        ("event time (UTC)", &|place| Cell::known(place.watermark_ms, |ms| words::clock(ms).into())),
        ("pools", &|place| Cell::Count(place.pools)),
        ("snapshot", &newest_snapshot),
    ];
    let partitions = Table::of("Partitions it works on", &overview.partitions, columns);
    let columns: Columns<'_, PoolState> = &[
        ("pool", &|pool| pool.pool.clone().into()),
        ("partition", &|pool| Cell::Figure(pool.partition.to_string())),
        ("pages accessed", &|pool| Cell::Count(pool.page_accesses)),
        ("pages tracked", &|pool| Cell::known(pool.tracked_pages, Cell::Count)),
        ("pages ever seen", &|pool| Cell::known(pool.accumulated_pages, Cell::Count)),
        ("memory", &|pool| Cell::known(pool.engine_bytes, Cell::Bytes)),
    ];
    let pools = Table::of("Pools it follows", &overview.pools, columns);
    for found in [partitions, pools].into_iter().filter_map(Table::unless_empty) {
        out.markup(&table(&found));
    }
    if overview.partitions.is_empty() {
        out.raw("<p>No partition is assigned to it.</p>\n");
    }
    out.raw("</section>\n");
    out
}

fn newest_snapshot(place: &PartitionState) -> Cell {
    let snapshot = place.snapshot_age_ms.zip(place.snapshot_bytes);
    let snapshot = snapshot.map(|(age, bytes)| format!("{} ago, {}", seconds(age), words::bytes_up(bytes)));
    snapshot.map_or_else(|| "none yet".into(), Cell::Text)
}
