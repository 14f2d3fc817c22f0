//! Where prompts part, and what stands behind that place again.
//!
//! A cache finds a prompt again as far as it begins as an earlier one does. A clock, a shuffled list or a salt near the
//! front costs all that follows, although that is the same each time. This looks for such places in a log in memory:
//!
//! 1. [`partings`]: a request that leaves all earlier ones, and later goes on as one of them does.
//! 2. [`places`]: partings in one place of one earlier request, with all requests that pass through it.
//! 3. [`families`]: places that make a difference, what they are ([`bodies`], [`kinds`]), and what mending brings, by
//!    replay.
//!
//! Ids are tokens where the log has them, else page ids. Ids that are chained tell of all before them, so nothing can
//! be found behind a parting; then the log's largest shared beginnings are reported, and no more ([`shared`]).

mod bodies;
mod families;
mod kinds;
mod mending;
mod partings;
mod places;
mod shared;

pub use families::{PartsAt, PrefixFamily, PrefixFindings, find};
pub use kinds::PartingKind;
