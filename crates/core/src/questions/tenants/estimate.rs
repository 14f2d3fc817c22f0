//! What each tenant holds and gets, as it is published.

use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize};

/// What all tenants are called that are not reported one by one.
pub const OTHER: &str = "other";

/// One tenant, or all that are not reported one by one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TenantEstimate {
    /// Its name; absent for requests that name nobody, `other` for all others together.
    pub tenant: Option<String>,
    /// How many tenants `other` stands for; those beyond 4,096 are not among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenants: Option<u64>,
    /// Requests counted.
    pub requests: u64,
    /// Pages they accessed.
    pub page_accesses: u64,
    /// Hits with unlimited capacity.
    pub page_hits: u64,
    /// Accesses of pages never seen before.
    pub cold_pages: u64,
    /// The same in bytes, where a cost per token is known.
    pub cold_bytes: Option<u64>,
    /// Hits, one a capacity that can be known.
    pub capacity_page_hits: Vec<u64>,
    /// Pages held, times milliseconds, one a capacity that can be known: since the first request that counts, so the
    /// difference of two estimates is what was held between them.
    pub page_milliseconds: Vec<u64>,
    /// The capacity of the shared cache that is enough for its requests, one entry per target ratio.
    pub required: Vec<TenantRequired>,
}

/// The requirement at one target ratio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TenantRequired {
    /// Share of the reusable prefix a request must find.
    pub target_ratio: Ratio,
    /// Exact quantiles.
    pub coverage: Vec<TenantCoverage>,
}

/// The capacity that is enough for a share of a tenant's requests; absent beyond the tracked bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TenantCoverage {
    /// The share.
    pub coverage: Ratio,
    /// In pages.
    pub pages: Option<u64>,
    /// In bytes, where a cost per token is known.
    pub bytes: Option<u64>,
}
