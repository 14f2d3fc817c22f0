//! What an emptied cache costs: what requests compute again that they would have found.
//!
//! A cache that is emptied at a moment loses, of each later request, the pages that the whole cache would have found and
//! that nobody has touched since that moment. Pages along a prompt were touched ever longer ago, and what lies above a page
//! in the stack was touched after it, so all other hits stay hits. One pass counts every hit by the hour of its last use and
//! the minute in which it is found ([`RestartsTally`]); the loss of a restart at any full hour is a sum of these counts.

mod result;
mod tally;
#[cfg(test)]
mod tests;
mod words;

pub use result::{HourClock, Restart, RestartHour, RestartsAt, RestartsResult, RestartsSize};
pub use tally::{FoundPages, RestartsTally, TooManyRestarts};
pub use words::{columns, rows, sentences, size, title};

/// Minutes of an hour.
const MINUTES: u32 = 60;

const MINUTE_MS: i64 = 60_000;

const HOUR_MS: i64 = 60 * MINUTE_MS;

/// A cache is warm again once this many hundredths are lost of all that a restart loses.
pub const WARM_PERCENT: u64 = 95;
