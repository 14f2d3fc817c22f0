//! What a cache is worth: prefill that is not computed, in accelerator-hours and money, and time to the first token.
//!
//! A token at position `x` of a prompt takes `1 / rate(x)` seconds of one prefill worker ([`PrefillRate`]); a request
//! computes the tokens behind what it finds, in the cache and in tiers below it; what lies in a tier is loaded over
//! the tier's link. Sums over requests of what is computed are accelerator-hours. Nothing here knows of queues,
//! batches or decoding: it is prefill time, and no throughput.

mod estimate;
mod observer;
mod tally;
#[cfg(test)]
mod tests;

pub use estimate::{CoverageWorth, TierWorth, TimeToFirstToken, WorthAt, WorthBasis, WorthEstimate};
pub use observer::WorthObserver;
pub use tally::{WorthShare, WorthTally};
