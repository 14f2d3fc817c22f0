//! What a model's caches follow from.

/// What one layer with attention caches of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayerCache {
    /// Keys and values of each KV head (MHA, GQA, MQA).
    Grouped,
    /// Keys and values of KV heads, and in sparse layers one index key (`sparse_attention_config`).
    IndexedGroups,
    /// One compressed latent a token (MLA); keys and values of heads where `kv_lora_rank` is null.
    Latent,
    /// A latent, and the index keys of the layers that own an indexer. A cache in FP8 is packed, as FlashMLA reads it
    /// on SM90 (vLLM's and SGLang's choice for DeepSeek-V3.2 there).
    SparseLatent,
    /// A sparse latent whose cache in FP8 is plain, as FlashInfer reads it on SM100, vLLM's default of GLM-5 there.
    PlainSparseLatent,
    /// A latent for every so many tokens by layer (`compress_ratios`), index keys with a ratio of 4, and a
    /// window of whole latents in every layer.
    Compressed,
}

/// Which layers keep what where the config has no list of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayerLayout {
    /// Every layer attends to everything.
    AllFull,
    /// Every layer is windowed if `sliding_window` is set.
    AllWindowed,
    /// With `use_sliding_window`, the layers from `max_window_layers` on are windowed.
    WindowedFromLayer,
    /// The last of every n layers is full and the others are windowed, if `sliding_window` is set; a pattern in
    /// the config overrides n.
    FullEvery(u64),
    /// The last of every n layers and the model's last one are full, the others windowed, if `sliding_window` is set.
    FullEveryAndLast(u64),
    /// The first of every n layers is full and the others are windowed, if `sliding_window` is set.
    FullFirstOf(u64),
    /// The last of every n layers is full and the others attend within chunks; `no_rope_layers` overrides n.
    FullEveryElseChunked(u64),
    /// A list of 0 (full) and 1 (windowed).
    WindowFlags(&'static str),
    /// The last of every `full_attention_interval` layers, or of n, is full and the others keep a state.
    FullEveryElseState(u64),
    /// One letter a layer: `*` attention, `M` Mamba, others no cache.
    Letters(&'static str),
    /// One layer of every period, at an offset, is full and the others keep a state.
    Period { period: &'static str, offset: &'static str },
    /// A list of the layers with attention, counted from 0; the others keep a state.
    StateBut(&'static str),
    /// Listed layers have attention, others a state; every layer is full where the list is absent.
    StateButOrFull(&'static str),
    /// A list of the layers with attention, counted from 1; the others keep a state.
    StateButFromOne(&'static str),
    /// A list of 1 (full) and 0 (state).
    FullFlags(&'static str),
    /// The last of every `layer_group_size` layers, and what is left of the last group, are full and the others
    /// keep a state.
    LastOfGroups,
    /// Every layer has attention and a state.
    Both,
    /// Each layer has two attentions, with a cache each.
    Twice,
    /// A ratio a layer: 0 is windowed, others are compressed.
    Ratios,
    /// The config always lists the layers.
    Listed,
}

/// The fields that give a layer's KV heads and their widths; the first that is there counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeadNames {
    pub heads: &'static [&'static str],
    pub key: &'static [&'static str],
    /// Empty: values are as wide as keys.
    pub value: &'static [&'static str],
    /// A flag without which the first of `heads` does not count.
    pub gate: Option<&'static str>,
    /// Whether the width of a key follows from the query heads where no field gives it.
    pub derived: bool,
}

/// The recurrence of layers that keep a state, with the names of its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recurrence {
    /// Gated delta nets, the `linear_*` fields: convolution `(2*Hk*Dk + Hv*Dv)*(k-1)`, state `Hv*Dk*Dv`.
    GatedDelta,
    /// Mamba 2: convolution `(H*P + 2*G*N)*(k-1)`, state `H*P*N`.
    Mamba2 {
        heads: &'static str,
        width: &'static str,
        groups: &'static str,
        state: &'static str,
        kernel: &'static str,
    },
    /// Mamba 1: convolution `E*D*(k-1)`, state `E*D*N`.
    Mamba1,
    /// Short convolutions: `D*(k-1)`.
    ShortConvolution,
    /// Lightning attention: state `H*D*D`.
    Lightning,
    /// Kimi delta attention: convolution `3*H*D*(k-1)`, state `H*D*D`.
    KimiDelta { heads: &'static str, width: &'static str, kernel: &'static str },
}

/// The type a recurrent state is kept in where neither config nor user says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateType {
    /// The model's own, as vLLM keeps it; SGLang keeps float32.
    Model,
    /// Float32, in vLLM as in SGLang.
    Float32,
}

