//! The architectures whose cache layout is known, and what each caches: a table.

/// How a layer's attention is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cache {
    /// Keys and values of each KV head (MHA, GQA, MQA).
    Grouped,
    /// One compressed latent a token (MLA).
    Latent,
    /// A latent, and beside it the keys of the indexer that picks which tokens to attend to.
    SparseLatent,
}

/// Which layers are of which kind where the config has no `layer_types`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Every layer attends to everything.
    AllFull,
    /// Every layer is windowed if `sliding_window` is set.
    AllWindowed,
    /// With `use_sliding_window`, the layers from `max_window_layers` on are windowed.
    WindowedFromLayer,
    /// Every n-th layer is full and the others are windowed, if `sliding_window` is set;
    /// `sliding_window_pattern` overrides n.
    FullEvery(u64),
    /// Every n-th layer is full and the others attend within chunks.
    FullEveryElseChunked(u64),
    /// Every `full_attention_interval`-th layer is full and the others keep a linear-attention state.
    FullEveryElseLinear,
    /// `hybrid_override_pattern` has a letter a layer: `*` attention, `M` Mamba, others no cache.
    LetterPattern,
    /// `layer_types` is always there.
    Listed,
}

/// What a missing `head_dim` or `num_key_value_heads` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absent {
    /// It follows from the query heads: `hidden_size / num_attention_heads`, or one KV head each.
    FromQueryHeads,
    /// The architecture has another default, so the config must say.
    Error,
}

/// The recurrent state of the layers that keep one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateNames {
    /// Gated delta nets: the `linear_*` fields.
    Linear,
    /// Mamba 2 as Nemotron-H names it.
    Nemotron,
    /// Mamba 2 as Granite names it.
    Granite,
}

/// What architectures have in common as far as their caches go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Family {
    pub cache: Cache,
    pub layout: Layout,
    pub head_dim: Absent,
    pub kv_heads: Absent,
    pub state: StateNames,
    /// Values the architecture's configs leave out because its own code has them as defaults.
    pub defaults: &'static [(&'static str, u64)],
}

impl Family {
    const GQA: Self = Self {
        cache: Cache::Grouped,
        layout: Layout::AllFull,
        head_dim: Absent::FromQueryHeads,
        kv_heads: Absent::Error,
        state: StateNames::Linear,
        defaults: &[],
    };
    const LLAMA: Self = Self { kv_heads: Absent::FromQueryHeads, ..Self::GQA };
    const MISTRAL: Self = Self { layout: Layout::AllWindowed, ..Self::GQA };
    const PHI: Self = Self { layout: Layout::AllWindowed, ..Self::LLAMA };
    const QWEN2: Self = Self { layout: Layout::WindowedFromLayer, ..Self::GQA };
    const WIDE_HEADS: Self = Self { head_dim: Absent::Error, ..Self::GQA };
    const QWEN3: Self = Self { layout: Layout::WindowedFromLayer, ..Self::WIDE_HEADS };
    const EVERY_SECOND: Self = Self { layout: Layout::FullEvery(2), ..Self::WIDE_HEADS };
    const EVERY_FOURTH: Self = Self { layout: Layout::FullEvery(4), ..Self::GQA };
    const GEMMA3: Self = Self {
        layout: Layout::FullEvery(6),
        defaults: &[("num_key_value_heads", 4), ("head_dim", 256), ("sliding_window", 4096)],
        ..Self::WIDE_HEADS
    };
    const GEMMA3N: Self = Self { layout: Layout::FullEvery(5), ..Self::WIDE_HEADS };
    const LLAMA4: Self = Self { layout: Layout::FullEveryElseChunked(4), ..Self::WIDE_HEADS };
    const MLA: Self = Self { cache: Cache::Latent, ..Self::GQA };
    const SPARSE_MLA: Self = Self { cache: Cache::SparseLatent, ..Self::GQA };
    const DELTA_NET: Self = Self { layout: Layout::FullEveryElseLinear, ..Self::WIDE_HEADS };
    const NEMOTRON_H: Self =
        Self { layout: Layout::LetterPattern, state: StateNames::Nemotron, ..Self::WIDE_HEADS };
    const GRANITE_H: Self = Self { layout: Layout::Listed, state: StateNames::Granite, ..Self::GQA };
}

