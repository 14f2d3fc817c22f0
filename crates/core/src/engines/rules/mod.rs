//! What an engine is configured with besides its name: each option declared once, for the settings, the command line,
//! refusals, results and docs.

mod given;
mod models;
mod option;
mod part;
#[cfg(test)]
mod tests;
mod values;

use super::hybrid::{Attention, BlockRetention, DraftHead, DraftLayers, GroupKind};
use super::profile::{OverlapMode, Profile};
use super::sglang::WritePolicy;
use super::vllm_offload::{MAX_OPTION, OffloadOptions, OffloadPolicy};
use crate::units::capacity::CapacitySpec;
use crate::units::ratio::{Proportion, Ratio};
use option::engine_options;
use serde::Serialize;
use values::OptionType;

pub use given::GivenOptions;
pub use models::EngineRulesError;
pub use option::{EngineOption, Tries};
pub use part::EnginePart;
pub use values::{OptionValues, UnreadableValue};

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
            example: "full+window:128",
            engines: &[(Profile::Vllm, EnginePart::BLOCK_POOL), (Profile::Sglang, EnginePart::OTHER_POOL)],
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
            example: "none",
            engines: &[(Profile::Vllm, EnginePart::SEVERAL_GROUPS)],
            differs_by_pool: true,
            tries: Tries { values: &["0", "none"], pages: &[8, 64], ..Tries::NONE },
        }
        /// Most tokens of a prompt that one step computes: in vLLM with several groups of layers, a draft head or its
        /// own CPU tier, in SGLang with windows or states; 8192 where it is left out.
        prefill_chunk: u32 = Self::PREFILL_CHUNK => {
            key: "prefill_chunk",
            flag: Some("prefill-chunk"),
            value_name: "TOKENS",
            values: OptionValues::Count(1..=MAX_TOKENS),
            example: "8192",
            engines: &[(Profile::Vllm, EnginePart::BLOCK_POOL), (Profile::Sglang, EnginePart::OTHER_POOL)],
            differs_by_pool: true,
            tries: Tries {
                when: EnginePart::SEVERAL_GROUPS,
                ..Tries::of(&["2048", "4096", "8192", "16384", "32768"])
            },
        }
        /// Tokens of SGLang's pool of windows for each token of its pool of full attention; 0.8 where it is left out.
        swa_full_tokens_ratio: Ratio = Self::SWA_FULL_TOKENS_RATIO => {
            key: "swa_full_tokens_ratio",
            flag: Some("swa-full-tokens-ratio"),
            value_name: "SHARE",
            values: OptionValues::Share(LEAST_SHARE..=Ratio::ONE),
            example: "0.8",
            engines: &[(Profile::Sglang, EnginePart::WINDOW_POOL)],
            differs_by_pool: true,
            tries: Tries::of(&["0.02", "0.05", "0.1", "0.2", "0.4", "0.8", "1"]),
        }
        /// Memory of SGLang's pool of states for that of its pool of full attention; 0.9 where it is left out.
        mamba_full_memory_ratio: Proportion = Self::MAMBA_FULL_MEMORY_RATIO => {
            key: "mamba_full_memory_ratio",
            flag: Some("mamba-full-memory-ratio"),
            value_name: "RATIO",
            values: OptionValues::Proportion(Proportion::of(LEAST_SHARE)..=Self::MOST_MEMORY_RATIO),
            example: "0.9",
            engines: &[(Profile::Sglang, EnginePart::STATE_POOL)],
            differs_by_pool: true,
            tries: Tries::of(&["0.1", "0.2", "0.4", "0.6", "0.9", "1", "2", "4"]),
        }
        /// Tokens of one full group that take as much memory as one state of one group, which GROUPS do not say;
        /// needed for states in SGLang.
        state_tokens: u32 = 0 => {
            key: "state_tokens",
            flag: Some("state-tokens"),
            value_name: "TOKENS",
            values: OptionValues::Count(1..=MAX_TOKENS),
            example: "544",
            engines: &[(Profile::Sglang, EnginePart::STATE_POOL)],
            differs_by_pool: true,
        }
        /// Tokens of one of LMCache's chunks, a multiple of the page; 256 where it is left out.
        chunk_tokens: u32 = Self::CHUNK_TOKENS => {
            key: "chunk_tokens",
            flag: Some("chunk-tokens"),
            value_name: "TOKENS",
            values: OptionValues::Count(1..=MAX_TOKENS),
            example: "256",
            engines: &[(Profile::Lmcache, EnginePart::NOTHING), (Profile::LmcacheMp, EnginePart::NOTHING)],
            tries: Tries::of(&["64", "128", "256", "512", "1024"]),
        }
        /// How long Mooncake keeps an object that was looked up; 10s where it is left out.
        lease_ms: u64 = Self::LEASE_MS => {
            key: "lease",
            flag: Some("lease"),
            value_name: "TIME",
            values: OptionValues::Time(MAX_LEASE_MS),
            example: "10s",
            engines: &[(Profile::Mooncake, EnginePart::NOTHING)],
            tries: Tries::of(&["1s", "5s", "10s", "30s", "60s"]),
        }
        /// Share of its capacity above which Mooncake evicts, 0.9 where it is left out; or from which on LMCache's
        /// process does, 0.8.
        watermark: Ratio = Self::WATERMARK => {
            key: "watermark",
            flag: Some("watermark"),
            value_name: "SHARE",
            values: OptionValues::Share(LEAST_SHARE..=Ratio::ONE),
            example: "0.9",
            engines: &[(Profile::Mooncake, EnginePart::NOTHING)],
            tries: Tries::of(&["0.7", "0.8", "0.9", "0.95", "1"]),
        }
        /// Least share of Mooncake's objects that one batch evicts, 0.05 where it is left out; or that of the chunks of
        /// LMCache's process, 0.2.
        eviction_ratio: Ratio = Self::EVICTION_RATIO => {
            key: "eviction_ratio",
            flag: Some("eviction-ratio"),
            value_name: "SHARE",
            values: OptionValues::Share(Ratio::ZERO..=Ratio::ONE),
            example: "0.05",
            engines: &[(Profile::Mooncake, EnginePart::NOTHING)],
            tries: Tries::of(&["0.01", "0.05", "0.1", "0.2"]),
        }
        /// The watermark of LMCache's process.
        mp_watermark: Ratio = Self::MP_WATERMARK => {
            key: "watermark",
            flag: Some("watermark"),
            value_name: "SHARE",
            values: OptionValues::Share(LEAST_SHARE..=Ratio::ONE),
            example: "0.8",
            engines: &[(Profile::LmcacheMp, EnginePart::NOTHING)],
            tries: Tries::of(&["0.7", "0.8", "0.9", "0.95", "1"]),
        }
        /// The batches of LMCache's process.
        mp_eviction_ratio: Ratio = Self::MP_EVICTION_RATIO => {
            key: "eviction_ratio",
            flag: Some("eviction-ratio"),
            value_name: "SHARE",
            values: OptionValues::Share(Ratio::ZERO..=Ratio::ONE),
            example: "0.2",
            engines: &[(Profile::LmcacheMp, EnginePart::NOTHING)],
            tries: Tries::of(&["0.01", "0.05", "0.1", "0.2"]),
        }
        /// What SGLang's host tier, HiCache, holds; none where it is left out. What is loaded back from it is no hit
        /// of the estimates, which are of the device.
        hicache: Option<CapacitySpec> = None => {
            key: "hicache",
            value_name: "SIZE",
            values: OptionValues::CAPACITY,
            example: "500GiB",
            engines: &[(Profile::Sglang, EnginePart::HOST)],
        }
        /// When SGLang writes to its host tier. write-through, where it is left out: as pages enter the device;
        /// write-through-selective: as they come a second time; write-back: as the device evicts them.
        hicache_write: WritePolicy = WritePolicy::default() => {
            key: "hicache_write",
            flag: Some("hicache-write"),
            value_name: "POLICY",
            values: OptionValues::Names(&["write-through", "write-through-selective", "write-back"]),
            example: "write-back",
            engines: &[(Profile::Sglang, EnginePart::HOST)],
            tries: Tries::of(&["write-through", "write-through-selective", "write-back"]),
        }
        /// What vLLM's own tier in host memory holds below several groups of layers, or a draft head, a block of one
        /// group in a row; none where it is left out. What is loaded from it is no hit of the estimates, which are of
        /// the device. Requests are then taken one after another.
        vllm_offload: Option<CapacitySpec> = None => {
            key: "vllm_offload",
            value_name: "SIZE",
            values: OptionValues::CAPACITY,
            example: "500GiB",
            engines: &[(Profile::Vllm, EnginePart::BLOCK_POOL)],
        }
        /// Which chunks leave vLLM's own tier first: those of the request that used them longest ago, or by adaptive
        /// replacement; lru where it is left out.
        offload_policy: OffloadPolicy = OffloadPolicy::Lru => {
            key: "offload_policy",
            value_name: "POLICY",
            values: OptionValues::Names(&["lru", "arc"]),
            example: "arc",
            engines: &[(Profile::Vllm, EnginePart::HOST)],
        }
        /// How often vLLM's own tier must be offered a chunk to store it; at once where it is left out, as with 0 and
        /// 1.
        store_threshold: u32 = 0 => {
            key: "store_threshold",
            value_name: "N",
            values: OptionValues::Count(0..=MAX_OPTION),
            example: "2",
            engines: &[(Profile::Vllm, EnginePart::HOST)],
        }
        /// Blocks of the device in a chunk of vLLM's own tier; 1 where it is left out.
        blocks_per_chunk: u32 = 1 => {
            key: "blocks_per_chunk",
            value_name: "N",
            values: OptionValues::Count(1..=MAX_OPTION),
            example: "4",
            engines: &[(Profile::Vllm, EnginePart::HOST)],
        }
        /// What TensorRT-LLM's blocks in host memory hold (its host_cache_size); none where it is left out. What is
        /// found there is a hit of the engine.
        host_cache: Option<CapacitySpec> = None => {
            key: "host_cache",
            flag: Some("host-cache"),
            value_name: "SIZE",
            values: OptionValues::CAPACITY,
            example: "500GiB",
            engines: &[(Profile::Trtllm, EnginePart::NOTHING)],
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
            engines: &[(Profile::Vllm, EnginePart::NOTHING), (Profile::Sglang, EnginePart::NO_HICACHE)],
            differs_by_pool: true,
            tries: Tries { without: true, ..Tries::NONE },
        }
        /// The groups that the draft head's layers lie in, alongside windows in vLLM: of both kinds, in full ones
        /// alone, or in windows alone. Only these lose the last page that they find. all where it is left out, which
        /// is also what vLLM does with a head that has no cache of its own.
        draft_layers: DraftLayers = DraftLayers::All => {
            key: "draft_layers",
            flag: Some("draft-layers"),
            value_name: "GROUPS",
            values: OptionValues::Names(&["all", "full", "windows"]),
            example: "full",
            engines: &[(Profile::Vllm, EnginePart::DRAFTED_WINDOWS)],
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
            example: "off",
            engines: &[
                (Profile::LeafFirst, EnginePart::NOTHING),
                (Profile::Vllm, EnginePart::NO_OFFLOAD),
                (Profile::Sglang, EnginePart::NO_OTHER_POOL),
                (Profile::Lmcache, EnginePart::NOTHING),
                (Profile::LmcacheMp, EnginePart::NOTHING),
                (Profile::Mooncake, EnginePart::NOTHING),
            ],
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
    /// Whether some layers attend to a window alongside full attention.
    fn has_windows(&self) -> bool {
        matches!(self.attention.other(), Some(GroupKind::Window(_)))
    }

    /// The head that drafts in the same cache.
    pub fn draft_head(&self) -> DraftHead {
        DraftHead { tokens: self.draft_tokens, layers: self.draft_layers }
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

    /// The sizes among them that are set, by name.
    pub fn sizes(&self) -> impl Iterator<Item = (&'static str, CapacitySpec)> {
        let sizes = Self::OPTIONS.iter().filter(|option| option.values == OptionValues::CAPACITY);
        sizes.filter_map(|option| Some((option.key, option.written(self).parse().ok()?)))
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

    /// The options of this name.
    pub fn options_named(key: &str) -> impl Iterator<Item = &'static EngineOption> {
        Self::OPTIONS.iter().filter(move |option| option.key == key)
    }

    /// The options, of those with one name the first.
    pub fn options_by_name() -> impl Iterator<Item = &'static EngineOption> {
        let is_first = |index: usize, key| Self::OPTIONS[..index].iter().all(|other| other.key != key);
        let firsts =
            Self::OPTIONS.iter().enumerate().filter(move |(index, option)| is_first(*index, option.key));
        firsts.map(|(_, option)| option)
    }
}
