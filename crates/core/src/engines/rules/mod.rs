//! What an engine is configured with besides its name: each option declared once, for the settings, the command line,
//! refusals, results and docs.

mod option;
#[cfg(test)]
mod tests;

use super::hybrid::{Attention, BlockRetention, DraftHead, DraftLayers, GroupKind};
use super::profile::{OverlapMode, Profile};
use super::sglang::WritePolicy;
use super::values::{OptionType, OptionValues};
use super::vllm_offload::{MAX_OPTION, OffloadOptions, OffloadPolicy};
use crate::units::capacity::CapacitySpec;
use crate::units::ratio::{Proportion, Ratio};
use option::engine_options;
use serde::Serialize;

pub use option::{EngineOption, OptionNeeds};

/// Most tokens of a chunk, and of a prefill step.
const MAX_TOKENS: u32 = 1 << 24;

/// Most tokens drafted at a time.
const MAX_DRAFT_TOKENS: u32 = 64;

/// Longest lease: a year.
const MAX_LEASE_MS: u64 = 366 * 24 * 3_600_000;

/// The least share that is none of nothing.
const LEAST_SHARE: Ratio = Ratio::per_mille(1);

engine_options! {
    /// The options.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
    pub struct EngineRules {
        /// Groups of layers that share vLLM's pool of blocks, such as full+window:128, full+5*window:1024 or
        /// full+3*mamba; full where it is left out, or what --model-config says. Capacities are then blocks of all
        /// groups. In SGLang windows, or states, have a pool of their own in the same memory. More memory can lose
        /// hits, so capacities are modelled one by one.
        attention: Attention = Attention::default() => {
            key: "attention",
            flag: Some("attention"),
            value_name: "GROUPS",
            values: OptionValues::Text("groups of layers like \"full\", \"full+window:128\" or \"full+3*mamba\""),
            alone: None,
            example: "full+window:128",
            engines: &[(Profile::Vllm, OptionNeeds::BlockPool), (Profile::Sglang, OptionNeeds::OtherPool)],
            differs_by_pool: true,
        }
        /// Which pages of windows and states keep their names in vLLM, with several groups of layers. 0, where it is
        /// left out: those at a prompt's end and where it leaves an earlier one; none: all of them; N: those at each
        /// multiple of N tokens, too.
        retention_interval: BlockRetention = BlockRetention::default() => {
            key: "retention_interval",
            flag: Some("retention-interval"),
            value_name: "N|none",
            values: OptionValues::Text("\"none\", 0 or a number of tokens"),
            alone: None,
            example: "none",
            engines: &[(Profile::Vllm, OptionNeeds::SeveralGroups)],
            differs_by_pool: true,
        }
        /// Most tokens of a prompt that one step computes: in vLLM with several groups of layers, a draft head or its
        /// own CPU tier, in SGLang with windows or states; 8192 where it is left out.
        prefill_chunk: u32 = Self::PREFILL_CHUNK => {
            key: "prefill_chunk",
            flag: Some("prefill-chunk"),
            value_name: "TOKENS",
            values: OptionValues::Count(1..=MAX_TOKENS),
            alone: None,
            example: "8192",
            engines: &[(Profile::Vllm, OptionNeeds::BlockPool), (Profile::Sglang, OptionNeeds::OtherPool)],
            differs_by_pool: true,
        }
        /// Tokens of SGLang's pool of windows for each token of its pool of full attention; 0.8 where it is left out.
        swa_full_tokens_ratio: Ratio = Self::SWA_FULL_TOKENS_RATIO => {
            key: "swa_full_tokens_ratio",
            flag: Some("swa-full-tokens-ratio"),
            value_name: "SHARE",
            values: OptionValues::Share(LEAST_SHARE..=Ratio::ONE),
            alone: None,
            example: "0.8",
            engines: &[(Profile::Sglang, OptionNeeds::WindowPool)],
            differs_by_pool: true,
        }
        /// Memory of SGLang's pool of states for that of its pool of full attention; 0.9 where it is left out.
        mamba_full_memory_ratio: Proportion = Self::MAMBA_FULL_MEMORY_RATIO => {
            key: "mamba_full_memory_ratio",
            flag: Some("mamba-full-memory-ratio"),
            value_name: "RATIO",
            values: OptionValues::Proportion(Proportion::of(LEAST_SHARE)..=Self::MOST_MEMORY_RATIO),
            alone: None,
            example: "0.9",
            engines: &[(Profile::Sglang, OptionNeeds::StatePool)],
            differs_by_pool: true,
        }
        /// Tokens of one full group that take as much memory as one state of one group, which GROUPS do not say;
        /// needed for states in SGLang.
        state_tokens: u32 = 0 => {
            key: "state_tokens",
            flag: Some("state-tokens"),
            value_name: "TOKENS",
            values: OptionValues::Count(1..=MAX_TOKENS),
            alone: None,
            example: "544",
            engines: &[(Profile::Sglang, OptionNeeds::StatePool)],
            differs_by_pool: true,
        }
        /// Tokens of one of LMCache's chunks, a multiple of the page; 256 where it is left out.
        chunk_tokens: u32 = Self::CHUNK_TOKENS => {
            key: "chunk_tokens",
            flag: Some("chunk-tokens"),
            value_name: "TOKENS",
            values: OptionValues::Count(1..=MAX_TOKENS),
            alone: None,
            example: "256",
            engines: &[(Profile::Lmcache, OptionNeeds::Nothing), (Profile::LmcacheMp, OptionNeeds::Nothing)],
            differs_by_pool: false,
        }
        /// How long Mooncake keeps an object that was looked up; 10s where it is left out.
        lease_ms: u64 = Self::LEASE_MS => {
            key: "lease",
            flag: Some("lease"),
            value_name: "TIME",
            values: OptionValues::Time(MAX_LEASE_MS),
            alone: None,
            example: "10s",
            engines: &[(Profile::Mooncake, OptionNeeds::Nothing)],
            differs_by_pool: false,
        }
        /// Share of its capacity above which Mooncake evicts, 0.9 where it is left out; or from which on LMCache's
        /// process does, 0.8.
        watermark: Ratio = Self::WATERMARK => {
            key: "watermark",
            flag: Some("watermark"),
            value_name: "SHARE",
            values: OptionValues::Share(LEAST_SHARE..=Ratio::ONE),
            alone: None,
            example: "0.9",
            engines: &[(Profile::Mooncake, OptionNeeds::Nothing)],
            differs_by_pool: false,
        }
        /// Least share of Mooncake's objects that one batch evicts, 0.05 where it is left out; or that of the chunks of
        /// LMCache's process, 0.2.
        eviction_ratio: Ratio = Self::EVICTION_RATIO => {
            key: "eviction_ratio",
            flag: Some("eviction-ratio"),
            value_name: "SHARE",
            values: OptionValues::Share(Ratio::ZERO..=Ratio::ONE),
            alone: None,
            example: "0.05",
            engines: &[(Profile::Mooncake, OptionNeeds::Nothing)],
            differs_by_pool: false,
        }
        /// The watermark of LMCache's process.
        mp_watermark: Ratio = Self::MP_WATERMARK => {
            key: "watermark",
            flag: Some("watermark"),
            value_name: "SHARE",
            values: OptionValues::Share(LEAST_SHARE..=Ratio::ONE),
            alone: None,
            example: "0.8",
            engines: &[(Profile::LmcacheMp, OptionNeeds::Nothing)],
            differs_by_pool: false,
        }
        /// The batches of LMCache's process.
        mp_eviction_ratio: Ratio = Self::MP_EVICTION_RATIO => {
            key: "eviction_ratio",
            flag: Some("eviction-ratio"),
            value_name: "SHARE",
            values: OptionValues::Share(Ratio::ZERO..=Ratio::ONE),
            alone: None,
            example: "0.2",
            engines: &[(Profile::LmcacheMp, OptionNeeds::Nothing)],
            differs_by_pool: false,
        }
        /// What SGLang's host tier, HiCache, holds; none where it is left out. What is loaded back from it is no hit
        /// of the estimates, which are of the device.
        hicache: Option<CapacitySpec> = None => {
            key: "hicache",
            flag: None,
            value_name: "SIZE",
            values: OptionValues::CAPACITY,
            alone: None,
            example: "500GiB",
            engines: &[(Profile::Sglang, OptionNeeds::HostTier)],
            differs_by_pool: false,
        }
        /// When SGLang writes to its host tier. write-through, where it is left out: as pages enter the device;
        /// write-through-selective: as they come a second time; write-back: as the device evicts them.
        hicache_write: WritePolicy = WritePolicy::default() => {
            key: "hicache_write",
            flag: Some("hicache-write"),
            value_name: "POLICY",
            values: OptionValues::Names(&["write-through", "write-through-selective", "write-back"]),
            alone: None,
            example: "write-back",
            engines: &[(Profile::Sglang, OptionNeeds::HostTier)],
            differs_by_pool: false,
        }
        /// What vLLM's own tier in host memory holds below several groups of layers, or a draft head, a block of one
        /// group in a row; none where it is left out. What is loaded from it is no hit of the estimates, which are of
        /// the device. Requests are then taken one after another.
        vllm_offload: Option<CapacitySpec> = None => {
            key: "vllm_offload",
            flag: None,
            value_name: "SIZE",
            values: OptionValues::CAPACITY,
            alone: None,
            example: "500GiB",
            engines: &[(Profile::Vllm, OptionNeeds::BlockPool)],
            differs_by_pool: false,
        }
        /// Which chunks leave vLLM's own tier first: those of the request that used them longest ago, or by adaptive
        /// replacement; lru where it is left out.
        offload_policy: OffloadPolicy = OffloadPolicy::Lru => {
            key: "offload_policy",
            flag: None,
            value_name: "POLICY",
            values: OptionValues::Names(&["lru", "arc"]),
            alone: None,
            example: "arc",
            engines: &[(Profile::Vllm, OptionNeeds::HostTier)],
            differs_by_pool: false,
        }
        /// How often vLLM's own tier must be offered a chunk to store it; at once where it is left out, as with 0 and
        /// 1.
        store_threshold: u32 = 0 => {
            key: "store_threshold",
            flag: None,
            value_name: "N",
            values: OptionValues::Count(0..=MAX_OPTION),
            alone: None,
            example: "2",
            engines: &[(Profile::Vllm, OptionNeeds::HostTier)],
            differs_by_pool: false,
        }
        /// Blocks of the device in a chunk of vLLM's own tier; 1 where it is left out.
        blocks_per_chunk: u32 = 1 => {
            key: "blocks_per_chunk",
            flag: None,
            value_name: "N",
            values: OptionValues::Count(1..=MAX_OPTION),
            alone: None,
            example: "4",
            engines: &[(Profile::Vllm, OptionNeeds::HostTier)],
            differs_by_pool: false,
        }
        /// What TensorRT-LLM's blocks in host memory hold (its host_cache_size); none where it is left out. What is
        /// found there is a hit of the engine.
        host_cache: Option<CapacitySpec> = None => {
            key: "host_cache",
            flag: Some("host-cache"),
            value_name: "SIZE",
            values: OptionValues::CAPACITY,
            alone: None,
            example: "500GiB",
            engines: &[(Profile::Trtllm, OptionNeeds::Nothing)],
            differs_by_pool: false,
        }
        /// A head of the model's own (MTP, EAGLE) drafts so many tokens at a time in the same cache, so each hit
        /// loses its last page, in SGLang where the hit ends exactly at a page's edge; 1 for a flag without a number,
        /// none where it is left out. Capacities are then modelled one by one.
        draft_tokens: u32 = 0 => {
            key: "draft_head",
            flag: Some("draft-head"),
            value_name: "TOKENS",
            values: OptionValues::Count(1..=MAX_DRAFT_TOKENS),
            alone: Some("1"),
            example: "1",
            engines: &[(Profile::Vllm, OptionNeeds::Nothing), (Profile::Sglang, OptionNeeds::NoHostTier)],
            differs_by_pool: true,
        }
        /// The groups that the draft head's layers lie in, alongside windows in vLLM: of both kinds, in full ones
        /// alone, or in windows alone. Only these lose the last page that they find. all where it is left out, which
        /// is also what vLLM does with a head that has no cache of its own.
        draft_layers: DraftLayers = DraftLayers::All => {
            key: "draft_layers",
            flag: Some("draft-layers"),
            value_name: "GROUPS",
            values: OptionValues::Names(&["all", "full", "windows"]),
            alone: None,
            example: "full",
            engines: &[(Profile::Vllm, OptionNeeds::DraftedWindows)],
            differs_by_pool: true,
        }
        /// Whether requests that overlap are modelled as such, where events say how long they took, or taken one
        /// after another in the order of the log; on where it is left out. With on, the recommended capacity is the
        /// requirement, and a service takes records in the order of arrivals (hold_back); with off, it has room for
        /// requests in flight.
        overlap: OverlapMode = OverlapMode::default() => {
            key: "overlap",
            flag: Some("overlap"),
            value_name: "on|off",
            values: OptionValues::Names(&["on", "off"]),
            alone: None,
            example: "off",
            engines: &[
                (Profile::LeafFirst, OptionNeeds::Nothing),
                (Profile::Vllm, OptionNeeds::NoHostTier),
                (Profile::Sglang, OptionNeeds::NoOtherPool),
                (Profile::Lmcache, OptionNeeds::Nothing),
                (Profile::LmcacheMp, OptionNeeds::Nothing),
                (Profile::Mooncake, OptionNeeds::Nothing),
            ],
            differs_by_pool: false,
        }
    }
}

