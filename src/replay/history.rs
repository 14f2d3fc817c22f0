//! From a replay to its report.

use super::Replay;
use super::asked::AskedOf;
use crate::report::{
    Asked, Caveats, Distribution, History, HistoryRecorder, OtherEnd, Page, PoolReport, ReportInput,
    WindowRow,
};
use kvset_core::estimate::recommendation::Recommendation;
use kvset_core::estimate::{Estimate, TheoreticalHits};
use kvset_core::pool::Pool;
use kvset_core::stack::ChainCheck;
use kvset_core::units::{Offset, PageSize};
use kvset_core::windows::window::WindowKind;

/// The window the history is taken over: as in the paper's figure 4, it forgets users who left.
pub(super) const HISTORY_WINDOW: WindowKind = WindowKind::Last { requests: 3000 };

/// What a report shows beside the estimates.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReplayHistory {
    /// How the estimate over the last 3,000 requests moved.
    pub history: History,
    /// Every counted request's requirement at the first target ratio.
    pub distribution: Distribution,
}

impl ReplayHistory {
    /// Taken before the pool's windows are closed.
    pub(super) fn of(pool: &Pool, recorder: HistoryRecorder, rows: u64, requests: u64) -> Self {
        let last = recent(pool, rows);
        Self {
            history: recorder.finish(last.as_ref().map(|estimate| (estimate, requests))),
            distribution: Distribution::of(&pool.requirements_since_start(0)),
        }
    }
}

/// The estimate over the last requests, as it stands after `rows` rows.
pub(super) fn recent(pool: &Pool, rows: u64) -> Option<Estimate> {
    let estimates = pool.provisional(Offset(i64::try_from(rows).unwrap_or(i64::MAX)));
    estimates.into_iter().find(|estimate| estimate.window == HISTORY_WINDOW)
}

/// The report of a replay, of one engine or of several side by side. `inputs` says what was read and how, in the order shown; what the reader had
/// to assume follows it.
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
    pool.engine_options = replay.config.rules.told_to(replay.config.profile);
    pool.counted.extend(replay.at_provisioned.clone());
    pool.provisioned.clone_from(&replay.provisioned);
    pool.bound_pages = Some(replay.config.sample_rate.whole_of(replay.config.max_tracked_pages.0));
    pool.history = history.history;
    pool.distribution = history.distribution;
    pool.windows = replay.windows.iter().map(WindowRow::of).collect();
    pool.caveats = Caveats {
        late_records: late(&replay.windows).unwrap_or(0),
        chain_violations: replay.chain_violations,
        chain_checked_fully: replay.config.chain_check == ChainCheck::Full,
        rejected_records: replay.rejected_rows,
        warm_up_requests: replay.warm_up_requests,
        ..pool.caveats
    };
    pool.with_answers = replay.with_answers.as_ref().map(|found| OtherEnd {
        returned_pages: found.returned_pages,
        theoretical: found.estimate.theoretical,
        recommendation: found.estimate.recommendation().cloned(),
    });
    let whole = replay.whole.as_ref();
    let about = AskedOf {
        capacities: whole.map(|all| all.capacities.as_slice()).unwrap_or_default(),
        page_accesses: pool.page_accesses,
        page_size: pool.page_size,
        page_bytes: pool.page_bytes,
        recommended_pages: pool.recommendation().and_then(Recommendation::so_far),
    };
    pool.asked = about.sections(&replay.lifetimes, replay.traffic.as_ref());
    pool.asked.sections.splice(0..0, super::pointwise::sections(replay));
    pool.asked.sections.extend(replay.worth.as_ref().map(super::worth::section));
    let page = Page { tokens: pool.page_size, bytes: pool.page_bytes };
    pool.asked.add(replay.measured.as_ref(), &replay.routing, page);
    pool
}

/// A trace of which no request counts.
fn uncounted(replay: &Replay) -> PoolReport {
    PoolReport {
        name: None,
        engine: replay.config.profile,
        engine_options: Vec::new(),
        pointwise: replay.config.is_pointwise(),
        outputs: replay.config.outputs,
        page_size: replay.config.page_size.map(PageSize::get),
        page_bytes: None,
        sample_rate: replay.config.sample_rate.as_f64(),
        sample_error: 0.0,
        requests: 0,
        requests_with_reuse: 0,
        page_accesses: 0,
        accumulated_pages: 0,
        theoretical: TheoreticalHits::default(),
        recommended: Vec::new(),
        required: Vec::new(),
        in_flight: None,
        distribution: Distribution::default(),
        capacities: Vec::new(),
        counted: Vec::new(),
        provisioned: None,
        trend_windows: 0,
        plan: None,
        history: History::default(),
        windows: Vec::new(),
        bound_pages: None,
        caveats: Caveats::default(),
        with_answers: None,
        asked: Asked::default(),
    }
}
