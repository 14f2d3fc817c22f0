//! The published result: one capacity estimate for one pool and one window.
//!
//! A value carries no wall-clock time, so that the same log gives the same bytes.
pub mod config;
pub mod estimator;

use crate::engines::profile::{Outputs, Profile};
use crate::families::certainty::{Certainty, Interval};
use crate::questions::draft_range::DraftRangeEstimate;
use crate::questions::measured::MeasuredEstimate;
use crate::questions::observers::QuestionAnswers;
use crate::questions::restarts::RestartsEstimate;
use crate::questions::retention::{RetentionEstimate, TtlCoverage};
use crate::questions::retention_classes::RetentionClassEstimate;
use crate::questions::routing::RouterEstimate;
use crate::questions::tenants::TenantEstimate;
use crate::questions::traffic::TrafficEstimate;
use crate::questions::with_questions;
use crate::questions::worth::WorthEstimate;
use crate::request::sample::sampling_error;
use crate::sizing::curve::PromptTokens;
use crate::sizing::figures::{is_zero, thin};
use crate::sizing::recommendation::{Recommendation, by_target, chosen};
use crate::sizing::tiers::TierEstimates;
use crate::units::window::WindowKind;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

pub use crate::sizing::figures::{
    CapacityPoint, CoverageCapacity, CoverageSize, InFlightFigures, Required, RequiredCapacity, RoomShortage,
    TheoreticalHits,
};

/// Whether a window was closed by data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Closed by the partition's watermark; never changes.
    #[default]
    Final,
    /// A view of a window still open; may change.
    Provisional,
}

