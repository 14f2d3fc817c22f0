//! What a pool is asked alongside its estimates.

use crate::engines::config::CacheConfig;
use crate::engines::profile::Profile;
use crate::questions::provisioned::ProvisionedCache;
use crate::questions::retention::{MAX_TTLS, Ttl};
use crate::questions::routing::{RouterSpec, SpecError};
use crate::questions::worth::WorthQuestion;
use crate::sizing::tiers::is_price;
use crate::units::capacity::{CapacitySize, CapacitySpec};
use crate::units::window::WindowKind;
use serde::{Deserialize, Serialize};

/// Most routers a pool is asked about: each costs as much as the pool's own cache.
pub const MAX_ROUTERS: usize = 8;

/// Most tenants told one by one.
pub const MAX_TOLD_TENANTS: u32 = 100;

/// Most capacities alongside what is asked of each of them: times, tenants and the optimum.
pub const MAX_ASKED_CAPACITIES: usize = 64;

/// Most requests that `last:N` keeps what is asked of.
pub const MAX_LAST_ASKED: u32 = 1 << 16;

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

/// The questions. What is not asked leaves no trace in a fingerprint, so that a new question changes none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Questions {
    /// How the cache in use compares with the modelled one: events carry `cached_tokens`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub measured: bool,
    /// The same where a request of a log states what it found, and not otherwise.
    #[serde(skip)]
    pub measured_where_stated: bool,
    /// What all replicas hold together today, to draw the ledger up at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisioned: Option<CapacitySpec>,
    /// What these routers would give, at most 8.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routers: Vec<RouterSpec>,
    /// What keeping pages for so long would give, at most 16 different ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ttls: Vec<Ttl>,
    /// Who holds the cache: so many tenants one by one, at most 100, and the others as one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenants: Option<u32>,
    /// What perfect foresight would find in windows that end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optimal: bool,
    /// What passes between the planned tiers in windows that end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub traffic: bool,
    /// Tokens that one worker prefills a second, to hold loading against.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill_rate: Option<f64>,
    /// What the cache is worth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worth: Option<WorthQuestion>,
    /// What an emptied cache costs, by hour of the day.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub restarts: bool,
    /// Whether the log ends. A log that does is read without a snapshot.
    #[serde(skip)]
    pub horizon: Horizon,
}

/// A pool as its questions see it.
#[derive(Debug, Clone, Copy)]
pub struct ObservedPool<'a> {
    /// The cache that is modelled.
    pub cache: &'a CacheConfig,
    /// What is asked alongside the estimates.
    pub questions: &'a Questions,
    /// The windows that are published.
    pub windows: &'a [WindowKind],
}

impl<'a> ObservedPool<'a> {
    /// The cache with what is provisioned of it.
    pub fn provisioned(self) -> ProvisionedCache<'a> {
        ProvisionedCache { cache: self.cache, provisioned: self.questions.provisioned.as_ref() }
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
        "`{asked}` needs an engine with one curve, which `profile` {profile} has not: choose another engine, or \
         leave it out"
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
    #[error("`provisioned` is {0}, a size in bytes: set `kv_bytes_per_token`, or give pages (5000p)")]
    BytesWithoutCost(CapacitySpec),
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
        "`{asked}` counts what each request computes, which needs every page: leave `sample_rate` at 1, or leave it out"
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

impl Questions {
    /// How often the answers to what is asked here were mended. Enters the fingerprint of a configuration that asks, so
    /// that a state made by the former rules is not continued under the new ones.
    pub fn revision(&self) -> u32 {
        // 1: requests that found part of their prefix tell restarts; coverage of fixed times to live. 2: replicas along
        // the pool's own stack. 3: a prefill rate says what the cache is worth.
        match self {
            asked if asked.worth.is_some() => 3,
            asked if asked.measured || !asked.routers.is_empty() => 2,
            asked => u32::from(!asked.ttls.is_empty()),
        }
    }

    /// Whether requests that state what they found are compared with the model.
    pub fn compares_measured(&self) -> bool {
        self.measured || self.measured_where_stated
    }

    /// Whether the log ends.
    pub fn is_of_finite_log(&self) -> bool {
        self.horizon == Horizon::Finite
    }

    /// Whether nothing is asked.
    pub fn is_nothing(&self) -> bool {
        self.first().is_none()
    }

    /// The name of something that is asked.
    fn first(&self) -> Option<&'static str> {
        match self {
            _ if self.compares_measured() => Some("measured"),
            _ if !self.routers.is_empty() => Some("routers"),
            _ => self.first_kept(),
        }
    }