impl EngineRules {
    /// vLLM's `max_num_batched_tokens`.
    pub const PREFILL_CHUNK: u32 = 8192;
    /// SGLang's `swa_full_tokens_ratio`.
    pub const SWA_FULL_TOKENS_RATIO: Ratio = Ratio::per_mille(800);
    /// SGLang's `mamba_full_memory_ratio`.
    pub const MAMBA_FULL_MEMORY_RATIO: Proportion = Proportion::of(Ratio::per_mille(900));
    /// Most memory of states for that of full attention.
    const MOST_MEMORY_RATIO: Proportion = Proportion::whole(1000);
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

impl EngineRules {
    /// Whether vLLM's pool of blocks is modelled by its own rules at each capacity: groups of layers that share it
    /// evict each other, and a page that a draft head loses is computed into a second copy.
    pub fn is_pool_of_blocks(&self, profile: Profile) -> bool {
        profile == Profile::Vllm && (!self.attention.is_full() || self.draft_tokens > 0)
    }

    /// Whether pages are keyed with the tokens behind them, as SGLang does where a head drafts in the same tree.
    pub fn keys_pairs(&self, engine: Profile) -> bool {
        engine == Profile::Sglang && self.draft_tokens > 0
    }

    /// The head that drafts in the same cache.
    pub fn draft_head(&self) -> DraftHead {
        DraftHead { tokens: self.draft_tokens, layers: self.draft_layers }
    }

