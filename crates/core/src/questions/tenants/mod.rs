//! Attribution to tenants: whose pages the cache holds, for how long, and what each tenant gets from it.
//!
//! [`accounts`](super::accounts) follow and count it: here is what an estimate says of it.

#[cfg(test)]
mod tests;

use crate::engines::config::CacheConfig;
use crate::questions::accounts::RankedAccount;
use crate::request::outcome::BEYOND;
use crate::sizing::coverage::Distribution;
use crate::sizing::figures::{CoverageSize, Required};
use crate::stack::needs::Needs;
use crate::units::ratio::Ratio;
use crate::units::{PageBytes, PageCount};
use serde::{Deserialize, Serialize};

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
    pub required: Vec<Required<CoverageSize>>,
}

impl TenantEstimate {
    /// What is published of an account, by the pool's configuration and, where a cost per token is known, bytes per
    /// page.
    pub(in crate::questions) fn of(
        account: &RankedAccount,
        config: &CacheConfig,
        page_bytes: Option<PageBytes>,
    ) -> Self {
        let (tally, rate) = (&account.tally, config.sample_rate);
        let whole = |pages: u64| rate.whole_of(pages);
        let cold_pages = whole(tally.page_accesses - tally.reusable);
        let required = tally.needs.iter().zip(&config.target_ratios);
        let required = required.map(|(needs, target)| {
            let coverage = covering(needs, tally.requests, config, page_bytes);
            Required { target_ratio: *target, coverage }
        });
        Self {
            tenant: account.name.clone(),
            tenants: account.others,
            requests: tally.requests,
            page_accesses: whole(tally.page_accesses),
            page_hits: whole(tally.reusable),
            cold_pages,
            cold_bytes: page_bytes.map(|page| PageCount(cold_pages).bytes(page).0),
            capacity_page_hits: tally.hits.iter().map(|hits| whole(*hits)).collect(),
            page_milliseconds: account.page_milliseconds(rate).collect(),
            required: required.collect(),
        }
    }
}

/// What covers each share of an account's requests.
fn covering(
    needs: &Needs,
    requests: u64,
    config: &CacheConfig,
    page_bytes: Option<PageBytes>,
) -> Vec<CoverageSize> {
    let distribution = Distribution::new(needs, requests);
    let coverage = |coverage: &Ratio| {
        let need = distribution.quantile(*coverage).filter(|need| *need != BEYOND);
        let pages = need.map(|need| config.nominal_pages(need));
        let bytes = pages.zip(page_bytes).map(|(pages, page)| PageCount(pages).bytes(page).0);
        CoverageSize { coverage: *coverage, pages, bytes }
    };
    config.coverages.iter().map(coverage).collect()
}