/// A capacity estimate. Pages are pages of the pool, bytes are bytes of KV state, times are
/// milliseconds of event time, rates are shares between 0 and 1. Fields that mostly say nothing are left out of
/// JSON where they have their schema's default. The default is the estimate of no request.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Estimate {
    /// Version of the record: [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The cache that is planned.
    pub pool: String,
    /// Kind of window, as configured (`tumbling:5m`).
    pub window: WindowKind,
    /// This is the window to act on.
    #[serde(default)]
    pub act_on: bool,
    /// Start of the window (inclusive); for `last` and `all`, event time of the earliest request in it.
    pub start_ms: i64,
    /// End of the window (exclusive); for `last` and `all`, the publishing boundary that was passed.
    pub end_ms: i64,
    pub status: Status,
    /// The window's history is shorter than configured, so hits are under-counted.
    pub warm_up: bool,
    /// The recommended capacities, one entry per target ratio and coverage; none where each capacity was modelled on
    /// its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recommended: Vec<Recommendation>,
    pub engine: Profile,
    pub outputs: Outputs,
    /// Share of the pages that were followed; counts and capacities are already scaled up by it.
    pub sample_rate: f64,
    /// Standard error of the smallest required capacity, as a share of it: no larger one errs more. Of
    /// others see [`Estimate::error_of`]. 0 when exact.
    pub sample_error: f64,
    /// Identifies the configuration that shaped this result: 16 hexadecimal digits. Of the pool's own configuration; a
    /// service puts the fingerprint of all its settings there.
    pub fingerprint: String,
    /// Input partition the pool lives in.
    pub partition: i32,
    /// Offset of the first record counted in the window; -1 when there is none.
    pub first_offset: i64,
    /// Offset after the record that closed the window: the estimate is a function of what precedes it.
    pub next_offset: i64,
    /// Tokens per page.
    pub page_size: u32,
    /// Bytes per page; absent where no cost per token is configured.
    pub page_bytes: Option<u64>,
    pub requests: u64,
    pub requests_with_reuse: u64,
    /// Prompt pages accessed in the window.
    pub page_accesses: u64,
    /// Tokens of these prompts: those of the pages, and of last pages that are not full where the log counts them.
    pub prompt_tokens: u64,
    /// Distinct pages touched in the window (output pages too where the engine caches them): those
    /// last touched before the window's first record.
    pub distinct_pages: u64,
    /// Distinct pages ever seen in the pool: what never evicting would hold.
    pub accumulated_pages: u64,
    pub accumulated_bytes: Option<u64>,
    /// Pages tracked at the close; less than accumulated once the bound forgot some.
    pub tracked_pages: u64,
    pub theoretical: TheoreticalHits,
    /// One entry per target ratio, as configured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<RequiredCapacity>,
    /// The hit-rate curve at the configured capacities, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacities: Vec<CapacityPoint>,
    /// Further points of the curve, ascending: at the recommended capacities and, where capacities are configured, on a
    /// grid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<CapacityPoint>,
    /// Records of the pool that came too late for this kind of window, since the start.
    pub late_records: u64,
    /// New pages whose (sampled) id was already known under another prefix, since the start.
    pub chain_violations: u64,
    /// Input records of this pool that were refused, since the start.
    pub rejected_records: u64,
    /// The log holds no output page ids though the engine caches outputs: hits are under-counted.
    pub output_reuse_unseen: bool,
    /// Pages that requests computed again although the cache had them, in vLLM: it keeps both copies. The curve
    /// counts the room of both, and not which of them a prompt finds: a requirement is in doubt by so many pages.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub recomputed_pages: u64,
    /// What requests met in flight; absent where the log states no durations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<InFlightFigures>,
    /// Steps that convergence was judged over; while fewer than configured, nothing has converged.
    #[serde(default)]
    pub trend_windows: u32,
    /// What to buy; absent where no tiers are configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<TierEstimates>,
    /// How the cache in use compares with the modelled one; absent where that is not enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredEstimate>,
    /// What routers would give, in the order requested; empty where none is requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routing: Vec<RouterEstimate>,
    /// What keeping pages for a time would give, one entry a time and kind; empty where none is requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retention: Vec<RetentionEstimate>,
    /// How long pages must be kept, one entry per target ratio; empty where no time to live is requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub retention_required: Vec<Required<TtlCoverage>>,
    /// What passes between the planned tiers; absent where that is not enabled, in `all`, which has no end, and in
    /// windows with more runs than are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<TrafficEstimate>,
    /// The tenants that hold the most, and all others as one; empty where that is not enabled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantEstimate>,
    /// What the cache is worth; absent where it is not known how fast prompts are computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worth: Option<WorthEstimate>,
    /// What an emptied cache costs, by hour of the day; absent where that is not enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<RestartsEstimate>,
    /// What each retention class holds and finds; absent where that is not enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_classes: Option<Vec<RetentionClassEstimate>>,
    /// What SGLang with a draft head finds at most, where page ids leave that open: all other figures are the lower
    /// end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft_range: Option<DraftRangeEstimate>,
    /// How certain requirements and recommendations are; absent where that is not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certainty: Option<Certainty>,
}

/// The version of the record that this program writes.
pub const SCHEMA_VERSION: u32 = 1;

/// Pages of a request that a sample should follow, on average.
pub const FEWEST_FOLLOWED: f64 = 10.0;

