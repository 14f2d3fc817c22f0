//! Several caches side by side, one per capacity: what a curve of single points is made of.

mod ahead;
mod ceilings;
mod kinds;
mod offloaded;
mod points;

pub use ahead::Lane;

use crate::engines::config::CacheConfig;
use crate::engines::hybrid::RulesError;
use crate::request::event::RequestEvent;
use crate::units::PageSize;
use crate::units::heap::{flat, heap_bytes};
use ahead::Ahead;
use kinds::{AnyPoints, Caches};
use points::PointCache;
use serde::{Deserialize, Serialize};

/// One cache a capacity; every one of them serves every request.
///
/// A request costs one lookup a capacity. Memory is bounded by the sum of the capacities: about 8 bytes a
/// resident page and 100 bytes a node, of which there are at most two a request resident.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CacheBank {
    caches: Caches,
    /// Hits of the last request, one a cache.
    #[serde(skip)]
    last_hits: Vec<u64>,
    /// What the host tiers under them found of it, where they have one.
    #[serde(skip)]
    last_host_hits: Vec<u64>,
    /// Pages of it that were written to them.
    #[serde(skip)]
    last_host_writes: Vec<u64>,
    /// Pages the last request would have found without limit, where the rules lose some at any size.
    #[serde(skip)]
    last_ceiling: Option<u64>,
    /// What was served before its turn.
    #[serde(skip)]
    ahead: Ahead,
}

heap_bytes!(CacheBank { caches, last_hits, last_host_hits, last_host_writes, ahead; last_ceiling });

/// Pages a request finds.
#[derive(Debug, Clone, Copy, Default)]
struct BankHits {
    hits: u64,
    /// Those after them that a host tier of the engine's own finds.
    host_hits: u64,
    /// Those that are written to it.
    host_writes: u64,
}

flat!(BankHits);

impl BankHits {
    /// In a cache without a host tier.
    fn here(hits: u64) -> Self {
        Self { hits, host_hits: 0, host_writes: 0 }
    }
}

impl CacheBank {
    /// Empty caches of these capacities, kept in this order; none where the profile has a stack.
    ///
    /// # Errors
    /// When the page is none that the profile can be modelled at.
    pub fn new(capacities: &[u64], page_size: PageSize, config: &CacheConfig) -> Result<Self, RulesError> {
        let caches = Caches::build(capacities, config, page_size)?;
        Ok(Self { caches, ..Self::default() })
    }

    /// Whether there is none, since a stack answers for every capacity.
    pub fn is_none(&self) -> bool {
        matches!(self.caches, Caches::None)
    }

    /// Completes what was read back from a snapshot; whether these are the caches of a configuration at these
    /// capacities and can go on.
    pub fn resume(&mut self, capacities: &[u64], page_size: PageSize, config: &CacheConfig) -> bool {
        if !self.caches.are_of(config) || !self.caches.any_mut().is_none_or(|points| points.resume(config)) {
            return false;
        }
        let Some(points) = self.caches.any() else { return true };
        let (caches, never) = (points.caches(), points.never());
        caches.iter().map(|cache| cache.capacity().0).eq(capacities.iter().copied())
            && caches.iter().chain(&never).all(|cache| cache.is_sound(config, page_size))
            && never.is_none_or(|own| own.never_evicts() && own.capacity() == config.max_tracked_pages)
    }

    /// Serves a request at every capacity. `found` is what a stack that never evicts found of it.
    pub fn request(
        &mut self,
        event: &RequestEvent<'_>,
        found: u64,
        config: &CacheConfig,
        page_size: PageSize,
    ) {
        if event.duration_ms.is_some() && config.models_overlap() {
            self.caches = std::mem::take(&mut self.caches).followed(config);
        }
        let (hits, host_hits) = (&mut self.last_hits, &mut self.last_host_hits);
        let host_writes = &mut self.last_host_writes;
        [&mut *hits, &mut *host_hits, &mut *host_writes].into_iter().for_each(Vec::clear);
        let mut take = |found: BankHits| {
            hits.push(found.hits);
            host_hits.push(found.host_hits);
            host_writes.push(found.host_writes);
        };
        match self.ahead.next() {
            Some(served) => served.for_each(take),
            None => {
                if let Some(caches) = self.caches.any_mut() {
                    caches.each(&mut |cache| take(cache.serve(event)));
                }
            }
        }
        self.last_ceiling = self.caches.any().and_then(|points| match points.never() {
            Some(_) => {
                host_hits.pop();
                host_writes.pop();
                hits.pop()
            }
            None => points.without_limit(found, config, page_size),
        });
    }

    /// Serves requests before their turn: the next calls of [`CacheBank::request`] must be of these, in this order, and
    /// say then what was found. `serve` gets one lane a cache and may serve them in any order, on any thread; those it
    /// leaves are served here.
    pub fn serve_ahead(
        &mut self,
        events: &[RequestEvent<'_>],
        config: &CacheConfig,
        serve: impl FnOnce(&mut [Lane<'_>]),
    ) {
        if config.models_overlap() && events.iter().any(|event| event.duration_ms.is_some()) {
            self.caches = std::mem::take(&mut self.caches).followed(config);
        }
        let mut caches = Vec::new();
        if let Some(points) = self.caches.any_mut() {
            points.each(&mut |cache| caches.push(cache));
        }
        self.ahead.begin(events.len(), caches.len());
        let lanes = caches.into_iter().zip(&mut self.ahead.hits);
        let mut lanes: Vec<_> = lanes.map(|(cache, hits)| Lane::new(cache, events, hits)).collect();
        serve(&mut lanes);
        lanes.iter_mut().for_each(Lane::serve);
    }

    /// Whether requests are followed while they are in flight.
    pub fn follows_flights(&self) -> bool {
        self.caches.any().is_some_and(AnyPoints::follow_flights)
    }

    /// Whether requests that were served wait for their turn.
    pub fn is_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Pages the last request found, one entry per capacity.
    pub fn last_hits(&self) -> &[u64] {
        &self.last_hits
    }

    /// Pages after those that a host tier of the engine's own found of the last request, one entry per capacity: zeros
    /// where it has none.
    pub fn last_host_hits(&self) -> &[u64] {
        &self.last_host_hits
    }

    /// Pages that were written to it of the last request, one entry per capacity: zeros where there is none.
    pub fn last_host_writes(&self) -> &[u64] {
        &self.last_host_writes
    }

    /// Pages the last request would have found without limit, where that is less than what the stack found.
    pub fn last_ceiling(&self) -> Option<u64> {
        self.last_ceiling
    }

    /// Requests since the start that are larger than the whole cache, one entry per capacity.
    pub fn refused(&self) -> Vec<u64> {
        self.caches
            .any()
            .map_or_else(Vec::new, |points| points.caches().into_iter().map(PointCache::refused).collect())
    }
}
