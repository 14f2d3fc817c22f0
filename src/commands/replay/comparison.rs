//! `kvset replay --engine A,B,...`: several engines side by side, from one reading of the trace.

use crate::cli::args::ReplayArgs;
use crate::cli::{Failure, json, print};
use crate::commands::replay::combined::Asked;
use crate::commands::replay::model::FromModel;
use crate::commands::replay::output::ReplayResult;
use crate::commands::replay::printed::page_size;
use crate::commands::replay::report::{notes, write_plot, write_report};
use crate::present::document::Section;
use crate::present::terminal::{self, Terminal, TerminalProgress};
use crate::present::{pool, words};
use crate::replay::{Replay, ReplayHistory, ReplayOptions, pool_report, replay_engines};
use kvset_core::units::capacity::coarse_grid;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Runs `kvset replay` for several engines.
pub(super) fn run(args: &ReplayArgs, mut options: ReplayOptions, model: &FromModel) -> Result<(), Failure> {
    Asked { args, model, options: &options }.check_several_engines()?;
    if args.capacities.is_empty()
        && args.engines.iter().any(|engine| options.pool.cache.with_profile(*engine).is_pointwise())
    {
        options.pool.cache.capacities = coarse_grid(options.pool.cache.max_tracked_pages);
    }
    let mut bar = TerminalProgress::bytes(None);
    model.notes.iter().for_each(|line| bar.note(line));
    let mut progress = |at: kvset_formats::trace::ReadProgress| bar.advance_of(at.read_bytes, at.total_bytes);
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
    let shown: Cow<'_, [Replay]> = match args.capacities.is_empty() {
        true => Cow::Owned(cut_grid(&done)),
        false => Cow::Borrowed(&done),
    };
    let result = |(shown, done)| ReplayResult::of(shown, pool_report(done, ReplayHistory::default()));
    let engines: Vec<_> = shown.iter().zip(&done).map(result).collect();
    if let Some(path) = &args.plot {
        let pools: Vec<_> = engines.iter().map(|result| result.facts.clone()).collect();
        write_plot(path, &pools)?;
    }
    print(&match args.json {
        true => json(&BTreeMap::from([("engines", engines)]))?,
        false => render(&engines, &Terminal::of_stdout()),
    })
}

/// The replays with curves that end where no engine evicts any more.
fn cut_grid(done: &[Replay]) -> Vec<Replay> {
    let footprint = done.iter().map(|replay| replay.distinct_pages).max().unwrap_or_default();
    done.iter().map(|replay| replay.up_to(footprint)).collect()
}

/// The answers first and last, and the tables between.
fn render(engines: &[ReplayResult<'_>], terminal: &Terminal) -> String {
    let answers = answers(engines, terminal);
    let mut text = format!("{answers}\n{}", summary(engines));
    let facts: Vec<_> = engines.iter().map(|result| result.facts.clone()).collect();
    for table in pool::comparison(&facts) {
        text.push_str(&format!("\n{}", terminal::captioned(&table, terminal)));
    }
    for result in engines {
        let engine = result.trace.engine;
        // What was requested alongside the curve is of each engine by itself.
        for found in &result.facts.questions.sections {
            let own = Section { title: format!("{engine}: {}", found.title), ..found.clone() };
            text.push_str(&terminal::section(&own, terminal));
        }
        if let Some(reason) = result.approximation {
            text.push_str(&format!("\n{}", terminal.paragraph(&format!("{engine}: {reason}"))));
        }
        if result.pointwise {
            let reason = format!("{engine}: each capacity is modelled on its own; no requirement follows");
            text.push_str(&format!("\n{}", terminal.paragraph(&reason)));
        }
    }
    format!("{text}\n{answers}")
}

/// The answer of each engine, in a paragraph each.
fn answers(engines: &[ReplayResult<'_>], terminal: &Terminal) -> String {
    let answer = |result: &ReplayResult<'_>| {
        let words: Vec<_> = result.answer.headline.opening().collect();
        terminal.paragraph(&format!("{}: {}", result.trace.engine, words.join(" ")))
    };
    engines.iter().map(answer).collect()
}

fn summary(engines: &[ReplayResult<'_>]) -> String {
    let trace = engines.first().map(|result| &result.trace);
    let line = |name: &str, value: String| format!("{name:<22}{value}\n");
    trace.map_or_else(String::new, |trace| {
        line("requests", words::integer(trace.requests))
            + &line("warm-up requests", words::integer(trace.warm_up_requests))
            + &line("page accesses", words::integer(trace.page_accesses))
            + &line("page size", page_size(trace))
    })
}
