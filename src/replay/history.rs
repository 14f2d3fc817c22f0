//! From a replay to its report.

use super::{GrownTraffic, Replay};
use crate::present::pool::{
    Caveats, HistoryRecorder, OtherEnd, PoolEstimates, PoolReport, Replicas, ReportInput, ShownDistribution,
    WindowRow,
};
use crate::present::questions;
use crate::present::questions::QuestionSections;
use kvset_core::estimate::{Estimate, TheoreticalHits};
use kvset_core::pool::Pool;
use kvset_core::questions::routing::RouterEstimate;
use kvset_core::stack::ChainCheck;
use kvset_core::units::window::WindowKind;
use kvset_core::units::{Offset, PageSize};

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
pub fn report_input(
    replays: Vec<(&Replay, ReplayHistory)>,
    title: String,
    mut inputs: Vec<(String, String)>,
) -> ReportInput {
    let notes = replays.first().map(|(replay, _)| replay.notes.as_slice()).unwrap_or_default();
    inputs.extend(notes.iter().map(|note| ("Assumed".to_owned(), note.clone())));
    let compares_engines = replays.len() > 1;
    let mut pools: Vec<_> =
        replays.into_iter().map(|(replay, history)| pool_report(replay, history)).collect();
    if compares_engines {
        pools.iter_mut().for_each(|pool| pool.name = Some(pool.engine.to_string()));
    }
    ReportInput { title, inputs, pools, compares_engines }
}

/// The facts about a replay, as a report shows them.
pub fn pool_report(replay: &Replay, history: ReplayHistory) -> PoolReport {
    let mut pool = replay.whole.as_ref().map_or_else(|| uncounted(replay), PoolReport::of);
    let late = |windows: &[Estimate]| windows.iter().map(|window| window.late_records).max();
    pool.name = None;
    // Rows name them whether or not a question follows them.
    let named = Some(replay.logged_replicas).filter(|count| *count > 1);
    let named = named.map(|count| Replicas { count, logged: Vec::new() });
    pool.replicas = pool.replicas.take().or(named);
    pool.engine_options = replay.config.cache.rules.options_of(replay.config.cache.profile);
    pool.counted.extend(replay.at_provisioned.clone());
    pool.provisioned.clone_from(&replay.provisioned);
    pool.bound_pages =
        Some(replay.config.cache.sample_rate.whole_of(replay.config.cache.max_tracked_pages.0));
    pool.history = history.history;
    pool.distribution = history.distribution;
    pool.windows = replay.windows.iter().map(WindowRow::of).collect();
    pool.caveats = Caveats {
        late_records: late(&replay.windows).unwrap_or(0),
        chain_violations: replay.chain_violations,
        chain_checked_fully: replay.config.cache.chain_check == ChainCheck::Full,
        rejected_records: replay.rejected_rows,
        warm_up_requests: replay.warm_up_requests,
        doubt: replay.doubt.clone(),
        ..pool.caveats
    };
    pool.with_answers = replay.with_answers.as_ref().map(|(returned_pages, estimate)| OtherEnd {
        returned_pages: *returned_pages,
        theoretical: estimate.theoretical,
        recommendation: estimate.recommendation().cloned(),
    });
    pool.certainty.clone_from(&replay.certainty);
    pool.traffic = replay.traffic.iter().map(GrownTraffic::shown).collect();
    let whole = replay.whole.as_ref();
    if let Some(whole) = whole {
        let cost = |routed: &RouterEstimate, total_pages: u64| {
            let routed = replay.routed_worth.iter().find(|found| found.router == routed.asked)?;
            let at = routed.worth.capacities.iter().find(|at| at.pages == Some(total_pages))?;
            Some((at.accelerator_hours_a_day, at.money_a_day))
        };
        pool.questions = QuestionSections::of(whole, cost);
    }
    let optimum = whole.and_then(|whole| questions::optimum(whole, replay.optimal.as_ref()));
    let before = super::pointwise::sections(replay).into_iter().chain(optimum);
    let sections = &mut pool.questions.sections;
    sections.splice(0..0, before);
    if let Some((worth, whole)) = replay.worth.as_ref().zip(whole) {
        pool.questions.add_worth(&worth.estimate, &worth.tiers, whole);
    }
    pool
}

/// A trace of which no request counts.
fn uncounted(replay: &Replay) -> PoolReport {
    PoolReport {
        name: None,
        engine: replay.config.cache.profile,
        engine_options: Vec::new(),
        pointwise: replay.config.cache.is_pointwise(),
        outputs: replay.config.cache.outputs,
        page_size: replay.config.cache.page_size.map(PageSize::get),
        page_bytes: None,
        sample_rate: replay.config.cache.sample_rate.as_f64(),
        sample_error: 0.0,
        requests: 0,
        requests_with_reuse: 0,
        page_accesses: 0,
        accumulated_pages: 0,
        theoretical: TheoreticalHits::default(),
        recommended: Vec::new(),
        required: Vec::new(),
        in_flight: None,
        distribution: ShownDistribution::default(),
        capacities: Vec::new(),
        counted: Vec::new(),
        provisioned: None,
        replicas: None,
        trend_windows: 0,
        plan: None,
        history: PoolEstimates::default(),
        windows: Vec::new(),
        bound_pages: None,
        caveats: Caveats::default(),
        with_answers: None,
        certainty: None,
        traffic: Vec::new(),
        questions: QuestionSections::default(),
    }
}