    /// The name of something that is kept for each request of a window that requests leave again.
    fn first_kept(&self) -> Option<&'static str> {
        self.first_reuse().or(self.worth.as_ref().map(|_| "prefill_rate"))
    }

    /// The name of something that is asked of an engine with one stack for all capacities.
    fn first_of_a_stack(&self) -> Option<&'static str> {
        if self.routers.is_empty() { self.first_reuse() } else { Some("routers") }
    }

    /// The name of something that is asked about time, tenants, tiers, the optimum or restarts.
    fn first_reuse(&self) -> Option<&'static str> {
        match self {
            _ if !self.ttls.is_empty() => Some("ttls"),
            _ if self.tenants.is_some() => Some("tenants"),
            _ if self.optimal => Some("optimal"),
            _ if self.traffic => Some("traffic"),
            _ if self.restarts => Some("restarts"),
            _ => None,
        }
    }

    /// Whether something is asked of every capacity that allows few of them: of a log that ends it allows any number.
    pub fn needs_few_capacities(&self) -> bool {
        !self.is_of_finite_log()
            && (!self.ttls.is_empty() || self.tenants.is_some() || self.optimal || self.restarts)
    }

    /// Whether it can be answered for a pool that is configured like this.
    ///
    /// # Errors
    /// The first question that cannot.
    pub fn check(&self, pool: &Answerable<'_>) -> Result<(), QuestionsError> {
        self.routers.iter().try_for_each(|router| router.check(pool.has_cost))?;
        if !self.is_of_finite_log() {
            self.check_bounds(pool)?;
        }
        if let Some(asked) = self.first_of_a_stack().filter(|_| pool.is_pointwise) {
            return Err(QuestionsError::NoStack { asked, profile: pool.profile });
        }
        if let Some(asked) = self.first_kept() {
            self.check_kept(asked, pool)?;
        }
        self.check_worth(pool)?;
        if let Some(rate) =
            self.prefill_rate.filter(|rate| !self.traffic || !rate.is_finite() || *rate <= 0.0)
        {
            return Err(QuestionsError::PrefillRate(rate));
        }
        match &self.provisioned {
            Some(spec) if matches!(spec.size, CapacitySize::Bytes(_)) && !pool.has_cost => {
                Err(QuestionsError::BytesWithoutCost(spec.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Refuses what would keep too much of a log that goes on, or what its events do not say.
    fn check_bounds(&self, pool: &Answerable<'_>) -> Result<(), QuestionsError> {
        let routers = self.routers.iter().map(RouterSpec::written).collect::<Vec<_>>();
        check_list("routers", &routers, MAX_ROUTERS)?;
        check_list("ttls", &self.ttls.iter().map(Ttl::to_string).collect::<Vec<_>>(), MAX_TTLS)?;
        if let Some(router) = self.routers.iter().find(|router| router.asks_for_session()) {
            return Err(QuestionsError::NoSession { router: router.written(), replicas: router.replicas });
        }
        let count = pool.capacities;
        match self.first_reuse() {
            Some(asked) if count > MAX_ASKED_CAPACITIES && self.needs_few_capacities() => {
                return Err(QuestionsError::TooManyCapacities { asked, count });
            }
            _ => {}
        }
        match self.tenants {
            Some(most) if !(1..=MAX_TOLD_TENANTS).contains(&most) => Err(QuestionsError::Tenants(most)),
            _ => Ok(()),
        }
    }

    fn check_worth(&self, pool: &Answerable<'_>) -> Result<(), QuestionsError> {
        if self.restarts && pool.is_sampled {
            return Err(QuestionsError::Sampled { asked: "restarts" });
        }
        let Some(WorthQuestion { prices, .. }) = &self.worth else { return Ok(()) };
        for (asked, price) in [("gpu_price", prices.accelerator_hour), ("gib_price", prices.gib_hour)] {
            if let Some(price) = price.filter(|price| !is_price(*price)) {
                return Err(QuestionsError::Price { asked, price });
            }
        }
        match () {
            () if pool.is_sampled => Err(QuestionsError::Sampled { asked: "prefill_rate" }),
            () if prices.gib_hour.is_some() && !pool.has_cost => Err(QuestionsError::PriceWithoutCost),
            () => Ok(()),
        }
    }

    fn check_kept(&self, asked: &'static str, pool: &Answerable<'_>) -> Result<(), QuestionsError> {
        let is_too_long = |window: &&WindowKind| matches!(window, WindowKind::Last { requests } if *requests > MAX_LAST_ASKED);
        if let Some(window) = pool.windows.iter().find(is_too_long) {
            return Err(QuestionsError::TooManyRequests { asked, window: *window });
        }
        match self.traffic && pool.tiers < 2 {
            true => Err(QuestionsError::TooFewTiers(pool.tiers)),
            false => Ok(()),
        }
    }
}

/// Refuses a list that is too long or names something twice.
fn check_list(asked: &'static str, names: &[String], most: usize) -> Result<(), QuestionsError> {
    if names.len() > most {
        return Err(QuestionsError::TooMany { asked, count: names.len(), most });
    }
    let mut places = names.iter().enumerate();
    match places.find(|(index, name)| names[..*index].contains(name)) {
        Some((_, name)) => Err(QuestionsError::Duplicate { asked, name: name.clone() }),
        None => Ok(()),
    }
}
