//! The report as one HTML page: nothing is fetched, no script runs.

use super::comparison::engines;
use super::section::{figure, section as section_markup, table};
use crate::present::markup::Markup;
use crate::present::plots::{
    PlotError, capacity_by_traffic, capacity_curve, capacity_history, requirement_distribution,
    traffic_history, worth_against_price,
};
use crate::present::pool::{
    Headline, PoolReport, ReportInput, caveats, exact, headline, plan, required, traffic, windows,
};
use crate::present::theme::stylesheet;
use crate::present::words;
use kvset_core::engines::profile::Outputs;

/// Renders the report. The same input gives the same bytes.
///
/// # Errors
/// When the drawing library refuses a plot.
pub fn render(input: &ReportInput<'_>) -> Result<String, PlotError> {
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
        out.markup(&engines(&input.pools)?);
    }
    for (index, pool) in input.pools.iter().enumerate() {
        out.markup(&pool_section(&format!("pool-{}", index + 1), kind(input), pool)?);
    }
    out.markup(&inputs(input)).markup(&reading()).raw("</main>\n<footer>\n<p>Made by kvset ");
    out.raw(env!("CARGO_PKG_VERSION"));
    out.raw(". Sizes are rounded up to three digits and counted in powers of 1024 (1 TiB = 1024 GiB).</p>\n</footer>\n</body>\n</html>\n");
    Ok(out.into_string())
}

