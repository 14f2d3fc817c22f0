//! What a cache with tiers below is worth, and what an emptied one costs.
//!
//! The figures of worth are those of [`kvset_core::questions::worth`].

pub mod restarts;

use kvset_core::questions::worth::{TierWorth, WorthEstimate};
use serde::Serialize;

/// What a cache with tiers below is worth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorthResult {
    /// The figures.
    #[serde(flatten)]
    pub estimate: WorthEstimate,
    /// Tiers below, from the fastest, as given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierWorth>,
}
