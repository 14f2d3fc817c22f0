//! Retention classes: what the requests of each class find, and what the cache holds of their pages.
//!
//! A class is how long, or how preferably, a request asks its cache to keep its pages
//! ([`Label::RetentionClass`](crate::request::labels::Label)). It is counted by, and changes nothing that is
//! modelled: no engine's model goes by it. A page is of the class of its last toucher. The counting is that of
//! [`accounts`](super::accounts).

mod estimate;
mod observer;

pub use estimate::{RetentionClassAt, RetentionClassEstimate};
pub use observer::RetentionClassesObserver;

/// Most classes reported one by one.
pub const MAX_CLASSES: usize = 16;
