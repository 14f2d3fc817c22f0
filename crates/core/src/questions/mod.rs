//! What a pool answers alongside its curve: whether its cache does as it should, routers, tenants, what passes
//! between tiers, how long pages live, what perfect foresight would find, what the cache is worth, and what an
//! emptied one costs.

/// Gives the questions to a macro. An entry is what the setting means, the byte that begins the question's section of a
/// snapshot, the name of setting, section and answer, the estimate's field that has the answer, where it is one, and
/// what follows requests ([`Question`](question::Question)). Settings of several parts stand flat among the others.
/// Bytes ascend, in the order in which sections are written.
macro_rules! with_questions {
    ($then:ident) => {
        $then! {
            /// How the cache in use compares with the modelled one: events carry `cached_tokens`. Of a log that ends it
            /// is said where a request states what it found.
            0 measured as measured: $crate::questions::measured::MeasuredObserver;
            /// What routers give, at most 8.
            1 routers as routing: $crate::questions::routing::RoutersObserver;
            /// How long pages live, on whose behalf, and what passes between tiers.
            2 reuse (flatten): $crate::questions::reuse::ReuseObserver;
            /// What the cache is worth.
            3 worth as worth: $crate::questions::worth::WorthObserver;
            /// What an emptied cache costs, by hour of the day.
            4 restarts as restarts: $crate::questions::restarts::RestartsObserver;
            /// What each retention class holds and finds.
            5 retention_classes as retention_classes: $crate::questions::retention_classes::RetentionClassesObserver;
            /// What SGLang with a draft head finds at most, of a log of page ids.
            6 draft_range as draft_range: $crate::questions::draft_range::DraftRangeObserver;
            /// How certain what is required is.
            7 certainty as certainty: $crate::questions::certainty::CertaintyObserver;
        }
    };
}
pub(crate) use with_questions;

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
pub mod observers;
pub mod optimum;
pub mod question;
pub mod request_runs;
pub mod restarts;
pub mod retention;
pub mod retention_classes;
pub mod reuse;
pub mod routing;
pub mod tenants;
pub mod traffic;
pub mod worth;
