//! A question alongside the curve: its setting, what it follows and counts, and what it answers.

use crate::engines::bank::CacheBank;
use crate::engines::config::CacheConfig;
use crate::engines::hybrid::RulesError;
use crate::engines::one_pass::{Engine, EngineRefusal};
use crate::engines::profile::Profile;
use crate::questions::costs::PrefillCosts;
use crate::questions::counters::{Counter, Share};
use crate::questions::generated::GeneratedPages;
use crate::request::event::RequestEvent;
use crate::request::outcome::Outcome;
use crate::sizing::curve::PromptTokens;
use crate::sizing::figures::{CapacityPoint, RequiredCapacity};
use crate::sizing::recommendation::{Recommendation, chosen};
use crate::sizing::tiers::TierEstimate;
use crate::stack::needs::Needs;
use crate::units::capacity::{BytesWithoutCost, CapacitySpec};
use crate::units::clash::Clash;
use crate::units::heap::HeapBytes;
use crate::units::window::WindowKind;
use crate::units::{PageBytes, PageCount, PageSize};
use serde::Serialize;
use std::fmt::Debug;
use std::ops::Range;

/// Most replicas of one router.
pub const MAX_REPLICAS: usize = 1024;

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
    type Tally: Counter<Share: Share<Shape: PartialEq> + Default>;
    /// What an estimate says; the default is nothing.
    type Answer: Default + Clone + PartialEq + Debug + Serialize;

    /// What it needs.
    const NEEDS: QuestionNeeds;

    /// What it needs as it is set, by each setting that enables a part of it; nothing where it is not enabled.
    fn needs(setting: &Self::Setting, _: Horizon) -> Vec<QuestionNeeds> {
        let is_enabled = *setting != Self::Setting::default();
        is_enabled.then_some(Self::NEEDS).into_iter().collect()
    }

    /// Whether a pool can answer it.
    ///
    /// # Errors
    /// Why it cannot.
    fn check(_: &Self::Setting, _: &Answerable<'_>) -> Result<(), QuestionsError> {
        Ok(())
    }

    /// Follows a pool from its start; `None` where the question is not enabled.
    fn new(setting: &Self::Setting, pool: QuestionPool<'_>) -> Option<Self>;

    /// How much of everything windows count.
    fn shape(&self) -> ShapeOf<Self>;

    /// Follows a request; what it adds to windows takes the room of another one's.
    fn follow(&mut self, request: &Accepted<'_>, room: &mut ShareOf<Self>);

    /// Why the latest request could not be followed, where it could not: what it would have found is left out.
    fn refusal(&self) -> Option<&QuestionError> {
        None
    }

    /// What a snapshot keeps.
    fn kept(&self) -> &Self::Kept;

    /// Goes on from what a snapshot kept, alongside the pool's engine; `None` where that is not sound.
    fn resumed(self, kept: Self::Kept, pool: QuestionPool<'_>, engine: &Engine) -> Option<Self>;

    /// What a window says.
    fn answer(&self, tally: &Self::Tally, figures: &QuestionFigures<'_>) -> Self::Answer;
}

/// What one request adds to a question's counts.
pub type ShareOf<Q> = <<Q as Question>::Tally as Counter>::Share;

/// How much of everything a question counts.
pub type ShapeOf<Q> = <ShareOf<Q> as Share>::Shape;

/// What a question needs of its pool.
#[derive(Debug, Clone, Copy)]
pub struct QuestionNeeds {
    /// The setting that enables it.
    pub setting: &'static str,
    /// How often its answers were mended.
    pub revision: u32,
    /// One stack for all capacities.
    pub one_stack: bool,
    /// Few capacities, where the log goes on.
    pub few_capacities: bool,
    /// Room for each request of a window that requests leave again.
    pub each_request: bool,
}

impl QuestionNeeds {
    /// Nothing, of what this setting enables.
    pub const fn nothing(setting: &'static str) -> Self {
        Self { setting, revision: 0, one_stack: false, few_capacities: false, each_request: false }
    }

    /// All that a question may need, of what this setting enables.
    pub const fn all(setting: &'static str) -> Self {
        Self { one_stack: true, few_capacities: true, each_request: true, ..Self::nothing(setting) }
    }
}

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
    /// The windows that are published.
    pub windows: &'a [WindowKind],
    /// Whether the log ends.
    pub horizon: Horizon,
}

/// A pool's cache, and what all replicas hold together today.
#[derive(Debug, Clone, Copy)]
pub struct ProvisionedCache<'a> {
    /// The cache that is modelled.
    pub cache: &'a CacheConfig,
    /// What is provisioned; absent where nobody says.
    pub provisioned: Option<&'a CapacitySpec>,
}

impl ProvisionedCache<'_> {
    /// What is provisioned, in pages; `None` where that is not known, or beyond the tracked bound.
    pub fn pages(self, page_size: PageSize) -> Option<u64> {
        let PageCount(pages) = self.provisioned?.pages(self.cache.page_bytes(page_size))?;
        (self.cache.followed_pages(PageCount(pages)) <= self.cache.max_tracked_pages.0).then_some(pages)
    }

    /// The total capacity a ledger is drawn up at, where one is known: what is provisioned, else the only capacity that
    /// is requested.
    pub fn total(self, page_bytes: Option<PageBytes>) -> Option<PageCount> {
        let only = || self.cache.capacities.first().filter(|_| self.cache.capacities.len() == 1);
        self.provisioned.or_else(only)?.pages(page_bytes)
    }
}

