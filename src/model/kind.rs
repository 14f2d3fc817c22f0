//! What one layer keeps, and the words that configs have for it.

/// The field that lists KV heads by layer, and what it lists.
pub(super) type ListedHeads = (&'static str, Vec<u64>);

/// What one layer keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LayerKind {
    /// Every token.
    Full,
    /// The last tokens of a sequence.
    Windowed,
    /// A state of constant size.
    State,
    /// Every token, and a state.
    FullAndState,
    /// Nothing: no attention, or another layer's cache is read.
    Nothing,
}

impl LayerKind {
    /// Whether a layer of this kind keeps, among others, what `kind` keeps.
    pub(super) fn keeps(self, kind: Self) -> bool {
        self == kind || (self == Self::FullAndState && matches!(kind, Self::Full | Self::State))
    }

    /// What the words for kinds of layers mean that configs have.
    pub(super) fn of_word(word: &str) -> Option<Self> {
        match word {
            "full_attention"
            | "attention"
            | "global_attention"
            | "deepseek_sparse_attention"
            | "indexed_attention"
            | "minimax_m3_sparse"
            | "full" => Some(Self::Full),
            "sliding_attention" | "sliding_window" | "local_attention" | "chunked_attention" => {
                Some(Self::Windowed)
            }
            "linear_attention" | "mamba" | "mamba2" | "conv" | "kda" => Some(Self::State),
            "hybrid" => Some(Self::FullAndState),
            "moe" | "mlp" | "ffn" | "none" | "no_op" => Some(Self::Nothing),
            _ => None,
        }
    }
}

/// The words of [`LayerKind::of_word`], for messages.
pub(super) const WORDS: &str = "full_attention, sliding_attention, chunked_attention, linear_attention, mamba, conv, hybrid, \
                     attention, moe or mlp";
