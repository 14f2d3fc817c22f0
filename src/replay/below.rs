//! `--below`: tiers under the engine's own cache, at every capacity of its curve.

use kvset_core::capacity::CapacitySpec;
use kvset_core::chain::{Chain, Store};
use kvset_core::engine_rules::{EngineRules, PageMismatch};
use kvset_core::event::RequestEvent;
use kvset_core::pool::Pool;
use kvset_core::profile::Profile;
use kvset_core::units::PageCount;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A tier that is asked for, such as `lmcache:500GiB`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Below {
    /// Whose rules it keeps to.
    pub store: Store,
    /// How large it is.
    pub capacity: CapacitySpec,
}

impl FromStr for Below {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "`{text}` is no tier: expected lmcache:SIZE, lmcache-mp:SIZE or mooncake:SIZE, such as lmcache:500GiB"
            )
        };
        let (name, size) = text.split_once(':').ok_or_else(expected)?;
        let store = name.parse::<Profile>().ok().and_then(Store::of_profile).ok_or_else(expected)?;
        Ok(Self { store, capacity: size.parse().map_err(|error| format!("{text}: {error}"))? })
    }
}

impl fmt::Display for Below {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.store.profile(), self.capacity)
    }
}

/// What the tiers found under one capacity of the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BelowHits {
    /// The tier, as it was asked for.
    pub tier: String,
    /// Its capacity, in pages.
    pub pages: u64,
    /// Pages that it found and no tier above it.
    pub page_hits: u64,
}

/// Follows a replay.
#[derive(Debug)]
pub(super) struct Tiers {
    asked: Vec<Below>,
    rules: EngineRules,
    /// In pages, once a page's bytes are known.
    pages: Vec<u64>,
    /// One a capacity of the engine.
    chains: Vec<Chain>,
    /// Hits of the requests that count, by capacity and tier.
    found: Vec<Vec<u64>>,
}

impl Tiers {
    /// Tiers that have seen nothing; none where none are asked for.
    pub(super) fn new(asked: &[Below], rules: &EngineRules) -> Option<Self> {
        (!asked.is_empty()).then(|| Self {
            asked: asked.to_vec(),
            rules: rules.clone(),
            pages: Vec::new(),
            chains: Vec::new(),
            found: Vec::new(),
        })
    }

    /// Takes the request in that the pool took last.
    pub(super) fn observe(
        &mut self,
        pool: &Pool,
        event: &RequestEvent<'_>,
        counted: bool,
    ) -> Result<(), PageMismatch> {
        let (Some(page_size), Some((outcome, curve))) = (pool.page_size(), pool.last_request()) else {
            return Ok(());
        };
        if self.pages.is_empty() {
            let page_bytes = pool.page_bytes();
            let pages = |below: &Below| below.capacity.pages(page_bytes).map_or(0, |pages| pages.0);
            self.pages = self.asked.iter().map(pages).collect();
            let stores = self.asked.iter().map(|below| below.store);
            let tiers: Vec<_> = stores.zip(self.pages.iter().copied().map(PageCount)).collect();
            for _ in curve.thresholds() {
                self.chains.push(Chain::new(&tiers, &self.rules, page_size)?);
                self.found.push(vec![0; tiers.len()]);
            }
        }
        let thresholds = curve.thresholds().iter().enumerate();
        let above = |(at, threshold): (usize, &u64)| match pool.caches() {
            Some(caches) => caches.last_hits().get(at).copied().unwrap_or(0),
            None => outcome.hits_at(*threshold),
        };
        for ((chain, found), above) in self.chains.iter_mut().zip(&mut self.found).zip(thresholds.map(above))
        {
            let hits = chain.request(event, above);
            if counted {
                found.iter_mut().zip(hits).for_each(|(sum, hits)| *sum += hits);
            }
        }
        Ok(())
    }

    /// What the tiers found of the last request, by capacity of the engine.
    pub(super) fn last_hits(&self) -> impl Iterator<Item = &[u64]> {
        self.chains.iter().map(Chain::last_hits)
    }

    /// What they found in all, by capacity of the engine.
    pub(super) fn result(&self) -> Vec<Vec<BelowHits>> {
        let of = |found: &Vec<u64>| {
            let tiers = self.asked.iter().zip(&self.pages).zip(found);
            let hits = |((below, pages), hits): ((&Below, &u64), &u64)| BelowHits {
                tier: below.to_string(),
                pages: *pages,
                page_hits: *hits,
            };
            tiers.map(hits).collect()
        };
        self.found.iter().map(of).collect()
    }
}
