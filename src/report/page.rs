//! The report as one HTML page: nothing is fetched, no script runs.

use super::caveats::caveats;
use super::comparison::comparison;
use super::headline::{headline, recommended};
use super::input::{PoolReport, ReportInput, WindowRow};
use super::markup::Markup;
use super::plan::plan_table;
use super::plot::{
    Plot, PlotError, capacity_curve, capacity_history, requirement_distribution, traffic_history,
};
use super::table::Table;
use super::theme::stylesheet;
use super::words;
use kvset_core::estimate::{CoverageCapacity, Status};
use kvset_core::profile::{Outputs, Profile};

/// Most windows listed of a pool; the latest ones.
const MAX_WINDOWS: usize = 200;

/// Renders the report. The same input gives the same bytes.
///
/// # Errors
/// When the drawing library refuses a plot.
pub fn render(input: &ReportInput) -> Result<String, PlotError> {
    let mut out = Markup::default();
    // The policy makes "fetches nothing, runs nothing" a promise that the browser keeps.
    out.raw(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"kvset\">\n",
    );
    out.element("<title>", &format!("{}: KV cache capacity", input.title), "</title>\n");
    out.raw("<style>\n")
        .markup(&Markup::from_backend(stylesheet()))
        .raw("</style>\n</head>\n<body>\n<header>\n");
    out.raw("<p class=\"kv-quiet\">KV cache capacity report</p>\n").element("<h1>", &input.title, "</h1>\n");
    out.markup(&contents(input)).raw("</header>\n<main>\n");
    if input.pools.is_empty() {
        out.raw(
            "<div class=\"lead\"><p>There is nothing to recommend: the input holds no request.</p></div>\n",
        );
    }
    if input.compares_engines {
        out.markup(&comparison(&input.pools)?);
    }
    for (index, pool) in input.pools.iter().enumerate() {
        out.markup(&pool_section(&format!("pool-{}", index + 1), kind(input), pool)?);
    }
    out.markup(&inputs(input)).markup(&reading()).raw("</main>\n<footer>\n<p>Made by kvset ");
    out.raw(env!("CARGO_PKG_VERSION"));
    out.raw(". Sizes are rounded up to three digits and counted in powers of 1024 (1 TiB = 1024 GiB).</p>\n</footer>\n</body>\n</html>\n");
    Ok(out.into_string())
}

fn contents(input: &ReportInput) -> Markup {
    let mut out = Markup::default();
    if input.pools.len() < 2 {
        return out;
    }
    out.element("<nav aria-label=\"", kind(input), "s\"><ul>\n");
    for (index, pool) in input.pools.iter().enumerate() {
        out.raw("<li><a href=\"#pool-").text(&(index + 1).to_string()).raw("\">");
        out.text(pool.name.as_deref().unwrap_or("pool")).raw("</a></li>\n");
    }
    out.raw("</ul></nav>\n");
    out
}

/// One pool's part of a report, for a page that holds [`stylesheet`]. `id` is unique on that page.
///
/// # Errors
/// When the drawing library refuses a plot.
pub fn section(id: &str, pool: &PoolReport) -> Result<String, PlotError> {
    Ok(pool_section(id, "Pool", pool)?.into_string())
}

/// What the entries of the report are.
fn kind(input: &ReportInput) -> &'static str {
    if input.compares_engines { "Engine" } else { "Pool" }
}

fn pool_section(id: &str, kind: &str, pool: &PoolReport) -> Result<Markup, PlotError> {
    let mut out = Markup::default();
    out.raw("<section id=\"").text(id).raw("\">\n");
    if let Some(name) = &pool.name {
        out.raw("<h2>").text(kind).element(" ", name, "</h2>\n");
    }
    let headline = headline(pool);
    out.element("<div class=\"lead\">\n<p>", &headline.lead, "</p>\n");
    for further in &headline.further {
        out.element("<p>", further, "</p>\n");
    }
    out.raw("</div>\n").markup(&tiles(pool, headline.size.as_deref())).markup(&caveat_list(pool));
    let plots = [
        capacity_curve(&format!("{id}-curve"), pool)?,
        capacity_history(&format!("{id}-history"), pool)?,
        requirement_distribution(&format!("{id}-distribution"), pool)?,
        traffic_history(&format!("{id}-traffic"), pool)?,
    ];
    if let Some(table) = required_table(pool) {
        out.raw("<h2>Required capacity</h2>\n").markup(&table.markup());
    }
    if let Some(table) = plan_table(pool) {
        out.raw("<h2>What to buy</h2>\n").markup(&table.markup());
    }
    if plots.iter().any(Option::is_some) {
        out.raw("<h2>Plots</h2>\n");
    }
    for plot in plots.iter().flatten() {
        out.markup(&figure(plot));
    }
    if let Some(table) = windows_table(pool) {
        out.raw("<h2>Windows</h2>\n").markup(&table.markup());
    }
    out.raw("<h2>How it was counted</h2>\n").markup(&facts(&pool_facts(pool))).raw("</section>\n");
    Ok(out)
}

