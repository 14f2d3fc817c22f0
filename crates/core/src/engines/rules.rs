//! What an engine is told beside its name.

use crate::engines::hybrid::{Attention, GroupKind, HybridRules, Retention, RulesError};
use crate::engines::lmcache::{ChunkMismatch, LmcacheMpRules, LmcacheRules};
use crate::engines::mooncake::MooncakeRules;
use crate::engines::profile::{Outputs, OverlapMode, Profile};
use crate::engines::sglang::{CapacityTooLarge, WindowRules, WritePolicy};
use crate::engines::vllm_offload::{OffloadOptions, OffloadRules};
use crate::units::PageSize;
use crate::units::capacity::CapacitySpec;
use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize};

/// Most tokens of a chunk, and of a prefill step.
const MAX_TOKENS: u32 = 1 << 24;

/// Most tokens drafted at a time.
pub const MAX_DRAFT_TOKENS: u32 = 64;

/// Longest lease: a year.
const MAX_LEASE_MS: u64 = 366 * 24 * 3_600_000;

/// The options, each read by one profile. A configuration that has all of them at their defaults is written
/// without them, so that its fingerprint is that of a program which knew none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EngineRules {
    /// `vllm`: the groups of layers that share its pool of blocks. `sglang`: those with full attention, and those with
    /// windows, which have a pool of their own.
    pub attention: Attention,
    /// `vllm` with several groups: which pages of windows and states keep their names.
    pub retention_interval: Retention,
    /// `vllm` with several groups, and `sglang` with windows: most tokens of a prompt that one step computes.
    pub prefill_chunk: u32,
    /// `sglang` with windows: tokens of their pool for each token of the pool of full attention.
    #[serde(skip_serializing_if = "is_swa_full_tokens_ratio")]
    pub swa_full_tokens_ratio: Ratio,
    /// `lmcache` and `lmcache-mp`: tokens a chunk.
    pub chunk_tokens: u32,
    /// `mooncake`: how long an object that was asked about stays, in milliseconds.
    pub lease_ms: u64,
    /// `mooncake`: share of the capacity above which batches go.
    pub watermark: Ratio,
    /// `mooncake`: least share of the objects that goes in one batch.
    pub eviction_ratio: Ratio,
    /// `lmcache-mp`: share of the capacity from which on chunks go.
    #[serde(skip_serializing_if = "is_mp_watermark")]
    pub mp_watermark: Ratio,
    /// `lmcache-mp`: share of the chunks that goes at once.
    #[serde(skip_serializing_if = "is_mp_eviction_ratio")]
    pub mp_eviction_ratio: Ratio,
    /// `sglang`: what its host tier, HiCache, holds; none where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hicache: Option<CapacitySpec>,
    /// `sglang` with a host tier: when it is written.
    #[serde(skip_serializing_if = "is_write_through")]
    pub hicache_write: WritePolicy,
    /// `vllm`, and `sglang` without a host tier: tokens that a head of the model's own drafts at a time in the same cache; 0 where none does.
    #[serde(skip_serializing_if = "is_zero")]
    pub draft_tokens: u32,
    /// `leaf-first`, and `vllm` with one group of layers and no draft head: whether requests that overlap are modelled.
    #[serde(skip_serializing_if = "is_off")]
    pub overlap: OverlapMode,
}

fn is_zero(tokens: &u32) -> bool {
    *tokens == 0
}

fn is_off(overlap: &OverlapMode) -> bool {
    *overlap == OverlapMode::Off
}

fn is_write_through(policy: &WritePolicy) -> bool {
    *policy == WritePolicy::WriteThrough
}

fn is_swa_full_tokens_ratio(share: &Ratio) -> bool {
    *share == EngineRules::SWA_FULL_TOKENS_RATIO
}

fn is_mp_watermark(share: &Ratio) -> bool {
    *share == EngineRules::MP_WATERMARK
}

fn is_mp_eviction_ratio(share: &Ratio) -> bool {
    *share == EngineRules::MP_EVICTION_RATIO
}

