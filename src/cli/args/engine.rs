//! Options of single engines.

use super::parse::choice;
use clap::Args;
use kvset_core::engines::hybrid::{Attention, Retention};
use kvset_core::engines::profile::{OverlapMode, Profile};
use kvset_core::engines::rules::{EngineRules, MAX_DRAFT_TOKENS};
use kvset_core::engines::sglang::WritePolicy;
use kvset_core::units::ratio::Ratio;
use kvset_settings::Span;

/// What an engine is told beside its name; each option belongs to one of them.
#[derive(Debug, Clone, Default, Args)]
pub struct EngineArgs {
    /// Groups of layers that share vLLM's pool of blocks, such as full+window:128, full+5*window:1024 or
    /// full+3*mamba. More memory can then lose hits, so capacities are modelled one by one [default: what
    /// --model-config says, else full]. With sglang: windows, which have a pool of their own there.
    #[arg(long, value_name = "GROUPS")]
    pub attention: Option<Attention>,
    /// With --attention: which pages of windows and states keep their names. 0: those at a prompt's end and where
    /// it leaves an earlier one; none: all of them; N: those at each multiple of N tokens, too [default: 0].
    #[arg(long, value_name = "N|none")]
    pub retention_interval: Option<Retention>,
    /// With --attention: most tokens of a prompt that vLLM or SGLang computes in one step [default: 8192].
    #[arg(long, value_name = "TOKENS")]
    pub prefill_chunk: Option<u32>,
    /// With sglang and windows: tokens of their pool for each token of the pool of full attention [default: 0.8].
    #[arg(long, value_name = "SHARE")]
    pub swa_full_tokens_ratio: Option<Ratio>,
    /// Tokens of one of LMCache's chunks, a multiple of the trace's page [default: 256].
    #[arg(long, value_name = "TOKENS")]
    pub chunk_tokens: Option<u32>,
    /// How long Mooncake keeps an object that was asked about, such as 10s [default: 10s].
    #[arg(long, value_name = "TIME")]
    pub lease: Option<Span>,
    /// Share of its capacity above which Mooncake evicts, or from which on LMCache's process does [default: 0.9; 0.8].
    #[arg(long, value_name = "SHARE")]
    pub watermark: Option<Ratio>,
    /// Least share of Mooncake's objects that one batch evicts, or that of the chunks of LMCache's process [default:
    /// 0.05; 0.2].
    #[arg(long, value_name = "SHARE")]
    pub eviction_ratio: Option<Ratio>,
    /// With --below hicache:SIZE: when SGLang writes to the host: as pages enter the device, as they come a second time, or
    /// as the device evicts them [default: write-through].
    #[arg(long, value_name = "POLICY", value_parser = choice::<WritePolicy>())]
    pub hicache_write: Option<WritePolicy>,
    /// With vllm and sglang: a head of the model's own (MTP, EAGLE) drafts so many tokens at a time in the same cache, so each hit loses
    /// its last page; 1 where no number is given. Capacities are then modelled one by one.
    #[arg(
        long,
        value_name = "TOKENS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_DRAFT_TOKENS))
    )]
    pub draft_head: Option<u32>,
    /// With leaf-first, and vllm with full attention, where the trace says how long requests took: whether those that
    /// overlap are modelled as such, or taken one after another [default: on].
    #[arg(long, value_name = "on|off", value_parser = choice::<OverlapMode>())]
    pub overlap: Option<OverlapMode>,
}

impl EngineArgs {
    /// The options, each at what was given, at what the `model` says, or at the engine's default.
    pub fn rules(&self, model: Option<&Attention>) -> EngineRules {
        let default = EngineRules::default();
        EngineRules {
            attention: self.attention.as_ref().or(model).cloned().unwrap_or(default.attention),
            retention_interval: self.retention_interval.unwrap_or(default.retention_interval),
            prefill_chunk: self.prefill_chunk.unwrap_or(default.prefill_chunk),
            swa_full_tokens_ratio: self.swa_full_tokens_ratio.unwrap_or(default.swa_full_tokens_ratio),
            chunk_tokens: self.chunk_tokens.unwrap_or(default.chunk_tokens),
            lease_ms: self.lease.map_or(default.lease_ms, Span::as_ms),
            watermark: self.watermark.unwrap_or(default.watermark),
            eviction_ratio: self.eviction_ratio.unwrap_or(default.eviction_ratio),
            mp_watermark: self.watermark.unwrap_or(default.mp_watermark),
            mp_eviction_ratio: self.eviction_ratio.unwrap_or(default.mp_eviction_ratio),
            hicache: None,
            hicache_write: self.hicache_write.unwrap_or(default.hicache_write),
            draft_tokens: self.draft_head.unwrap_or(default.draft_tokens),
            overlap: self.overlap.unwrap_or(OverlapMode::On),
        }
    }

