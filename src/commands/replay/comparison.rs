//! `kvset replay --engine A,B,...`: several engines side by side, from one reading of the trace.

use crate::cli::Failure;
use crate::cli::args::ReplayArgs;
use crate::commands::replay::model::FromModel;
use crate::commands::replay::output::ReplayResult;
use crate::commands::replay::printed::{MOST_ROWS, page_size, spread, telling};
use crate::commands::replay::report::{notes, write_plot, write_report};
use crate::present::terminal::plan::price;
use crate::present::terminal::required::recommended_cell;
use crate::present::terminal::{
    Column, Progress, Sheet, Terminal, bytes, json, known, percent, print, share_name, thousands,
};
use crate::replay::{ReplayOptions, replay_engines};
use kvset_core::engines::profile::Profile;
use kvset_core::units::capacity::coarse_grid;
use serde::Serialize;

/// The results of several engines, in the order requested; at least one.
#[derive(Debug, Serialize)]
struct Comparison {
    engines: Vec<ReplayResult>,
}

/// Runs `kvset replay` for several engines.
pub(super) fn run(args: &ReplayArgs, mut options: ReplayOptions, model: &FromModel) -> Result<(), Failure> {
    check(args)?;
    if args.capacities.is_empty()
        && args.engines.iter().any(|engine| options.pool.with_profile(*engine).is_pointwise())
    {
        options.pool.capacities = coarse_grid(options.pool.max_tracked_pages);
    }
    let mut bar = Progress::bytes(None);
    model.notes.iter().for_each(|line| bar.note(line));
    let mut progress = |at: kvset_formats::trace::Progress| bar.advance_of(at.read_bytes, at.total_bytes);
    let done = replay_engines(&options, &args.engines, args.report.is_some(), &mut progress)?;
    let (done, histories): (Vec<_>, Vec<_>) = done.into_iter().unzip();
    let page_size = done.first().and_then(|replay| replay.page_size);
    model.check_page(page_size)?.iter().for_each(|line| bar.note(line));
    if let Some(path) = &args.report {
        write_report(path, done.iter().zip(histories).collect(), &[], &options)?;
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
    if let Some(path) = &args.plot {
        let pools: Vec<_> = comparison.engines.iter().map(|result| result.facts.clone()).collect();
        write_plot(path, &pools)?;
    }
    let asked = !args.capacities.is_empty();
    let text = if args.json { json(&comparison)? } else { comparison.render(asked, &Terminal::of_stdout()) };
    print(&text)
}

/// Refuses what only one engine can have.
fn check(args: &ReplayArgs) -> Result<(), Failure> {
    let repeated = |(index, engine): (usize, &Profile)| args.engines[..index].contains(engine);
    let reason = if args.engines.iter().enumerate().any(repeated) {
        "--engine names an engine twice: leave one out"
    } else if args.per_request.is_some() {
        "--per-request writes the rows of one engine: name one with --engine"
    } else if args.worth_plot.is_some() {
        "--worth-plot draws one engine: name one with --engine"
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

    /// The answers first and last. `asked`: the capacities were chosen, so each has its row.
    fn render(&self, asked: bool, terminal: &Terminal) -> String {
        let answers = self.answers(terminal);
        let mut text = format!("{answers}\n{}", self.summary());
        text.push_str(&self.curves(asked, terminal));
        text.push_str(&self.requirements(terminal));
        text.push_str(&self.plans(terminal));
        for result in &self.engines {
            let engine = result.trace.engine;
            if let Some(reason) = result.approximation {
                text.push_str(&format!("\n{}", terminal.paragraph(&format!("{engine}: {reason}"))));
            }
            if result.pointwise {
                let reason =
                    format!("{engine}: each capacity is modelled on its own; no requirement follows");
                text.push_str(&format!("\n{}", terminal.paragraph(&reason)));
            }
        }
        format!("{text}\n{answers}")
    }

    /// The answer of each engine, in a paragraph each.
    fn answers(&self, terminal: &Terminal) -> String {
        let answer = |result: &ReplayResult| {
            let words: Vec<_> = result.answer.headline.opening().collect();
            terminal.paragraph(&format!("{}: {}", result.trace.engine, words.join(" ")))
        };
        self.engines.iter().map(answer).collect()
    }

    /// The capacities that are shown, by their place: all that were requested, else where a curve climbs.
    fn shown(&self, asked: bool) -> Vec<usize> {
        let all = self.engines.first().map_or(0, |result| result.capacities.len());
        if asked {
            return (0..all).collect();
        }
        let ranges = self.engines.iter().map(|result| {
            let points: Vec<_> = result.capacities.iter().map(|result| &result.point).collect();
            let telling = telling(&points);
            let first = telling.first().map_or(0, |first| first.pages);
            let first = points.iter().position(|point| point.pages == first).unwrap_or(0);
            (first, first + telling.len())
        });
        let (first, end) = ranges.fold((all, 0), |(a, b), (c, d)| (a.min(c), b.max(d)));
        spread(&(first..end.min(all)).collect::<Vec<_>>(), MOST_ROWS)
    }

    fn summary(&self) -> String {
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
    fn curves(&self, asked: bool, terminal: &Terminal) -> String {
        let mut sheet = self.sheet(&[Column::Text("capacity"), Column::Number("size")]).spare(&["size"]);
        let footprints = self.engines.iter().map(|result| thousands(result.trace.distinct_pages));
        sheet.row(["distinct pages".to_owned(), String::new()].into_iter().chain(footprints));
        let first = self.engines.first().map(|result| result.capacities.as_slice()).unwrap_or_default();
        for at in self.shown(asked) {
            let Some(named) = first.get(at) else { continue };
            let rates = self.engines.iter().map(|result| {
                let point = result.capacities.get(at).map(|result| &result.point);
                point.map_or_else(String::new, |p| known(p.prefix_hit_rate, percent, p.beyond_bound))
            });
            let label = named.point.label.clone().unwrap_or_default();
            sheet.row([label, bytes(named.point.bytes)].into_iter().chain(rates));
        }
        let unlimited = self.engines.iter().map(|result| percent(result.theoretical.prefix_hit_rate));
        sheet.row(["unlimited".to_owned(), String::new()].into_iter().chain(unlimited));
        format!("\nhit rate by capacity and engine\n{}", sheet.render(terminal))
    }

    /// One table a target ratio, with one row a coverage and one column an engine.
    fn requirements(&self, terminal: &Terminal) -> String {
        let with_some = self.engines.iter().map(|result| &result.required).find(|list| !list.is_empty());
        let mut text = String::new();
        for (target, required) in with_some.into_iter().flatten().enumerate() {
            let mut sheet = self.sheet(&[Column::Text("coverage")]);
            let all: Vec<_> = self.engines.iter().map(|result| result.facts.recommended_at(target)).collect();
            for (at, share) in required.coverage.iter().enumerate() {
                let needs = self.engines.iter().zip(&all).map(|(result, entries)| {
                    let entry = entries.get(at);
                    entry.map_or_else(|| "-".to_owned(), |e| recommended_cell(e, result.trace.page_bytes))
                });
                sheet.row(std::iter::once(share_name(share.found.coverage)).chain(needs));
            }
            text.push_str(&format!(
                "\nrequired capacity by coverage and engine, at target ratio {}\n{}",
                required.target_ratio,
                sheet.render(terminal)
            ));
        }
        text
    }

    /// One row a tier, one column an engine; the whole plan of each is in the JSON.
    fn plans(&self, terminal: &Terminal) -> String {
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
            sheet.render(terminal)
        )
    }

    /// A table with one column an engine after these.
    fn sheet(&self, columns: &[Column<'_>]) -> Sheet {
        let engines = self.engines.iter().map(|result| Column::Number(result.trace.engine.name()));
        let columns: Vec<_> = columns.iter().copied().chain(engines).collect();
        Sheet::new(&columns)
    }
}
