//! What an emptied cache costs: tokens that requests compute again and would have found, by hour of the day.
//!
//! A cache that is emptied at a moment loses, of each later request, the pages that the whole cache would have found
//! and that nobody has touched since that moment. Pages along a prompt were touched ever longer ago, and what lies
//! above a page in the stack was touched after it, so all other hits stay hits. Counted are the 24 hours behind a
//! restart: then the loss of a cache that is emptied every day at one hour is the sum of its restarts, and a window
//! that never ends takes no more room than a day. Each hit is counted by the minute in which it is found, the full
//! hours since its last use, and the smallest size that has it ([`RestartsTally`]); the loss of a restart at any full
//! hour is a sum of these counts.

mod estimate;
mod observer;
mod tally;
#[cfg(test)]
mod tests;

pub use estimate::{HourClock, RestartHour, RestartLoss, RestartsAt, RestartsEstimate};
pub use observer::RestartsObserver;
pub use tally::{RestartsShare, RestartsTally, TooManyRestarts};

/// Minutes of an hour.
pub(crate) const MINUTES_AN_HOUR: i64 = 60;

/// Hours of a day.
pub(crate) const HOURS_A_DAY: i64 = 24;

/// Minutes of a day.
const MINUTES_A_DAY: i64 = HOURS_A_DAY * MINUTES_AN_HOUR;

const MINUTE_MS: i64 = 60_000;

/// Milliseconds of an hour.
pub(crate) const HOUR_MS: i64 = MINUTES_AN_HOUR * MINUTE_MS;

/// A cache is warm again once this many hundredths are lost of all that a restart loses.
pub const WARM_PERCENT: u64 = 95;