fn contents(input: &ReportInput<'_>) -> Markup {
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
pub fn section(id: &str, pool: &PoolReport<'_>) -> Result<String, PlotError> {
    Ok(pool_section(id, "Pool", pool)?.into_string())
}

/// What the entries of the report are.
fn kind(input: &ReportInput<'_>) -> &'static str {
    if input.compares_engines { "Engine" } else { "Pool" }
}

fn pool_section(id: &str, kind: &str, pool: &PoolReport<'_>) -> Result<Markup, PlotError> {
    let mut out = Markup::default();
    out.raw("<section id=\"").text(id).raw("\">\n");
    if let Some(name) = &pool.name {
        out.raw("<h2>").text(kind).element(" ", name, "</h2>\n");
    }
    out.markup(&answer(id, pool)?);
    if let Some(found) = required(pool) {
        out.markup(&section_markup(&found)).raw("<details><summary>Exact figures</summary>\n");
        out.markup(&table(&exact(pool))).raw("</details>\n");
    }
    traffic(pool).iter().chain(&plan(pool)).for_each(|found| {
        out.markup(&section_markup(found));
    });
    out.markup(&caveat_list(pool));
    let plots = [
        capacity_history(&format!("{id}-history"), pool)?,
        requirement_distribution(&format!("{id}-distribution"), pool)?,
        capacity_by_traffic(&format!("{id}-growth"), pool)?,
        traffic_history(&format!("{id}-traffic"), pool)?,
    ];
    if plots.iter().any(Option::is_some) {
        out.raw("<h2>Where it comes from</h2>\n<div class=\"plots\">\n");
        plots.iter().flatten().for_each(|plot| {
            out.markup(&figure(plot));
        });
        out.raw("</div>\n");
    }
    pool.questions().for_each(|found| {
        out.markup(&section_markup(found));
    });
    if let Some(curve) = &pool.questions.worth
        && let Some(plot) = worth_against_price(&format!("{id}-worth"), curve)?
    {
        out.raw("<div class=\"plots\">\n").markup(&figure(&plot)).raw("</div>\n");
    }
    windows(pool).iter().for_each(|found| {
        out.markup(&section_markup(found));
    });
    out.raw("<h2>How it was counted</h2>\n").markup(&facts(&pool_facts(pool))).raw("</section>\n");
    Ok(out)
}

/// The answer in words, in figures and as the curve, side by side where there is room.
fn answer(id: &str, pool: &PoolReport<'_>) -> Result<Markup, PlotError> {
    let headline = headline(pool);
    let mut out = Markup::default();
    out.raw("<div class=\"answer\">\n<div class=\"lead\">\n");
    for sentence in headline.sentences() {
        out.element("<p>", sentence, "</p>\n");
    }
    out.raw("</div>\n");
    if let Some(plot) = capacity_curve(&format!("{id}-curve"), pool)? {
        out.markup(&figure(&plot));
    }
    out.markup(&tiles(pool, &headline)).raw("</div>\n");
    Ok(out)
}

/// One figure of the answer.
struct Tile<'a> {
    name: &'a str,
    value: String,
    /// The value to the last digit, where it is rounded.
    exact: Option<String>,
    note: String,
}

fn tiles(pool: &PoolReport<'_>, headline: &Headline) -> Markup {
    let exactly = |pages: u64| Some(words::exact(pages, pool.estimate.page_bytes));
    let mut tiles = Vec::new();
    if let Some(size) = &headline.size {
        let answer = headline.answer.as_ref();
        let note = answer.map(|answer| format!("for {} of requests", words::share(answer.coverage)));
        tiles.push(Tile {
            name: "Recommended capacity",
            value: size.clone(),
            exact: answer.and_then(|answer| answer.pages).and_then(exactly),
            note: note.unwrap_or_else(|| "of those requested".to_owned()),
        });
    }
    if let Some(held) = pool.provisioned_pages() {
        tiles.push(Tile {
            name: "Provisioned",
            value: pool.size(held),
            exact: exactly(held),
            note: "what the cache holds today".to_owned(),
        });
    }
    if let Some((answer, rate)) = headline.answer.as_ref().and_then(|answer| Some((answer, answer.hit_rate?)))
    {
        tiles.push(Tile {
            name: "Hit rate at that size",
            value: words::rate(rate),
            exact: None,
            note: "prefix hits per page access".to_owned()
                + &words::and_by_tokens(rate, answer.hit_rate_tokens),
        });
    }
    let theoretical = &pool.estimate.theoretical;
    tiles.push(Tile {
        name: "Theoretical hit rate",
        value: words::rate(theoretical.prefix_hit_rate),
        exact: None,
        note: "prefix hits with unlimited capacity".to_owned()
            + &words::and_by_tokens(theoretical.prefix_hit_rate, theoretical.hit_rate_tokens),
    });
    tiles.push(Tile {
        name: "Accumulated",
        value: pool.size(pool.estimate.accumulated_pages),
        exact: exactly(pool.estimate.accumulated_pages),
        note: match pool.estimate.page_bytes {
            Some(_) => format!(
                "{} ever seen",
                words::counted(pool.estimate.accumulated_pages, "distinct page", "distinct pages")
            ),
            None => "all distinct ones ever seen".to_owned(),
        },
    });
    tiles.push(Tile {
        name: "Requests",
        value: words::integer(pool.estimate.requests),
        exact: None,
        note: format!("{} with something to reuse", words::integer(pool.estimate.requests_with_reuse)),
    });
    let mut out = Markup::default();
    out.raw("<dl class=\"tiles\">\n");
    for tile in &tiles {
        out.element("<div><dt>", tile.name, "</dt>");
        match &tile.exact {
            Some(exact) => out.element("<dd title=\"", exact, "\">").text(&tile.value).raw("</dd>"),
            None => out.element("<dd>", &tile.value, "</dd>"),
        };
        out.element("<dd class=\"kv-quiet\">", &tile.note, "</dd></div>\n");
    }
    out.raw("</dl>\n");
    out
}

fn caveat_list(pool: &PoolReport<'_>) -> Markup {
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

fn pool_facts(pool: &PoolReport<'_>) -> Vec<(String, String)> {
    let engine = format!("{}: {}", pool.estimate.engine, pool.estimate.engine.spec().summary);
    let page = pool.page_size().map(|tokens| words::counted(u64::from(tokens), "token", "tokens"));
    let mut facts = vec![
        ("Cache model".to_owned(), engine),
        ("Page".to_owned(), page.unwrap_or_else(|| "size unknown".to_owned())),
        (
            "Bytes per page".to_owned(),
            pool.estimate.page_bytes.map_or_else(|| "not configured".to_owned(), words::integer),
        ),
        ("Page accesses".to_owned(), words::integer(pool.estimate.page_accesses)),
        ("Page hits with unlimited capacity".to_owned(), words::integer(pool.estimate.theoretical.page_hits)),
        (
            "Prefix hits with unlimited capacity".to_owned(),
            words::integer(pool.estimate.theoretical.prefix_hits),
        ),
    ];
    if !pool.engine_options.is_empty() {
        let options =
            pool.engine_options.iter().map(|(name, value)| format!("{} {value}", name.replace('_', " ")));
        facts.insert(1, ("Its options".to_owned(), options.collect::<Vec<_>>().join(", ")));
    }
    if pool.estimate.engine.spec().keeps_outputs {
        let outputs = match pool.estimate.outputs {
            Outputs::Cached => "enter the cache",
            Outputs::Ignored => "do not enter the cache",
        };
        facts.insert(1, ("Output tokens".to_owned(), outputs.to_owned()));
    }
    for required in &pool.estimate.required {
        let share = words::share(required.target_ratio);
        let max = required.max_pages.map_or_else(|| "beyond bound".to_owned(), |pages: u64| pool.size(pages));
        facts.push((format!("Largest requirement at target {share}"), max));
        if let Some(mean) = required.mean_pages.filter(|mean| mean.is_finite() && *mean >= 0.0) {
            let mean = pool.size(mean.ceil() as u64);
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

fn inputs(input: &ReportInput<'_>) -> Markup {
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