    /// Whether a head drafts in vLLM's pool of blocks alongside windows, where it matters which groups its layers lie
    /// in.
    pub fn drafts_over_windows(&self, engine: Profile) -> bool {
        let has_windows = matches!(self.attention.other(), Some(GroupKind::Window(_)));
        engine == Profile::Vllm && self.draft_tokens > 0 && has_windows
    }

    /// Whether a host tier of the engine's own is modelled with its device.
    pub fn has_host(&self, engine: Profile) -> bool {
        match engine {
            Profile::Vllm => self.vllm_offload.is_some() && self.is_pool_of_blocks(engine),
            _ => self.hicache.is_some(),
        }
    }

    /// The options of vLLM's own tier.
    pub fn offload_options(&self) -> OffloadOptions {
        let Self { offload_policy: policy, store_threshold, blocks_per_chunk, .. } = *self;
        OffloadOptions { policy, store_threshold, blocks_per_chunk }
    }

    /// The same over vLLM's own tier of this size, or over none.
    pub fn over_offload(self, size: Option<CapacitySpec>, options: OffloadOptions) -> Self {
        let OffloadOptions { policy: offload_policy, store_threshold, blocks_per_chunk } = options;
        Self { vllm_offload: size, offload_policy, store_threshold, blocks_per_chunk, ..self }
    }

