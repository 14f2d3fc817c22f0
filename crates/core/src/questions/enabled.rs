//! What a pool answers alongside its estimates.

use crate::engines::config::CacheConfig;
use crate::questions::costs::PrefillCosts;
use crate::questions::needs::QuestionNeeds;
use crate::questions::provisioned::ProvisionedCache;
use crate::questions::question::{Answerable, Horizon, Question, QuestionPool, QuestionsError};
use crate::questions::retention::{MAX_TTLS, Ttl};
use crate::questions::routing::RouterSpec;
use crate::questions::{measured, optimum, retention, routing, tenants, traffic};
use crate::units::PageSize;
use crate::units::capacity::CapacitySpec;
use crate::units::window::WindowKind;
use serde::Serialize;

/// Most routers of a pool: each costs as much as the pool's own cache.
pub const MAX_ROUTERS: usize = 8;

/// Most tenants reported one by one.
pub const MAX_TOLD_TENANTS: u32 = 100;

/// Most capacities where a question is answered at each of them: times, tenants and the optimum.
pub const MAX_ASKED_CAPACITIES: usize = 64;

/// Most requests of `last:N` where something is kept for each of them.
pub const MAX_LAST_ASKED: u32 = 1 << 16;

/// Declares the settings of all questions, and what follows from those with a section.
macro_rules! enabled {
    ($($(#[$doc:meta])+ $mark:literal $question:ident: $Observer:ty;)+) => {
        /// The questions.
        #[derive(Debug, Clone, Default, PartialEq, Serialize)]
        pub struct Questions {
            /// How the cache in use compares with the modelled one: events carry `cached_tokens`.
            pub measured: bool,
            /// The same where a request of a log states what it found, and not otherwise.
            #[serde(skip)]
            pub measured_where_stated: bool,
            /// What all replicas hold together today, to draw the ledger up at.
            pub provisioned: Option<CapacitySpec>,
            /// What these routers would give, at most 8.
            pub routers: Vec<RouterSpec>,
            /// What keeping pages for so long would give, at most 16 different ones.
            pub ttls: Vec<Ttl>,
            /// Who holds the cache: so many tenants one by one, at most 100, and the others as one.
            pub tenants: Option<u32>,
            /// What perfect foresight would find in windows that end.
            pub optimal: bool,
            /// What passes between the planned tiers in windows that end.
            pub traffic: bool,
            /// Tokens that one worker prefills a second, to compare loading with.
            pub prefill_rate: Option<f64>,
            $(
                $(#[$doc])+
                pub $question: <$Observer as Question>::Setting,
            )+
            /// Whether the log ends. A log that does is read without a snapshot.
            #[serde(skip)]
            pub horizon: Horizon,
            /// What computing costs, of a log that ends whose worth is counted with tiers that its pool does not know.
            #[serde(skip)]
            pub costs_of_log: Option<PrefillCosts>,
        }

        impl Questions {
            /// What the enabled questions with a section need.
            fn needs_of_sections(&self) -> impl Iterator<Item = QuestionNeeds> {
                let needs = [$((!is_default(&self.$question)).then_some(<$Observer as Question>::NEEDS)),+];
                needs.into_iter().flatten()
            }

            /// Whether the questions with a section can be answered for such a pool.
            fn check_sections(&self, pool: &Answerable<'_>) -> Result<(), QuestionsError> {
                $(<$Observer as Question>::check(&self.$question, pool)?;)+
                Ok(())
            }
        }
    };
}

with_questions!(enabled);

/// Whether a setting enables nothing.
fn is_default<T: Default + PartialEq>(setting: &T) -> bool {
    *setting == T::default()
}

/// A pool as its questions see it.
#[derive(Debug, Clone, Copy)]
pub struct ObservedPool<'a> {
    /// The cache that is modelled.
    pub cache: &'a CacheConfig,
    /// The questions alongside the estimates.
    pub questions: &'a Questions,
    /// The windows that are published.
    pub windows: &'a [WindowKind],
}

impl<'a> ObservedPool<'a> {
    /// The cache with what is provisioned of it.
    pub fn provisioned(self) -> ProvisionedCache<'a> {
        ProvisionedCache { cache: self.cache, provisioned: self.questions.provisioned.as_ref() }
    }

    /// The same as the questions of the list follow it, at capacities that can be known.
    pub fn followed(self, capacities: &'a [u64], page_size: PageSize) -> QuestionPool<'a> {
        let costs = self.questions.worth.as_ref().or(self.questions.costs_of_log.as_ref());
        QuestionPool { cache: self.provisioned(), costs, capacities, page_size }
    }
}

impl Questions {
    /// What the enabled questions need, in the order in which they are named where one cannot be answered.
    fn needs(&self) -> impl Iterator<Item = QuestionNeeds> {
        // What is compared only where a log states it leaves no trace in a fingerprint.
        let revision = if self.measured { measured::NEEDS.revision } else { 0 };
        let before_sections = [
            (self.compares_measured(), QuestionNeeds { revision, ..measured::NEEDS }),
            (!self.routers.is_empty(), routing::NEEDS),
            (!self.ttls.is_empty(), retention::NEEDS),
            (self.tenants.is_some(), tenants::NEEDS),
            (self.optimal, optimum::NEEDS),
            (self.traffic, traffic::NEEDS),
        ];
        let enabled =
            before_sections.into_iter().filter_map(|(is_enabled, needs)| is_enabled.then_some(needs));
        enabled.chain(self.needs_of_sections())
    }

    /// How often the answers to what is enabled here were mended. Enters the fingerprint of a configuration that
    /// enables it, so that a state made by the former rules is not continued under the new ones.
    pub fn revision(&self) -> u32 {
        self.needs().map(|needs| needs.revision).max().unwrap_or_default()
    }

    /// Whether requests that state what they found are compared with the model.
    pub fn compares_measured(&self) -> bool {
        self.measured || self.measured_where_stated
    }

    /// Whether the log ends.
    pub fn is_of_finite_log(&self) -> bool {
        self.horizon == Horizon::Finite
    }

    /// Whether no question is enabled.
    pub fn is_nothing(&self) -> bool {
        self.needs().next().is_none()
    }

    /// The name of an enabled question for an engine with one stack for all capacities.
    pub fn first_of_a_stack(&self) -> Option<&'static str> {
        self.first(|needs| needs.one_stack)
    }

    /// The name of the first enabled question that needs this.
    fn first(&self, is_needed: impl FnMut(&QuestionNeeds) -> bool) -> Option<&'static str> {
        self.needs().find(is_needed).map(|needs| needs.setting)
    }

    /// Whether something is asked of every capacity that allows few of them: of a log that ends it allows any number.
    pub fn needs_few_capacities(&self) -> bool {
        self.first_of_few_capacities().is_some_and(|_| !self.is_of_finite_log())
    }

    /// The name of an enabled question that every capacity answers.
    fn first_of_few_capacities(&self) -> Option<&'static str> {
        self.first(|needs| needs.few_capacities)
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
        if let Some(asked) = self.first(|needs| needs.each_request) {
            self.check_kept(asked, pool)?;
        }
        self.check_sections(pool)?;
        if let Some(rate) =
            self.prefill_rate.filter(|rate| !self.traffic || !rate.is_finite() || *rate <= 0.0)
        {
            return Err(QuestionsError::PrefillRate(rate));
        }
        let mut provisioned = self.provisioned.iter();
        Ok(provisioned.try_for_each(|size| size.check("provisioned", pool.has_cost))?)
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
        if let Some(asked) = self.first_of_few_capacities().filter(|_| count > MAX_ASKED_CAPACITIES) {
            return Err(QuestionsError::TooManyCapacities { asked, count });
        }
        match self.tenants {
            Some(most) if !(1..=MAX_TOLD_TENANTS).contains(&most) => Err(QuestionsError::Tenants(most)),
            _ => Ok(()),
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