fn tiles(pool: &PoolReport, size: Option<&str>) -> Markup {
    let mut out = Markup::default();
    let mut tile = |name: &str, value: &str, note: &str| {
        out.element("<div><dt>", name, "</dt>").element("<dd>", value, "</dd>");
        out.element("<dd class=\"kv-quiet\">", note, "</dd></div>\n");
    };
    if let Some(size) = size {
        let note = recommended(pool.coverage())
            .map(|entry| format!("for {} of requests", words::share(entry.coverage)));
        tile("Recommended capacity", size, note.as_deref().unwrap_or("of those asked for"));
    }
    tile(
        "Theoretical hit rate",
        &words::rate(pool.theoretical.prefix_hit_rate),
        "prefix hits with unlimited capacity",
    );
    tile(
        "Accumulated",
        &words::capacity(pool.accumulated_pages, pool.page_bytes),
        &match pool.page_bytes {
            Some(_) => format!(
                "{} ever seen",
                words::counted(pool.accumulated_pages, "distinct page", "distinct pages")
            ),
            None => "all distinct ones ever seen".to_owned(),
        },
    );
    tile(
        "Requests",
        &words::integer(pool.requests),
        &format!("{} with something to reuse", words::integer(pool.requests_with_reuse)),
    );
    let mut list = Markup::default();
    list.raw("<dl class=\"tiles\">\n").markup(&out).raw("</dl>\n");
    list
}

fn caveat_list(pool: &PoolReport) -> Markup {
    let mut out = Markup::default();
    let caveats = caveats(pool);
    if caveats.is_empty() {
        return out;
    }
    out.raw("<h2>Before relying on this</h2>\n<dl class=\"caveats\">\n");
    for caveat in &caveats {
        out.element("<dt>", &caveat.title, "</dt>").element("<dd>", &caveat.meaning, "</dd>\n");
    }
    out.raw("</dl>\n");
    out
}

pub(super) fn figure(plot: &Plot) -> Markup {
    let mut out = Markup::default();
    out.element("<figure>\n<h3>", &plot.title, "</h3>\n");
    out.element("<figcaption>", &plot.description, "</figcaption>\n");
    out.raw("<div class=\"scroll\"><div class=\"drawing\">\n")
        .markup(&plot.markup(false))
        .raw("</div></div>\n");
    out.element("<details><summary>Numbers: ", &plot.title, "</summary>\n");
    out.markup(&plot.table.markup()).raw("</details>\n</figure>\n");
    out
}

/// A requirement in a table cell.
pub(super) fn required_cell(entry: &CoverageCapacity, pool: &PoolReport) -> String {
    match entry.pages {
        Some(pages) => words::capacity(pages, pool.page_bytes),
        None if entry.beyond_bound => "beyond bound".to_owned(),
        None => "–".to_owned(),
    }
}

