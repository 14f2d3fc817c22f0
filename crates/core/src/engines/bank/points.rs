//! The caches of each engine at one capacity.

use super::BankHits;
use crate::engines::config::CacheConfig;
use crate::engines::hits::CacheHits;
use crate::engines::hybrid::{DraftHead, HybridCache, RulesError};
use crate::engines::lmcache::{ChunkRules, LmcacheCache, LmcacheMpRules, LmcacheRules};
use crate::engines::load::{CacheLoad, LoadedCache};
use crate::engines::mooncake::MooncakeCache;
use crate::engines::sglang::{
    HicacheRules, HostTier, NoHost, PlainRules, PoolRules, SglangCache, StateRules, WindowPoolRules,
};
use crate::engines::trtllm::{TrtllmCache, TrtllmRules};
use crate::request::event::RequestEvent;
use crate::units::heap::HeapBytes;
use crate::units::{PageCount, PageSize};

/// A cache at one capacity, as a bank makes it of a configuration and asks it.
pub(super) trait PointCache: HeapBytes {
    /// An empty one.
    fn build(capacity: PageCount, config: &CacheConfig, page_size: PageSize) -> Result<Self, RulesError>
    where
        Self: Sized;
    /// Whether requests are followed while they are in flight.
    fn follows_flights() -> bool
    where
        Self: Sized,
    {
        false
    }
    /// Pages found without limit, where the rules say so, of so many that a stack finds.
    fn without_limit(_found: u64, _: &CacheConfig, _: PageSize) -> Option<u64>
    where
        Self: Sized,
    {
        None
    }
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
    /// Pages of its host tier that the latest request in flight had loaded back, and those written to it since the
    /// start: none where it has none.
    fn host(&self) -> (u64, u64) {
        (0, 0)
    }
    /// Lets a head draft in it, which a saved state does not say.
    fn draft(&mut self, _: DraftHead) {}
    /// Whether it can go on, read back from a snapshot.
    fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool;
}

/// A cache that can be made so that it never evicts within the tracked bound.
pub(super) trait NeverEvicting: PointCache + Send + Sized + 'static {
    fn never_evicting(config: &CacheConfig, page_size: PageSize) -> Result<Self, RulesError>;
}

/// A cache that a bank serves, on whatever thread.
pub(super) type Point = dyn PointCache + Send;

/// Methods that a cache has by the same names.
macro_rules! of_the_cache {
    ($($name:ident: $value:ty),+) => {
        $(fn $name(&self) -> $value {
            Self::$name(self)
        })+
    };
}

/// What a configuration says of a cache, or of a part of SGLang's.
trait Configured: PartialEq + Sized {
    fn of(config: &CacheConfig, page_size: PageSize) -> Self;
}

impl Configured for PlainRules {
    fn of(config: &CacheConfig, page_size: PageSize) -> Self {
        Self { page_size, outputs: config.outputs, drafts: config.rules.draft_tokens > 0 }
    }
}

impl Configured for WindowPoolRules {
    fn of(config: &CacheConfig, page_size: PageSize) -> Self {
        config.rules.windows(page_size, config.outputs)
    }
}

impl Configured for StateRules {
    fn of(config: &CacheConfig, page_size: PageSize) -> Self {
        config.rules.states(page_size, config.outputs)
    }
}

impl Configured for NoHost {
    fn of(_: &CacheConfig, _: PageSize) -> Self {
        Self
    }
}

impl Configured for HicacheRules {
    fn of(config: &CacheConfig, page_size: PageSize) -> Self {
        config.hicache(page_size)
    }
}

impl<R: PoolRules + Configured, H: HostTier + Configured> PointCache for SglangCache<R, H> {
    fn build(capacity: PageCount, config: &CacheConfig, page_size: PageSize) -> Result<Self, RulesError> {
        Self::new(capacity, R::of(config, page_size), H::of(config, page_size))
    }

    of_the_cache!(capacity: PageCount, refused: u64, never_evicts: bool);

    fn serve(&mut self, event: &RequestEvent<'_>) -> BankHits {
        let written = self.written().0;
        let CacheHits { hits, .. } = R::serve(self, event);
        BankHits { hits, host_hits: self.loaded(), host_writes: self.written().0 - written }
    }

    fn host(&self) -> (u64, u64) {
        (self.loaded(), self.written().0)
    }

    fn draft(&mut self, head: DraftHead) {
        self.rules_mut().draft(head.drafts());
    }

    fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool {
        *self.rules() == R::of(config, page_size)
            && *Self::host(self) == H::of(config, page_size)
            && self.is_countable()
    }
}

impl<R: PoolRules + Configured + Send + 'static> NeverEvicting for SglangCache<R> {
    fn never_evicting(config: &CacheConfig, page_size: PageSize) -> Result<Self, RulesError> {
        Self::never_evicting(config.max_tracked_pages, R::of(config, page_size))
    }
}

