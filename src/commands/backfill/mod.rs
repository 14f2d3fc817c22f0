//! `kvset backfill`: the service between two offsets.

mod confirming;
mod report;

pub use report::report;

use crate::cli::args::BackfillArgs;
use crate::cli::interrupt::shutdown_by_signals;
use crate::cli::{Failure, json, print};
use crate::commands::replay::report::write_page;
use crate::commands::serving::{plan_failure, require_topics};
use crate::present::document::{Cell, Columns, Table};
use crate::present::terminal::{self, Terminal, TerminalProgress};
use crate::present::words::integer;
use crate::telemetry::logging;
use anyhow::Context as _;
use confirming::{Confirmed, confirmed};
use kvset_formats::position::Partition;
use kvset_formats::time::date_of_ms;
use kvset_pipeline::offset_range::OffsetRange;
use kvset_service::backfill::{
    Backfill, BackfillError, BackfillOptions, BackfillOutcome, RequestedRange, RunId,
};
use kvset_service::events::{Observer, ServiceEvent};
use kvset_settings::Settings;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Runs `kvset backfill`.
pub fn run(args: &BackfillArgs) -> Result<(), Failure> {
    let settings = Settings::load(args.config.file())?;
    let instead = "`kvset replay` reads its files, and `kvset run --folder DIR --estimates OTHER --until-end` estimates them anew";
    require_topics(&settings, "backfill", instead)?;
    logging::init(&settings.log).map_err(Failure::Usage)?;
    let shutdown = shutdown_by_signals()?;
    let run_id = match &args.run_id {
        Some(run_id) => run_id.clone(),
        None => named_now()?,
    };
    let backfill = Backfill::prepare(&BackfillOptions {
        settings,
        run_id,
        range: RequestedRange {
            from: args.from.clone(),
            to: args.to.clone(),
            warm_up: args.warm_up.unwrap_or_default(),
        },
        output_topic: args.output_topic.clone(),
        state_directory: args.state_dir.clone(),
        create_topics: args.create_topics,
        full_detail: args.report.is_some(),
    })
    .map_err(prepare_failure)?;
    let run_id = &backfill.run_id;
    eprintln!("{}", heading(&backfill));
    let bar = Bar::new(&backfill);
    let outcome = backfill.run(&shutdown, &bar);
    let done = bar.finish();
    let outcome = outcome.with_context(|| {
        format!("backfill {run_id} ended early; the same command with --run-id {run_id} goes on with it")
    })?;
    if !outcome.complete {
        return Err(anyhow::anyhow!(
            "stopped by a signal after {} of {} offsets; the same command with --run-id {run_id} goes on with it",
            integer(done),
            integer(backfill.offsets())
        )
        .into());
    }
    let confirmed = confirmed(&backfill, &shutdown).with_context(|| {
        format!("backfill {run_id} is complete, and what it recommends could not be confirmed; the same command with \
                 --run-id {run_id} tries again")
    })?;
    let Some(confirmed) = confirmed else {
        return Err(anyhow::anyhow!("stopped by a signal: backfill {run_id} is complete; the same command with --run-id {run_id} confirms what it recommends").into());
    };
    if let Some(path) = &args.report {
        write_report(path, &backfill, &confirmed)?;
    }
    let result = BackfillResult::of(&backfill, &outcome, confirmed);
    print(&if args.json { json(&result)? } else { result.render() })
}

/// A name nobody used before: the present time.
fn named_now() -> Result<RunId, Failure> {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = date_of_ms(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX));
    let name: String = now.chars().filter(char::is_ascii_alphanumeric).collect();
    name.parse().map_err(|error| Failure::Runtime(anyhow::anyhow!("naming the run {name}: {error}")))
}

/// What keeps the run from beginning: what was requested, or the brokers.
fn prepare_failure(error: BackfillError) -> Failure {
    match error {
        BackfillError::Plan(error) => plan_failure(error),
        BackfillError::Range(_) | BackfillError::Note { .. } | BackfillError::NotItsOwn(_) => {
            Failure::Usage(error.into())
        }
        BackfillError::Kafka(_) | BackfillError::Writing(_) => Failure::Runtime(error.into()),
    }
}

/// What is about to happen, and how to go on with it.
fn heading(backfill: &Backfill) -> String {
    let begun = if backfill.reached.is_empty() { "begins" } else { "goes on" };
    format!(
        "backfill {} {begun}: {} offsets of topic {}, estimates to {}; --run-id {} goes on with it after an \
         interruption",
        backfill.run_id,
        integer(backfill.offsets()),
        backfill.plan.task.topic,
        backfill.plan.stream.outputs.results.name,
        backfill.run_id
    )
}

/// Shows how far the run is.
struct Bar<'a> {
    backfill: &'a Backfill,
    /// The bar, and the offsets done of each partition.
    shown: Mutex<(TerminalProgress, BTreeMap<Partition, u64>)>,
}

