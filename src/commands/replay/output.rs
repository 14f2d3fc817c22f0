//! The result of `kvset replay` as scripts read it; [`printed`](super::printed) is what people read.

use crate::commands::replay::arrivals::{OrderResult, TimesResult};
use crate::commands::replay::ceiling::{CeilingResult, DraftHeadResult};
use crate::commands::replay::cost::CostResult;
use crate::commands::replay::measured::MeasuredOutput;
use crate::commands::replay::required::{
    CapacityResult, CoverageResult, RecommendedResult, RequiredResult, capacities_of, is_false,
    recommended_of, required_of,
};
use crate::commands::replay::traffic::{TrafficOutput, TrafficSlot};
use crate::commands::replay::with_answers::WithAnswersResult;
use crate::present::pool::{Headline, PoolReport, headline};
use crate::replay::{CacheWritesResult, RoutedWorth, SearchResult, SecondCopies, WorthResult};
use kvset_core::engines::profile::Profile;
use kvset_core::estimate::{Estimate, InFlightFigures, RoomShortage, TheoreticalHits};
use kvset_core::families::certainty::Certainty;
use kvset_core::questions::observers::QuestionAnswers;
use kvset_core::questions::optimum::OptimalCapacity;
use kvset_core::questions::retention::{RetentionEstimate, TtlCoverage};
use kvset_core::questions::routing::RouterEstimate;
use kvset_core::questions::tenants::TenantEstimate;
use kvset_core::questions::traffic::TrafficEstimate;
use kvset_core::sizing::figures::Required;
use kvset_core::sizing::recommendation::{Answer, Recommendation};
use kvset_core::sizing::tiers::TierEstimates;
use kvset_core::stack::ChainCheck;
use kvset_core::units::window::WindowKind;
use serde::Serialize;
use std::collections::BTreeMap;

/// The result of a replay. Pages are pages of the trace's page size, bytes are bytes of KV state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplayResult {
    /// The answer: the sentences, and the numbers in them.
    pub answer: AnswerResult,
    /// What was read.
    pub trace: TraceSummary,
    /// Hits with unlimited capacity.
    pub theoretical: TheoreticalHits,
    /// Each capacity was modelled on its own: nothing follows for those in between.
    #[serde(skip_serializing_if = "is_false")]
    pub pointwise: bool,
    /// What makes the model an approximation, with the known error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approximation: Option<&'static str>,
    /// What a draft head loses at any size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft_head: Option<DraftHeadResult>,
    /// What the rules of a hybrid model lose at any size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<CeilingResult>,
    /// Required capacities, where they were searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub searched: Option<SearchResult>,
    /// What vLLM's pool holds twice, where the log computes pages again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_copies: Option<SecondCopies>,
    /// The hit-rate curve, ascending.
    pub capacities: Vec<CapacityResult>,
    /// The recommended capacities, as an estimate of the service has them; none where each capacity was modelled on its
    /// own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recommended: Vec<RecommendedResult>,
    /// One entry per target ratio; none where each capacity was modelled on its own.
    pub required: Vec<RequiredResult>,
    /// What requests met in flight, and the requirement with room for it; none where the trace tells no
    /// durations.
    pub in_flight: Option<InFlightFigures>,
    /// Capacities that were asked for, or are provisioned, at which requests waited or were preempted, because more was
    /// in flight than they hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without_room: Vec<RoomShortage>,
    /// How many readings along the trace convergence was judged over; windows have trends of their own.
    pub trend_windows: u32,
    /// What to buy, where tiers were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<TierEstimates>,
    /// How certain the required capacities are, where that was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certainty: Option<Certainty>,
    /// What other traffic would need, where that was asked; else what passes between the planned tiers, where there are
    /// several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<TrafficSlot>,
    /// What passes between the planned tiers, where `traffic` is of other traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier_traffic: Option<TrafficOutput>,
    /// The sizes once more at each further cost per token.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<CostResult>,
    /// What the cache is worth, where it is known how fast prompts are computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worth: Option<WorthResult>,
    /// The same of the replicas behind each router.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routed_worth: Vec<RoutedWorth>,
    /// The windows requested, in the order in which they closed.
    pub windows: Vec<WindowResult>,
    /// What a reader of the figures should know of how the trace was read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The figures if prompts bring answers back, where that makes a difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_answers: Option<WithAnswersResult>,
    /// What the log's cached tokens say of the cache in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredOutput>,
    /// What the log says was written to a provider's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_writes: Option<CacheWritesResult>,
    /// What routers would give, in the order requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routing: Vec<RouterEstimate>,
    /// Times to live, sliding and fixed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retention: Vec<RetentionEstimate>,
    /// How long pages must be kept, one entry per target ratio.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retention_required: Vec<Required<TtlCoverage>>,
    /// The recommended capacity alongside the one that perfect foresight would need for its hits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimal: Option<OptimalCapacity>,
    /// Whose pages the cache holds: those who hold the most, then all others as one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantEstimate>,
    /// What the estimate says of further questions. Worth is not among these: it is above, with the tiers below the
    /// pool.
    #[serde(flatten)]
    pub answers: QuestionAnswers,
    /// The facts that tables and words are made from.
    #[serde(skip)]
    pub facts: PoolReport,
}

