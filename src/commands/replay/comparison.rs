//! `kvset replay --engine A,B,...`: several engines side by side, from one reading of the trace.

use crate::cli::Failure;
use crate::cli::args::ReplayArgs;
use crate::cli::output::plan::price;
use crate::cli::output::{
    Column, Progress, Sheet, bytes, json, known, percent, print, share_name, thousands,
};
use crate::commands::replay::output::{ReplayResult, page_size};
use crate::commands::replay::report::{notes, write_report};
use crate::replay::{ReplayOptions, replay_engines};
use kvset_core::capacity::coarse_grid;
use kvset_core::profile::Profile;
use serde::Serialize;
use std::fmt::Write as _;

/// The results of several engines, in the order asked for; at least one.
#[derive(Debug, Serialize)]
struct Comparison {
    engines: Vec<ReplayResult>,
}

/// Runs `kvset replay` for several engines.
pub(super) fn run(args: &ReplayArgs, mut options: ReplayOptions) -> Result<(), Failure> {
    check(args)?;
    if args.capacities.is_empty() && args.engines.iter().any(|engine| engine.is_pointwise()) {
        options.pool.capacities = coarse_grid(options.pool.max_tracked_pages);
    }
    let mut bar = Progress::bytes(None);
    let mut progress = |at: kvset_formats::trace::Progress| bar.advance_of(at.read_bytes, at.total_bytes);
    let done = replay_engines(&options, &args.engines, args.report.is_some(), &mut progress)?;
    let (done, histories): (Vec<_>, Vec<_>) = done.into_iter().unzip();
    if let Some(path) = &args.report {
        write_report(path, done.iter().zip(histories).collect(), &options)?;
    }
    let mut shown: Vec<String> = Vec::new();
    for line in done.iter().flat_map(notes) {
        if !shown.contains(&line) {
            bar.note(&line);
            shown.push(line);
        }
    }
    bar.finish("replayed");
    let mut comparison = Comparison { engines: done.iter().map(ReplayResult::of).collect() };
    if args.capacities.is_empty() {
        comparison.cut_grid();
    }
    let text = if args.json { json(&comparison)? } else { comparison.render() };
    print(&text)
}

/// Refuses what only one engine can have.
fn check(args: &ReplayArgs) -> Result<(), Failure> {
    let repeated = |(index, engine): (usize, &Profile)| args.engines[..index].contains(engine);
    let reason = if args.engines.iter().enumerate().any(repeated) {
        "--engine names an engine twice: leave one out"
    } else if args.per_request.is_some() {
        "--per-request writes the rows of one engine: name one with --engine"
    } else {
        return Ok(());
    };
    Err(Failure::Usage(anyhow::anyhow!(reason)))
}

impl Comparison {
    /// Ends the grid where no engine evicts any more.
    fn cut_grid(&mut self) {
        let footprint = self.engines.iter().map(ReplayResult::footprint_capacity).max().unwrap_or(0);
        self.engines.iter_mut().for_each(|result| result.cut_grid(footprint));
    }

    fn render(&self) -> String {
        let mut text = self.headline();
        text.push_str(&self.curves());
        text.push_str(&self.requirements());
        text.push_str(&self.plans());
        for result in &self.engines {
            let engine = result.trace.engine;
            // Writing to a string cannot fail.
            if let Some(reason) = result.approximation {
                let _ = writeln!(text, "\n{engine}: {reason}");
            }
            if result.pointwise {
                let _ = writeln!(
                    text,
                    "\n{engine}: each capacity is modelled on its own; no requirement follows"
                );
            }
        }
        text
    }

    fn headline(&self) -> String {
        let trace = self.engines.first().map(|result| &result.trace);
        let line = |name: &str, value: String| format!("{name:<22}{value}\n");
        trace.map_or_else(String::new, |trace| {
            line("requests", thousands(trace.requests))
                + &line("warm-up requests", thousands(trace.warm_up_requests))
                + &line("page accesses", thousands(trace.page_accesses))
                + &line("page size", page_size(trace))
        })
    }

    /// One row a capacity, one column an engine.
    fn curves(&self) -> String {
        let mut sheet = self.sheet(&[Column::Text("capacity"), Column::Number("size")]);
        let footprints = self.engines.iter().map(|result| thousands(result.trace.distinct_pages));
        sheet.row(["distinct pages".to_owned(), String::new()].into_iter().chain(footprints));
        let first = self.engines.first().map(|result| result.capacities.as_slice()).unwrap_or_default();
        for (at, point) in first.iter().enumerate() {
            let rates = self.engines.iter().map(|result| {
                let point = result.capacities.get(at);
                point.map_or_else(String::new, |p| known(p.prefix_hit_rate, percent, p.beyond_bound))
            });
            sheet.row([point.label.clone(), bytes(point.bytes)].into_iter().chain(rates));
        }
        let unlimited = self.engines.iter().map(|result| percent(result.theoretical.prefix_hit_rate));
        sheet.row(["unlimited".to_owned(), String::new()].into_iter().chain(unlimited));
        format!("\nhit rate by capacity and engine\n{}", sheet.render())
    }

    /// One table a target ratio, with one row a coverage and one column an engine.
    fn requirements(&self) -> String {
        let with_some = self.engines.iter().map(|result| &result.required).find(|list| !list.is_empty());
        let mut text = String::new();
        for (target, required) in with_some.into_iter().flatten().enumerate() {
            let mut sheet = self.sheet(&[Column::Text("coverage")]);
            for (at, share) in required.coverage.iter().enumerate() {
                let needs = self.engines.iter().map(|result| {
                    let entry = result.required.get(target).and_then(|required| required.coverage.get(at));
                    entry.map_or_else(|| "-".to_owned(), |e| known(e.pages, thousands, e.beyond_bound))
                });
                sheet.row(std::iter::once(share_name(share.coverage)).chain(needs));
            }
            let _ = write!(
                text,
                "\nrequired pages by coverage and engine, at target ratio {}\n{}",
                required.target_ratio,
                sheet.render()
            );
        }
        text
    }

    /// One row a tier, one column an engine; the whole plan of each is in the JSON.
    fn plans(&self) -> String {
        let plans: Vec<_> = self.engines.iter().map(|result| result.plan.as_ref()).collect();
        let Some(first) = plans.iter().flatten().next() else { return String::new() };
        let mut sheet = self.sheet(&[Column::Text("tier"), Column::Number("coverage")]);
        for (at, tier) in first.tiers.iter().enumerate() {
            let units = plans.iter().map(|plan| {
                let tier = plan.and_then(|plan| plan.tiers.get(at));
                tier.map_or_else(String::new, |tier| known(tier.planned.units, thousands, tier.beyond_bound))
            });
            sheet.row([tier.name.clone(), share_name(tier.coverage)].into_iter().chain(units));
        }
        let costs = plans.iter().map(|plan| plan.and_then(|plan| plan.cost).map_or_else(String::new, price));
        sheet.row(["cost".to_owned(), String::new()].into_iter().chain(costs));
        format!(
            "\nunits to buy by tier and engine, at target ratio {}\n{}",
            first.target_ratio,
            sheet.render()
        )
    }

    /// A table with one column an engine after these.
    fn sheet(&self, columns: &[Column<'_>]) -> Sheet {
        let engines = self.engines.iter().map(|result| Column::Number(result.trace.engine.name()));
        let columns: Vec<_> = columns.iter().copied().chain(engines).collect();
        Sheet::new(&columns)
    }
}
