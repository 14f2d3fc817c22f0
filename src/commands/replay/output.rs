//! The result of `kvset replay` as scripts read it; [`printed`](super::printed) is what people read.

use crate::commands::replay::arrivals::{OrderResult, TimesResult};
use crate::commands::replay::ceiling::{CeilingResult, DraftHeadResult};
use crate::commands::replay::cost::CostResult;
use crate::commands::replay::measured::MeasuredOutput;
use crate::commands::replay::required::{
    CapacityResult, CoverageResult, RequiredResult, is_false, required_of,
};
use crate::commands::replay::traffic::{TrafficOutput, TrafficSlot};
use crate::commands::replay::with_answers::WithAnswersResult;
use crate::present::pool::{Headline, PoolReport, headline};
use crate::replay::{CacheWritesResult, Replay, RoutedWorth, SearchResult, SecondCopies, WorthResult};
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
use kvset_core::units::PageSize;
use kvset_core::units::window::WindowKind;
use serde::Serialize;
use std::collections::BTreeMap;

/// The result of a replay. Pages are pages of the trace's page size, bytes are bytes of KV state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplayResult<'a> {
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
    pub searched: Option<&'a SearchResult>,
    /// What vLLM's pool holds twice, where the log computes pages again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_copies: Option<&'a SecondCopies>,
    /// The hit-rate curve, ascending.
    pub capacities: Vec<CapacityResult<'a>>,
    /// The recommended capacities, as an estimate of the service has them; none where each capacity was modelled on its
    /// own.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub recommended: &'a [Recommendation],
    /// One entry per target ratio; none where each capacity was modelled on its own.
    pub required: Vec<RequiredResult<'a>>,
    /// What requests met in flight, and the requirement with room for it; none where the trace tells no
    /// durations.
    pub in_flight: Option<&'a InFlightFigures>,
    /// Capacities that were asked for, or are provisioned, at which requests waited or were preempted, because more was
    /// in flight than they hold.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub without_room: &'a [RoomShortage],
    /// How many readings along the trace convergence was judged over; windows have trends of their own.
    pub trend_windows: u32,
    /// What to buy, where tiers were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<&'a TierEstimates>,
    /// How certain the required capacities are, where that was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certainty: Option<&'a Certainty>,
    /// What other traffic would need, where that was asked; else what passes between the planned tiers, where there are
    /// several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<TrafficSlot<'a>>,
    /// What passes between the planned tiers, where `traffic` is of other traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier_traffic: Option<TrafficOutput<'a>>,
    /// The sizes once more at each further cost per token.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<CostResult<'a>>,
    /// What the cache is worth, where it is known how fast prompts are computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worth: Option<&'a WorthResult>,
    /// What the replicas behind each router are worth.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub routed_worth: &'a [RoutedWorth],
    /// The windows requested, in the order in which they closed.
    pub windows: Vec<WindowResult<'a>>,
    /// What a reader of the figures should know of how the trace was read.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub notes: &'a [String],
    /// The figures if prompts bring answers back, where that makes a difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_answers: Option<WithAnswersResult<'a>>,
    /// What the log's cached tokens say of the cache in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredOutput<'a>>,
    /// What the log says was written to a provider's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_writes: Option<CacheWritesResult>,
    /// What routers would give, in the order requested.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub routing: &'a [RouterEstimate],
    /// Times to live, sliding and fixed.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub retention: &'a [RetentionEstimate],
    /// How long pages must be kept, one entry per target ratio.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub retention_required: &'a [Required<TtlCoverage>],
    /// The recommended capacity alongside the one that perfect foresight would need for its hits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimal: Option<OptimalCapacity>,
    /// Whose pages the cache holds: those who hold the most, then all others as one.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub tenants: &'a [TenantEstimate],
    /// What the estimate says of further questions, but for those above: worth stands there with the tiers below the
    /// pool.
    #[serde(flatten)]
    pub answers: QuestionAnswers,
    /// The facts that tables and words are made from.
    #[serde(skip)]
    pub facts: PoolReport<'a>,
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
pub struct WindowResult<'a> {
    /// Its kind, as it was requested.
    pub kind: WindowKind,
    /// Start, in milliseconds of event time (inclusive).
    pub start_ms: i64,
    /// End, in milliseconds of event time (exclusive).
    pub end_ms: i64,
    /// Requests in it.
    pub requests: u64,
    /// The requirement at the first target ratio.
    pub coverage: Vec<CoverageResult<'a>>,
    /// The requirement at every target ratio.
    pub required: Vec<RequiredResult<'a>>,
    /// What its requests met in flight.
    pub in_flight: Option<&'a InFlightFigures>,
    /// How many windows of this kind convergence was judged over.
    pub trend_windows: u32,
    /// What to buy by this window, where tiers were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<&'a TierEstimates>,
    /// What passes between the planned tiers in this window, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<&'a TrafficEstimate>,
    /// Times to live in this window, sliding and fixed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retention: Vec<RetentionEstimate>,
    /// Hits that perfect foresight would have of what the window itself uses again, one per capacity; `null` where
    /// requests of other windows came between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimal_page_hits: Option<Option<Vec<Option<u64>>>>,
    /// How long pages must be kept for its requests, one entry per target ratio.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub retention_required: &'a [Required<TtlCoverage>],
    /// The recommended capacities.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub recommended: &'a [Recommendation],
}

