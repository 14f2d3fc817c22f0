//! What a replay leaves alongside its result: the page with the plots, and remarks about the trace.

use crate::present::html as report;
use crate::present::plots::{Plot, capacity_curve, engine_curves, worth_against_price};
use crate::present::pool::{PoolReport, ReportInput};
use crate::present::words::counted;
use crate::replay::{Replay, ReplayHistory, ReplayOptions, report_input};
use anyhow::Context as _;
use kvset_core::estimate::{Estimate, FEWEST_FOLLOWED};
use std::path::{Path, PathBuf};

/// Writes the self-contained page with the plots: of one engine or of several, or of `pools` by these names.
pub(crate) fn write_report(
    path: &Path,
    replays: Vec<(&Replay, ReplayHistory)>,
    pools: &[&str],
    options: &ReplayOptions,
) -> anyhow::Result<()> {
    let mut inputs: Vec<(String, String)> =
        options.traces.iter().map(|trace| ("Trace".to_owned(), trace.display().to_string())).collect();
    inputs.push(("Ids unique within".to_owned(), options.read.id_scope.to_string()));
    inputs.push(("kvset".to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
    let mut input = report_input(replays, title(&options.traces), inputs);
    if !pools.is_empty() {
        input.compares_engines = false;
        let named = input.pools.iter_mut().zip(pools);
        named.for_each(|(pool, name)| pool.name = Some((*name).to_owned()));
    }
    write_page(path, &input)
}

/// What a report is called: the names of the traces.
fn title(traces: &[PathBuf]) -> String {
    let name = |path: &PathBuf| match path.file_name() {
        Some(name) if name != "-" => name.to_string_lossy().into_owned(),
        _ => "standard input".to_owned(),
    };
    match traces {
        [] => String::new(),
        [only] => name(only),
        [first, rest @ ..] => format!("{} and {} more", name(first), rest.len()),
    }
}

/// Writes the hit-rate curve as an SVG: of one engine, or of several in one plot.
pub(crate) fn write_plot(path: &Path, pools: &[PoolReport<'_>]) -> anyhow::Result<()> {
    let plot = match pools {
        [only] => capacity_curve("curve", only),
        several => engine_curves("curve", several),
    };
    let plot = plot.context("cannot draw the plot")?;
    let Some(plot) = plot else {
        anyhow::bail!("nothing to draw in `{}`: the trace gives no hit rate at any capacity", path.display());
    };
    write_svg(path, &plot)
}

/// Writes worth against price as an SVG.
pub(crate) fn write_worth_plot(path: &Path, pool: &PoolReport<'_>) -> anyhow::Result<()> {
    let curve = pool.questions.worth.as_ref().with_context(|| {
        let path = path.display();
        format!(
            "nothing to draw in `{path}`: worth per GiB needs --kv-bytes-per-token or --model-config, and requests at \
             more than one time"
        )
    })?;
    let plot = worth_against_price("worth", curve).context("cannot draw the plot")?;
    let plot =
        plot.with_context(|| format!("nothing to draw in `{}`: no size earns anything", path.display()))?;
    write_svg(path, &plot)
}

fn write_svg(path: &Path, plot: &Plot) -> anyhow::Result<()> {
    std::fs::write(path, plot.standalone_svg())
        .with_context(|| format!("cannot write the plot `{}`", path.display()))
}

/// Writes a report.
pub(crate) fn write_page(path: &Path, input: &ReportInput<'_>) -> anyhow::Result<()> {
    let page = report::render(input).context("cannot draw the report")?;
    std::fs::write(path, page).with_context(|| format!("cannot write the report `{}`", path.display()))
}

/// Why every figure of a result is zero, if nothing was counted: such a result looks like one of bad traffic.
fn nothing_counted(done: &Replay) -> Option<String> {
    let Replay { requests, warm_up_requests, .. } = *done;
    match requests {
        0 => Some(
            "warning: no request was read, so there is nothing to estimate: look into the trace".to_owned(),
        ),
        _ if requests == warm_up_requests => Some(format!(
            "warning: all {requests} requests only filled the cache and none was counted: choose a shorter --warm-up"
        )),
        _ => None,
    }
}

/// What a reader of the result should know about the trace.
pub(crate) fn notes(done: &Replay) -> Vec<String> {
    let mut lines = trace_notes(done, done.rejected_rows);
    lines.extend(pool_notes(done));
    lines
}

/// What holds for all pools of a trace, of which so many rows were passed over.
pub(crate) fn trace_notes(done: &Replay, rejected_rows: u64) -> Vec<String> {
    let mut lines: Vec<String> = done.notes.iter().map(|note| format!("note: {note}")).collect();
    for row in &done.bad_rows {
        lines.push(format!("skipped: {}: {}", row.place, row.reason));
    }
    for (why, records) in &done.passed_over {
        lines.push(format!("passed over: {}: {why}", counted(*records, "record", "records")));
    }
    let unnamed = rejected_rows.saturating_sub(done.bad_rows.len() as u64);
    if unnamed > 0 {
        lines.push(format!("skipped: {unnamed} more rows"));
    }
    lines
}

/// What holds for one pool.
pub(crate) fn pool_notes(done: &Replay) -> Vec<String> {
    let mut lines: Vec<String> = nothing_counted(done).into_iter().collect();
    if let Some(all) = done.whole.as_ref().filter(|all| all.output_reuse_unseen) {
        lines.push(
            "note: the trace has page ids for prompts only: answers take room in the cache, but hits on answers are not \
             counted"
                .to_owned(),
        );
        if all.in_flight.as_ref().is_some_and(|found| found.modelled) {
            lines.push("note: --overlap off reports how many hits on answers there can be".to_owned());
        }
    }
    if let Some(followed) = done.whole.as_ref().and_then(Estimate::too_few_followed) {
        lines.push(format!(
            "warning: the sample follows {followed:.1} pages of a request on average: with fewer than \
             {FEWEST_FOLLOWED} many requests are not seen at all and required capacities come out too small; \
             raise --sample-rate"
        ));
    }
    if done.chain_violations > 0 {
        let found = done.chain_violations;
        lines.push(format!(
            "warning: {found} pages carry an id known under another prefix: the ids may be unique within a \
             session or tenant only (see --id-scope); pages are told apart by their whole prefix all the same"
        ));
    }
    lines
}