/// The rule for one cache layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Family {
    pub cache: LayerCache,
    pub layout: LayerLayout,
    /// Heads of the layers that keep every token.
    pub full: HeadNames,
    /// Heads of the layers with a window.
    pub windowed: HeadNames,
    pub recurrence: Option<(Recurrence, StateType)>,
    /// Fields under names of the family's own: the usual name, and where it is. A dot goes one level down.
    pub names: &'static [(&'static str, &'static str)],
    /// A flag that makes one KV head of all, and what it is where the config leaves it out.
    pub multi_query: Option<(&'static str, bool)>,
}

/// Where attention keeps its heads in nearly every config.
pub(crate) const HEADS: HeadNames = HeadNames {
    heads: &["num_key_value_heads"],
    key: &["head_dim", "attention_head_dim", "kv_channels"],
    value: &[],
    gate: None,
    derived: true,
};

/// Gemma 4: layers that attend to everything have fewer and wider heads.
const GLOBAL_HEADS: HeadNames = HeadNames {
    heads: &["num_global_key_value_heads", "num_key_value_heads"],
    key: &["global_head_dim", "head_dim"],
    gate: Some("attention_k_eq_v"),
    ..HEADS
};

/// MiMo-V2: keys are wider than values.
const WIDE_KEYS: HeadNames = HeadNames { value: &["v_head_dim"], ..HEADS };
const WIDE_KEYS_WINDOWED: HeadNames = HeadNames {
    heads: &["swa_num_key_value_heads", "num_key_value_heads"],
    key: &["swa_head_dim", "head_dim"],
    value: &["swa_v_head_dim", "v_head_dim"],
    ..HEADS
};

