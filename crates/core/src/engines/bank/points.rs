//! The caches of each engine at one capacity.

use super::{Found, PointCache};
use crate::engines::hybrid::HybridCache;
use crate::engines::lmcache::{LmcacheCache, LmcacheMpCache};
use crate::engines::mooncake::MooncakeCache;
use crate::engines::sglang::{HicacheCache, SglangCache, WindowCache};
use crate::pool::config::PoolConfig;
use crate::request::event::RequestEvent;
use crate::units::{PageCount, PageSize};

impl PointCache for SglangCache {
    fn capacity(&self) -> PageCount {
        self.capacity()
    }

    fn serve(&mut self, event: &RequestEvent<'_>) -> Found {
        Found::here(self.request(event).hits)
    }

    fn refused(&self) -> u64 {
        self.refused()
    }

    fn memory_bytes(&self) -> usize {
        self.memory_bytes()
    }

    fn is_sound(&self, _: &PoolConfig, _: PageSize) -> bool {
        self.is_countable()
    }
}

impl PointCache for HicacheCache {
    fn capacity(&self) -> PageCount {
        self.capacity()
    }

    fn serve(&mut self, event: &RequestEvent<'_>) -> Found {
        let written = self.written().0;
        let found = self.request(event);
        Found { hits: found.device, host_hits: found.host, host_writes: self.written().0 - written }
    }

    fn refused(&self) -> u64 {
        self.refused()
    }

    fn memory_bytes(&self) -> usize {
        self.memory_bytes()
    }

    fn is_sound(&self, config: &PoolConfig, page_size: PageSize) -> bool {
        Some(*self.rules()) == config.hicache(page_size) && self.is_countable()
    }
}

impl PointCache for WindowCache {
    fn capacity(&self) -> PageCount {
        self.capacity()
    }

    fn serve(&mut self, event: &RequestEvent<'_>) -> Found {
        Found::here(self.request(event).hits)
    }

    fn refused(&self) -> u64 {
        self.refused()
    }

    fn memory_bytes(&self) -> usize {
        self.memory_bytes()
    }

    fn is_sound(&self, config: &PoolConfig, page_size: PageSize) -> bool {
        *self.rules() == config.rules.windows(page_size, config.outputs) && self.is_countable()
    }
}

impl PointCache for HybridCache {
    fn capacity(&self) -> PageCount {
        self.capacity()
    }

    fn serve(&mut self, event: &RequestEvent<'_>) -> Found {
        Found::here(self.request(event).hits)
    }

    fn refused(&self) -> u64 {
        self.refused()
    }

    fn memory_bytes(&self) -> usize {
        self.memory_bytes()
    }

    fn is_sound(&self, config: &PoolConfig, page_size: PageSize) -> bool {
        *self.rules() == config.rules.hybrid(page_size, config.outputs) && self.is_countable()
    }
}

impl PointCache for LmcacheCache {
    fn capacity(&self) -> PageCount {
        self.capacity()
    }

    fn serve(&mut self, event: &RequestEvent<'_>) -> Found {
        Found::here(self.request(event))
    }

    fn memory_bytes(&self) -> usize {
        self.memory_bytes()
    }

    fn is_sound(&self, config: &PoolConfig, page_size: PageSize) -> bool {
        *self.rules() == config.rules.lmcache(page_size)
    }
}

impl PointCache for LmcacheMpCache {
    fn capacity(&self) -> PageCount {
        self.capacity()
    }

    fn serve(&mut self, event: &RequestEvent<'_>) -> Found {
        Found::here(self.request(event))
    }

    fn memory_bytes(&self) -> usize {
        self.memory_bytes()
    }

    fn is_sound(&self, config: &PoolConfig, page_size: PageSize) -> bool {
        *self.rules() == config.rules.lmcache_mp(page_size)
    }
}

impl PointCache for MooncakeCache {
    fn capacity(&self) -> PageCount {
        self.capacity()
    }

    fn serve(&mut self, event: &RequestEvent<'_>) -> Found {
        Found::here(self.request(event))
    }

    fn memory_bytes(&self) -> usize {
        self.memory_bytes()
    }

    fn is_sound(&self, config: &PoolConfig, page_size: PageSize) -> bool {
        *self.rules() == config.rules.mooncake(page_size) && self.is_countable()
    }
}