impl EngineRules {
    /// vLLM's `max_num_batched_tokens`.
    pub const PREFILL_CHUNK: u32 = 8192;
    /// SGLang's `swa_full_tokens_ratio`.
    pub const SWA_FULL_TOKENS_RATIO: Ratio = Ratio::per_mille(800);
    /// LMCache's `chunk_size`.
    pub const CHUNK_TOKENS: u32 = 256;
    /// Mooncake's `default_kv_lease_ttl`.
    pub const LEASE_MS: u64 = 10_000;
    /// Mooncake's `eviction_high_watermark_ratio`.
    pub const WATERMARK: Ratio = Ratio::per_mille(900);
    /// Mooncake's `eviction_ratio`.
    pub const EVICTION_RATIO: Ratio = Ratio::per_mille(50);
    /// LMCache's `eviction_trigger_watermark`.
    pub const MP_WATERMARK: Ratio = Ratio::per_mille(800);
    /// LMCache's `eviction_ratio`.
    pub const MP_EVICTION_RATIO: Ratio = Ratio::per_mille(200);
}

impl Default for EngineRules {
    fn default() -> Self {
        Self {
            attention: Attention::default(),
            retention_interval: Retention::default(),
            prefill_chunk: Self::PREFILL_CHUNK,
            swa_full_tokens_ratio: Self::SWA_FULL_TOKENS_RATIO,
            chunk_tokens: Self::CHUNK_TOKENS,
            lease_ms: Self::LEASE_MS,
            watermark: Self::WATERMARK,
            eviction_ratio: Self::EVICTION_RATIO,
            mp_watermark: Self::MP_WATERMARK,
            mp_eviction_ratio: Self::MP_EVICTION_RATIO,
            hicache: None,
            hicache_write: WritePolicy::default(),
            draft_tokens: 0,
            overlap: OverlapMode::default(),
        }
    }
}

/// An option that its engine cannot be run with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineRulesError {
    /// The engine does not have it.
    #[error("`{key}` is an option of {of}, and the engine is {engine}: leave it out, or choose {of}")]
    Foreign {
        /// The option.
        key: &'static str,
        /// The engine that has it.
        of: &'static str,
        /// The engine chosen.
        engine: Profile,
    },
    /// Outside its range.
    #[error("`{key}` is {value}: expected {expected}")]
    Range {
        /// The option.
        key: &'static str,
        /// What it is.
        value: String,
        /// What it can be.
        expected: String,
    },
    /// It does not fit the page.
    #[error(transparent)]
    Page(#[from] PageMismatch),
}

