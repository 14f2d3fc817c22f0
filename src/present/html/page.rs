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
    out.all(traffic(pool).iter().chain(&plan(pool)).map(section_markup));
    out.markup(&caveat_list(pool));
    let plots = [
        capacity_history(&format!("{id}-history"), pool)?,
        requirement_distribution(&format!("{id}-distribution"), pool)?,
        capacity_by_traffic(&format!("{id}-growth"), pool)?,
        traffic_history(&format!("{id}-traffic"), pool)?,
    ];
    if plots.iter().any(Option::is_some) {
        out.raw("<h2>Where it comes from</h2>\n<div class=\"plots\">\n");
        out.all(plots.iter().flatten().map(figure)).raw("</div>\n");
    }
    out.all(pool.questions().map(section_markup));
    if let Some(curve) = &pool.questions.worth
        && let Some(plot) = worth_against_price(&format!("{id}-worth"), curve)?
    {
        out.raw("<div class=\"plots\">\n").markup(&figure(&plot)).raw("</div>\n");
    }
    out.all(windows(pool).iter().map(section_markup));
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
    let tile = |name, value, exact, note| Tile { name, value, exact, note };
    let mut tiles = Vec::new();
    if let Some(size) = &headline.size {
        let answer = headline.answer.as_ref();
        let note = answer.map(|answer| format!("for {} of requests", words::share(answer.coverage)));
        let note = note.unwrap_or_else(|| "of those requested".to_owned());
        let exact = answer.and_then(|answer| answer.pages).and_then(exactly);
        tiles.push(tile("Recommended capacity", size.clone(), exact, note));
    }
    if let Some(held) = pool.provisioned_pages() {
        let note = "what the cache holds today".to_owned();
        tiles.push(tile("Provisioned", pool.size(held), exactly(held), note));
    }
    if let Some((answer, rate)) = headline.answer.as_ref().and_then(|answer| Some((answer, answer.hit_rate?)))
    {
        let by_tokens = words::and_by_tokens(rate, answer.hit_rate_tokens);
        let note = format!("prefix hits per page access{by_tokens}");
        tiles.push(tile("Hit rate at that size", words::rate(rate), None, note));
    }
    let theoretical = &pool.estimate.theoretical;
    let by_tokens = words::and_by_tokens(theoretical.prefix_hit_rate, theoretical.hit_rate_tokens);
    let note = format!("prefix hits with unlimited capacity{by_tokens}");
    tiles.push(tile("Theoretical hit rate", words::rate(theoretical.prefix_hit_rate), None, note));
    let all = pool.estimate.accumulated_pages;
    let note = match pool.estimate.page_bytes {
        Some(_) => format!("{} ever seen", words::counted(all, "distinct page", "distinct pages")),
        None => "all distinct ones ever seen".to_owned(),
    };
    tiles.push(tile("Accumulated", pool.size(all), exactly(all), note));
    let note = format!("{} with something to reuse", words::integer(pool.estimate.requests_with_reuse));
    tiles.push(tile("Requests", words::integer(pool.estimate.requests), None, note));
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
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
    fact("Cache model", engine);
    if pool.estimate.engine.spec().keeps_outputs {
        let outputs = match pool.estimate.outputs {
            Outputs::Cached => "enter the cache",
            Outputs::Ignored => "do not enter the cache",
        };
        fact("Output tokens", outputs.to_owned());
    }
    if !pool.engine_options.is_empty() {
        let options =
            pool.engine_options.iter().map(|(name, value)| format!("{} {value}", name.replace('_', " ")));
        fact("Its options", options.collect::<Vec<_>>().join(", "));
    }
    fact("Page", page.unwrap_or_else(|| "size unknown".to_owned()));
    let page_bytes = pool.estimate.page_bytes.map(words::integer);
    fact("Bytes per page", page_bytes.unwrap_or_else(|| "not configured".to_owned()));
    fact("Page accesses", words::integer(pool.estimate.page_accesses));
    fact("Page hits with unlimited capacity", words::integer(pool.estimate.theoretical.page_hits));
    fact("Prefix hits with unlimited capacity", words::integer(pool.estimate.theoretical.prefix_hits));
    for required in &pool.estimate.required {
        let share = words::share(required.target_ratio);
        let max = required.max_pages.map_or_else(|| "beyond bound".to_owned(), |pages| pool.size(pages));
        fact(&format!("Largest requirement at target {share}"), max);
        if let Some(mean) = required.mean_pages.filter(|mean| mean.is_finite() && *mean >= 0.0) {
            fact(&format!("Mean requirement at target {share}"), pool.size(mean.ceil() as u64));
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
