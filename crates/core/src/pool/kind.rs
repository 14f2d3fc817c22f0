//! What pools of one configuration have in common: it is made once, however many of them there are.

use crate::estimate::config::{PoolConfig, PoolConfigError};
use crate::sizing::curve::Curve;
use crate::units::{PageBytes, PageSize};
use std::sync::{Arc, OnceLock};

/// A configuration with what follows from it.
#[derive(Debug)]
pub struct PoolKind {
    config: Arc<PoolConfig>,
    fingerprint: String,
    hold_back_ms: Option<u64>,
    /// The curve of pools with the first page size that was seen, which most have.
    curve: OnceLock<(PageSize, Arc<Curve>)>,
}

impl PoolKind {
    /// The kind of pools with this configuration.
    ///
    /// # Errors
    /// The first value of it that cannot be used.
    pub fn new(config: Arc<PoolConfig>) -> Result<Self, PoolConfigError> {
        config.check()?;
        let (fingerprint, hold_back_ms) = (config.fingerprint()?, config.hold_back_ms());
        Ok(Self { config, fingerprint, hold_back_ms, curve: OnceLock::new() })
    }

    /// The configuration.
    pub fn config(&self) -> &Arc<PoolConfig> {
        &self.config
    }

    /// How long records are held back for earlier arrivals ([`PoolConfig::hold_back_ms`]).
    pub fn hold_back_ms(&self) -> Option<u64> {
        self.hold_back_ms
    }

    /// Its fingerprint.
    pub(super) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Bytes per page of this size, where a cost per token is configured.
    pub(super) fn page_bytes(&self, page_size: PageSize) -> Option<PageBytes> {
        self.config.cache.page_bytes(page_size)
    }

    /// The curve of pools with this page size.
    pub(super) fn curve(&self, page_size: PageSize) -> Arc<Curve> {
        let make = || Arc::new(curve_at(&self.config, self.page_bytes(page_size)));
        let (of, curve) = self.curve.get_or_init(|| (page_size, make()));
        if *of == page_size { Arc::clone(curve) } else { make() }
    }
}

/// The curve where a page takes so many bytes.
pub(super) fn curve_at(config: &PoolConfig, page_bytes: Option<PageBytes>) -> Curve {
    let bound = config.cache.max_tracked_pages;
    let curve = Curve::new(&config.curve_capacities(), page_bytes, bound, config.cache.sample_rate);
    curve.modelled_pointwise(config.cache.is_pointwise())
}