/// The answer, as the report and the page give it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnswerResult {
    /// The words, the most important first.
    pub sentences: Vec<String>,
    /// The numbers; none where nothing is required of any capacity.
    #[serde(flatten)]
    pub numbers: Option<Answer>,
    #[serde(skip)]
    pub headline: Headline,
}

/// What was read, and how.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceSummary {
    /// Requests that count.
    pub requests: u64,
    /// Requests that only filled the cache.
    pub warm_up_requests: u64,
    /// Prompt pages accessed by the requests that count.
    pub page_accesses: u64,
    /// Tokens of these prompts, as far as known.
    pub prompt_tokens: u64,
    /// Distinct pages of the whole trace.
    pub distinct_pages: u64,
    /// Tokens per page; unknown for a trace without requests that names none.
    pub page_size: Option<u32>,
    /// Bytes per page, where a cost per token is known.
    pub page_bytes: Option<u64>,
    /// Rows that could not be read.
    pub rejected_rows: u64,
    /// Records of no request that a cache served, by the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub passed_over: BTreeMap<&'static str, u64>,
    /// Distinct pages whose id was already known under another prefix.
    pub chain_violations: u64,
    /// Which ids were watched for violations: `sampled` or `full`.
    pub chain_check: ChainCheck,
    /// The engine modelled.
    pub engine: Profile,
    /// What the engine was told besides its name, where its model has options.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub engine_options: BTreeMap<&'static str, String>,
    /// Share of the pages that were followed.
    pub sample_rate: f64,
    /// Standard error of the smallest required capacity, as a share of it; 0 when exact.
    pub sample_error: f64,
    /// The engine caches outputs, but the trace has no ids for them: hits are under-counted.
    pub output_reuse_unseen: bool,
    /// The order that requests were taken in.
    pub order: OrderResult,
    /// When they came; none where nothing says so.
    pub times: Option<TimesResult>,
}

/// One window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WindowResult {
    /// Its kind, as it was requested.
    pub kind: WindowKind,
    /// Start, in milliseconds of event time (inclusive).
    pub start_ms: i64,
    /// End, in milliseconds of event time (exclusive).
    pub end_ms: i64,
    /// Requests in it.
    pub requests: u64,
    /// The requirement at the first target ratio.
    pub coverage: Vec<CoverageResult>,
    /// The requirement at every target ratio.
    pub required: Vec<RequiredResult>,
    /// What its requests met in flight.
    pub in_flight: Option<InFlightFigures>,
    /// How many windows of this kind convergence was judged over.
    pub trend_windows: u32,
    /// What to buy by this window, where tiers were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<TierEstimates>,
    /// What passes between the planned tiers in this window, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<TrafficEstimate>,
    /// Times to live in this window, sliding and fixed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retention: Vec<RetentionEstimate>,
    /// Hits that perfect foresight would have of what the window itself uses again, one per capacity; `null` where
    /// requests of other windows came between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimal_page_hits: Option<Option<Vec<Option<u64>>>>,
    /// How long pages must be kept for its requests, one entry per target ratio.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retention_required: Vec<Required<TtlCoverage>>,
    /// The recommended capacities.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recommended: Vec<Recommendation>,
}

