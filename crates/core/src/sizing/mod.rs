//! From counts to sizes: the hit-rate curve, the capacity that covers a share of the requests, what is recommended,
//! and how many units of each tier to buy.

pub mod coverage;
pub mod curve;
pub mod exact_curve;
pub mod figures;
pub mod prompts;
pub mod recommendation;
pub mod tiers;
