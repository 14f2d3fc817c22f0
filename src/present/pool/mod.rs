//! What a report is made of: plain facts, in the units of the estimate (pages, bytes, milliseconds).

mod caveats;
mod certainty;
mod comparison;
mod headline;
mod plan;
mod recorder;
mod replicas;
mod required;
mod traffic;
mod windows;

pub use caveats::{Caveat, caveats};
pub(crate) use certainty::ends;
pub use comparison::comparison;
pub use headline::{Headline, headline};
pub(crate) use plan::{moving, planned};
pub use plan::{plan, plan_table};
pub use recorder::{EstimateHistory, HistoryRecorder};
pub use replicas::Replicas;
pub(crate) use required::exact;
pub use required::required;
pub use traffic::{ShownTraffic, traffic};
pub(crate) use traffic::{recommended_by_traffic, times};
pub use windows::windows;

use crate::present::document::{Cell, Section};
use crate::present::questions::QuestionSections;
use crate::present::words;
use kvset_core::estimate::{CapacityPoint, CoverageCapacity, Estimate, Status, TheoreticalHits};
use kvset_core::sizing::recommendation::{Recommendation, by_target};
use kvset_core::units::PageBytes;
use kvset_core::units::capacity::CapacitySpec;
use kvset_core::units::ratio::Ratio;
use kvset_core::units::window::WindowKind;
use std::borrow::Cow;

/// Everything one report shows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReportInput<'a> {
    /// Heading of the page, such as the trace's file name.
    pub title: String,
    /// What was read and how: name and value, in the order shown (files, topic and offsets, id scope).
    pub inputs: Vec<(String, String)>,
    /// One entry per pool; a replayed trace is one pool without a name.
    pub pools: Vec<PoolReport<'a>>,
    /// The entries are one pool under several engines, named by them.
    pub compares_engines: bool,
}

/// The facts about one pool over all counted requests: an estimate, and what is known besides.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PoolReport<'a> {
    /// The figures; of nothing where no request counts.
    pub estimate: Cow<'a, Estimate>,
    /// Name of the pool; absent for a replayed trace.
    pub name: Option<String>,
    /// What the engine was told besides its name, where that is known.
    pub engine_options: Vec<(&'static str, String)>,
    /// Each capacity was modelled on its own: nothing follows for those in between.
    pub pointwise: bool,
    /// How the requirement at the first target ratio is distributed over requests.
    pub distribution: ShownDistribution,
    /// What the pool's cache holds today, where that is known.
    pub provisioned: Option<CapacitySpec>,
    /// The curve at that capacity, where it was counted there.
    pub at_provisioned: Option<&'a CapacityPoint>,
    /// The caches that the log names, where there are several.
    pub replicas: Option<Replicas>,
    /// How the estimate moved, in order of the log.
    pub history: PoolEstimates,
    /// Windows to list.
    pub windows: Vec<WindowRow>,
    /// Largest capacity that can be known, where memory was bounded.
    pub bound_pages: Option<u64>,
    pub caveats: Caveats,
    /// The figures if prompts bring answers back, where they were found and differ.
    pub with_answers: Option<OtherEnd>,
    /// What other traffic would need, where that was asked.
    pub traffic: Vec<ShownTraffic>,
    /// What was requested alongside the estimates.
    pub questions: QuestionSections,
}

/// The upper end of figures, of which the report shows the lower one.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherEnd {
    /// Pages of answers that later prompts may have brought back.
    pub returned_pages: u64,
    /// Hits with unlimited capacity.
    pub theoretical: TheoreticalHits,
    /// The recommendation at the coverage to act on.
    pub recommendation: Option<Recommendation>,
}

/// How many requests need which capacity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShownDistribution {
    /// Ascending; capacity 0 is the requests with nothing to reuse.
    pub steps: Vec<RequirementStep>,
    /// Requests that need more than the tracked bound.
    pub beyond_bound: u64,
}

/// Requests that need this capacity (or, where steps are binned, at most this and more than the last).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequirementStep {
    pub pages: u64,
    pub requests: u64,
}

/// Estimates one after another.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PoolEstimates {
    /// The window every point was taken over, where it is one and the same.
    pub window: Option<WindowKind>,
    /// The shares of requests that [`HistoryPoint::required`] covers, in its order.
    pub coverage: Vec<Ratio>,
    pub points: Vec<HistoryPoint>,
}

/// One estimate of the history.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HistoryPoint {
    /// Requests seen since the start, this point's included; 0 where windows overlap and do not tell.
    pub requests_seen: u64,
    /// Start and end of the point's window in event time. Plots run over event time when every point
    /// has both and ends ascend, else over requests.
    pub span_ms: Option<(i64, i64)>,
    /// Requests in the point's window.
    pub requests: u64,
    /// Pages that the window requested, with room for requests in flight, one entry per coverage; absent beyond the
    /// tracked bound and without requests.
    pub required: Vec<Option<u64>>,
    /// Distinct pages seen since the start.
    pub accumulated_pages: u64,
    /// Theoretical prefix hit rate of the window.
    pub hit_rate: Option<f64>,
}

/// One line of the list of windows.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowRow {
    pub kind: WindowKind,
    pub start_ms: i64,
    pub end_ms: i64,
    pub status: Status,
    /// The window's history is shorter than configured.
    pub warm_up: bool,
    pub requests: u64,
    /// The recommended capacities at the first target ratio.
    pub coverage: Vec<Recommendation>,
}