/// Why an engine cannot be modelled at a page size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PageMismatch {
    /// Pages make no whole chunk.
    #[error(transparent)]
    Chunk(#[from] ChunkMismatch),
    /// An interval or a step that is no whole number of pages.
    #[error(transparent)]
    Hybrid(#[from] RulesError),
    /// Device and host together have more pages than are modelled.
    #[error(transparent)]
    Host(#[from] CapacityTooLarge),
}

const BY_GROUPS: &str = "vllm with several groups of attention or a draft head";

const OF_GROUPS: &str = "vllm, or (windows only) sglang without a host tier and without a draft head";

const IN_STEPS: &str = "vllm with several groups of attention or a draft head, or sglang with windows";

const WITH_WINDOWS: &str = "sglang with windows (attention)";

const WITH_RELEASES: &str = "leaf-first or vllm with full attention and no draft head";

const WITH_HEAD: &str = "vllm, or sglang without a host tier";

const WITH_HOST: &str = "sglang with a host tier (hicache)";

impl EngineRules {
    /// Whether vLLM's pool of blocks is modelled by its own rules at each capacity: groups of layers that share it evict each
    /// other, and a page that a draft head loses is computed into a second copy.
    pub fn is_pool_of_blocks(&self, profile: Profile) -> bool {
        profile == Profile::Vllm && (!self.attention.is_full() || self.draft_tokens > 0)
    }

    /// Whether SGLang's pool of windows is modelled beside that of full attention.
    pub fn has_window_pool(&self, profile: Profile) -> bool {
        profile == Profile::Sglang && matches!(self.attention.other(), Some(GroupKind::Window(_)))
    }

    /// Whether all options are at their defaults.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The options that a profile reads, the others at their defaults.
    pub fn of_profile(&self, profile: Profile) -> Self {
        let (own, default) = (self.clone(), Self::default());
        match profile {
            Profile::LeafFirst => Self { overlap: own.overlap, ..default },
            Profile::Vllm if own.is_pool_of_blocks(profile) => Self {
                attention: own.attention,
                retention_interval: own.retention_interval,
                prefill_chunk: own.prefill_chunk,
                draft_tokens: own.draft_tokens,
                ..default
            },
            Profile::Vllm => Self { overlap: own.overlap, ..default },
            Profile::Lmcache => Self { chunk_tokens: own.chunk_tokens, ..default },
            Profile::LmcacheMp => Self {
                chunk_tokens: own.chunk_tokens,
                mp_watermark: own.mp_watermark,
                mp_eviction_ratio: own.mp_eviction_ratio,
                ..default
            },
            Profile::Mooncake => Self {
                lease_ms: own.lease_ms,
                watermark: own.watermark,
                eviction_ratio: own.eviction_ratio,
                ..default
            },
            Profile::Sglang if own.hicache.is_some() => {
                Self { hicache: own.hicache, hicache_write: own.hicache_write, ..default }
            }
            Profile::Sglang if own.draft_tokens > 0 => Self { draft_tokens: own.draft_tokens, ..default },
            Profile::Sglang if own.has_window_pool(profile) => Self {
                attention: own.attention,
                prefill_chunk: own.prefill_chunk,
                swa_full_tokens_ratio: own.swa_full_tokens_ratio,
                ..default
            },
            Profile::Sglang => default,
            Profile::Paper => default,
        }
    }

    /// The options that shape a profile's results, as they are written.
    pub fn told_to(&self, profile: Profile) -> Vec<(&'static str, String)> {
        match profile {
            Profile::Vllm if self.is_pool_of_blocks(profile) => {
                let mut told = vec![
                    ("attention", self.attention.to_string()),
                    ("retention_interval", self.retention_interval.to_string()),
                    ("prefill_chunk", self.prefill_chunk.to_string()),
                ];
                if self.draft_tokens > 0 {
                    told.push(("draft_head", self.draft_tokens.to_string()));
                }
                told
            }
            Profile::Lmcache => vec![("chunk_tokens", self.chunk_tokens.to_string())],
            Profile::LmcacheMp => vec![
                ("chunk_tokens", self.chunk_tokens.to_string()),
                ("watermark", self.mp_watermark.to_string()),
                ("eviction_ratio", self.mp_eviction_ratio.to_string()),
            ],
            Profile::Mooncake => vec![
                ("lease_ms", self.lease_ms.to_string()),
                ("watermark", self.watermark.to_string()),
                ("eviction_ratio", self.eviction_ratio.to_string()),
            ],
            Profile::Sglang => match &self.hicache {
                Some(host) => vec![
                    ("hicache", host.to_string()),
                    ("hicache_write", self.hicache_write.name().to_owned()),
                ],
                None if self.draft_tokens > 0 => vec![("draft_head", self.draft_tokens.to_string())],
                None if self.has_window_pool(profile) => vec![
                    ("attention", self.attention.to_string()),
                    ("swa_full_tokens_ratio", self.swa_full_tokens_ratio.to_string()),
                    ("prefill_chunk", self.prefill_chunk.to_string()),
                ],
                None => Vec::new(),
            },
            Profile::LeafFirst | Profile::Vllm => vec![("overlap", self.overlap.name().to_owned())],
            Profile::Paper => Vec::new(),
        }
    }

    /// Whether a profile can be run with these.
    ///
    /// # Errors
    /// The first option that belongs to another engine, is outside its range, or does not fit the page where that
    /// is known.
    pub fn check(&self, profile: Profile, page_size: Option<PageSize>) -> Result<(), EngineRulesError> {
        self.check_foreign(profile)?;
        tokens("prefill_chunk", self.prefill_chunk)?;
        tokens("chunk_tokens", self.chunk_tokens)?;
        if self.draft_tokens > MAX_DRAFT_TOKENS {
            let (value, expected) = (self.draft_tokens.to_string(), format!("1 to {MAX_DRAFT_TOKENS}"));
            return Err(EngineRulesError::Range { key: "draft_head", value, expected });
        }
        if self.lease_ms > MAX_LEASE_MS {
            let expected = format!("0 to {MAX_LEASE_MS}");
            return Err(EngineRulesError::Range {
                key: "lease_ms",
                value: self.lease_ms.to_string(),
                expected,
            });
        }
        if [self.watermark, self.mp_watermark].contains(&Ratio::ZERO) {
            let expected = "more than 0, at most 1".to_owned();
            return Err(EngineRulesError::Range { key: "watermark", value: "0".to_owned(), expected });
        }
        if self.swa_full_tokens_ratio == Ratio::ZERO {
            let (key, expected) = ("swa_full_tokens_ratio", "more than 0, at most 1".to_owned());
            return Err(EngineRulesError::Range { key, value: "0".to_owned(), expected });
        }
        match page_size {
            Some(page_size) => Ok(self.check_page(profile, page_size)?),
            None => Ok(()),
        }
    }

    fn check_foreign(&self, profile: Profile) -> Result<(), EngineRulesError> {
        let own = self.of_profile(profile);
        let options = [
            ("attention", OF_GROUPS, own.attention == self.attention),
            ("retention_interval", BY_GROUPS, own.retention_interval == self.retention_interval),
            ("prefill_chunk", IN_STEPS, own.prefill_chunk == self.prefill_chunk),
            ("swa_full_tokens_ratio", WITH_WINDOWS, own.swa_full_tokens_ratio == self.swa_full_tokens_ratio),
            ("chunk_tokens", "lmcache", own.chunk_tokens == self.chunk_tokens),
            ("lease_ms", "mooncake", own.lease_ms == self.lease_ms),
            ("watermark", "mooncake", own.watermark == self.watermark),
            ("eviction_ratio", "mooncake", own.eviction_ratio == self.eviction_ratio),
            ("watermark", "lmcache-mp", own.mp_watermark == self.mp_watermark),
            ("eviction_ratio", "lmcache-mp", own.mp_eviction_ratio == self.mp_eviction_ratio),
            ("hicache", "sglang", own.hicache == self.hicache),
            ("hicache_write", WITH_HOST, own.hicache_write == self.hicache_write),
            ("draft_head", WITH_HEAD, own.draft_tokens == self.draft_tokens),
            ("overlap", WITH_RELEASES, own.overlap == self.overlap),
        ];
        match options.into_iter().find(|(_, _, is_own)| !is_own) {
            Some((key, of, _)) => Err(EngineRulesError::Foreign { key, of, engine: profile }),
            None => Ok(()),
        }
    }

    /// Whether the page is one that a profile can be modelled at.
    ///
    /// # Errors
    /// [`PageMismatch`] where its chunks, or its retention interval, are no whole pages.
    pub fn check_page(&self, profile: Profile, page_size: PageSize) -> Result<(), PageMismatch> {
        match profile {
            Profile::Lmcache | Profile::LmcacheMp => {
                Ok(self.lmcache(page_size).pages_a_chunk().map(|_| ())?)
            }
            Profile::Vllm if self.is_pool_of_blocks(profile) => {
                Ok(self.hybrid(page_size, Outputs::Cached).check()?)
            }
            Profile::Sglang if self.has_window_pool(profile) => {
                Ok(self.windows(page_size, Outputs::Cached).check()?)
            }
            _ => Ok(()),
        }
    }

    /// What the hybrid model keeps to.
    pub fn hybrid(&self, page_size: PageSize, outputs: Outputs) -> HybridRules {
        HybridRules {
            attention: self.attention.clone(),
            retention: self.retention_interval,
            prefill_chunk: self.prefill_chunk,
            page_size,
            outputs,
            draft_tokens: self.draft_tokens,
        }
    }

    /// What the model of SGLang's pool of windows keeps to.
    pub fn windows(&self, page_size: PageSize, outputs: Outputs) -> WindowRules {
        WindowRules {
            attention: self.attention.clone(),
            swa_full_tokens_ratio: self.swa_full_tokens_ratio,
            prefill_chunk: self.prefill_chunk,
            page_size,
            outputs,
        }
    }

    /// What the LMCache model keeps to.
    pub fn lmcache(&self, page_size: PageSize) -> LmcacheRules {
        LmcacheRules { page_size, chunk_tokens: self.chunk_tokens }
    }

    /// What the model of LMCache's process keeps to.
    pub fn lmcache_mp(&self, page_size: PageSize) -> LmcacheMpRules {
        LmcacheMpRules {
            page_size,
            chunk_tokens: self.chunk_tokens,
            watermark: self.mp_watermark,
            eviction_ratio: self.mp_eviction_ratio,
        }
    }

    /// What vLLM's tier in host memory keeps to.
    pub fn vllm_offload(&self, options: OffloadOptions, page_size: PageSize) -> OffloadRules {
        OffloadRules { options, page_size, prefill_chunk: self.prefill_chunk }
    }

    /// What the Mooncake model keeps to.
    pub fn mooncake(&self, page_size: PageSize) -> MooncakeRules {
        MooncakeRules {
            page_size,
            lease_ms: self.lease_ms,
            watermark: self.watermark,
            eviction_ratio: self.eviction_ratio,
        }
    }
}

fn tokens(key: &'static str, value: u32) -> Result<(), EngineRulesError> {
    if (1..=MAX_TOKENS).contains(&value) {
        return Ok(());
    }
    let expected = format!("1 to {MAX_TOKENS}");
    Err(EngineRulesError::Range { key, value: value.to_string(), expected })
}
