//! What each tenant holds and gets, as it is published.

use super::{TenantRequirement, TenantResult};
use crate::units::ratio::Ratio;
use crate::units::{PageBytes, PageCount};
use serde::{Deserialize, Serialize};

/// What all tenants are called that are not told one by one.
pub const OTHER: &str = "other";

/// The largest whole number of the published formats.
const MOST: u64 = i64::MAX as u64;

/// One tenant, or all that are not told one by one.
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
    /// The same in bytes, where a cost a token is known.
    pub cold_bytes: Option<u64>,
    /// Hits, one a capacity that can be told.
    pub capacity_page_hits: Vec<u64>,
    /// Pages held, times milliseconds, one a capacity that can be told: since the first request that counts, so the
    /// difference of two estimates is what was held between them.
    pub page_milliseconds: Vec<u64>,
    /// The capacity of the shared cache that is enough for its requests, one entry a target ratio.
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
    /// In bytes, where a cost a token is known.
    pub bytes: Option<u64>,
}

impl TenantEstimate {
    /// A tenant's result where a page takes so many bytes.
    pub fn of(found: &TenantResult, page_bytes: Option<PageBytes>) -> Self {
        let size = |pages: u64| page_bytes.map(|page| PageCount(pages).bytes(page).0);
        let required = |required: &TenantRequirement| TenantRequired {
            target_ratio: required.target_ratio,
            coverage: required
                .coverage
                .iter()
                .map(|found| TenantCoverage {
                    coverage: found.coverage,
                    pages: found.pages,
                    bytes: found.pages.and_then(size),
                })
                .collect(),
        };
        let published = |held: &u128| u64::try_from(*held).unwrap_or(MOST).min(MOST);
        Self {
            tenant: found.others.map(|_| OTHER.to_owned()).or_else(|| found.name.clone()),
            tenants: found.others,
            requests: found.requests,
            page_accesses: found.page_accesses,
            page_hits: found.page_hits,
            cold_pages: found.cold_pages,
            cold_bytes: size(found.cold_pages),
            capacity_page_hits: found.hits.clone(),
            page_milliseconds: found.page_milliseconds.iter().map(published).collect(),
            required: found.required.iter().map(required).collect(),
        }
    }
}