impl<'a> Bar<'a> {
    fn new(backfill: &'a Backfill) -> Self {
        let all = |(partition, offset_range): (&Partition, _)| {
            let next = backfill.reached.get(partition);
            (*partition, next.map_or(0, |next| offsets_before(offset_range, next.0)))
        };
        let done = backfill.offset_ranges.iter().map(all).collect::<BTreeMap<_, _>>();
        let progress = TerminalProgress::offsets(backfill.offsets(), done.values().sum());
        Self { backfill, shown: Mutex::new((progress, done)) }
    }

    /// Removes the bar; gives the offsets done.
    fn finish(self) -> u64 {
        let (progress, done) = self.shown.into_inner().unwrap_or_else(PoisonError::into_inner);
        progress.finish("read");
        done.values().sum()
    }
}

impl Observer for Bar<'_> {
    fn on(&self, event: &ServiceEvent<'_>) {
        let (partition, next) = match event {
            ServiceEvent::Assigned { partition, resume, .. } => (partition, resume.replay_from),
            ServiceEvent::Progress { partition, next, .. } => (partition, *next),
            _ => return,
        };
        let Some(offset_range) = self.backfill.offset_ranges.get(partition) else { return };
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let (progress, done) = &mut *shown;
        done.insert(*partition, offsets_before(offset_range, next.0));
        progress.advance_to(done.values().sum());
    }
}

fn offsets_before(offset_range: &OffsetRange, next: i64) -> u64 {
    u64::try_from(next.saturating_sub(offset_range.begin.0)).unwrap_or(0)
}

fn write_report(path: &Path, backfill: &Backfill, confirmed: &Confirmed) -> Result<(), Failure> {
    match report(backfill).context("reading the estimates back for the report")? {
        Some(mut input) => {
            input.inputs.extend(confirmed.facts());
            Ok(write_page(path, &input)?)
        }
        None => {
            eprintln!("no window closed between --from and --to, so there is no report");
            Ok(())
        }
    }
}

/// What a run came to, as scripts read it.
#[derive(Debug, Serialize)]
struct BackfillResult<'a> {
    run_id: String,
    /// An earlier process had begun it; the counts below are of this one.
    resumed: bool,
    records: u64,
    estimates: u64,
    dead_letters: u64,
    input_topic: &'a str,
    output_topic: &'a str,
    dead_letter_topic: &'a str,
    state_directory: &'a Path,
    partitions: Vec<PartitionResult>,
    /// Pools that computed pages again, with what they need if each capacity is modelled by itself.
    confirmed: Confirmed,
}

/// What was read of one partition.
#[derive(Debug, Serialize)]
struct PartitionResult {
    partition: i32,
    warmed_up_from: i64,
    from: i64,
    to: i64,
}

impl<'a> BackfillResult<'a> {
    fn of(backfill: &'a Backfill, outcome: &BackfillOutcome, confirmed: Confirmed) -> Self {
        let partitions = backfill.offset_ranges.iter().map(|(partition, offset_range)| PartitionResult {
            partition: partition.0,
            warmed_up_from: offset_range.begin.0,
            from: offset_range.count_from.0,
            to: offset_range.end.0,
        });
        Self {
            run_id: backfill.run_id.to_string(),
            resumed: !backfill.reached.is_empty(),
            records: outcome.summary.records,
            estimates: outcome.summary.results,
            dead_letters: outcome.summary.dead_letters,
            input_topic: &backfill.plan.task.topic,
            output_topic: &backfill.plan.stream.outputs.results.name,
            dead_letter_topic: &backfill.plan.stream.outputs.dead_letters.name,
            state_directory: &backfill.settings.state.directory,
            partitions: partitions.collect(),
            confirmed,
        }
    }

    fn render(&self) -> String {
        let columns: Columns<'_, PartitionResult> = &[
            ("partition", &|part| Cell::Figure(part.partition.to_string())),
            ("warmed up from", &|part| Cell::Figure(part.warmed_up_from.to_string())),
            ("from", &|part| Cell::Figure(part.from.to_string())),
            ("to", &|part| Cell::Figure(part.to.to_string())),
        ];
        let table = Table::of("What was read", &self.partitions, columns);
        let by = if self.resumed { " by this process, which went on with it" } else { "" };
        let terminal = Terminal::of_stdout();
        let table_of_confirmed = self.confirmed.table().map(|table| terminal::captioned(&table, &terminal));
        let in_words = self.confirmed.in_words().map(|text| terminal.paragraph(&text));
        let confirmed: String = table_of_confirmed.into_iter().chain(in_words).collect();
        format!(
            "{}{confirmed}\nbackfill {} is complete: {} records read, {} estimates and {} dead letters published{by}\n\
             see them: kvset watch --topic {} --from-beginning --until-end\n",
            terminal::captioned(&table, &terminal),
            self.run_id,
            integer(self.records),
            integer(self.estimates),
            integer(self.dead_letters),
            self.output_topic
        )
    }
}
