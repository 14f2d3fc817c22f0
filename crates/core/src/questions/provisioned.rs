//! What is provisioned of a pool's cache.

use crate::engines::config::CacheConfig;
use crate::units::capacity::CapacitySpec;
use crate::units::{PageCount, PageSize};

/// A pool's cache, and what all replicas hold together today.
#[derive(Debug, Clone, Copy)]
pub struct ProvisionedCache<'a> {
    /// The cache that is modelled.
    pub cache: &'a CacheConfig,
    /// What is provisioned; absent where nobody says.
    pub provisioned: Option<&'a CapacitySpec>,
}

impl ProvisionedCache<'_> {
    /// What is provisioned, in pages; `None` where that is not known, or beyond the tracked bound.
    pub fn pages(self, page_size: PageSize) -> Option<u64> {
        let PageCount(pages) = self.provisioned?.pages(self.cache.page_bytes(page_size))?;
        (self.cache.followed_pages(PageCount(pages)) <= self.cache.max_tracked_pages.0).then_some(pages)
    }
}
