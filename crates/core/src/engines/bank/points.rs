//! The caches of each engine at one capacity.

use super::{BankHits, PointCache};
use crate::engines::config::CacheConfig;
use crate::engines::hybrid::{DraftHead, HybridCache};
use crate::engines::lmcache::{LmcacheCache, LmcacheMpCache};
use crate::engines::mooncake::MooncakeCache;
use crate::engines::sglang::{HicacheCache, OverHost, SglangCache, StateCache, WindowCache};
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

impl PointCache for SglangCache {
    of_the_cache!(capacity: PageCount, refused: u64);

    fn serve(&mut self, event: &RequestEvent<'_>) -> BankHits {
        BankHits::here(self.request(event).hits)
    }

    fn is_sound(&self, _: &CacheConfig, _: PageSize) -> bool {
        self.is_countable()
    }
}

impl PointCache for HicacheCache {
    of_the_cache!(capacity: PageCount, refused: u64);

    fn serve(&mut self, event: &RequestEvent<'_>) -> BankHits {
        let written = self.written().0;
        let (found, host_hits) = self.request(event);
        BankHits { hits: found.hits, host_hits, host_writes: self.written().0 - written }
    }

    fn host(&self) -> (u64, u64) {
        (self.loaded(), self.written().0)
    }

    fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool {
        Some(*self.rules()) == config.hicache(page_size) && self.is_countable()
    }
}

impl PointCache for WindowCache {
    of_the_cache!(capacity: PageCount, refused: u64, never_evicts: bool);

    fn serve(&mut self, event: &RequestEvent<'_>) -> BankHits {
        BankHits::here(self.request(event).hits)
    }

    fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool {
        *self.rules() == config.rules.windows(page_size, config.outputs) && self.is_countable()
    }
}

impl PointCache for StateCache {
    of_the_cache!(capacity: PageCount, refused: u64, never_evicts: bool);

    fn serve(&mut self, event: &RequestEvent<'_>) -> BankHits {
        BankHits::here(self.request(event).hits)
    }

    fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool {
        *self.rules() == config.rules.states(page_size, config.outputs) && self.is_countable()
    }
}

/// A cache of two pools over a host, and the rules of its pools.
macro_rules! over_a_host {
    ($cache:ty, $rules:ident) => {
        impl PointCache for OverHost<$cache> {
            of_the_cache!(capacity: PageCount, refused: u64);

            fn serve(&mut self, event: &RequestEvent<'_>) -> BankHits {
                let written = self.written().0;
                let (found, host_hits) = self.request(event);
                let host_writes = self.written().0 - written;
                BankHits { hits: found.hits, host_hits, host_writes }
            }

            fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool {
                *self.rules() == config.rules.$rules(page_size, config.outputs)
                    && Some(*self.host()) == config.hicache(page_size)
                    && self.is_countable()
            }
        }
    };
}

over_a_host! { WindowCache, windows }
over_a_host! { StateCache, states }

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