/// One architecture: its class, its model types, and whether it may keep the text model's fields one
/// level down, where that level names its own architecture.
pub(super) struct Entry(pub &'static str, pub &'static [&'static str], pub Family, pub Nesting);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Nesting {
    /// Fields are where the config begins.
    Flat,
    /// Fields may be one level down.
    Wrapper,
}

use Nesting::{Flat, Wrapper};

/// Every architecture whose cache layout is known.
pub(super) const KNOWN: &[Entry] = &[
    Entry("LlamaForCausalLM", &["llama"], Family::LLAMA, Flat),
    Entry("MistralForCausalLM", &["mistral", "ministral", "ministral3"], Family::MISTRAL, Flat),
    Entry("MixtralForCausalLM", &["mixtral"], Family::MISTRAL, Flat),
    Entry("Qwen2ForCausalLM", &["qwen2"], Family::QWEN2, Flat),
    Entry("Qwen2MoeForCausalLM", &["qwen2_moe"], Family::QWEN2, Flat),
    Entry("Qwen3ForCausalLM", &["qwen3", "qwen3_vl_text"], Family::QWEN3, Flat),
    Entry("Qwen3MoeForCausalLM", &["qwen3_moe", "qwen3_vl_moe_text"], Family::QWEN3, Flat),
    Entry("Qwen3NextForCausalLM", &["qwen3_next"], Family::DELTA_NET, Flat),
    Entry("Qwen3_5ForCausalLM", &["qwen3_5_text"], Family::DELTA_NET, Flat),
    Entry("Qwen3_5MoeForCausalLM", &["qwen3_5_moe_text"], Family::DELTA_NET, Flat),
    Entry("GlmForCausalLM", &["glm"], Family::WIDE_HEADS, Flat),
    Entry("Glm4ForCausalLM", &["glm4"], Family::WIDE_HEADS, Flat),
    Entry("Glm4MoeForCausalLM", &["glm4_moe", "glm4v_moe_text"], Family::WIDE_HEADS, Flat),
    Entry("Glm4MoeLiteForCausalLM", &["glm4_moe_lite"], Family::MLA, Flat),
    Entry("GlmMoeDsaForCausalLM", &["glm_moe_dsa"], Family::SPARSE_MLA, Flat),
    Entry("DeepseekV2ForCausalLM", &["deepseek_v2"], Family::MLA, Flat),
    Entry("DeepseekV3ForCausalLM", &["deepseek_v3", "kimi_k2"], Family::MLA, Flat),
    Entry("DeepseekV32ForCausalLM", &["deepseek_v32"], Family::SPARSE_MLA, Flat),
    Entry("GptOssForCausalLM", &["gpt_oss"], Family::EVERY_SECOND, Flat),
    Entry("GemmaForCausalLM", &["gemma"], Family::WIDE_HEADS, Flat),
    Entry("Gemma2ForCausalLM", &["gemma2"], Family::EVERY_SECOND, Flat),
    Entry("Gemma3ForCausalLM", &["gemma3_text"], Family::GEMMA3, Flat),
    Entry("Gemma3nForCausalLM", &["gemma3n_text"], Family::GEMMA3N, Flat),
    Entry("Llama4ForCausalLM", &["llama4_text"], Family::LLAMA4, Flat),
    Entry("PhiForCausalLM", &["phi"], Family::LLAMA, Flat),
    Entry("Phi3ForCausalLM", &["phi3"], Family::PHI, Flat),
    Entry("CohereForCausalLM", &["cohere"], Family::LLAMA, Flat),
    Entry("Cohere2ForCausalLM", &["cohere2"], Family::EVERY_FOURTH, Flat),
    Entry("OlmoForCausalLM", &["olmo"], Family::LLAMA, Flat),
    Entry("Olmo2ForCausalLM", &["olmo2"], Family::LLAMA, Flat),
    Entry("Olmo3ForCausalLM", &["olmo3"], Family::EVERY_FOURTH, Flat),
    Entry("GraniteForCausalLM", &["granite"], Family::LLAMA, Flat),
    Entry("GraniteMoeForCausalLM", &["granitemoe"], Family::LLAMA, Flat),
    Entry("GraniteMoeHybridForCausalLM", &["granitemoehybrid"], Family::GRANITE_H, Flat),
    Entry("NemotronHForCausalLM", &["nemotron_h"], Family::NEMOTRON_H, Flat),
    Entry("SeedOssForCausalLM", &["seed_oss"], Family::WIDE_HEADS, Flat),
    Entry("InternLM2ForCausalLM", &["internlm2"], Family::LLAMA, Flat),
    Entry("MiniMaxM2ForCausalLM", &["minimax_m2"], Family::WIDE_HEADS, Flat),
    Entry("DeciLMForCausalLM", &["deci"], Family::GQA, Flat),
    Entry("LlavaForConditionalGeneration", &["llava"], Family::LLAMA, Wrapper),
    Entry("Mistral3ForConditionalGeneration", &["mistral3"], Family::MISTRAL, Wrapper),
    Entry("Gemma3ForConditionalGeneration", &["gemma3"], Family::GEMMA3, Wrapper),
    Entry("Gemma3nForConditionalGeneration", &["gemma3n"], Family::GEMMA3N, Wrapper),
    Entry("Llama4ForConditionalGeneration", &["llama4"], Family::LLAMA4, Wrapper),
    Entry("Qwen2VLForConditionalGeneration", &["qwen2_vl", "qwen2_vl_text"], Family::QWEN2, Wrapper),
    Entry("Qwen2_5_VLForConditionalGeneration", &["qwen2_5_vl", "qwen2_5_vl_text"], Family::QWEN2, Wrapper),
    Entry("Qwen3VLForConditionalGeneration", &["qwen3_vl"], Family::QWEN3, Wrapper),
    Entry("Qwen3VLMoeForConditionalGeneration", &["qwen3_vl_moe"], Family::QWEN3, Wrapper),
    Entry("Qwen3_5ForConditionalGeneration", &["qwen3_5"], Family::DELTA_NET, Wrapper),
    Entry("Qwen3_5MoeForConditionalGeneration", &["qwen3_5_moe"], Family::DELTA_NET, Wrapper),
    Entry("Glm4vMoeForConditionalGeneration", &["glm4v_moe"], Family::WIDE_HEADS, Wrapper),
    Entry("InternVLChatModel", &["internvl_chat"], Family::QWEN2, Wrapper),
    Entry("KimiK25ForConditionalGeneration", &["kimi_k25"], Family::MLA, Wrapper),
];

/// The names of the known architectures, for messages.
pub(super) fn known_names() -> String {
    KNOWN.iter().map(|entry| entry.0).collect::<Vec<_>>().join(", ")
}
