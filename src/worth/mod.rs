//! What a cache is worth: prefill that is not computed, in accelerator-hours and money, and time to the first token.
//!
//! A token at position `x` of a prompt takes `1 / rate(x)` seconds of one prefill worker ([`PrefillRate`]); a request
//! computes the tokens behind what it finds. Sums over requests are accelerator-hours. Nothing here knows of queues,
//! batches or decoding: it is prefill time, and no throughput.

mod rate;
mod result;
mod tally;
pub mod words;

pub use rate::{PrefillRate, RateError};
pub use result::{Prices, TimeToFirstToken, WorthAt, WorthResult};
pub use tally::{WorthTally, WorthTooLarge};
