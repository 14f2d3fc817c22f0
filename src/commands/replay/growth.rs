//! How certain a replay is, and what other traffic would need: asked of the log once more.

use crate::cli::Failure;
use crate::cli::args::{ReplayArgs, Switch};
use crate::replay::{FamilyLog, Replay, ReplayOptions, certainty};
use anyhow::Context as _;
use kvset_core::families::overlay::TrafficGrowth;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

/// Page accesses up to which certainty is asked without being named: ten replays of them take seconds.
const LITTLE: u64 = 20_000_000;

/// Whether certainty is asked: where it is named, and where it costs little.
fn asks_certainty(args: &ReplayArgs, options: &ReplayOptions, done: &Replay) -> bool {
    let has_one_curve = !options.pool.cache.is_pointwise();
    let accesses = done.estimate().page_accesses;
    match args.growth.certainty {
        Some(switch) => switch == Switch::On,
        None => has_one_curve && !options.has_stream() && (1..=LITTLE).contains(&accesses),
    }
}

/// Finds what is asked of certainty and of other traffic, and puts it into a replay that was done.
pub(super) fn add(
    args: &ReplayArgs,
    options: &ReplayOptions,
    done: &mut Replay,
    note: &mut dyn FnMut(&str),
) -> Result<(), Failure> {
    let is_asked = asks_certainty(args, options, done);
    let growths = args.growth.growths();
    if !is_asked && growths.is_empty() {
        return Ok(());
    }
    let log = match FamilyLog::read(options, &args.growth.traffic_by, &mut |_| {}) {
        Ok(log) => log,
        // What nobody named is done without.
        Err(error) if args.growth.given().is_none() => {
            note(&format!("note: how certain the figures are was not found: {error}"));
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let found = if is_asked { Some(certainty(&log, options)?) } else { None };
    let more = growths.iter().any(|growth| growth.factor > 1.0);
    if args.search && more {
        note("note: --search is of the log alone: --traffic-log writes the grown log, which can be searched");
    }
    let unsaid = unsaid_of_less(args);
    if growths.iter().any(|growth| growth.factor < 1.0) && !unsaid.is_empty() {
        note(&format!("note: of less traffic nothing is said of {}", unsaid.join(", ")));
    }
    done.traffic = log.traffic(options, &growths, done, found.as_ref())?;
    if let Some((found, whole)) = found.zip(done.whole.as_mut()) {
        whole.take_certainty(found);
    }
    if let (Some(path), Some(growth)) = (&args.growth.traffic_log, growths.first()) {
        if let Some(refused) = done.traffic.first().filter(|found| !found.status.is_answered()) {
            let reason = refused.notes.join("; ");
            return Err(Failure::Runtime(anyhow::anyhow!("--traffic-log: {reason}")));
        }
        write_log(&log, *growth, options, path)
            .with_context(|| format!("cannot write the log `{}`", path.display()))?;
        note(&format!("note: the grown log is in {}", path.display()));
    }
    Ok(())
}

/// Options that were given, and that parts of a log do not answer together.
fn unsaid_of_less(args: &ReplayArgs) -> Vec<&'static str> {
    let options = [
        (!args.below.is_empty(), "--below"),
        (!args.routers.is_empty(), "--router"),
        (args.prefill_rate.is_some(), "--prefill-rate"),
        (!args.tiers.is_empty(), "--tier"),
        (args.restarts, "--restarts"),
    ];
    options.into_iter().filter_map(|(is_given, option)| is_given.then_some(option)).collect()
}

fn write_log(
    log: &FamilyLog,
    growth: TrafficGrowth,
    options: &ReplayOptions,
    path: &Path,
) -> anyhow::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    log.write(growth, options, &mut out)?;
    Ok(out.flush()?)
}
