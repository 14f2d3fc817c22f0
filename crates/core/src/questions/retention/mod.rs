//! Retention: what a cache finds, and holds, that keeps pages for so long instead of for as long as there is room.
//!
//! Time is that of the pool: the largest event time so far. A page is as old as its last touch; how many pages are
//! not older than `t` is a sum over the youngest requests in the stack, so one pointer a time to live follows it. The
//! age at which a capacity evicts is that of the request in which such a sum passes the capacity.

mod age_table;
mod ages;
mod estimate;
mod fixed;
mod follow;
mod lines;
mod sliding;
mod tally;
#[cfg(test)]
mod tests;
mod ttl;

pub(crate) use age_table::AgeTable;
pub use ages::Ages;
pub use estimate::{
    RetainedCapacityEstimate, RetentionEstimate, RetentionFigures, RetentionKind, TtlCoverage,
};
pub use follow::{Retention, RetentionConfig, RetentionShare};
pub use tally::{RetentionShape, RetentionTally};
pub use ttl::Ttl;

/// Most times to live at once.
pub const MAX_TTLS: usize = 16;

/// Different ages distinguished where a log has an end: 20 MB of them a capacity.
pub const MOST_AGES: u32 = 1 << 20;

/// The same in a window that may go on for ever: 1 MB of them.
pub const MOST_WINDOW_AGES: u32 = 1 << 16;