/// Declares what an estimate says of the questions.
macro_rules! answers {
    ($($(#[$doc:meta])+ $mark:literal $question:ident $(as $field:ident)? $(($how:ident))?: $Observer:ty;)+) => {
        impl Estimate {
            /// What is said of each question that has a field of its own.
            pub fn answers(&self) -> QuestionAnswers {
                QuestionAnswers { $($($question: self.$field.clone(),)?)+ ..QuestionAnswers::default() }
            }

            /// The estimate of no request that says this of each question that has a field of its own.
            fn of_answers(answers: QuestionAnswers) -> Self {
                Self { $($($field: answers.$question,)?)+ ..Self::default() }
            }
        }
    };
}

with_questions!(answers);

impl Estimate {
    /// Whether each capacity was modelled on its own: then, and only then, nothing is required at any target ratio,
    /// of which there is always one.
    pub fn is_pointwise(&self) -> bool {
        self.required.is_empty() && self.recommended.is_empty()
    }

    /// The recommendations at the first target ratio.
    pub fn recommendations(&self) -> &[Recommendation] {
        by_target(&self.recommended).next().unwrap_or_default()
    }

    /// The recommendation at the coverage to act on; `None` where nothing is required of any capacity.
    pub fn recommendation(&self) -> Option<&Recommendation> {
        chosen(&self.recommended)
    }

    /// Takes in how certain its figures are: each requirement and each recommendation gets its interval.
    pub fn take_certainty(&mut self, mut found: Certainty) {
        let required = std::mem::take(&mut found.required);
        let mut recommended = std::mem::take(&mut found.recommended);
        if recommended.is_empty() {
            // What is added for requests in flight is as uncertain as what it is added to.
            let same = required.iter().flatten().zip(&self.recommended);
            recommended = vec![same.map(|(interval, entry)| interval.around(entry.so_far())).collect()];
        }
        self.take_intervals(&required, &recommended);
        self.certainty = Some(found);
    }

    /// Takes in intervals by target ratio and coverage: of requirements, and of recommendations.
    pub fn take_intervals(&mut self, required: &[Vec<Interval>], recommended: &[Vec<Interval>]) {
        let entries = self.required.iter_mut().flat_map(|required| &mut required.coverage);
        entries.zip(required.iter().flatten()).for_each(|(entry, interval)| entry.take_interval(interval));
        let entries = self.recommended.iter_mut().zip(recommended.iter().flatten());
        entries.for_each(|(entry, interval)| entry.take_interval(interval));
    }

    /// The estimate as it is published where nobody requested more: without the requirement distribution behind the
    /// recommendation, and without points of the curve that nobody named.
    pub fn summary(&self) -> Self {
        let mut summary = self.clone();
        summary.required.clear();
        summary.counted.clear();
        summary.capacities.retain(|point| point.label.is_some());
        summary.in_flight.iter_mut().for_each(|found| found.required.clear());
        let named = |pages: Option<u64>| summary.capacities.iter().any(|point| Some(point.pages) == pages);
        if let Some(worth) = &mut summary.worth {
            worth.capacities.retain(|at| named(at.pages));
        }
        summary
    }

    /// The prompts by their tokens.
    pub fn prompts(&self) -> PromptTokens {
        PromptTokens { all: self.prompt_tokens, page: self.page_size }
    }

    /// Whether the capacities of the curve were named by somebody; else they lie on a grid.
    pub fn names_capacities(&self) -> bool {
        self.capacities.iter().any(|point| point.label.is_some())
    }

    /// Standard error of a required capacity of so many pages, as a share of it; 0 when exact.
    pub fn error_of(&self, pages: u64) -> f64 {
        sampling_error(self.sample_rate, pages as f64 * self.sample_rate)
    }

    /// The estimate of no request.
    pub fn of_nothing() -> &'static Self {
        static NOTHING: LazyLock<Estimate> = LazyLock::new(Estimate::default);
        &NOTHING
    }

    /// Ends the curve, and what is said at each of its points, after so many of these.
    pub fn cut_curve(&mut self, points: usize) {
        self.capacities.truncate(points);
        self.routing.iter_mut().for_each(|routed| routed.capacities.truncate(points));
        self.retention.iter_mut().for_each(|point| point.capacities.truncate(points));
        for tenant in &mut self.tenants {
            tenant.capacity_page_hits.truncate(points);
            tenant.page_milliseconds.truncate(points);
        }
    }

    /// Leaves of the curve what says something, for capacities that nobody named.
    pub fn thin_curve(&mut self) {
        thin(&mut self.capacities);
    }

    /// Pages of a request that a sample follows, on average, where they are too few: a request of which no
    /// page is followed seems to need nothing, so required capacities come out too small by more than
    /// their standard error.
    pub fn too_few_followed(&self) -> Option<f64> {
        let followed = self.sample_rate * self.page_accesses as f64 / self.requests.max(1) as f64;
        Some(followed).filter(|followed| self.sample_rate < 1.0 && *followed < FEWEST_FOLLOWED)
    }
}