fn required_table(pool: &PoolReport) -> Option<Table> {
    let mut table = Table::new(
        "Capacity that lets a share of requests keep the target share of their theoretical hit rate",
        ["requests covered", "target", "capacity", "pages", "tokens", "pages (requests with reuse)"],
    );
    if pool.page_bytes.is_some() {
        table.columns.insert(3, "bytes".to_owned());
    }
    if pool.in_flight.is_some() {
        table.columns.push("capacity with room for requests in flight".to_owned());
    }
    table.columns.push("trend".to_owned());
    let count = |value: Option<u64>| value.map_or_else(|| "–".to_owned(), words::integer);
    for (at, target) in pool.required.iter().enumerate() {
        for (place, entry) in target.coverage.iter().enumerate() {
            let mut row = vec![
                words::share(entry.coverage),
                words::share(target.target_ratio),
                required_cell(entry, pool),
            ];
            if pool.page_bytes.is_some() {
                row.push(count(entry.bytes));
            }
            row.extend([count(entry.pages), count(entry.tokens), count(entry.pages_with_reuse)]);
            if let Some(in_flight) = &pool.in_flight {
                let found = in_flight.required.get(at).and_then(|required| required.coverage.get(place));
                let sum = found.and_then(|found| found.pages);
                row.push(sum.map_or_else(|| "–".to_owned(), |pages| words::capacity(pages, pool.page_bytes)));
            }
            row.push(entry.convergence.with_growth(entry.growth_per_window));
            table.rows.push(row);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

fn windows_table(pool: &PoolReport) -> Option<Table> {
    let last = pool.windows.last()?;
    let skipped = pool.windows.len().saturating_sub(MAX_WINDOWS);
    let caption = match skipped {
        0 => "Windows, by their end".to_owned(),
        count => format!(
            "The last {MAX_WINDOWS} windows; {} not listed",
            words::counted(count as u64, "earlier one is", "earlier ones are")
        ),
    };
    let mut table = Table::new(caption, ["window", "start", "end", "state", "requests"]);
    if words::date(last.end_ms).is_some() {
        table.columns[1] = "start (UTC)".to_owned();
        table.columns[2] = "end (UTC)".to_owned();
    }
    table.columns.extend(last.coverage.iter().map(|entry| words::share(entry.coverage)));
    for window in &pool.windows[skipped..] {
        table.rows.push(window_row(window, pool, last));
    }
    Some(table)
}

fn window_row(window: &WindowRow, pool: &PoolReport, columns: &WindowRow) -> Vec<String> {
    let state = match (window.status, window.warm_up) {
        (Status::Final, false) => "final",
        (Status::Final, true) => "final, warming up",
        (Status::Provisional, false) => "provisional",
        (Status::Provisional, true) => "provisional, warming up",
    };
    let mut row = vec![
        window.kind.to_string(),
        words::clock(window.start_ms),
        words::clock(window.end_ms),
        state.to_owned(),
        words::integer(window.requests),
    ];
    row.extend(columns.coverage.iter().map(|column| {
        let entry = window.coverage.iter().find(|entry| entry.coverage == column.coverage);
        entry.map_or_else(|| "–".to_owned(), |entry| required_cell(entry, pool))
    }));
    row
}

fn pool_facts(pool: &PoolReport) -> Vec<(String, String)> {
    let engine = match pool.engine {
        Profile::Paper => "paper: pages touched root first, prompts only",
        Profile::LeafFirst => "leaf-first: pages touched leaf first after look-up",
        Profile::Vllm => "vllm: leaf first, with outputs, partial pages and the recomputed last page",
        Profile::Sglang => "sglang: whole leaf nodes evicted, modelled at each capacity asked for",
        Profile::Lmcache => "lmcache: root first, an approximation",
        Profile::Mooncake => "mooncake: root first at an effective capacity, an approximation",
    };
    let page = pool.page_size.map(|tokens| words::counted(u64::from(tokens), "token", "tokens"));
    let mut facts = vec![
        ("Cache model".to_owned(), engine.to_owned()),
        ("Page".to_owned(), page.unwrap_or_else(|| "size unknown".to_owned())),
        (
            "Bytes a page".to_owned(),
            pool.page_bytes.map_or_else(|| "not configured".to_owned(), words::integer),
        ),
        ("Page accesses".to_owned(), words::integer(pool.page_accesses)),
        ("Page hits with unlimited capacity".to_owned(), words::integer(pool.theoretical.page_hits)),
        ("Prefix hits with unlimited capacity".to_owned(), words::integer(pool.theoretical.prefix_hits)),
    ];
    if matches!(pool.engine, Profile::Vllm | Profile::Sglang) {
        let outputs = match pool.outputs {
            Outputs::Cached => "enter the cache",
            Outputs::Ignored => "do not enter the cache",
        };
        facts.insert(1, ("Output tokens".to_owned(), outputs.to_owned()));
    }
    for required in &pool.required {
        let share = words::share(required.target_ratio);
        let max = required
            .max_pages
            .map_or_else(|| "beyond bound".to_owned(), |pages| words::capacity(pages, pool.page_bytes));
        facts.push((format!("Largest requirement at target {share}"), max));
        if let Some(mean) = required.mean_pages.filter(|mean| mean.is_finite() && *mean >= 0.0) {
            let mean = words::capacity(mean.ceil() as u64, pool.page_bytes);
            facts.push((format!("Mean requirement at target {share}"), mean));
        }
    }
    facts
}

fn facts(rows: &[(String, String)]) -> Markup {
    let mut out = Markup::default();
    out.raw("<table class=\"facts\"><tbody>\n");
    for (name, value) in rows {
        out.element("<tr><th scope=\"row\">", name, "</th>").element("<td>", value, "</td></tr>\n");
    }
    out.raw("</tbody></table>\n");
    out
}

fn inputs(input: &ReportInput) -> Markup {
    let mut out = Markup::default();
    if !input.inputs.is_empty() {
        out.raw("<section id=\"inputs\">\n<h2>Inputs</h2>\n")
            .markup(&facts(&input.inputs))
            .raw("</section>\n");
    }
    out
}

fn reading() -> Markup {
    let mut out = Markup::default();
    out.raw(include_str!("reading.html"));
    out
}