/// What limits what the figures say, besides what the estimate itself does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caveats {
    /// Records that came after their window had closed.
    pub late_records: u64,
    /// New pages whose id was already known under another prefix.
    pub chain_violations: u64,
    /// Every id was checked for that, not a sample of them.
    pub chain_checked_fully: bool,
    /// Rows or records that could not be read or broke a limit.
    pub rejected_records: u64,
    /// Leading requests that touched the cache and were not counted.
    pub warm_up_requests: u64,
    /// What could change the answer by itself, in a few words: it is of other prompts, requests or caches.
    pub doubt: Option<String>,
}

impl WindowRow {
    /// The line of one estimate.
    pub fn of(estimate: &Estimate) -> Self {
        Self {
            kind: estimate.window,
            start_ms: estimate.start_ms,
            end_ms: estimate.end_ms,
            status: estimate.status,
            warm_up: estimate.warm_up,
            requests: estimate.requests,
            coverage: estimate.recommendations().to_vec(),
        }
    }
}

impl PoolEstimates {
    /// The history that estimates of one window kind of one pool tell, in the order given.
    /// `requests_seen` is their running sum, which is right for tumbling windows.
    pub fn of(estimates: &[Estimate]) -> Self {
        let coverage =
            estimates.first().map_or(&[][..], Estimate::recommendations).iter().map(|entry| entry.coverage);
        let mut requests_seen = 0u64;
        let points = estimates.iter().map(|estimate| {
            requests_seen = requests_seen.saturating_add(estimate.requests);
            HistoryPoint::of(estimate, requests_seen)
        });
        let (coverage, points) = (coverage.collect(), points.collect());
        Self { window: estimates.first().map(|estimate| estimate.window), coverage, points }
    }
}

impl HistoryPoint {
    /// The point of one estimate, after so many requests.
    pub fn of(estimate: &Estimate, requests_seen: u64) -> Self {
        Self {
            requests_seen,
            span_ms: Some((estimate.start_ms, estimate.end_ms)),
            requests: estimate.requests,
            required: estimate.recommendations().iter().map(Recommendation::so_far).collect(),
            accumulated_pages: estimate.accumulated_pages,
            hit_rate: (estimate.page_accesses > 0).then_some(estimate.theoretical.prefix_hit_rate),
        }
    }
}

impl ShownDistribution {
    /// The distribution that [`Pool::requirements_since_start`] lists: distinct requirements, ascending,
    /// with their requests; those without pages are beyond the bound.
    ///
    /// [`Pool::requirements_since_start`]: kvset_core::pool::Pool::requirements_since_start
    pub fn of(requirements: &[(Option<u64>, u64)]) -> Self {
        let step = |(pages, requests): &(Option<u64>, u64)| {
            Some(RequirementStep { pages: (*pages)?, requests: *requests })
        };
        let beyond = requirements.iter().filter(|(pages, _)| pages.is_none()).map(|(_, requests)| *requests);
        Self { steps: requirements.iter().filter_map(step).collect(), beyond_bound: beyond.sum() }
    }
}

impl<'a> PoolReport<'a> {
    /// The facts an estimate holds; history, distribution, windows, the bound and what is provisioned are the caller's
    /// to add.
    pub fn of(estimate: Cow<'a, Estimate>) -> Self {
        Self {
            name: Some(estimate.pool.clone()),
            pointwise: estimate.is_pointwise(),
            replicas: Replicas::of(&estimate),
            caveats: Caveats {
                late_records: estimate.late_records,
                chain_violations: estimate.chain_violations,
                rejected_records: estimate.rejected_records,
                ..Caveats::default()
            },
            questions: QuestionSections::of(&estimate, |_, _| None),
            estimate,
            ..Self::default()
        }
    }

    /// A size in words: in bytes where a page's bytes are known.
    pub(crate) fn size(&self, pages: u64) -> String {
        words::capacity(pages, self.estimate.page_bytes)
    }

    /// A size as a cell of a table.
    pub(crate) fn size_cell(&self, pages: u64) -> Cell {
        Cell::Pages(pages, self.estimate.page_bytes)
    }

    /// What the pool's cache holds today, in pages, where that is known.
    pub(crate) fn provisioned_pages(&self) -> Option<u64> {
        Some(self.provisioned.as_ref()?.pages(self.estimate.page_bytes.map(PageBytes))?.0)
    }

    /// Tokens per page; absent while no request settled it.
    pub fn page_size(&self) -> Option<u32> {
        Some(self.estimate.page_size).filter(|tokens| *tokens > 0)
    }

    /// What was asked of the log, then of other traffic, a section each.
    pub(crate) fn questions(&self) -> impl Iterator<Item = &Section> {
        self.questions.sections.iter().chain(self.traffic.iter().flat_map(|found| &found.sections))
    }

    /// Further points of the curve: at the recommended capacities, on a grid where those of the estimate are few, and at
    /// what is provisioned.
    pub(crate) fn counted(&self) -> impl Iterator<Item = &CapacityPoint> {
        self.estimate.counted.iter().chain(self.at_provisioned)
    }

    /// The recommended capacities at a target ratio, by its place in the configuration.
    pub(crate) fn recommended_at(&self, target: usize) -> &[Recommendation] {
        by_target(&self.estimate.recommended).nth(target).unwrap_or_default()
    }

    /// Coverage at the target ratio the recommendation is made from.
    pub(crate) fn coverage(&self) -> &[CoverageCapacity] {
        self.estimate.required.first().map_or(&[], |required| &required.coverage)
    }

    /// Whether the figures come from a sample of the pages.
    pub(crate) fn sampled(&self) -> bool {
        self.estimate.sample_rate < 1.0
    }
}
