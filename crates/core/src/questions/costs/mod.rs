//! What computing prompts and holding them costs: what several questions are answered by.

mod rate;

pub use rate::PrefillRate;

use serde::{Deserialize, Serialize};

/// A GiB.
const GIB: f64 = (1_u64 << 30) as f64;

/// Hours of a day.
pub const HOURS_A_DAY: f64 = 24.0;

/// What the operator pays, in one currency.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Prices {
    /// Of an accelerator for an hour: of as much as computes at the prefill rate.
    pub accelerator_hour: Option<f64>,
    /// Of a GiB of cache for an hour.
    pub gib_hour: Option<f64>,
}

impl Prices {
    /// What so many bytes cost a day at a price of a GiB for an hour.
    pub fn memory_a_day(bytes: u64, gib_hour: f64) -> f64 {
        bytes as f64 / GIB * gib_hour * HOURS_A_DAY
    }
}

/// How fast prompts are computed, and what that and memory cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefillCosts {
    /// Tokens that one worker computes a second.
    pub prefill_rate: PrefillRate,
    /// What is paid.
    #[serde(default)]
    pub prices: Prices,
}
