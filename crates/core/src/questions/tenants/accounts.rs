//! Tenants by rank, in the figures that are published.

use super::estimate::{OTHER, TenantCoverage, TenantEstimate, TenantRequired};
use super::names::TenantId;
use super::tally::TenantTally;
use crate::engines::config::CacheConfig;
use crate::request::outcome::BEYOND;
use crate::sizing::coverage::Distribution;
use crate::stack::needs::Needs;
use crate::units::ratio::Ratio;
use crate::units::{PageBytes, PageCount};
use std::cmp::Reverse;

/// The largest whole number of the published formats.
const MOST: u64 = i64::MAX as u64;

/// What accounts are published with.
#[derive(Debug, Clone, Copy)]
pub(super) struct TenantFigures<'a> {
    /// The pool's configuration.
    pub(super) config: &'a CacheConfig,
    /// Bytes per page, where a cost per token is known.
    pub(super) page_bytes: Option<PageBytes>,
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

    /// The account of the tenant of this name, or of so many others together, as it is published.
    fn estimate(
        &self,
        name: Option<String>,
        others: Option<u64>,
        figures: TenantFigures<'_>,
    ) -> TenantEstimate {
        let (tally, rate) = (&self.tally, figures.config.sample_rate);
        let whole = |pages: u64| rate.whole_of(pages);
        let cold_pages = whole(tally.page_accesses - tally.reusable);
        let published = |held: &u128| u64::try_from(rate.wide_whole_of(*held)).unwrap_or(MOST).min(MOST);
        let required = tally.needs.iter().zip(&figures.config.target_ratios);
        TenantEstimate {
            tenant: others.map(|_| OTHER.to_owned()).or(name),
            tenants: others,
            requests: tally.requests,
            page_accesses: whole(tally.page_accesses),
            page_hits: whole(tally.reusable),
            cold_pages,
            cold_bytes: figures.bytes(cold_pages),
            capacity_page_hits: tally.hits.iter().map(|hits| whole(*hits)).collect(),
            page_milliseconds: self.page_milliseconds.iter().map(published).collect(),
            required: required
                .map(|(needs, target)| figures.required(needs, *target, tally.requests))
                .collect(),
        }
    }
}

impl TenantFigures<'_> {
    fn bytes(self, pages: u64) -> Option<u64> {
        self.page_bytes.map(|page| PageCount(pages).bytes(page).0)
    }

    fn required(self, needs: &Needs, target_ratio: Ratio, requests: u64) -> TenantRequired {
        let distribution = Distribution::new(needs, requests);
        let coverage = |coverage: &Ratio| {
            let need = distribution.quantile(*coverage).filter(|need| *need != BEYOND);
            let pages = need.map(|need| self.config.nominal_pages(need));
            TenantCoverage { coverage: *coverage, pages, bytes: pages.and_then(|pages| self.bytes(pages)) }
        };
        TenantRequired { target_ratio, coverage: self.config.coverages.iter().map(coverage).collect() }
    }
}

/// The first `most` of the tenants, and all others as one.
pub(super) fn ranked(
    accounts: Vec<Account>,
    most: usize,
    figures: TenantFigures<'_>,
    name: impl Fn(TenantId) -> Option<String>,
) -> Vec<TenantEstimate> {
    let (later, mut told): (Vec<_>, Vec<_>) =
        accounts.into_iter().filter(|account| !account.is_empty()).partition(|a| a.id == TenantId::LATER);
    told.sort_by_cached_key(|account| (account.rank(), name(account.id)));
    let others = told.split_off(most.min(told.len()));
    let mut results: Vec<_> =
        told.iter().map(|account| account.estimate(name(account.id), None, figures)).collect();
    let count = others.len() as u64;
    if let Some(other) = later.into_iter().chain(others).reduce(|sum, next| sum.merge(&next)) {
        results.push(other.estimate(None, Some(count), figures));
    }
    results
}
