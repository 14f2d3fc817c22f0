//! Whether an engine can be run as it is configured, and what each model takes of that.

use super::{EnginePart, EngineRules};
use crate::engines::hybrid::{HybridRules, RulesError};
use crate::engines::lmcache::{ChunkRules as _, LmcacheMpRules, LmcacheRules};
use crate::engines::mooncake::MooncakeRules;
use crate::engines::profile::{Outputs, Profile};
use crate::engines::sglang::{PoolRules, StateRules, WindowPoolRules};
use crate::engines::vllm_offload::OffloadTier;
use crate::units::PageSize;

/// An option that its engine cannot be run with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineRulesError {
    /// The engine does not have it.
    #[error("`{key}` is an option of {of}, and the engine is {engine}: leave it out, or choose {of}")]
    Foreign {
        /// The option.
        key: &'static str,
        /// The engines that have it.
        of: String,
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
    Page(#[from] RulesError),
}

impl EngineRules {
    /// Whether an engine can be run with these.
    ///
    /// # Errors
    /// The first option that belongs to another engine, is outside its range, or does not fit the page where that
    /// is known.
    pub fn check(&self, engine: Profile, page_size: Option<PageSize>) -> Result<(), EngineRulesError> {
        let set = || Self::OPTIONS.iter().filter(|option| option.is_set(self));
        if let Some(option) = set().find(|option| !option.is_read(self, engine)) {
            return Err(EngineRulesError::Foreign {
                key: option.key,
                of: option.belongs_to(|_| true),
                engine,
            });
        }
        if let Some(option) = set().find(|option| !option.values.contains(&option.written(self))) {
            let (value, expected) = (option.written(self), option.values.to_string());
            return Err(EngineRulesError::Range { key: option.key, value, expected });
        }
        if EnginePart::STATE_POOL.holds(self, engine) && self.state_tokens == 0 {
            return Err(RulesError::NoStateSize.into());
        }
        match page_size {
            Some(page_size) => Ok(self.check_page(engine, page_size)?),
            None => Ok(()),
        }
    }

    /// Whether the page is one that a profile can be modelled at.
    ///
    /// # Errors
    /// [`RulesError`] where its chunks, or its retention interval, are no whole pages.
    pub fn check_page(&self, profile: Profile, page_size: PageSize) -> Result<(), RulesError> {
        match profile {
            Profile::Lmcache | Profile::LmcacheMp => {
                Ok(self.lmcache(page_size).pages_a_chunk().map(|_| ())?)
            }
            Profile::Vllm if EnginePart::BLOCK_POOL.holds(self, profile) => {
                let pool = self.hybrid(page_size, Outputs::Cached);
                pool.check()?;
                match EnginePart::HOST.holds(self, profile) {
                    true => Ok(OffloadTier::check(self.offload_options(), &pool)?),
                    false => Ok(()),
                }
            }
            Profile::Sglang if EnginePart::WINDOW_POOL.holds(self, profile) => {
                Ok(self.windows(page_size, Outputs::Cached).check()?)
            }
            Profile::Sglang if EnginePart::STATE_POOL.holds(self, profile) => {
                Ok(self.states(page_size, Outputs::Cached).check()?)
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
            head: self.draft_head(),
        }
    }

    /// What the model of SGLang's pool of windows keeps to.
    pub fn windows(&self, page_size: PageSize, outputs: Outputs) -> WindowPoolRules {
        WindowPoolRules {
            attention: self.attention.clone(),
            swa_full_tokens_ratio: self.swa_full_tokens_ratio,
            prefill_chunk: self.prefill_chunk,
            page_size,
            outputs,
        }
    }

    /// What the model of SGLang's pool of states keeps to.
    pub fn states(&self, page_size: PageSize, outputs: Outputs) -> StateRules {
        StateRules {
            attention: self.attention.clone(),
            mamba_full_memory_ratio: self.mamba_full_memory_ratio,
            state_tokens: self.state_tokens,
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