    /// Whether SGLang's pool of windows is modelled alongside that of full attention.
    pub fn has_window_pool(&self, engine: Profile) -> bool {
        engine == Profile::Sglang
            && matches!(self.attention.other(), Some(GroupKind::Window(_)))
            && self.draft_tokens == 0
    }

    /// Whether SGLang's pool of states is modelled alongside that of full attention.
    pub fn has_state_pool(&self, engine: Profile) -> bool {
        engine == Profile::Sglang
            && self.attention.other() == Some(GroupKind::Mamba)
            && self.draft_tokens == 0
    }

    /// Whether one of these pools is.
    pub fn has_other_pool(&self, engine: Profile) -> bool {
        self.has_window_pool(engine) || self.has_state_pool(engine)
    }

    /// Whether all options are at their defaults.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The options that an engine reads, the others at their defaults.
    pub fn of_profile(&self, engine: Profile) -> Self {
        let (mut own, default) = (self.clone(), Self::default());
        let foreign = Self::OPTIONS.iter().filter(|option| !option.is_read(self, engine));
        foreign.for_each(|option| option.take(&mut own, &default));
        own
    }

    /// The options that shape an engine's results, as they are written; one that is none is left out.
    pub fn options_of(&self, engine: Profile) -> Vec<(&'static str, String)> {
        let read = Self::OPTIONS.iter().filter(|option| option.is_read(self, engine));
        let written = read.map(|option| (option, option.written(self)));
        written
            .filter(|(option, text)| option.values.contains(text))
            .map(|(option, text)| (option.key, text))
            .collect()
    }

    /// The options, of those with one name the first.
    pub fn options_by_name() -> impl Iterator<Item = &'static EngineOption> {
        let is_first = |index: usize, key| Self::OPTIONS[..index].iter().all(|other| other.key != key);
        let firsts =
            Self::OPTIONS.iter().enumerate().filter(move |(index, option)| is_first(*index, option.key));
        firsts.map(|(_, option)| option)
    }
}
