//! `kvset tune`: every single change of the present configuration, replayed and ranked.

mod printed;

use crate::cli::args::{ReplayArgs, Switch};
use crate::cli::{Failure, json, print};
use crate::commands::replay::{FromModel, prepared};
use crate::model::KvDtype;
use crate::present::terminal::{Terminal, TerminalProgress};
use crate::replay::{FamilyLog, GrownLog, ReplayOptions, RequestLog, draft_layers_note};
use crate::tune::{EightBits, ModelLimits, TuneError, tune};
use kvset_core::units::PageSize;
use kvset_core::units::window::WindowKind;
use std::sync::{Mutex, PoisonError};

/// Runs `kvset tune`.
pub fn run(args: &ReplayArgs) -> Result<(), Failure> {
    check(args)?;
    let (model, options) = prepared(args)?;
    let mut bar = TerminalProgress::bytes(None);
    model.notes.iter().for_each(|line| bar.note(line));
    let log = RequestLog::read(&options, &mut |at| bar.advance_of(at.read_bytes, at.total_bytes))?;
    model.check_page(log.page_size(&options))?.iter().for_each(|line| bar.note(line));
    let of_heads = draft_layers_note(&options.pool.cache);
    log.notes().iter().chain(&of_heads).for_each(|line| bar.note(&format!("note: {line}")));
    bar.finish("read");
    let bar = Mutex::new(TerminalProgress::replays());
    let progress = |done: u64, total: u64| {
        bar.lock().unwrap_or_else(PoisonError::into_inner).advance_of(done, Some(total));
    };
    let grown = grown(args, &options)?;
    let result = tune(&log, &grown, &options, &limits(args, &model, log.page_size(&options)), &progress)?;
    bar.into_inner().unwrap_or_else(PoisonError::into_inner).finish("tried");
    print(&if args.json { json(&result)? } else { printed::render(&result, &Terminal::of_stdout()) })
}

impl From<TuneError> for Failure {
    fn from(error: TuneError) -> Self {
        match error {
            TuneError::Replay(error) => error.into(),
            own => Self::Usage(own.into()),
        }
    }
}

/// What the model's config says of pages and of elements in eight bits.
fn limits(args: &ReplayArgs, model: &FromModel, page_size: Option<PageSize>) -> ModelLimits {
    let Some(present) = model.costs.first().filter(|_| args.model_config.is_some()) else {
        return ModelLimits::default();
    };
    let in_eight = ReplayArgs { kv_dtypes: vec![KvDtype::Fp8], ..args.clone() };
    let in_eight =
        FromModel::of(&in_eight).and_then(|model| model.check_page(page_size).map(|_| model.costs));
    let eight_bits = match in_eight {
        Ok(costs) => match costs.first() {
            Some(cost) if cost < present => EightBits::Pages(*present as u64, *cost as u64),
            _ => EightBits::NoSmaller,
        },
        Err(Failure::Usage(why) | Failure::Runtime(why)) => EightBits::Refused(why.to_string()),
    };
    ModelLimits { least_page: model.least_page(), eight_bits }
}

/// Logs of the other traffic that is asked.
fn grown(args: &ReplayArgs, options: &ReplayOptions) -> Result<Vec<GrownLog>, Failure> {
    let growths = args.growth.growths();
    if growths.is_empty() {
        return Ok(Vec::new());
    }
    let log = FamilyLog::read(options, &args.growth.traffic_by, &mut |_| {})?;
    match log.traffic_refusal() {
        Some(refusal) => Err(Failure::Runtime(anyhow::anyhow!("--traffic: {refusal}"))),
        None => Ok(growths.iter().map(|growth| log.grown_log(*growth, options)).collect::<Result<_, _>>()?),
    }
}

/// Refuses what is no part of one configuration.
fn check(args: &ReplayArgs) -> Result<(), Failure> {
    let (routed, timed) = (!args.routers.is_empty(), !args.ttls.is_empty());
    let refused = [
        (args.engines.len() > 1, "--engine names several engines: one is tuned"),
        (args.routers.len() > 1, "--router names several routers: name the present one"),
        (args.ttls.len() > 1, "--ttl names several times: name the present one"),
        (routed && timed, "--router and --ttl are not modelled together: name one of them"),
        (
            !args.below.is_empty() && (routed || timed),
            "--below is modelled with one cache that evicts by last use: leave --router and --ttl out",
        ),
        (args.capacities.len() > 1, "--capacities names several sizes: name what the cache holds"),
        (
            args.kv_bytes_per_token.len() > 1 || args.kv_dtypes.len() > 1,
            "several costs per token are named: one configuration is tuned",
        ),
        (args.report.is_some(), "--report is of a replay: leave it out"),
        (args.worth_plot.is_some(), "--worth-plot is of a replay: leave it out"),
        (args.plot.is_some(), "--plot is of a replay: leave it out"),
        (args.per_request.is_some(), "--per-request is of a replay: leave it out"),
        (args.restarts, "--restarts is of a replay: leave it out"),
        (args.growth.certainty == Some(Switch::On), "--certainty is of a replay: leave it out"),
        (args.growth.traffic_log.is_some(), "--traffic-log is of a replay: leave it out"),
        (args.search, "--search is of a replay: leave it out"),
        (args.windows != [WindowKind::All], "--window is of a replay: leave it out"),
        (!args.tiers.is_empty(), "--tier is of a replay: name tiers that are there with --below"),
        (args.tenants.is_some(), "--tenants is of a replay: leave it out"),
    ];
    let reason = refused.into_iter().find_map(|(is_given, reason)| is_given.then_some(reason));
    reason.map_or(Ok(()), |reason| Err(Failure::usage(reason)))
}
