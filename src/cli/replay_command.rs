//! `kvset replay`: trace files to estimates, without Kafka.

use super::Failure;
use super::args::ReplayArgs;
use super::output::Progress;
use super::plan_output::CostResult;
use super::replay_comparison;
use super::replay_output::{ReplayResult, TraceSummary};
use crate::core::estimate::{Estimate, FEWEST_FOLLOWED};
use crate::report::{self, ReportInput};
use crate::runtime::replay::{
    Chronicle, Replay, ReplayError, ReplayOptions, replay, replay_for_report, report_input,
};
use crate::trace;
use anyhow::Context as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Runs `kvset replay`.
pub fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let options = ReplayOptions {
        traces: args.trace.traces.clone(),
        read: args.trace.read_options(),
        pool: args.pool_config(&args.token_costs()?),
        warm_up: args.warm_up,
        skip_bad_rows: args.trace.skip_bad_rows,
    };
    if args.engines.len() > 1 {
        return replay_comparison::run(args, options);
    }
    let mut per_request = match &args.per_request {
        Some(path) => Some(File::create(path).with_context(|| format!("cannot write `{}`", path.display()))?),
        None => None,
    };
    let mut bar = Progress::bytes(None);
    let rows = per_request.as_mut().map(|file| file as &mut dyn Write);
    let mut progress = |at: trace::Progress| bar.advance_of(at.read_bytes, at.total_bytes);
    let done = match &args.report {
        None => replay(&options, rows, &mut progress)?,
        Some(path) => {
            let (done, chronicle) = replay_for_report(&options, rows, &mut progress)?;
            write_report(path, vec![(&done, chronicle)], &options)?;
            done
        }
    };
    notes(&done).iter().for_each(|line| bar.note(line));
    bar.finish("replayed");
    let mut result = ReplayResult::of(&done);
    if args.capacities.is_empty() {
        result.cut_grid(result.footprint_capacity());
    }
    let text = if args.json { json(&result)? } else { result.render() };
    print(&text)
}

/// Writes the self-contained page with the plots.
pub(super) fn write_report(
    path: &Path,
    replays: Vec<(&Replay, Chronicle)>,
    options: &ReplayOptions,
) -> anyhow::Result<()> {
    let mut inputs: Vec<(String, String)> =
        options.traces.iter().map(|trace| ("Trace".to_owned(), trace.display().to_string())).collect();
    inputs.push(("Ids unique within".to_owned(), options.read.id_scope.to_string()));
    inputs.push(("kvset".to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
    let input = report_input(replays, "KV cache capacity".to_owned(), inputs);
    write_page(path, &input)
}

/// Writes a report.
pub(super) fn write_page(path: &Path, input: &ReportInput) -> anyhow::Result<()> {
    let page = report::render(input).context("cannot draw the report")?;
    std::fs::write(path, page).with_context(|| format!("cannot write the report `{}`", path.display()))
}

/// What a reader of the result should know about the trace.
pub(super) fn notes(done: &Replay) -> Vec<String> {
    let mut lines: Vec<String> = done.notes.iter().map(|note| format!("note: {note}")).collect();
    if done.whole.as_ref().is_some_and(|all| all.output_reuse_unseen) {
        lines.push(
            "note: the trace has page ids for prompts only: outputs take room in the cache, but hits on them \
             cannot be seen and are under-counted"
                .to_owned(),
        );
    }
    if let Some(followed) = done.whole.as_ref().and_then(Estimate::too_few_followed) {
        lines.push(format!(
            "warning: the sample follows {followed:.1} pages of a request on average: with fewer than \
             {FEWEST_FOLLOWED} many requests are not seen at all and required capacities come out too small; \
             raise --sample-rate"
        ));
    }
    for row in &done.bad_rows {
        lines.push(format!("skipped: {}: {}", row.place, row.reason));
    }
    let unnamed = done.rejected_rows.saturating_sub(done.bad_rows.len() as u64);
    if unnamed > 0 {
        lines.push(format!("skipped: {unnamed} more rows"));
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

/// A result as scripts read it.
pub(super) fn json(result: &impl serde::Serialize) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(result).context("cannot write the result as JSON")? + "\n")
}

/// Puts a result on standard output.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    io::stdout().write_all(text.as_bytes()).context("cannot write the result")?;
    Ok(())
}

impl ReplayResult {
    /// The result of a finished replay.
    pub(super) fn of(done: &Replay) -> Self {
        let whole = done.whole.as_ref();
        let trace = TraceSummary {
            requests: done.requests,
            warm_up_requests: done.warm_up_requests,
            page_accesses: whole.map_or(0, |all| all.page_accesses),
            distinct_pages: done.distinct_pages.0,
            page_size: done.page_size.map(|size| size.get()),
            page_bytes: done.page_bytes.map(|bytes| bytes.0),
            rejected_rows: done.rejected_rows,
            chain_violations: done.chain_violations,
            chain_check: done.config.chain_check,
            engine: done.config.profile,
            sample_rate: done.config.sample_rate.as_f64(),
            sample_error: whole.map_or(0.0, |all| all.sample_error),
            output_reuse_unseen: whole.is_some_and(|all| all.output_reuse_unseen),
        };
        let mut result = Self::new(trace, whole, &done.windows);
        let at_cost = |(cost, estimate): &(f64, Estimate)| CostResult::new(*cost, estimate);
        result.costs = done.at_further_costs.iter().map(at_cost).collect();
        for (point, turned_away) in result.capacities.iter_mut().zip(&done.turned_away) {
            point.turned_away_requests = Some(*turned_away);
        }
        result
    }
}

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Config(_) | ReplayError::ShareOfStream => Self::Usage(error.into()),
            _ => Self::Runtime(error.into()),
        }
    }
}
