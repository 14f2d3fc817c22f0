//! Several caches side by side, one per capacity: what a curve of single points is made of.

mod ahead;
mod caches;
mod loaded;
mod offloaded;
mod points;

pub use ahead::Lane;

use crate::engines::config::CacheConfig;
use crate::engines::hybrid::{DraftHead, HybridCache, RulesError};
use crate::engines::lmcache::{LmcacheCache, LmcacheMpCache};
use crate::engines::load::CacheLoad;
use crate::engines::mooncake::MooncakeCache;
use crate::engines::profile::Profile;
use crate::engines::sglang::{HostTier, NoHost, PlainRules, PoolRules, SglangCache};
use crate::engines::trtllm::TrtllmCache;
use crate::request::event::RequestEvent;
use crate::units::heap::{HeapBytes, flat, heap_bytes};
use crate::units::{PageCount, PageSize};
use ahead::Ahead;
use caches::{Caches, Ceiled, DraftHybrids};
use loaded::{SglangLoads, idle};
use offloaded::OffloadedPool;
use points::ConfiguredPools;
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

/// A cache at one capacity.
trait PointCache: HeapBytes {
    fn capacity(&self) -> PageCount;
    /// What a request finds.
    fn serve(&mut self, event: &RequestEvent<'_>) -> BankHits;
    /// Requests since the start that are larger than the whole cache; none where a cache takes parts of them.
    fn refused(&self) -> u64 {
        0
    }
    /// Whether each of its pools has room for all of its capacity.
    fn never_evicts(&self) -> bool {
        true
    }
    /// Pages of its host tier that the latest request in flight had loaded back, and those written to it since the start: none where
    /// it has none.
    fn host(&self) -> (u64, u64) {
        (0, 0)
    }
    /// Lets a head draft in a pool of vLLM's, which a saved state does not say.
    fn draft(&mut self, _: DraftHead) {}
    /// Whether it can go on, read back from a snapshot.
    fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool;
}

/// SGLang's caches of these capacities.
fn sglang<R: PoolRules + Clone, H: HostTier + Clone>(
    capacities: &[u64],
    rules: &R,
    host: H,
) -> Result<Vec<SglangCache<R, H>>, RulesError> {
    let cache = |pages: &u64| SglangCache::new(PageCount(*pages), rules.clone(), host.clone());
    capacities.iter().map(cache).collect()
}

impl CacheBank {
    /// Empty caches of these capacities, kept in this order; none where the profile has a stack.
    ///
    /// # Errors
    /// When the page is none that the profile can be modelled at.
    pub fn new(capacities: &[u64], page_size: PageSize, config: &CacheConfig) -> Result<Self, RulesError> {
        let pages = || capacities.iter().copied().map(PageCount);
        let rules = &config.rules;
        let caches = match config.profile {
            Profile::Sglang if rules.has_window_pool(config.profile) => {
                let rules = rules.windows(page_size, config.outputs);
                rules.check()?;
                let ceiling = Box::new(SglangCache::never_evicting(config.max_tracked_pages, rules.clone())?);
                match config.hicache(page_size) {
                    Some(host) => {
                        let caches = sglang(capacities, &rules, host)?;
                        Caches::HostWindows(Ceiled { caches, ceiling })
                    }
                    None => Caches::Windows(Ceiled { caches: sglang(capacities, &rules, NoHost)?, ceiling }),
                }
            }
            Profile::Sglang if rules.has_state_pool(config.profile) => {
                let rules = rules.states(page_size, config.outputs);
                rules.check()?;
                let ceiling = Box::new(SglangCache::never_evicting(config.max_tracked_pages, rules.clone())?);
                match config.hicache(page_size) {
                    Some(host) => {
                        let caches = sglang(capacities, &rules, host)?;
                        Caches::HostStates(Ceiled { caches, ceiling })
                    }
                    None => Caches::States(Ceiled { caches: sglang(capacities, &rules, NoHost)?, ceiling }),
                }
            }
            Profile::Sglang => {
                let rules = PlainRules::of(config, page_size);
                match config.hicache(page_size) {
                    Some(host) => Caches::Hicache(sglang(capacities, &rules, host)?),
                    None if rules.drafts => {
                        let ceiling = Box::new(SglangCache::never_evicting(config.max_tracked_pages, rules)?);
                        Caches::DraftSglang(Ceiled { caches: sglang(capacities, &rules, NoHost)?, ceiling })
                    }
                    None => Caches::Sglang(sglang(capacities, &rules, NoHost)?),
                }
            }
            Profile::Lmcache => {
                let rules = rules.lmcache(page_size);
                rules.pages_a_chunk()?;
                Caches::Lmcache(pages().map(|p| LmcacheCache::new(p, rules)).collect::<Result<_, _>>()?)
            }
            Profile::LmcacheMp => {
                let rules = rules.lmcache_mp(page_size);
                Caches::LmcacheMp(pages().map(|p| LmcacheMpCache::new(p, rules)).collect::<Result<_, _>>()?)
            }
            Profile::Mooncake => {
                let rules = rules.mooncake(page_size);
                Caches::Mooncake(pages().map(|p| MooncakeCache::new(p, rules)).collect())
            }
            Profile::Trtllm => {
                let rules = config.trtllm(page_size);
                Caches::Trtllm(pages().map(|p| TrtllmCache::new(p, rules)).collect())
            }
            Profile::Vllm if config.is_pointwise() => {
                let rules = rules.hybrid(page_size, config.outputs);
                let ceiling = Box::new(HybridCache::never_evicting(config.max_tracked_pages, rules.clone())?);
                let caches: Vec<_> =
                    pages().map(|p| HybridCache::new(p, rules.clone())).collect::<Result<_, _>>()?;
                let head = config.rules.draft_head();
                // With one group the tier looks up by itself what lies behind the pool's pages.
                let has_tier = config.rules.has_host(config.profile);
                match config.offload(page_size).filter(|_| has_tier) {
                    Some((blocks, options)) => {
                        let over = |pool| OffloadedPool::new(pool, blocks, options);
                        let caches = caches.into_iter().map(over).collect::<Result<_, _>>()?;
                        Caches::Offloaded(DraftHybrids { head, hybrids: Ceiled { caches, ceiling } })
                    }
                    None if head.drafts() => {
                        Caches::DraftHybrids(DraftHybrids { head, hybrids: Ceiled { caches, ceiling } })
                    }
                    None => Caches::Hybrid(Ceiled { caches, ceiling }),
                }
            }
            Profile::Paper | Profile::LeafFirst | Profile::Vllm => Caches::None,
        };
        Ok(Self { caches, ..Self::default() })
    }

