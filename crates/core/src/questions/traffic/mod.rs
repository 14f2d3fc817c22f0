//! What passes between the tiers of a plan: how much is read from each and written to it, at the busiest moment and a
//! day.

mod counts;
mod estimate;
mod sights;

pub use counts::{PeakTraffic, TierSpan, Traffic};
pub use estimate::{LoadSizes, TierTraffic, TrafficEstimate, TrafficFigures};
pub use sights::Sights;
