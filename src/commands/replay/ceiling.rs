//! What the rules of a hybrid model lose at any size.

use crate::replay::Ceiling;
use kvset_core::estimate::curve::share;
use serde::Serialize;

/// Hit rates of a hybrid model with unlimited capacity: what its rules lose at any size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CeilingResult {
    /// Page hits.
    pub page_hits: Ceiling,
    /// If every layer had full attention.
    pub full_attention_hit_rate: f64,
    /// By the rules modelled.
    pub these_rules_hit_rate: f64,
    /// If windows and states kept all their names.
    pub dense_retention_hit_rate: f64,
}

impl CeilingResult {
    /// The rates of so many page accesses.
    pub fn of(found: Ceiling, page_accesses: u64) -> Self {
        Self {
            page_hits: found,
            full_attention_hit_rate: share(found.full_attention, page_accesses),
            these_rules_hit_rate: share(found.these_rules, page_accesses),
            dense_retention_hit_rate: share(found.dense_retention, page_accesses),
        }
    }
}