    /// Whether every option that was given is read by one of the engines; `offloads` where vLLM's own tier is below.
    ///
    /// # Errors
    /// The first that is not, with what to do.
    pub fn check(
        &self,
        engines: &[Profile],
        model: Option<&Attention>,
        offloads: bool,
    ) -> Result<(), String> {
        const LMCACHE: &[Profile] = &[Profile::Lmcache, Profile::LmcacheMp];
        const BATCHES: &[Profile] = &[Profile::Mooncake, Profile::LmcacheMp];
        const POOLS: &[Profile] = &[Profile::Vllm, Profile::Sglang];
        let given: [(_, &[Profile], _); 10] = [
            ("--attention", POOLS, self.attention.is_some()),
            ("--retention-interval", &[Profile::Vllm], self.retention_interval.is_some()),
            ("--prefill-chunk", POOLS, self.prefill_chunk.is_some()),
            ("--swa-full-tokens-ratio", &[Profile::Sglang], self.swa_full_tokens_ratio.is_some()),
            ("--chunk-tokens", LMCACHE, self.chunk_tokens.is_some()),
            ("--lease", &[Profile::Mooncake], self.lease.is_some()),
            ("--watermark", BATCHES, self.watermark.is_some()),
            ("--eviction-ratio", BATCHES, self.eviction_ratio.is_some()),
            ("--draft-head", POOLS, self.draft_head.is_some()),
            ("--overlap", &[Profile::LeafFirst, Profile::Vllm], self.overlap.is_some()),
        ];
        let is_read = |of: &[Profile]| of.iter().any(|of| engines.contains(of));
        if let Some((option, of, _)) = given.into_iter().find(|(_, of, given)| *given && !is_read(of)) {
            let of: Vec<_> = of.iter().map(|of| of.name()).collect();
            let (all, one) = (of.join(" and "), of.join(" or --engine "));
            return Err(format!("{option} is an option of {all}: leave it out, or choose --engine {one}"));
        }
        let several_groups = self.attention.as_ref().or(model).is_some_and(|groups| !groups.is_full());
        let by_groups = several_groups || self.draft_head.is_some();
        if self.overlap == Some(OverlapMode::On) && by_groups && !engines.contains(&Profile::LeafFirst) {
            let reason = "--overlap on is of leaf-first, and of vllm with one group of layers and no draft head: with several \
                          groups, or a draft head, each capacity is modelled on its own, one request after another; leave it \
                          out";
            return Err(reason.to_owned());
        }
        if self.retention_interval.is_some() && !several_groups {
            let reason = "--retention-interval is of vllm with several groups of layers: give --attention, such as \
                          full+window:128, or leave it out";
            return Err(reason.to_owned());
        }
        if self.prefill_chunk.is_some() && !by_groups && !offloads {
            let reason = "--prefill-chunk is of vllm with several groups of layers, a draft head or --below vllm-offload, and of \
                          sglang with windows: give one of these, such as --attention full+window:128, or leave it out";
            return Err(reason.to_owned());
        }
        self.check_window_pool(engines, model)
    }

    /// Whether SGLang has a pool for the groups beside the full ones, and only where it has.
    fn check_window_pool(&self, engines: &[Profile], model: Option<&Attention>) -> Result<(), String> {
        let groups = self.attention.as_ref().or(model);
        let is_windowed =
            self.rules(model).has_window_pool(Profile::Sglang) && engines.contains(&Profile::Sglang);
        let is_alone = !engines.contains(&Profile::Vllm);
        let reason = match () {
            () if self.swa_full_tokens_ratio.is_some() && !is_windowed => {
                "--swa-full-tokens-ratio is of sglang with windows: give --attention, such as full+window:128, or leave it out"
            }
            () if self.draft_head.is_some() && is_windowed => {
                "sglang with windows and a draft head is not modelled: leave --draft-head or the windows out"
            }
            () if is_alone && !is_windowed && groups.is_some_and(|groups| !groups.is_full()) => {
                "sglang is modelled with windows beside full attention: give --attention such as full+window:128, or \
                 --attention full for the layers that keep every token alone"
            }
            () if is_alone
                && self.prefill_chunk.is_some()
                && !is_windowed
                && engines.contains(&Profile::Sglang) =>
            {
                "--prefill-chunk is of sglang with windows: give --attention, such as full+window:128, or leave it out"
            }
            () => return Ok(()),
        };
        Err(reason.to_owned())
    }
}
