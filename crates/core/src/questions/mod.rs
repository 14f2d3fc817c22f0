//! What a pool answers alongside its curve: whether its cache does as it should, routers, tenants, what passes
//! between tiers, how long pages live, what perfect foresight would find, what the cache is worth, and what an
//! emptied one costs.

/// Gives the questions that have a section of their own to a macro. An entry is what the setting means, the byte that
/// begins the question's section of a snapshot, the name of setting, section and field of the estimate, and what
/// follows requests ([`Question`](question::Question)). Bytes ascend, in the order in which sections are written.
///
/// The questions that were there before sections keep their place in snapshots, in [`observers`]; what they need is
/// declared in the folder of each, and listed in [`enabled`].
macro_rules! with_questions {
    ($then:ident) => {
        $then! {
            /// What the cache is worth.
            3 worth: $crate::questions::worth::WorthObserver;
            /// What an emptied cache costs, by hour of the day.
            4 restarts: $crate::questions::restarts::RestartsObserver;
            /// What each retention class holds and finds.
            5 retention_classes: $crate::questions::retention_classes::RetentionClassesObserver;
            /// What SGLang with a draft head finds at most, of a log of page ids.
            6 draft_range: $crate::questions::draft_range::DraftRangeObserver;
            /// How certain what is required is.
            7 certainty: $crate::questions::certainty::CertaintyObserver;
        }
    };
}
pub(crate) use with_questions;

pub mod accepted;
pub mod accounts;
pub mod answer_reuse;
pub mod certainty;
pub mod costs;
pub mod counters;
pub mod draft_range;
pub mod enabled;
pub mod generated;
pub mod lifetimes;
pub mod measured;
pub mod needs;
pub mod observers;
pub mod optimum;
pub mod provisioned;
pub mod question;
pub mod request_runs;
pub mod restarts;
pub mod retention;
pub mod retention_classes;
pub mod routing;
pub mod sizes;
pub mod tenants;
pub mod traffic;
pub mod worth;
