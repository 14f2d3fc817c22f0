//! What passes between the tiers of a plan: how much is read from each and written to it, at the busiest moment and a
//! day.

mod counts;
mod estimate;
mod sights;

use crate::questions::needs::QuestionNeeds;

pub use counts::{PeakTraffic, TierSpan, Traffic};
pub use estimate::{LoadSizes, TierTraffic, TrafficEstimate, TrafficFigures};
pub use sights::Sights;

/// What reporting traffic between tiers needs.
pub const NEEDS: QuestionNeeds = QuestionNeeds {
    setting: "traffic",
    revision: 0,
    one_stack: true,
    few_capacities: false,
    each_request: true,
};
