//! A question alongside the curve: its setting, what it follows and counts, and what it answers.

use crate::engines::bank::CacheBank;
use crate::engines::one_pass::Engine;
use crate::engines::profile::Profile;
use crate::questions::accepted::Accepted;
use crate::questions::costs::PrefillCosts;
use crate::questions::counters::{Counter, Share};
use crate::questions::needs::QuestionNeeds;
use crate::questions::provisioned::ProvisionedCache;
use crate::questions::routing::SpecError;
use crate::sizing::figures::{CapacityPoint, RequiredCapacity};
use crate::sizing::recommendation::Recommendation;
use crate::units::capacity::BytesWithoutCost;
use crate::units::clash::Clash;
use crate::units::heap::HeapBytes;
use crate::units::window::WindowKind;
use crate::units::{PageBytes, PageSize};

/// Whether a log ends, which decides what can be answered of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Horizon {
    /// It goes on: what is kept of it is bounded, and outlives a restart.
    #[default]
    Endless,
    /// It ends and is read in one go, which no snapshot interrupts: all of it can be kept for what only the whole log
    /// answers, at any number of capacities, and its ranges can be merged.
    Finite,
}

/// What follows the requests of a pool for one question. The list in [`questions`](super) names all that there are;
/// settings, windows, sections of snapshots and estimates follow from that list.
pub trait Question: Sized + HeapBytes {
    /// Its setting; the default where it is not enabled.
    type Setting: Default + PartialEq;
    /// What a snapshot keeps of what is followed; nothing where the configuration says all of it.
    type Kept;
    /// Counts of windows.
    type Tally: Counter<Share: Share<Shape: PartialEq>>;
    /// What an estimate says.
    type Estimate;

    /// What it needs.
    const NEEDS: QuestionNeeds;

    /// Whether a pool can answer it.
    ///
    /// # Errors
    /// Why it cannot.
    fn check(setting: &Self::Setting, pool: &Answerable<'_>) -> Result<(), QuestionsError>;

    /// Follows a pool from its start; `None` where the question is not enabled.
    fn new(setting: &Self::Setting, pool: QuestionPool<'_>) -> Option<Self>;

    /// What windows count at so many capacities; `None` where the question is not enabled.
    fn shape(
        setting: &Self::Setting,
        cache: ProvisionedCache<'_>,
        capacities: &[u64],
        horizon: Horizon,
    ) -> Option<ShapeOf<Self>>;

    /// Follows a request; what it adds to windows. `own` are the pool's caches, where its engine has one per capacity.
    fn follow(
        &mut self,
        request: &Accepted<'_>,
        cache: ProvisionedCache<'_>,
        own: &CacheBank,
    ) -> ShareOf<Self>;

    /// What a snapshot keeps.
    fn kept(&self) -> &Self::Kept;

    /// Goes on from what a snapshot kept, alongside the pool's engine; `None` where that is not sound.
    fn resumed(self, kept: Self::Kept, engine: &Engine) -> Option<Self>;

    /// What a window says; `None` where it says nothing.
    fn estimate(&self, tally: &Self::Tally, figures: &QuestionFigures<'_>) -> Option<Self::Estimate>;
}

/// What one request adds to a question's counts.
pub type ShareOf<Q> = <<Q as Question>::Tally as Counter>::Share;

/// How much of everything a question counts.
pub type ShapeOf<Q> = <ShareOf<Q> as Share>::Shape;

/// A pool as a question follows it.
#[derive(Debug, Clone, Copy)]
pub struct QuestionPool<'a> {
    /// The cache, with what is provisioned of it.
    pub cache: ProvisionedCache<'a>,
    /// What computing costs, where that is known.
    pub costs: Option<&'a PrefillCosts>,
    /// Capacities that can be known, in followed pages and ascending.
    pub capacities: &'a [u64],
    /// Tokens per page.
    pub page_size: PageSize,
}

/// What an estimate knows of a window besides what the question counted.
#[derive(Debug, Clone, Copy)]
pub struct QuestionFigures<'a> {
    /// The pool's configuration.
    pub config: ProvisionedCache<'a>,
    /// Tokens per page.
    pub page_size: PageSize,
    /// Bytes per page, where a cost per token is configured.
    pub page_bytes: Option<PageBytes>,
    /// What is required, one entry per target ratio.
    pub required: &'a [RequiredCapacity],
    /// The curve.
    pub capacities: &'a [CapacityPoint],
    /// What is recommended.
    pub recommended: &'a [Recommendation],
    /// What tiers below cost a day.
    pub below_a_day: f64,
}

/// What decides whether a pool can answer.
#[derive(Debug, Clone, Copy)]
pub struct Answerable<'a> {
    /// The engine.
    pub profile: Profile,
    /// It is modelled a capacity at a time.
    pub is_pointwise: bool,
    /// A token's bytes are known.
    pub has_cost: bool,
    /// Capacities of the curve.
    pub capacities: usize,
    /// The windows.
    pub windows: &'a [WindowKind],
    /// Planned tiers.
    pub tiers: usize,
    /// Only a sample of the pages is followed.
    pub is_sampled: bool,
}

