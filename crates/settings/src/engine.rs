//! What engines are told beside their names: how it is written, and what of it holds for one pool.

use super::field::{Field, Refusal, quoted, text_of};
use super::{Estimate, Pool, Span};
use config::{Value, ValueKind};
use kvset_core::engines::hybrid::{Attention, Retention, RulesError};
use kvset_core::engines::profile::{OverlapMode, Profile};
use kvset_core::engines::rules::{EngineRules, EngineRulesError, PageMismatch};
use std::ops::RangeInclusive;

impl Field for Attention {
    type Bound = bool;

    fn allowed(_: Option<&RangeInclusive<bool>>) -> String {
        "groups of layers like \"full\", \"full+window:128\" or \"full+3*mamba\"".to_owned()
    }

    fn read(value: &Value) -> Result<Self, Refusal> {
        let parsed = text_of(value)?.parse();
        parsed
            .map_err(|error: kvset_core::engines::hybrid::AttentionError| Refusal::Because(error.to_string()))
    }

    fn measure(&self) -> Option<bool> {
        None
    }

    fn toml(&self) -> Option<String> {
        Some(quoted(&self.to_string()))
    }
}

impl Field for Retention {
    type Bound = bool;

    fn allowed(_: Option<&RangeInclusive<bool>>) -> String {
        "\"none\", 0 or a number of tokens".to_owned()
    }

    fn read(value: &Value) -> Result<Self, Refusal> {
        let tokens = match &value.kind {
            ValueKind::I64(tokens) => tokens.to_string(),
            _ => text_of(value)?.to_owned(),
        };
        tokens.parse().map_err(|_| Refusal::NotAllowed)
    }

    fn measure(&self) -> Option<bool> {
        None
    }

    fn toml(&self) -> Option<String> {
        Some(match self {
            Self::All => quoted("none"),
            tokens => tokens.to_string(),
        })
    }
}

impl Estimate {
    /// What the engine is told of a pool, whose own settings come first.
    pub(super) fn rules(&self, own: Option<&Pool>) -> EngineRules {
        let default = EngineRules::default();
        let attention = own.and_then(|pool| pool.attention.clone()).or(self.attention.clone());
        let attention = attention.unwrap_or(default.attention);
        // What the general groups are told means nothing to a pool that has one group by its own settings.
        let general =
            Some(self).filter(|_| own.is_none_or(|pool| pool.attention.is_none()) || !attention.is_full());
        let retention = own.and_then(|pool| pool.retention_interval);
        let prefill = own.and_then(|pool| pool.prefill_chunk);
        let window_ratio = own.and_then(|pool| pool.swa_full_tokens_ratio);
        let draft_tokens = own.and_then(|pool| pool.draft_head).or(self.draft_head).unwrap_or(0);
        let is_mp = self.engine == Profile::LmcacheMp;
        // Several groups have no order of releases, nor has a cache that a head drafts in.
        let has_releases = attention.is_full() && draft_tokens == 0;
        let overlap = match self.overlap.filter(|_| has_releases) {
            None if has_releases && self.engine.can_overlap() => OverlapMode::On,
            set => set.unwrap_or_default(),
        };
        EngineRules {
            attention,
            retention_interval: retention
                .or(general.and_then(|general| general.retention_interval))
                .unwrap_or(default.retention_interval),
            prefill_chunk: prefill
                .or(general.and_then(|general| general.prefill_chunk))
                .unwrap_or(default.prefill_chunk),
            swa_full_tokens_ratio: window_ratio
                .or(general.and_then(|general| general.swa_full_tokens_ratio))
                .unwrap_or(default.swa_full_tokens_ratio),
            chunk_tokens: self.chunk_tokens.unwrap_or(default.chunk_tokens),
            lease_ms: self.lease.map_or(default.lease_ms, Span::as_ms),
            watermark: self.watermark.filter(|_| !is_mp).unwrap_or(default.watermark),
            eviction_ratio: self.eviction_ratio.filter(|_| !is_mp).unwrap_or(default.eviction_ratio),
            mp_watermark: self.watermark.filter(|_| is_mp).unwrap_or(default.mp_watermark),
            mp_eviction_ratio: self.eviction_ratio.filter(|_| is_mp).unwrap_or(default.mp_eviction_ratio),
            hicache: self.hicache.clone(),
            hicache_write: self.hicache_write.unwrap_or_default(),
            draft_tokens,
            overlap,
        }
    }
}

/// The names of those that are set.
fn set<const N: usize>(keys: [(&'static str, bool); N]) -> Vec<&'static str> {
    keys.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key).collect()
}

impl Estimate {
    /// The options of engines that are set here.
    pub(super) fn engine_keys(&self) -> Vec<&'static str> {
        set([
            ("attention", self.attention.is_some()),
            ("retention_interval", self.retention_interval.is_some()),
            ("prefill_chunk", self.prefill_chunk.is_some()),
            ("swa_full_tokens_ratio", self.swa_full_tokens_ratio.is_some()),
            ("draft_head", self.draft_head.is_some()),
            ("chunk_tokens", self.chunk_tokens.is_some()),
            ("lease", self.lease.is_some()),
            ("watermark", self.watermark.is_some()),
            ("eviction_ratio", self.eviction_ratio.is_some()),
            ("hicache", self.hicache.is_some()),
            ("hicache_write", self.hicache_write.is_some()),
            ("overlap", self.overlap.is_some()),
        ])
    }
}

impl Pool {
    /// The options of engines that are set here.
    pub(super) fn engine_keys(&self) -> Vec<&'static str> {
        set([
            ("attention", self.attention.is_some()),
            ("retention_interval", self.retention_interval.is_some()),
            ("prefill_chunk", self.prefill_chunk.is_some()),
            ("swa_full_tokens_ratio", self.swa_full_tokens_ratio.is_some()),
            ("draft_head", self.draft_head.is_some()),
        ])
    }
}

/// The setting that an engine refuses.
pub(super) fn refused_key(error: &EngineRulesError) -> &'static str {
    match error {
        EngineRulesError::Foreign { key: "lease_ms", .. }
        | EngineRulesError::Range { key: "lease_ms", .. } => "lease",
        EngineRulesError::Foreign { key, .. } | EngineRulesError::Range { key, .. } => key,
        EngineRulesError::Page(PageMismatch::Chunk(_)) => "chunk_tokens",
        EngineRulesError::Page(PageMismatch::Host(_)) => "hicache",
        EngineRulesError::Page(PageMismatch::Hybrid(RulesError::Retention { .. })) => "retention_interval",
        EngineRulesError::Page(PageMismatch::Hybrid(RulesError::Chunk { .. })) => "prefill_chunk",
    }
}
