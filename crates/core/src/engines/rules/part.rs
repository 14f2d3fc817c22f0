//! The parts that an engine is modelled with under some of its options, a row each.

use super::EngineRules;
use crate::engines::hybrid::GroupKind;
use crate::engines::profile::{Layout, Profile};

/// What an engine has, or has not, with some options.
#[derive(Debug, Clone, Copy)]
pub struct EnginePart {
    is_there: fn(&EngineRules, Layout) -> bool,
    /// In words, to follow "with".
    pub words: &'static str,
    /// What to do on the command line for it to be there, but for leaving out what needs it.
    pub cure: Option<&'static str>,
}

impl EnginePart {
    /// Nothing besides the engine.
    pub const NOTHING: Self = Self { is_there: |_, _| true, words: "", cure: None };
    /// Several groups of layers that share vLLM's pool of blocks.
    pub const SEVERAL_GROUPS: Self = Self {
        is_there: |rules, layout| layout == Layout::Blocks && !rules.attention.is_full(),
        words: "several groups of layers",
        cure: Some("give --attention, such as full+window:128"),
    };
    /// vLLM's pool of blocks by its own rules at each capacity: groups of layers that share it evict each other, and a
    /// page that a draft head loses is computed into a second copy.
    pub const BLOCK_POOL: Self = Self {
        is_there: |rules, layout| {
            layout == Layout::Blocks && (!rules.attention.is_full() || rules.draft_tokens > 0)
        },
        words: "several groups of layers or a draft head",
        cure: Some("give one of these, such as --attention full+window:128, or --below vllm-offload:SIZE"),
    };
    /// A head that drafts in that pool alongside windows, where it matters which groups its layers lie in.
    pub const DRAFTED_WINDOWS: Self = Self {
        is_there: |rules, layout| layout == Layout::Blocks && rules.draft_tokens > 0 && rules.has_windows(),
        words: "a draft head and windows alongside full attention",
        cure: Some("give --draft-head and --attention such as full+window:128"),
    };
    /// A pool for windows alongside that of full attention, in SGLang.
    pub const WINDOW_POOL: Self = Self {
        is_there: |rules, layout| layout == Layout::Pools && rules.draft_tokens == 0 && rules.has_windows(),
        words: "windows alongside full attention and no draft head",
        cure: Some("give --attention such as full+window:128, without --draft-head"),
    };
    /// A pool for states, likewise.
    pub const STATE_POOL: Self = Self {
        is_there: |rules, layout| {
            layout == Layout::Pools
                && rules.draft_tokens == 0
                && rules.attention.other() == Some(GroupKind::Mamba)
        },
        words: "states alongside full attention and no draft head",
        cure: Some("give --attention such as full+3*mamba, without --draft-head"),
    };
    /// One of these pools.
    pub const OTHER_POOL: Self = Self {
        is_there: |rules, layout| {
            (Self::WINDOW_POOL.is_there)(rules, layout) || (Self::STATE_POOL.is_there)(rules, layout)
        },
        words: "windows or states alongside full attention and no draft head",
        cure: Self::WINDOW_POOL.cure,
    };
    /// None of them.
    pub const NO_OTHER_POOL: Self = Self {
        is_there: |rules, layout| !(Self::OTHER_POOL.is_there)(rules, layout),
        words: "no windows and no states",
        cure: Some("leave --attention out"),
    };
    /// Pages keyed with the tokens behind them, as SGLang does where a head drafts in the same tree.
    pub const PAIRS: Self = Self {
        is_there: |rules, layout| layout == Layout::Pools && rules.draft_tokens > 0,
        words: "a draft head",
        cure: Some("give --draft-head"),
    };
    /// A host tier of the engine's own that is modelled with its device.
    pub const HOST: Self = Self {
        is_there: |rules, layout| match layout {
            Layout::Blocks => rules.vllm_offload.is_some() && (Self::BLOCK_POOL.is_there)(rules, layout),
            _ => rules.hicache.is_some(),
        },
        words: "a host tier",
        cure: Some("give --below hicache:SIZE"),
    };
    /// No such tier in SGLang.
    pub const NO_HICACHE: Self = Self {
        is_there: |rules, layout| !(Self::HOST.is_there)(rules, layout),
        words: "no host tier",
        cure: Some("leave --below hicache out"),
    };
    /// None in vLLM.
    pub const NO_OFFLOAD: Self = Self { cure: Some("leave --below vllm-offload out"), ..Self::NO_HICACHE };

    /// Whether an engine with these rules has it.
    pub fn holds(&self, rules: &EngineRules, engine: Profile) -> bool {
        (self.is_there)(rules, engine.spec().layout)
    }
}