/// A request that a pool has accepted.
#[derive(Debug, Clone, Copy)]
pub struct Accepted<'a> {
    /// The request.
    pub event: &'a RequestEvent<'a>,
    /// The session it belongs to, where the log says.
    pub session: Option<&'a str>,
    /// What the pool's own stack says of it.
    pub outcome: &'a Outcome,
    /// Tokens per page.
    pub page_size: PageSize,
    /// Its number among the accepted ones, counted from 0.
    pub index: u64,
    /// Whether it counts, or only fills caches.
    pub counted: bool,
    /// The pool's engine, which has just accepted it.
    pub engine: &'a Engine,
    /// The pool's caches, which have served it, where the engine has one per capacity.
    pub own: &'a CacheBank,
    /// The cache that is modelled, with what is provisioned of it.
    pub cache: ProvisionedCache<'a>,
    /// Where earlier prompts end and how far their answers reach, where that is followed already. Where it names pages,
    /// the event has these names, and the engine knows them by these.
    pub generated: Option<&'a GeneratedPages>,
}

/// Why a request that its pool has accepted could not be followed for a question.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// The log names more replicas than are followed.
    #[error("the log names more than {MAX_REPLICAS} replicas: is the field replica a request's own name?")]
    TooManyReplicas,
    /// A replica's cache refuses it.
    #[error(transparent)]
    Refused(#[from] EngineRefusal),
    /// The engine of a replica has no such pages.
    #[error(transparent)]
    Page(#[from] RulesError),
}

/// What an estimate knows of a window besides what the question counted.
#[derive(Debug, Clone)]
pub struct QuestionFigures<'a> {
    /// The pool's configuration.
    pub config: ProvisionedCache<'a>,
    /// Tokens per page.
    pub page_size: PageSize,
    /// Bytes per page, where a cost per token is configured.
    pub page_bytes: Option<PageBytes>,
    /// Total capacities that routers are reported at.
    pub totals: &'a [PageCount],
    /// Pages accessed, in whole pages.
    pub page_accesses: u64,
    /// The prompts by their tokens.
    pub prompts: PromptTokens,
    /// The tiers that are planned, where there are any.
    pub tiers: Option<&'a [TierEstimate]>,
    /// What is required, one entry per target ratio.
    pub required: &'a [RequiredCapacity],
    /// The curve.
    pub capacities: &'a [CapacityPoint],
    /// What is recommended.
    pub recommended: &'a [Recommendation],
    /// What tiers below cost a day.
    pub below_a_day: f64,
    /// The pages that all in flight wanted room for, one entry a request; none where that is not modelled.
    pub room: &'a Needs,
    /// Event times in which a restart is the window's own, in milliseconds.
    pub during: Range<i64>,
}

/// A size that is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportedSize {
    /// In pages; one of those that are counted at.
    pub pages: u64,
    /// The same in bytes, where a cost per token is known.
    pub bytes: Option<u64>,
    /// Whether that is what the cache holds today.
    pub provisioned: bool,
    /// Whether that is the smallest capacity of the curve as large as what is recommended.
    pub recommended: bool,
}

impl ReportedSize {
    /// What is provisioned first, where that is known, then what is recommended; where there is neither, the largest
    /// capacity of the curve.
    pub fn all(figures: &QuestionFigures<'_>) -> Vec<Self> {
        let QuestionFigures { config, page_size, page_bytes, capacities, recommended, .. } = *figures;
        let provisioned = config.pages(page_size);
        let curve = || capacities.iter().filter(|point| !point.beyond_bound).map(|point| point.pages);
        let enough = chosen(recommended).and_then(|found| found.pages);
        let recommended = enough.and_then(|enough| curve().find(|pages| *pages >= enough));
        let mut all: Vec<u64> = provisioned.into_iter().chain(recommended).collect();
        all.dedup();
        if all.is_empty() {
            all.extend(curve().next_back());
        }
        let size = |pages: u64| Self {
            pages,
            bytes: page_bytes.map(|bytes| bytes.0 * pages),
            provisioned: provisioned == Some(pages),
            recommended: recommended == Some(pages),
        };
        all.into_iter().map(size).collect()
    }
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
    /// Whether the log ends.
    pub horizon: Horizon,
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
    Router(String),
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

/// Refuses a list that is too long or names something twice.
pub(super) fn check_list(
    asked: &'static str,
    names: impl Iterator<Item = String>,
    most: usize,
) -> Result<(), QuestionsError> {
    let names: Vec<String> = names.collect();
    if names.len() > most {
        return Err(QuestionsError::TooMany { asked, count: names.len(), most });
    }
    let mut places = names.iter().enumerate();
    match places.find(|(index, name)| names[..*index].contains(name)) {
        Some((_, name)) => Err(QuestionsError::Duplicate { asked, name: name.clone() }),
        None => Ok(()),
    }
}
