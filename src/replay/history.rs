//! From a replay to its report.

use super::{GrownTraffic, Replay};
use crate::present::pool::{
    Caveats, HistoryRecorder, OtherEnd, PoolEstimates, PoolReport, Replicas, ReportInput, ShownDistribution,
    WindowRow,
};
use crate::present::questions;
use crate::present::questions::QuestionSections;
use kvset_core::engines::config::CacheConfig;
use kvset_core::estimate::Estimate;
use kvset_core::pool::Pool;
use kvset_core::questions::routing::RouterEstimate;
use kvset_core::stack::ChainCheck;
use kvset_core::units::window::WindowKind;
use kvset_core::units::{Offset, PageSize};
use std::borrow::Cow;

/// The window the history is taken over: as in the paper's figure 4, it forgets users who left.
pub(super) const HISTORY_WINDOW: WindowKind = WindowKind::Last { requests: 3000 };

/// What a report shows alongside the estimates.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReplayHistory {
    /// How the estimate over the last 3,000 requests moved.
    pub history: PoolEstimates,
    /// Every counted request's requirement at the first target ratio.
    pub distribution: ShownDistribution,
}

impl ReplayHistory {
    /// Taken before the pool's windows are closed.
    pub(super) fn of(pool: &Pool, recorder: HistoryRecorder, rows: u64, requests: u64) -> Self {
        let last = recent(pool, rows);
        Self {
            history: recorder.finish(last.as_ref().map(|estimate| (estimate, requests))),
            distribution: ShownDistribution::of(&pool.requirements_since_start(0)),
        }
    }
}

/// The estimate over the last requests, as it stands after `rows` rows.
pub(super) fn recent(pool: &Pool, rows: u64) -> Option<Estimate> {
    pool.counted_so_far(HISTORY_WINDOW, Offset(i64::try_from(rows).unwrap_or(i64::MAX)))
}

/// The report of a replay, of one engine or of several side by side. `inputs` says what was read and how, in the
/// order shown; what the reader had to assume follows it.
pub fn report_input<'a>(
    replays: Vec<(&'a Replay, ReplayHistory)>,
    title: String,
    mut inputs: Vec<(String, String)>,
) -> ReportInput<'a> {
    let notes = replays.first().map(|(replay, _)| replay.notes.as_slice()).unwrap_or_default();
    inputs.extend(notes.iter().map(|note| ("Assumed".to_owned(), note.clone())));
    let compares_engines = replays.len() > 1;
    let mut pools: Vec<_> =
        replays.into_iter().map(|(replay, history)| pool_report(replay, history)).collect();
    if compares_engines {
        pools.iter_mut().for_each(|pool| pool.name = Some(pool.estimate.engine.to_string()));
    }
    ReportInput { title, inputs, pools, compares_engines }
}

/// The facts about a replay, as a report shows them.
pub fn pool_report(replay: &Replay, history: ReplayHistory) -> PoolReport<'_> {
    let config = &replay.config.cache;
    let whole = replay.whole.as_ref();
    let shown = PoolReport::of(whole.map_or_else(|| Cow::Owned(of_nothing(config)), Cow::Borrowed));
    // Rows name them whether or not a question follows them.
    let named = Some(replay.logged_replicas).filter(|count| *count > 1);
    let named = named.map(|count| Replicas { count, logged: Vec::new() });
    PoolReport {
        name: None,
        engine_options: config.rules.options_of(config.profile),
        pointwise: whole.map_or(config.is_pointwise(), Estimate::is_pointwise),
        distribution: history.distribution,
        provisioned: replay.provisioned.clone(),
        at_provisioned: replay.at_provisioned.as_ref(),
        replicas: shown.replicas.or(named),
        history: history.history,
        windows: replay.windows.iter().map(WindowRow::of).collect(),
        bound_pages: Some(config.sample_rate.whole_of(config.max_tracked_pages.0)),
        caveats: caveats(replay),
        with_answers: replay.with_answers.as_ref().map(|(returned_pages, estimate)| OtherEnd {
            returned_pages: *returned_pages,
            theoretical: estimate.theoretical,
            recommendation: estimate.recommendation().cloned(),
        }),
        traffic: replay.traffic.iter().map(GrownTraffic::shown).collect(),
        questions: question_sections(replay),
        ..shown
    }
}

/// What limits what the figures of a replay say.
fn caveats(replay: &Replay) -> Caveats {
    Caveats {
        late_records: replay.windows.iter().map(|window| window.late_records).max().unwrap_or(0),
        chain_violations: replay.chain_violations,
        chain_checked_fully: replay.config.cache.chain_check == ChainCheck::Full,
        rejected_records: replay.rejected_rows,
        warm_up_requests: replay.warm_up_requests,
        doubt: replay.doubt.clone(),
    }
}

/// What was asked of a replay alongside its estimate.
pub(super) fn question_sections(replay: &Replay) -> QuestionSections {
    let Some(whole) = &replay.whole else { return QuestionSections::default() };
    let cost = |routed: &RouterEstimate, total_pages: u64| {
        let routed = replay.routed_worth.iter().find(|found| found.router == routed.asked)?;
        let at = routed.worth.capacities.iter().find(|at| at.pages == Some(total_pages))?;
        Some((at.accelerator_hours_a_day, at.money_a_day))
    };
    let mut shown = QuestionSections::of(whole, cost);
    let optimum = questions::optimum(whole, replay.optimal.as_ref());
    let before = super::pointwise::sections(replay).into_iter().chain(optimum);
    shown.sections.splice(0..0, before);
    if let Some(worth) = &replay.worth {
        shown.add_worth(&worth.estimate, &worth.tiers, whole);
    }
    shown
}

/// The estimate of a trace of which no request counts.
fn of_nothing(config: &CacheConfig) -> Estimate {
    Estimate {
        engine: config.profile,
        outputs: config.outputs,
        page_size: config.page_size.map_or(0, PageSize::get),
        sample_rate: config.sample_rate.as_f64(),
        ..Estimate::default()
    }
}
