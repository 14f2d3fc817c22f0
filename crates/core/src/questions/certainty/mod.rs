//! How certain requirements are, of a log that goes on: what they would be with other conversations at the same hours.
//!
//! A delete-a-group jackknife ([`families::certainty`](crate::families::certainty)) in one pass. The conversations are
//! told by the tree of pages and dealt into [`GROUPS`](crate::families::certainty::GROUPS). Of each group there is the
//! cache that serves everybody else: it follows the pool's own stack, as replicas do, so no page is hashed again and
//! none is left to a sample. A window has the requirements of each of these caches, and the interval is what they
//! spread to.

mod conversations;
mod observer;
mod tally;
#[cfg(test)]
mod tests;

pub use observer::CertaintyObserver;
