//! From requirement to hardware: the tier plan, whether the requirement has settled, and when what automation
//! follows may change.
//!
//! - [`plan`](plan()): how many units of each tier cover the required shares of requests, what hit rate
//!   that buys, and what one unit more would.
//! - [`Convergence`]: whether the requirement still grows; a growing one is no number to buy by.
//! - [`Hysteresis`]: keeps automation downstream from following every wobble.
//! - [`Steps`]: which windows are new evidence for these two.
//!
//! [`Trend`] holds the trackers of one kind of window, [`publish`] makes of them and the plan what an
//! estimate publishes.
//!
//! All are pure; the trackers are plain data that a snapshot can hold.

mod config;
mod convergence;
mod hysteresis;
mod plan;
mod published;
mod steps;
mod trend;

pub use config::{TrendRules, is_price, is_tier_name};
pub use convergence::{Convergence, ConvergenceVerdict, Settled};
pub use hysteresis::Hysteresis;
pub use plan::{CapacityUnit, Inclusion, NextUnit, Purchase, TierConfig, cost, plan};
pub use published::{TierEstimate, TierEstimates, publish};
pub use steps::{Evidence, Steps};
pub use trend::{Requirements, Standing, Trend};