impl<'a> ReplayResult<'a> {
    /// The result of a finished replay, whose facts these are.
    pub(super) fn of(done: &'a Replay, facts: PoolReport<'a>) -> Self {
        let estimate = done.estimate();
        let trace = TraceSummary::of(done);
        let (traffic, tier_traffic) = TrafficSlot::of(done);
        let of_groups = done.ceiling.filter(|_| !done.config.cache.rules.attention.is_full());
        let in_flight = estimate.in_flight.as_ref();
        Self {
            answer: AnswerResult::of(headline(&facts)),
            theoretical: estimate.theoretical,
            pointwise: facts.pointwise,
            approximation: trace.engine.spec().approximation,
            draft_head: done.ceiling.and_then(|found| DraftHeadResult::of(found, trace.page_accesses)),
            ceiling: of_groups.map(|found| CeilingResult::of(found, trace.page_accesses)),
            searched: done.searched.as_ref(),
            second_copies: done.second_copies.as_ref(),
            capacities: CapacityResult::of_replay(done),
            recommended: &estimate.recommended,
            required: required_of(estimate),
            in_flight,
            without_room: in_flight.map_or(&[], |found| &found.without_room),
            trend_windows: estimate.trend_windows,
            plan: estimate.plan.as_ref(),
            certainty: estimate.certainty.as_ref(),
            traffic,
            tier_traffic,
            costs: done.at_further_costs.iter().map(CostResult::of).collect(),
            worth: done.worth.as_ref(),
            routed_worth: &done.routed_worth,
            windows: done.windows.iter().map(|window| WindowResult::of(window, done)).collect(),
            notes: &done.notes,
            with_answers: done.with_answers.as_ref().map(WithAnswersResult::of),
            measured: estimate.measured.as_ref().map(|measured| MeasuredOutput::of(measured, done)),
            cache_writes: done.cache_writes,
            routing: &estimate.routing,
            retention: &estimate.retention,
            retention_required: &estimate.retention_required,
            optimal: done.optimal,
            tenants: &estimate.tenants,
            answers: QuestionAnswers {
                measured: None,
                routers: Vec::new(),
                certainty: None,
                ..estimate.answers()
            },
            facts,
            trace,
        }
    }
}

impl AnswerResult {
    fn of(headline: Headline) -> Self {
        Self {
            sentences: headline.sentences().map(str::to_owned).collect(),
            numbers: headline.answer.clone(),
            headline,
        }
    }
}

impl TraceSummary {
    fn of(done: &Replay) -> Self {
        let (config, estimate) = (&done.config.cache, done.estimate());
        Self {
            requests: done.requests,
            warm_up_requests: done.warm_up_requests,
            page_accesses: estimate.page_accesses,
            prompt_tokens: estimate.prompt_tokens,
            distinct_pages: done.distinct_pages.0,
            page_size: done.page_size.map(PageSize::get),
            page_bytes: done.page_bytes.map(|bytes| bytes.0),
            rejected_rows: done.rejected_rows,
            passed_over: done.passed_over.clone(),
            chain_violations: done.chain_violations,
            chain_check: config.chain_check,
            engine: config.profile,
            engine_options: config.rules.options_of(config.profile).into_iter().collect(),
            sample_rate: config.sample_rate.as_f64(),
            sample_error: estimate.sample_error,
            output_reuse_unseen: estimate.output_reuse_unseen,
            order: OrderResult::of(&done.times),
            times: TimesResult::of(&done.times),
        }
    }
}

impl<'a> WindowResult<'a> {
    fn of(estimate: &'a Estimate, done: &Replay) -> Self {
        let required = required_of(estimate);
        let of_no_capacity =
            |point: &RetentionEstimate| RetentionEstimate { capacities: Vec::new(), ..point.clone() };
        let capacities = done.estimate().capacities.len();
        Self {
            kind: estimate.window,
            start_ms: estimate.start_ms,
            end_ms: estimate.end_ms,
            requests: estimate.requests,
            coverage: required.first().map(|first| first.coverage.clone()).unwrap_or_default(),
            required,
            in_flight: estimate.in_flight.as_ref(),
            trend_windows: estimate.trend_windows,
            plan: estimate.plan.as_ref(),
            traffic: estimate.traffic.as_ref(),
            retention: estimate.retention.iter().map(of_no_capacity).collect(),
            optimal_page_hits: done
                .config
                .questions
                .reuse
                .optimal
                .then(|| optimal_hits(estimate, capacities)),
            retention_required: &estimate.retention_required,
            recommended: &estimate.recommended,
        }
    }
}

/// What perfect foresight would have in a window, one entry per capacity of the trace; none where nothing is reported.
fn optimal_hits(estimate: &Estimate, capacities: usize) -> Option<Vec<Option<u64>>> {
    let mut hits: Vec<_> = estimate.capacities.iter().map(|point| point.optimal_page_hits).collect();
    hits.first().copied().flatten()?;
    // A window's curve ends where larger capacities find no more.
    let last = hits.last().copied().flatten();
    hits.resize(capacities, last);
    Some(hits)
}
