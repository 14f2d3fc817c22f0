//! The caches of each engine at one capacity.

use super::{BankHits, PointCache};
use crate::engines::config::CacheConfig;
use crate::engines::hits::CacheHits;
use crate::engines::hybrid::{DraftHead, HybridCache};
use crate::engines::lmcache::{LmcacheCache, LmcacheMpCache};
use crate::engines::mooncake::MooncakeCache;
use crate::engines::sglang::{HostTier, PlainRules, PoolRules, SglangCache, StateRules, WindowPoolRules};
use crate::engines::trtllm::TrtllmCache;
use crate::request::event::RequestEvent;
use crate::units::{PageCount, PageSize};

/// Methods that a cache has by the same names.
macro_rules! of_the_cache {
    ($($name:ident: $value:ty),+) => {
        $(fn $name(&self) -> $value {
            Self::$name(self)
        })+
    };
}

/// What a configuration says of the pools of SGLang's cache.
pub(super) trait ConfiguredPools: PoolRules + PartialEq {
    fn of(config: &CacheConfig, page_size: PageSize) -> Self;
}

impl ConfiguredPools for PlainRules {
    fn of(config: &CacheConfig, page_size: PageSize) -> Self {
        Self { page_size, outputs: config.outputs, drafts: config.rules.draft_tokens > 0 }
    }
}

impl ConfiguredPools for WindowPoolRules {
    fn of(config: &CacheConfig, page_size: PageSize) -> Self {
        config.rules.windows(page_size, config.outputs)
    }
}

impl ConfiguredPools for StateRules {
    fn of(config: &CacheConfig, page_size: PageSize) -> Self {
        config.rules.states(page_size, config.outputs)
    }
}

impl<R: ConfiguredPools, H: HostTier> PointCache for SglangCache<R, H> {
    of_the_cache!(capacity: PageCount, refused: u64, never_evicts: bool);

    fn serve(&mut self, event: &RequestEvent<'_>) -> BankHits {
        let written = self.written().0;
        let CacheHits { hits, .. } = R::serve(self, event);
        BankHits { hits, host_hits: self.loaded(), host_writes: self.written().0 - written }
    }

    fn host(&self) -> (u64, u64) {
        (self.loaded(), self.written().0)
    }

    fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool {
        let is_below = |own| config.hicache(page_size).as_ref() == Some(own);
        *self.rules() == R::of(config, page_size)
            && Self::host(self).rules().is_none_or(is_below)
            && self.is_countable()
    }
}

impl PointCache for HybridCache {
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

impl PointCache for LmcacheCache {
    of_the_cache!(capacity: PageCount);

    fn serve(&mut self, event: &RequestEvent<'_>) -> BankHits {
        BankHits::here(self.request(event))
    }

    fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool {
        *self.rules() == config.rules.lmcache(page_size)
    }
}

impl PointCache for LmcacheMpCache {
    of_the_cache!(capacity: PageCount);

    fn serve(&mut self, event: &RequestEvent<'_>) -> BankHits {
        BankHits::here(self.request(event))
    }

    fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool {
        *self.rules() == config.rules.lmcache_mp(page_size)
    }
}

impl PointCache for TrtllmCache {
    of_the_cache!(capacity: PageCount, refused: u64);

    fn serve(&mut self, event: &RequestEvent<'_>) -> BankHits {
        BankHits::here(self.request(event).hits)
    }

    fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool {
        *self.rules() == config.trtllm(page_size) && self.is_countable()
    }
}

impl PointCache for MooncakeCache {
    of_the_cache!(capacity: PageCount);

    fn serve(&mut self, event: &RequestEvent<'_>) -> BankHits {
        BankHits::here(self.request(event))
    }

    fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool {
        *self.rules() == config.rules.mooncake(page_size) && self.is_countable()
    }
}
