//! From requirement to hardware: the tier plan, whether the requirement has settled, and when a
//! recommendation may change.
//!
//! - [`plan`](plan()): how many units of each tier cover the required shares of requests, what hit rate
//!   that buys, and what one unit more would.
//! - [`Convergence`]: whether the requirement still grows; a growing one is no number to buy by.
//! - [`Hysteresis`]: keeps automation downstream from following every wobble.
//!
//! All are pure; the two trackers are plain data that a snapshot can hold.

mod convergence;
mod curve;
mod hysteresis;
mod plan;

pub use convergence::{Convergence, Settled, Verdict};
pub use curve::{CurvePoint, HitCurve, PointCurve};
pub use hysteresis::{Hysteresis, Recommendation};
pub use plan::{Inclusion, NextUnit, PlanInput, PlannedTier, TierPlan, TierSpec, Unit, plan};
