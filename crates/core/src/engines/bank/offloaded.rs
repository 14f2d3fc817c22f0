//! vLLM's pools of blocks over its tier in host memory, one request after another.

use super::{BankHits, PointCache};
use crate::engines::config::CacheConfig;
use crate::engines::hybrid::{HybridCache, RulesError};
use crate::engines::vllm_offload::{OffloadOptions, OffloadTier};
use crate::request::event::RequestEvent;
use crate::units::{PageCount, PageSize};

/// A pool and the tier below it.
#[derive(Debug)]
pub(super) struct OffloadedPool {
    pool: HybridCache,
    tier: OffloadTier,
}

impl OffloadedPool {
    /// Over an empty tier of so many blocks.
    pub fn new(pool: HybridCache, blocks: PageCount, options: OffloadOptions) -> Result<Self, RulesError> {
        let tier = OffloadTier::under(blocks, options, pool.rules())?;
        Ok(Self { pool, tier })
    }
}

impl PointCache for OffloadedPool {
    fn capacity(&self) -> PageCount {
        self.pool.capacity()
    }

    fn serve(&mut self, event: &RequestEvent<'_>) -> BankHits {
        let written = self.tier.written().0;
        let (found, host_hits) = self.tier.request_under(&mut self.pool, event);
        BankHits { hits: found.hits, host_hits, host_writes: self.tier.written().0 - written }
    }

    fn refused(&self) -> u64 {
        self.pool.refused()
    }

    fn memory_bytes(&self) -> usize {
        self.pool.memory_bytes() + self.tier.memory_bytes()
    }

    /// It is never read back.
    fn is_sound(&self, _: &CacheConfig, _: PageSize) -> bool {
        false
    }
}