impl ReplayResult {
    /// Puts a result together from the estimate over everything that counts, and those of the windows.
    pub fn new(
        trace: TraceSummary,
        whole: Option<&Estimate>,
        windows: &[Estimate],
        facts: PoolReport,
    ) -> Self {
        let headline = headline(&facts);
        Self {
            answer: AnswerResult {
                sentences: headline.sentences().map(str::to_owned).collect(),
                numbers: headline.answer.clone(),
                headline,
            },
            theoretical: whole.map(|all| all.theoretical).unwrap_or_default(),
            pointwise: facts.pointwise,
            approximation: trace.engine.approximation(),
            draft_head: None,
            ceiling: None,
            searched: None,
            second_copies: None,
            capacities: whole.map(capacities_of).unwrap_or_default(),
            recommended: whole.map(|all| recommended_of(all, None)).unwrap_or_default(),
            required: whole.map(|all| required_of(all, None)).unwrap_or_default(),
            without_room: whole
                .and_then(|all| all.in_flight.as_ref())
                .map_or_else(Vec::new, |found| found.without_room.clone()),
            in_flight: whole.and_then(|all| all.in_flight.clone()),
            trend_windows: whole.map_or(0, |all| all.trend_windows),
            plan: whole.and_then(|all| all.plan.clone()),
            certainty: None,
            traffic: whole.and_then(TrafficOutput::of).map(TrafficSlot::Tiers),
            tier_traffic: None,
            costs: Vec::new(),
            worth: None,
            routed_worth: Vec::new(),
            windows: windows.iter().map(WindowResult::from).collect(),
            notes: Vec::new(),
            with_answers: None,
            measured: None,
            cache_writes: None,
            routing: whole.map(|all| all.routing.clone()).unwrap_or_default(),
            retention: whole.map(|all| all.retention.clone()).unwrap_or_default(),
            retention_required: whole.map(|all| all.retention_required.clone()).unwrap_or_default(),
            optimal: None,
            tenants: whole.map(|all| all.tenants.clone()).unwrap_or_default(),
            answers: whole.map(Estimate::answers).unwrap_or_default(),
            facts,
            trace,
        }
    }

    /// The nominal capacity that never evicts.
    pub fn footprint_capacity(&self) -> u64 {
        self.trace.distinct_pages
    }

    /// Ends the curve at the first capacity that reaches this one.
    pub fn cut_grid(&mut self, footprint: u64) {
        let last = self.capacities.iter().position(|point| point.point.pages >= footprint);
        self.capacities.truncate(last.map_or(self.capacities.len(), |index| index + 1));
        self.costs.iter_mut().for_each(|cost| cost.capacities.truncate(self.capacities.len()));
        let capacities = self.capacities.len();
        self.with_answers.iter_mut().for_each(|upper| upper.capacities.truncate(capacities));
        self.routing.iter_mut().for_each(|routed| routed.capacities.truncate(capacities));
        let routed = self.routed_worth.iter_mut().map(|routed| &mut routed.worth);
        let own = self.worth.iter_mut().map(|worth| &mut worth.estimate);
        own.chain(routed).for_each(|worth| worth.capacities.truncate(capacities));
        self.retention.iter_mut().for_each(|point| point.capacities.truncate(capacities));
        let hits = self.windows.iter_mut().filter_map(|window| window.optimal_page_hits.as_mut()?.as_mut());
        hits.for_each(|hits| hits.truncate(capacities));
        for tenant in &mut self.tenants {
            tenant.capacity_page_hits.truncate(capacities);
            tenant.page_milliseconds.truncate(capacities);
        }
    }
}

impl From<&Estimate> for WindowResult {
    fn from(estimate: &Estimate) -> Self {
        let required = required_of(estimate, None);
        Self {
            kind: estimate.window,
            start_ms: estimate.start_ms,
            end_ms: estimate.end_ms,
            requests: estimate.requests,
            coverage: required.first().map(|first| first.coverage.clone()).unwrap_or_default(),
            required,
            in_flight: estimate.in_flight.clone(),
            trend_windows: estimate.trend_windows,
            plan: estimate.plan.clone(),
            traffic: estimate.traffic.clone(),
            retention: estimate
                .retention
                .iter()
                .map(|point| RetentionEstimate { capacities: Vec::new(), ..point.clone() })
                .collect(),
            optimal_page_hits: None,
            retention_required: estimate.retention_required.clone(),
            recommended: estimate.recommended.clone(),
        }
    }
}
