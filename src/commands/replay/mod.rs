//! `kvset replay`: trace files to estimates, without Kafka.

pub mod arrivals;
pub mod ceiling;
mod combined;
pub mod comparison;
pub mod cost;
mod factors;
mod growth;
pub mod measured;
mod model;
pub mod output;
pub mod pools;
pub mod printed;
pub mod replicas;
pub mod report;
pub mod required;
pub mod traffic;
pub mod with_answers;

use crate::cli::args::ReplayArgs;
use crate::cli::{Failure, json, print};
use crate::commands::replay::combined::Asked;
pub(in crate::commands) use crate::commands::replay::model::FromModel;
use crate::commands::replay::output::ReplayResult;
use crate::commands::replay::pools::{PoolResult, PoolsResult};
use crate::commands::replay::report::{
    notes, pool_notes, trace_notes, write_plot, write_report, write_worth_plot,
};
use crate::present::terminal::{Terminal, TerminalProgress};
use crate::replay::{
    BelowOption, Extras, PoolReplay, Replay, ReplayError, ReplayHistory, ReplayOptions, RowSink, TierBelow,
    over_offload, pool_report, replay_pools, search, several_pools,
};
use anyhow::Context as _;
use kvset_core::engines::rules::EngineRules;
use kvset_core::estimate::config::PoolConfig;
use kvset_formats::trace;
use std::borrow::Cow;
use std::fs::File;
use std::path::PathBuf;

/// Runs `kvset replay`.
pub fn run(args: &ReplayArgs) -> Result<(), Failure> {
    if !args.below.is_empty() && args.capacities.is_empty() {
        let reason =
            "--below is modelled under each of the --capacities: name what the engine's own cache holds";
        return Err(Failure::usage(reason));
    }
    spare_inputs(args)?;
    let (model, options) = prepared(args)?;
    if args.engines.len() > 1 {
        return comparison::run(args, options, &model);
    }
    let mut per_request = match &args.per_request {
        Some(path) => Some(File::create(path).with_context(|| format!("cannot write `{}`", path.display()))?),
        None => None,
    };
    let mut bar = TerminalProgress::bytes(None);
    model.notes.iter().for_each(|line| bar.note(line));
    let rows = per_request.as_mut().map(|file| file as &mut dyn RowSink);
    let mut progress = |at: trace::ReadProgress| bar.advance_of(at.read_bytes, at.total_bytes);
    let mut pools =
        replay_pools(&options, rows, args.report.is_some() || args.plan.is_some(), &mut progress)?;
    for pool in &pools {
        model.check_page(pool.replay.page_size)?.iter().for_each(|line| bar.note(line));
    }
    if pools.len() > 1 {
        return several(args, &options, pools, bar);
    }
    if args.plan.is_some() {
        let reason = "--plan splits one memory among the models of a trace, and this one has one pool: --provisioned compares \
                      that with a size";
        return Err(Failure::usage(reason));
    }
    let Some(PoolReplay { replay: mut done, history, .. }) = pools.pop() else {
        return Err(anyhow::anyhow!("the replay gave no result").into());
    };
    growth::add(args, &options, &mut done, &mut |line| bar.note(line))?;
    done.searched = args.search.then(|| search(&options, &mut |_| {})).transpose()?;
    if let Some(path) = &args.report {
        write_report(path, vec![(&done, history)], &[], &options)?;
    }
    notes(&done).iter().for_each(|line| bar.note(line));
    bar.finish("replayed");
    let shown = args.shown(&done);
    let result = ReplayResult::of(&shown, pool_report(&done, ReplayHistory::default()));
    if let Some(path) = &args.plot {
        write_plot(path, std::slice::from_ref(&result.facts))?;
    }
    if let Some(path) = &args.worth_plot {
        write_worth_plot(path, &result.facts)?;
    }
    let asked = !args.capacities.is_empty();
    let text = if args.json { json(&result)? } else { result.render(asked, &Terminal::of_stdout()) };
    print(&text)
}

/// Refuses to write a result over what is read: the log would be lost.
fn spare_inputs(args: &ReplayArgs) -> Result<(), Failure> {
    let outputs = [
        ("--per-request", &args.per_request),
        ("--report", &args.report),
        ("--plot", &args.plot),
        ("--worth-plot", &args.worth_plot),
        ("--traffic-log", &args.growth.traffic_log),
    ];
    let inputs: Vec<PathBuf> = args.trace.traces.iter().filter_map(|path| path.canonicalize().ok()).collect();
    for (option, path) in outputs.into_iter().filter_map(|(option, path)| Some((option, path.as_ref()?))) {
        if path.canonicalize().is_ok_and(|path| inputs.contains(&path)) {
            let path = path.display();
            return Err(Failure::usage(format!(
                "{option} {path} would write over what is read: name another file"
            )));
        }
    }
    Ok(())
}

/// What the arguments ask for, with what is taken from a model's config.
///
/// # Errors
/// They cannot be had together, or the config cannot be read.
pub(super) fn prepared(args: &ReplayArgs) -> Result<(FromModel, ReplayOptions), Failure> {
    let model = FromModel::of(args)?;
    args.check_engine_options(&model)?;
    let pool = args.pool_config(&model.costs, args.own_rules(&model));
    let first = args.engines.first().copied().unwrap_or_default();
    let options = ReplayOptions {
        read: args.read_options(),
        pool: PoolConfig { questions: args.questions().map_err(Failure::Usage)?, ..pool },
        warm_up: args.warm_up,
        pool_name: args.pool.clone(),
        extras: Extras { layers: model.layers, ..args.extras() },
        provisioned: args.provisioned.clone(),
        threads: args.threads.map_or_else(crate::replay::cores, usize::from),
        ..args.trace.replay_options(first)
    };
    Asked { args, model: &model, options: &options }.check()?;
    Ok((model, options))
}

