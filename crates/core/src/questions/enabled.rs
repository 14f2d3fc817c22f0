//! What a pool answers alongside its estimates.

use crate::engines::config::CacheConfig;
use crate::questions::costs::PrefillCosts;
use crate::questions::question::{
    Answerable, Horizon, ProvisionedCache, Question, QuestionNeeds, QuestionPool, QuestionsError,
};
use crate::units::PageSize;
use crate::units::capacity::CapacitySpec;
use crate::units::window::WindowKind;
use serde::Serialize;

/// Most capacities where a question is answered at each of them: times, tenants and the optimum.
pub const MAX_ASKED_CAPACITIES: usize = 64;

/// Most requests of `last:N` where something is kept for each of them.
pub const MAX_LAST_ASKED: u32 = 1 << 16;

/// Declares the settings of all questions, and what follows from them.
macro_rules! enabled {
    ($($(#[$doc:meta])+ $mark:literal $question:ident $(as $field:ident)? $(($how:ident))?: $Observer:ty;)+) => {
        /// The questions.
        #[derive(Debug, Clone, Default, PartialEq, Serialize)]
        pub struct Questions {
            /// What all replicas hold together today, to draw the ledger up at.
            pub provisioned: Option<CapacitySpec>,
            $(
                $(#[$doc])+
                $(#[serde($how)])?
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
            /// What the enabled questions need, in the order in which they are named where one cannot be answered.
            fn needs(&self) -> impl Iterator<Item = QuestionNeeds> {
                let needs = [$(<$Observer as Question>::needs(&self.$question, self.horizon)),+];
                needs.into_iter().flatten()
            }

            /// Whether each can be answered for such a pool.
            fn check_each(&self, pool: &Answerable<'_>) -> Result<(), QuestionsError> {
                $(<$Observer as Question>::check(&self.$question, pool)?;)+
                Ok(())
            }
        }
    };
}

with_questions!(enabled);

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

    /// The same as its questions follow it, at capacities that can be known.
    pub fn followed(self, capacities: &'a [u64], page_size: PageSize) -> QuestionPool<'a> {
        let Questions { worth, costs_of_log, horizon, .. } = self.questions;
        let costs = worth.as_ref().or(costs_of_log.as_ref());
        let (cache, windows, horizon) = (self.provisioned(), self.windows, *horizon);
        QuestionPool { cache, costs, capacities, page_size, windows, horizon }
    }
}

impl Questions {
    /// How often the answers to what is enabled here were mended. Enters the fingerprint of a configuration that
    /// enables it, so that a state made by the former rules is not continued under the new ones.
    pub fn revision(&self) -> u32 {
        self.needs().map(|needs| needs.revision).max().unwrap_or_default()
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
        let (goes_on, count) = (!self.is_of_finite_log(), pool.capacities);
        let is_of_too_many = |_: &&str| goes_on && count > MAX_ASKED_CAPACITIES;
        if let Some(asked) = self.first_of_few_capacities().filter(is_of_too_many) {
            return Err(QuestionsError::TooManyCapacities { asked, count });
        }
        if let Some(asked) = self.first_of_a_stack().filter(|_| pool.is_pointwise) {
            return Err(QuestionsError::NoStack { asked, profile: pool.profile });
        }
        let is_too_long = |window: &&WindowKind| matches!(window, WindowKind::Last { requests } if *requests > MAX_LAST_ASKED);
        let asked = self.first(|needs| needs.each_request);
        if let Some((asked, window)) = asked.zip(pool.windows.iter().find(is_too_long)) {
            return Err(QuestionsError::TooManyRequests { asked, window: *window });
        }
        self.check_each(pool)?;
        let mut provisioned = self.provisioned.iter();
        Ok(provisioned.try_for_each(|size| size.check("provisioned", pool.has_cost))?)
    }
}

/// Whether nothing is said.
pub(super) fn is_default<T: Default + PartialEq>(answer: &T) -> bool {
    *answer == T::default()
}
