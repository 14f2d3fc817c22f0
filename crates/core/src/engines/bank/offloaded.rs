//! vLLM's pools of blocks over its tier in host memory, one request after another.

use super::BankHits;
use super::points::PointCache;
use crate::engines::config::CacheConfig;
use crate::engines::hybrid::{DraftHead, HybridCache, RulesError};
use crate::engines::vllm_offload::{OffloadTier, SavedOffload};
use crate::request::event::RequestEvent;
use crate::stack::runs::StateFault;
use crate::units::heap::heap_bytes;
use crate::units::{PageCount, PageSize};
use serde::{Deserialize, Serialize, Serializer};

/// A pool and the tier below it.
#[derive(Debug, Deserialize)]
#[serde(try_from = "(HybridCache, SavedOffload)")]
pub(super) struct OffloadedPool {
    pool: HybridCache,
    tier: OffloadTier,
}

heap_bytes!(OffloadedPool { pool, tier });

impl Serialize for OffloadedPool {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&self.pool, self.tier.save()).serialize(serializer)
    }
}

impl TryFrom<(HybridCache, SavedOffload)> for OffloadedPool {
    type Error = StateFault;

    fn try_from((pool, tier): (HybridCache, SavedOffload)) -> Result<Self, StateFault> {
        Ok(Self { tier: OffloadTier::restore(&tier, pool.rules())?, pool })
    }
}

impl PointCache for OffloadedPool {
    fn build(capacity: PageCount, config: &CacheConfig, page_size: PageSize) -> Result<Self, RulesError> {
        let pool = HybridCache::build(capacity, config, page_size)?;
        // A size in bytes without a cost is refused by `check`.
        let (blocks, options) =
            config.offload(page_size).unwrap_or((PageCount(0), config.rules.offload_options()));
        Ok(Self { tier: OffloadTier::under(blocks, options, pool.rules())?, pool })
    }

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

    fn draft(&mut self, head: DraftHead) {
        self.pool.draft(head);
        self.tier.draft(head);
    }

    fn is_sound(&self, config: &CacheConfig, page_size: PageSize) -> bool {
        self.pool.is_sound(config, page_size)
            && config.offload(page_size).is_some_and(|offload| self.tier.is_of(offload))
    }
}
