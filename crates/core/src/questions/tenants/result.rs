//! What each tenant holds and gets, in whole pages.

use super::names::TenantId;
use super::tally::TenantTally;
use crate::estimate::coverage::Distribution;
use crate::pool::config::PoolConfig;
use crate::request::outcome::BEYOND;
use crate::stack::needs::Needs;
use crate::units::ratio::Ratio;
use std::cmp::Reverse;

/// One tenant, or all that are not told one by one. Pages are whole pages: sampled counts are scaled up.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantResult {
    /// Its name; none of requests that name nobody, and of the others together.
    pub name: Option<String>,
    /// Tenants that are told together here, where they are.
    pub others: Option<u64>,
    /// Requests counted.
    pub requests: u64,
    /// Those with something to reuse.
    pub requests_with_reuse: u64,
    /// Pages they accessed.
    pub page_accesses: u64,
    /// Hits with unlimited capacity.
    pub page_hits: u64,
    /// Accesses of pages never seen before.
    pub cold_pages: u64,
    /// Hits, one a capacity that can be told.
    pub hits: Vec<u64>,
    /// Pages of the tenant held, times milliseconds, one a capacity that can be told.
    pub page_milliseconds: Vec<u128>,
    /// The capacity that is enough for its requests in the shared cache, one a target ratio.
    pub required: Vec<TenantRequirement>,
}

/// The requirement at one target ratio.
#[derive(Debug, Clone, PartialEq)]
pub struct TenantRequirement {
    /// Share of the reusable prefix that a request must find.
    pub target_ratio: Ratio,
    /// Exact quantiles.
    pub coverage: Vec<TenantQuantile>,
}

/// The capacity that is enough for a share of a tenant's requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TenantQuantile {
    /// The share.
    pub coverage: Ratio,
    /// `None` beyond the tracked bound, and without requests.
    pub pages: Option<u64>,
}

/// One tenant's figures in followed pages.
pub(super) struct Account {
    pub(super) id: TenantId,
    pub(super) tally: TenantTally,
    pub(super) page_milliseconds: Vec<u128>,
}

impl Account {
    /// Who holds the most of the largest capacity comes first, then who accesses the most.
    fn rank(&self) -> Reverse<(u128, u64)> {
        Reverse((self.page_milliseconds.last().copied().unwrap_or(0), self.tally.page_accesses))
    }

    fn is_empty(&self) -> bool {
        self.tally.requests == 0 && self.page_milliseconds.iter().all(|held| *held == 0)
    }

    fn merge(mut self, other: &Self) -> Self {
        self.tally.merge(&other.tally);
        self.page_milliseconds.iter_mut().zip(&other.page_milliseconds).for_each(|(sum, held)| *sum += held);
        self
    }

    fn result(&self, name: Option<String>, others: Option<u64>, config: &PoolConfig) -> TenantResult {
        let (tally, rate) = (&self.tally, config.sample_rate);
        let whole = |pages: u64| rate.whole_of(pages);
        let required = tally.needs.iter().zip(&config.target_ratios);
        TenantResult {
            name,
            others,
            requests: tally.requests,
            requests_with_reuse: tally.with_reuse,
            page_accesses: whole(tally.page_accesses),
            page_hits: whole(tally.reusable),
            cold_pages: whole(tally.page_accesses - tally.reusable),
            hits: tally.hits.iter().map(|hits| whole(*hits)).collect(),
            page_milliseconds: self.page_milliseconds.iter().map(|held| rate.wide_whole_of(*held)).collect(),
            required: required
                .map(|(needs, target)| requirement(needs, *target, tally.requests, config))
                .collect(),
        }
    }
}

fn requirement(needs: &Needs, target_ratio: Ratio, requests: u64, config: &PoolConfig) -> TenantRequirement {
    let distribution = Distribution::new(needs, requests);
    let quantile = |coverage: &Ratio| {
        let need = distribution.quantile(*coverage).filter(|need| *need != BEYOND);
        TenantQuantile { coverage: *coverage, pages: need.map(|need| config.nominal_pages(need)) }
    };
    TenantRequirement { target_ratio, coverage: config.coverages.iter().map(quantile).collect() }
}

/// The first `most` of the tenants, and all others as one.
pub(super) fn ranked(
    accounts: Vec<Account>,
    most: usize,
    config: &PoolConfig,
    name: impl Fn(TenantId) -> Option<String>,
) -> Vec<TenantResult> {
    let (later, mut told): (Vec<_>, Vec<_>) =
        accounts.into_iter().filter(|account| !account.is_empty()).partition(|a| a.id == TenantId::LATER);
    told.sort_by_cached_key(|account| (account.rank(), name(account.id)));
    let others = told.split_off(most.min(told.len()));
    let mut results: Vec<_> =
        told.iter().map(|account| account.result(name(account.id), None, config)).collect();
    let count = others.len() as u64;
    if let Some(other) = later.into_iter().chain(others).reduce(|sum, next| sum.merge(&next)) {
        results.push(other.result(None, Some(count), config));
    }
    results
}