/// Tells the answers of several pools.
fn several(
    args: &ReplayArgs,
    options: &ReplayOptions,
    mut pools: Vec<PoolReplay>,
    mut bar: TerminalProgress,
) -> Result<(), Failure> {
    args.check_several(&pools)?;
    let Some(first) = pools.first() else { return Ok(()) };
    let rejected = first.rejected_rows;
    let mut notes = vec![format!("note: {}", pools::note(&pools))];
    notes.extend(trace_notes(&first.replay, rejected));
    for pool in &pools {
        notes.extend(pool_notes(&pool.replay).iter().map(|line| format!("{}: {line}", pools::name(pool))));
    }
    notes.iter().for_each(|line| bar.note(line));
    let split = args.plan.map(|bytes| pools::split(&pools, bytes, &args.pool_costs)).transpose();
    let split = split.map_err(Failure::usage)?;
    let replicas = split.as_ref().map(|split| replicas::of_split(split, &pools, options)).transpose()?;
    let replicas = replicas.unwrap_or_default();
    bar.finish("replayed");
    if let Some(path) = &args.report {
        let histories: Vec<_> = pools.iter_mut().map(|pool| std::mem::take(&mut pool.history)).collect();
        let names: Vec<_> = pools.iter().map(pools::name).collect();
        let replays = pools.iter().map(|pool| &pool.replay).zip(histories).collect();
        write_report(path, replays, &names, options)?;
    }
    let shown: Vec<_> = pools.iter().map(|pool| args.shown(&pool.replay)).collect();
    let result = pools.iter().zip(&shown).map(|(pool, shown)| PoolResult {
        pool: pools::name(pool),
        result: ReplayResult::of(shown, pool_report(&pool.replay, ReplayHistory::default())),
    });
    let Some(mut result) = PoolsResult::new(result.collect(), rejected, notes) else { return Ok(()) };
    result.replicas = replicas;
    result.memory_split = split;
    let asked = !args.capacities.is_empty();
    print(&if args.json { json(&result)? } else { result.render(asked, &Terminal::of_stdout()) })
}

impl ReplayArgs {
    /// A finished replay as it is shown: curves whose capacities nobody named end where nothing is evicted any more.
    fn shown<'a>(&self, done: &'a Replay) -> Cow<'a, Replay> {
        match self.capacities.is_empty() {
            true => Cow::Owned(done.up_to(done.distinct_pages)),
            false => Cow::Borrowed(done),
        }
    }

    /// Refuses what only one pool can have.
    fn check_several(&self, pools: &[PoolReplay]) -> Result<(), Failure> {
        let asked = if self.provisioned.is_some() {
            "--provisioned"
        } else if self.search {
            "--search"
        } else if self.growth.given().is_some() {
            "--certainty and --traffic"
        } else if self.plot.is_some() {
            "--plot"
        } else if self.worth_plot.is_some() {
            "--worth-plot"
        } else {
            return Ok(());
        };
        Err(several_pools(pools, asked).into())
    }

    /// What the engines are given; one alone what it reads, without what tiers below are given.
    fn own_rules(&self, model: &FromModel) -> EngineRules {
        let rules = self.all_rules(model);
        match self.engines.as_slice() {
            [engine] => rules.of_profile(*engine),
            _ => rules,
        }
    }

    /// Every option, whichever engine has it.
    fn all_rules(&self, model: &FromModel) -> EngineRules {
        let hicache = self.hicache().map(|below| below.capacity.clone());
        let rules = over_offload(self.options.rules(model.attention.as_ref()), &self.below);
        EngineRules {
            hicache,
            state_tokens: model.state_tokens.unwrap_or(rules.state_tokens),
            draft_layers: model.draft_layers.unwrap_or(rules.draft_layers),
            ..rules
        }
    }

    /// The host tier of SGLang's own, where it is the first tier below.
    fn hicache(&self) -> Option<&BelowOption> {
        self.below.first().filter(|below| below.tier == TierBelow::Hicache)
    }

    /// Refuses an option that no engine requested would read.
    fn check_engine_options(&self, model: &FromModel) -> Result<(), Failure> {
        let below = self.below.iter().filter_map(|below| below.tier.store()?.profile());
        let engines: Vec<_> = self.engines.iter().copied().chain(below).collect();
        let checked = self.options.check(&engines, &self.all_rules(model), self.offloads());
        checked.map_err(Failure::usage)
    }
}

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Config(_)
            | ReplayError::ShareOfStream
            | ReplayError::NoStack { .. }
            | ReplayError::Router(_)
            | ReplayError::Unnamed { .. }
            | ReplayError::SearchOfStream
            | ReplayError::SeveralPools { .. }
            | ReplayError::NoSuchPool { .. }
            | ReplayError::TooManyPools { .. }
            | ReplayError::NoHours(_)
            | ReplayError::NoTimes
            | ReplayError::RestartsBeyond { .. }
            | ReplayError::Page { .. } => Self::Usage(error.into()),
            _ => Self::Runtime(error.into()),
        }
    }
}