/// Why a question cannot be answered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum QuestionsError {
    /// Each entry costs memory and time.
    #[error("`{asked}` has {count} entries: at most {most}")]
    TooMany {
        /// The setting.
        asked: &'static str,
        /// How many there are.
        count: usize,
        /// How many may be.
        most: usize,
    },
    /// Two results of one name.
    #[error("`{asked}` names {name} twice: leave one out")]
    Duplicate {
        /// The setting.
        asked: &'static str,
        /// The entry.
        name: String,
    },
    /// It needs one stack for all capacities.
    #[error(
        "`{asked}` {}, which `engine` {profile} has not: {}", Clash::NO_STACK.why, Clash::NO_STACK.key
    )]
    NoStack {
        /// The setting.
        asked: &'static str,
        /// The engine.
        profile: Profile,
    },
    /// It goes by what events do not say.
    #[error(
        "`routers` has {router}, which goes by the session, and events name none: set hash:{replicas}:tenant or \
         hash:{replicas}:first-page"
    )]
    NoSession {
        /// The router.
        router: String,
        /// Its replicas.
        replicas: usize,
    },
    /// A router cannot be asked about.
    #[error("`routers`: {0}")]
    Router(#[from] SpecError),
    /// Bytes cannot be turned into pages.
    #[error(transparent)]
    BytesWithoutCost(#[from] BytesWithoutCost),
    /// It is reported at every capacity.
    #[error(
        "`{asked}` is reported at each capacity, and there are {count}: list at most 64 in `capacities`, those that matter"
    )]
    TooManyCapacities {
        /// The setting.
        asked: &'static str,
        /// Capacities.
        count: usize,
    },
    /// What is asked is kept for each of its requests.
    #[error("`windows` has {window}, and `{asked}` is kept for each of its requests: at most last:65536")]
    TooManyRequests {
        /// The setting.
        asked: &'static str,
        /// The window.
        window: WindowKind,
    },
    /// No tenants, or more than are reported.
    #[error("`tenants` is {0}: expected 1 to 100")]
    Tenants(u32),
    /// Nothing passes between fewer.
    #[error(
        "`traffic` is what passes between tiers, and there are {0}: set at least two `tiers`, or leave it out"
    )]
    TooFewTiers(usize),
    /// It is compared with what is loaded.
    #[error("`prefill_rate` is {0}: expected more than 0, as `traffic` needs it")]
    PrefillRate(f64),
    /// What single requests compute needs all their pages.
    #[error(
        "`{asked}` counts what each request computes, which {}: {}", Clash::SAMPLE.why, Clash::SAMPLE.key
    )]
    Sampled {
        /// The setting.
        asked: &'static str,
    },
    /// No price.
    #[error("`{asked}` is {price}: expected 0 to 1e15")]
    Price {
        /// The setting.
        asked: &'static str,
        /// Its value.
        price: f64,
    },
    /// Memory has a price by its bytes.
    #[error("`gib_price` is by bytes: set `kv_bytes_per_token`, or leave it out")]
    PriceWithoutCost,
}
