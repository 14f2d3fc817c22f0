//! What splits by quota cost, as scripts read it.

use crate::replay::Replay;
use kvset_core::questions::tenants::QuotaResult;
use kvset_core::sizing::curve::share;
use serde::Serialize;

/// What a split by quota gives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuotaOutput {
    /// The split, as it was written.
    pub quota: String,
    /// Tenants with a share that no request names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<String>,
    /// One entry per capacity.
    pub capacities: Vec<QuotaCapacityOutput>,
}

/// One capacity, split and shared. Numbers beyond the tracked bound are `null`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QuotaCapacityOutput {
    /// All parts together.
    pub pages: u64,
    /// Hits of the parts.
    pub page_hits: Option<u64>,
    /// Hits of one cache shared by all.
    pub shared_page_hits: Option<u64>,
    /// What the split loses, as a share of the pages accessed; negative where it wins.
    pub lost: Option<f64>,
}

impl QuotaOutput {
    /// The output of a split.
    pub fn of(found: &QuotaResult, replay: &Replay) -> Self {
        let whole = replay.whole.as_ref();
        let shared = whole.map(|all| all.capacities.as_slice()).unwrap_or_default();
        let accesses = whole.map_or(0, |all| all.page_accesses);
        let capacities =
            found.capacities.iter().zip(shared).map(|((pages, page_hits), shared)| QuotaCapacityOutput {
                pages: *pages,
                page_hits: *page_hits,
                shared_page_hits: shared.page_hits,
                lost: page_hits
                    .zip(shared.page_hits)
                    .map(|(split, all)| share(all, accesses) - share(split, accesses)),
            });
        Self {
            quota: found.quota.to_string(),
            unused: found.unused.clone(),
            capacities: capacities.collect(),
        }
    }
}