impl Family {
    pub(crate) const PLAIN: Self = Self {
        cache: LayerCache::Grouped,
        layout: LayerLayout::AllFull,
        full: HEADS,
        windowed: HEADS,
        recurrence: None,
        names: &[],
        multi_query: None,
    };
    pub(crate) const LISTED: Self = Self::laid_out(LayerLayout::Listed);
    pub(crate) const INDEXED_GROUPS: Self = Self { cache: LayerCache::IndexedGroups, ..Self::PLAIN };
    pub(crate) const GEMMA4: Self =
        Self { full: GLOBAL_HEADS, ..Self::laid_out(LayerLayout::FullEveryAndLast(6)) };
    /// The same, whose global heads need no flag.
    pub(crate) const GEMMA4_UNIFIED: Self =
        Self { full: HeadNames { gate: None, ..GLOBAL_HEADS }, ..Self::GEMMA4 };
    pub(crate) const MIMO_V2: Self = Self {
        full: WIDE_KEYS,
        windowed: WIDE_KEYS_WINDOWED,
        ..Self::laid_out(LayerLayout::WindowFlags("hybrid_layer_pattern"))
    };
    pub(crate) const LATENT: Self = Self { cache: LayerCache::Latent, ..Self::PLAIN };
    pub(crate) const SPARSE: Self = Self { cache: LayerCache::SparseLatent, ..Self::PLAIN };
    pub(crate) const GLM5: Self = Self { cache: LayerCache::PlainSparseLatent, ..Self::PLAIN };
    pub(crate) const LONGCAT: Self = Self {
        cache: LayerCache::Latent,
        names: &[("num_hidden_layers", "num_layers")],
        ..Self::laid_out(LayerLayout::Twice)
    };
    pub(crate) const COMPRESSED: Self =
        Self { cache: LayerCache::Compressed, ..Self::laid_out(LayerLayout::Ratios) };
    pub(crate) const DELTA_NET: Self = Self {
        recurrence: Some((Recurrence::GatedDelta, StateType::Model)),
        ..Self::laid_out(LayerLayout::FullEveryElseState(4))
    };
    pub(crate) const NEMOTRON_H: Self = Self {
        recurrence: Some((
            Recurrence::Mamba2 {
                heads: "mamba_num_heads",
                width: "mamba_head_dim",
                groups: "n_groups",
                state: "ssm_state_size",
                kernel: "conv_kernel",
            },
            StateType::Float32,
        )),
        ..Self::laid_out(LayerLayout::Letters("hybrid_override_pattern"))
    };
    const MAMBA2: Option<(Recurrence, StateType)> = Some((
        Recurrence::Mamba2 {
            heads: "mamba_n_heads",
            width: "mamba_d_head",
            groups: "mamba_n_groups",
            state: "mamba_d_state",
            kernel: "mamba_d_conv",
        },
        StateType::Model,
    ));
    pub(crate) const GRANITE_H: Self = Self { recurrence: Self::MAMBA2, ..Self::LISTED };
    pub(crate) const BAMBA: Self =
        Self { recurrence: Self::MAMBA2, ..Self::laid_out(LayerLayout::StateBut("attn_layer_indices")) };
    pub(crate) const FALCON_H1: Self = Self { recurrence: Self::MAMBA2, ..Self::laid_out(LayerLayout::Both) };
    pub(crate) const ZAMBA2: Self = Self {
        recurrence: Some((
            Recurrence::Mamba2 {
                heads: "n_mamba_heads",
                width: "mamba_headdim",
                groups: "mamba_ngroups",
                state: "mamba_d_state",
                kernel: "mamba_d_conv",
            },
            StateType::Model,
        )),
        full: HeadNames { key: &["attention_head_dim"], derived: false, ..HEADS },
        ..Self::LISTED
    };
    pub(crate) const JAMBA: Self = Self {
        recurrence: Some((Recurrence::Mamba1, StateType::Model)),
        ..Self::laid_out(LayerLayout::Period { period: "attn_layer_period", offset: "attn_layer_offset" })
    };
    pub(crate) const LFM2: Self = Self {
        recurrence: Some((Recurrence::ShortConvolution, StateType::Model)),
        ..Self::laid_out(LayerLayout::StateButOrFull("full_attn_idxs"))
    };
    pub(crate) const MINIMAX_LINEAR: Self = Self {
        recurrence: Some((Recurrence::Lightning, StateType::Model)),
        ..Self::laid_out(LayerLayout::FullFlags("attn_type_list"))
    };
    pub(crate) const LING_LINEAR: Self = Self {
        recurrence: Some((Recurrence::Lightning, StateType::Model)),
        ..Self::laid_out(LayerLayout::LastOfGroups)
    };
    pub(crate) const LING_HYBRID: Self = Self { cache: LayerCache::Latent, ..Self::LING_LINEAR };
    pub(crate) const LING_V3: Self = Self {
        cache: LayerCache::Latent,
        recurrence: Some((
            Recurrence::KimiDelta {
                heads: "num_attention_heads",
                width: "head_dim",
                kernel: "short_conv_kernel_size",
            },
            StateType::Float32,
        )),
        names: &[
            ("num_attention_heads", "linear_num_heads"),
            ("head_dim", "linear_head_dim"),
            ("short_conv_kernel_size", "linear_conv_kernel_dim"),
        ],
        ..Self::laid_out(LayerLayout::LastOfGroups)
    };
    pub(crate) const KIMI_LINEAR: Self = Self {
        cache: LayerCache::Latent,
        recurrence: Some((
            Recurrence::KimiDelta {
                heads: "linear_attn_config.num_heads",
                width: "linear_attn_config.head_dim",
                kernel: "linear_attn_config.short_conv_kernel_size",
            },
            StateType::Float32,
        )),
        names: &[
            ("linear_attn_config.num_heads", "linear_num_heads"),
            ("linear_attn_config.head_dim", "linear_head_dim"),
            ("linear_attn_config.short_conv_kernel_size", "linear_conv_kernel_dim"),
        ],
        ..Self::laid_out(LayerLayout::StateButFromOne("linear_attn_config.full_attn_layers"))
    };

    /// Keys and values of heads, the layers by a rule.
    pub(crate) const fn laid_out(layout: LayerLayout) -> Self {
        Self { layout, ..Self::PLAIN }
    }

    /// The same with fields under names of the family's own.
    pub(crate) const fn named(self, names: &'static [(&'static str, &'static str)]) -> Self {
        Self { names, ..self }
    }

    /// The same with one KV head where a flag says so.
    pub(crate) const fn one_head_if(self, flag: &'static str, absent: bool) -> Self {
        Self { multi_query: Some((flag, absent)), ..self }
    }
}