impl PointCache for HybridCache {
    fn build(capacity: PageCount, config: &CacheConfig, page_size: PageSize) -> Result<Self, RulesError> {
        Self::new(capacity, config.rules.hybrid(page_size, config.outputs))
    }

    of_the_cache!(capacity: PageCount, refused: u64, never_evicts: bool);

    fn serve(&mut self, event: &RequestEvent<'_>) -> BankHits {
        BankHits::here(self.request(event).hits)
    }

    fn draft(&mut self, head: DraftHead) {
        Self::draft(self, head);
    }

    fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool {
        *self.rules() == config.rules.hybrid(page_size, config.outputs) && self.is_countable()
    }
}

impl NeverEvicting for HybridCache {
    fn never_evicting(config: &CacheConfig, page_size: PageSize) -> Result<Self, RulesError> {
        let rules = config.rules.hybrid(page_size, config.outputs);
        Self::never_evicting(config.max_tracked_pages, rules)
    }
}

impl Configured for LmcacheRules {
    fn of(config: &CacheConfig, page_size: PageSize) -> Self {
        config.rules.lmcache(page_size)
    }
}

impl Configured for LmcacheMpRules {
    fn of(config: &CacheConfig, page_size: PageSize) -> Self {
        config.rules.lmcache_mp(page_size)
    }
}

impl<R: ChunkRules + Configured> PointCache for LmcacheCache<R> {
    fn build(capacity: PageCount, config: &CacheConfig, page_size: PageSize) -> Result<Self, RulesError> {
        Self::new(capacity, R::of(config, page_size))
    }

    /// Whoever brought a chunk's last page brought the chunk.
    fn without_limit(found: u64, config: &CacheConfig, page_size: PageSize) -> Option<u64> {
        let pages = R::of(config, page_size).pages_a_chunk().ok()?;
        Some(found - found % u64::from(pages))
    }

    of_the_cache!(capacity: PageCount);

    fn serve(&mut self, event: &RequestEvent<'_>) -> BankHits {
        BankHits::here(self.request(event))
    }

    fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool {
        *self.rules() == R::of(config, page_size)
    }
}

impl Configured for TrtllmRules {
    fn of(config: &CacheConfig, page_size: PageSize) -> Self {
        let host = config.host_pages(config.rules.host_cache.as_ref(), page_size);
        Self { page_size, outputs: config.outputs, host }
    }
}

impl PointCache for TrtllmCache {
    fn build(capacity: PageCount, config: &CacheConfig, page_size: PageSize) -> Result<Self, RulesError> {
        Ok(Self::new(capacity, TrtllmRules::of(config, page_size)))
    }

    of_the_cache!(capacity: PageCount, refused: u64);

    fn serve(&mut self, event: &RequestEvent<'_>) -> BankHits {
        BankHits::here(self.request(event).hits)
    }

    fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool {
        *self.rules() == TrtllmRules::of(config, page_size) && self.is_countable()
    }
}

impl PointCache for MooncakeCache {
    fn build(capacity: PageCount, config: &CacheConfig, page_size: PageSize) -> Result<Self, RulesError> {
        Ok(Self::new(capacity, config.rules.mooncake(page_size)))
    }

    of_the_cache!(capacity: PageCount);

    fn serve(&mut self, event: &RequestEvent<'_>) -> BankHits {
        BankHits::here(self.request(event))
    }

    fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool {
        *self.rules() == config.rules.mooncake(page_size) && self.is_countable()
    }
}

impl<C: LoadedCache + PointCache> PointCache for CacheLoad<C> {
    fn follows_flights() -> bool {
        true
    }

    fn build(capacity: PageCount, config: &CacheConfig, page_size: PageSize) -> Result<Self, RulesError> {
        C::build(capacity, config, page_size).map(Self::new)
    }

    fn without_limit(found: u64, config: &CacheConfig, page_size: PageSize) -> Option<u64> {
        C::without_limit(found, config, page_size)
    }

    fn capacity(&self) -> PageCount {
        self.cache.capacity()
    }

    fn serve(&mut self, event: &RequestEvent<'_>) -> BankHits {
        let (_, written) = self.cache.host();
        let hits = self.arrive(event);
        let (host_hits, written_since) = self.cache.host();
        BankHits { hits, host_hits, host_writes: written_since - written }
    }

    fn refused(&self) -> u64 {
        self.cache.refused()
    }

    fn draft(&mut self, head: DraftHead) {
        self.cache.draft(head);
    }

    fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool {
        // Steps are not kept.
        self.cache.is_sound(config, page_size) && self.is_countable() && !config.ends_as_logged
    }
}