    /// Whether there is none, since a stack answers for every capacity.
    pub fn is_none(&self) -> bool {
        matches!(self.caches, Caches::None)
    }

    /// Whether these, read back from a snapshot, are the caches of a configuration at these capacities and can go
    /// on.
    pub fn are_sound(&self, capacities: &[u64], page_size: PageSize, config: &CacheConfig) -> bool {
        let (points, ceiling) = self.caches.points();
        let modelled = points.iter().map(|cache| cache.capacity().0);
        self.caches.are_of(config)
            && (self.is_none() || modelled.eq(capacities.iter().copied()))
            && points.iter().chain(&ceiling).all(|cache| cache.is_sound(config, page_size))
            && ceiling.is_none_or(|own| own.never_evicts() && own.capacity() == config.max_tracked_pages)
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
            self.follow_flights(config.ends_as_logged);
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
            None => self.caches.each(|cache| take(cache.serve(event))),
        }
        self.last_ceiling = match &self.caches {
            Caches::None | Caches::Sglang(_) | Caches::Hicache(_) | Caches::HicacheLoads(_) => None,
            Caches::Mooncake(_) | Caches::MooncakeLoads(_) | Caches::Trtllm(_) => None,
            Caches::SglangLoads(SglangLoads { ceiling: None, .. }) => None,
            Caches::Lmcache(_)
            | Caches::LmcacheLoads(_)
            | Caches::LmcacheMp(_)
            | Caches::LmcacheMpLoads(_) => {
                // Whoever brought a chunk's last page brought the chunk.
                let chunk = config.rules.lmcache(page_size).pages_a_chunk();
                chunk.ok().map(|pages| found - found % u64::from(pages))
            }
            Caches::Hybrid(_)
            | Caches::Offloaded(_)
            | Caches::DraftHybrids(_)
            | Caches::HybridLoads(_)
            | Caches::SglangLoads(_)
            | Caches::DraftSglang(_)
            | Caches::Windows(_)
            | Caches::States(_)
            | Caches::HostStates(_)
            | Caches::HostWindows(_) => {
                self.last_host_hits.pop();
                self.last_host_writes.pop();
                self.last_hits.pop()
            }
        };
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
            self.follow_flights(config.ends_as_logged);
        }
        let mut caches = Vec::new();
        self.caches.each(|cache| caches.push(cache));
        self.ahead.begin(events.len(), caches.len());
        let lanes = caches.into_iter().zip(&mut self.ahead.hits);
        let mut lanes: Vec<_> = lanes.map(|(cache, hits)| Lane::new(cache, events, hits)).collect();
        serve(&mut lanes);
        lanes.iter_mut().for_each(Lane::serve);
    }

    /// Follows requests while they are in flight from now on. A request that says no duration is over at once, so that those
    /// before make no difference. Those of vLLM's pool may end as the log says.
    fn follow_flights(&mut self, ends_as_logged: bool) {
        self.caches = match std::mem::take(&mut self.caches) {
            Caches::Hybrid(Ceiled { caches, ceiling }) => {
                let mut caches = idle(caches);
                if ends_as_logged {
                    caches = caches.into_iter().map(CacheLoad::ending_as_logged).collect();
                }
                let hybrids = Ceiled { caches, ceiling };
                Caches::HybridLoads(DraftHybrids { head: DraftHead::default(), hybrids })
            }
            Caches::DraftHybrids(DraftHybrids { head, hybrids: Ceiled { caches, ceiling } }) => {
                let hybrids = Ceiled { caches: idle(caches), ceiling };
                Caches::HybridLoads(DraftHybrids { head, hybrids })
            }
            Caches::Sglang(caches) => Caches::SglangLoads(SglangLoads { loads: idle(caches), ceiling: None }),
            Caches::DraftSglang(Ceiled { caches, ceiling }) => {
                Caches::SglangLoads(SglangLoads { loads: idle(caches), ceiling: Some(ceiling) })
            }
            Caches::Hicache(caches) => Caches::HicacheLoads(idle(caches)),
            Caches::Lmcache(caches) => Caches::LmcacheLoads(idle(caches)),
            Caches::LmcacheMp(caches) => Caches::LmcacheMpLoads(idle(caches)),
            Caches::Mooncake(caches) => Caches::MooncakeLoads(idle(caches)),
            others => others,
        };
    }

    /// Whether requests are followed while they are in flight.
    pub fn follows_flights(&self) -> bool {
        matches!(
            self.caches,
            Caches::HybridLoads(_)
                | Caches::SglangLoads(_)
                | Caches::HicacheLoads(_)
                | Caches::LmcacheLoads(_)
                | Caches::LmcacheMpLoads(_)
                | Caches::MooncakeLoads(_)
        )
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
        self.caches.points().0.into_iter().map(|cache| cache.refused()).collect()
    }
}
