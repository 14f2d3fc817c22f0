//! What the caller says alongside the config.

use super::fields::shorten;
use kvset_core::units::PageSize;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// How the cache is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostOptions {
    /// Type of cached elements.
    pub kv_dtype: KvDtype,
    /// Type of recurrent states; the config's or the engine's own where it is `None`.
    pub state_dtype: Option<StateDtype>,
    /// Type of recurrent states where neither this nor the config names one; vLLM's where it is `None`.
    pub unnamed_state_dtype: Option<StateDtype>,
    /// Type of the index keys of sparse attention.
    pub indexer_dtype: IndexerDtype,
    /// Ranks the model is split over; at least 1.
    pub tensor_parallel: NonZeroU32,
    /// Where the cache lies.
    pub tier: CacheTier,
    /// Tokens per page, to round reserves up to whole pages with.
    pub page_size: Option<PageSize>,
}

impl Default for CostOptions {
    /// The config's own types, one rank, on the GPU, no page size.
    fn default() -> Self {
        Self {
            kv_dtype: KvDtype::Auto,
            state_dtype: None,
            unnamed_state_dtype: None,
            indexer_dtype: IndexerDtype::Auto,
            tensor_parallel: NonZeroU32::MIN,
            tier: CacheTier::Gpu,
            page_size: None,
        }
    }
}

/// Type of the cached elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KvDtype {
    /// What the checkpoint declares, else the model's own type.
    Auto,
    /// Four bytes.
    Fp32,
    /// Two bytes.
    Bf16,
    /// Two bytes.
    Fp16,
    /// One byte; `fp8_e4m3`, `fp8_e5m2` and `fp8_inc` are the same size.
    Fp8,
    /// One byte, with scales of the whole tensor.
    Int8,
    /// Half a byte, and a byte of scale for 16 elements.
    Nvfp4,
    /// One byte, and a byte of scale for 32 elements.
    Mxfp8,
    /// One byte, and four of scale for each head and token.
    Int8PerTokenHead,
    /// One byte, and four of scale for each head and token.
    Fp8PerTokenHead,
    /// Half a byte, and four of scale for each head and token.
    Int4PerTokenHead,
    /// A latent in FP8 with scales, its rotary part in 16 bit: 656 bytes for 512 and 64 elements.
    Fp8DsMla,
    /// A latent in NVFP4, its rotary part in 16 bit: 432 bytes for 512 and 64 elements.
    Nvfp4DsMla,
}

/// Names users and engines write, and the type; the first of each type is the one shown.
const NAMES: [(&str, KvDtype); 27] = [
    ("auto", KvDtype::Auto),
    ("bf16", KvDtype::Bf16),
    ("bfloat16", KvDtype::Bf16),
    ("fp16", KvDtype::Fp16),
    ("float16", KvDtype::Fp16),
    ("half", KvDtype::Fp16),
    ("fp32", KvDtype::Fp32),
    ("float32", KvDtype::Fp32),
    ("float", KvDtype::Fp32),
    ("fp8", KvDtype::Fp8),
    ("fp8_e4m3", KvDtype::Fp8),
    ("fp8_e5m2", KvDtype::Fp8),
    ("fp8_inc", KvDtype::Fp8),
    ("float8_e4m3fn", KvDtype::Fp8),
    ("float8_e4m3fnuz", KvDtype::Fp8),
    ("float8_e5m2", KvDtype::Fp8),
    ("int8", KvDtype::Int8),
    ("nvfp4", KvDtype::Nvfp4),
    ("nvfp4_4over6", KvDtype::Nvfp4),
    ("fp4_e2m1", KvDtype::Nvfp4),
    ("fp4_mx_block16", KvDtype::Nvfp4),
    ("mxfp8", KvDtype::Mxfp8),
    ("int8_per_token_head", KvDtype::Int8PerTokenHead),
    ("fp8_per_token_head", KvDtype::Fp8PerTokenHead),
    ("int4_per_token_head", KvDtype::Int4PerTokenHead),
    ("fp8_ds_mla", KvDtype::Fp8DsMla),
    ("nvfp4_ds_mla", KvDtype::Nvfp4DsMla),
];

impl KvDtype {
    /// The name users write.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, dtype)| *dtype == self).map_or("", |(name, _)| *name)
    }

    /// The names that stand for a type of their own, for messages.
    fn choices() -> String {
        let shown = NAMES.iter().filter(|(name, dtype)| dtype.name() == *name);
        shown.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }
}

impl FromStr for KvDtype {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        let found = NAMES.iter().find(|(name, _)| *name == lower).map(|(_, dtype)| *dtype);
        found.ok_or_else(|| {
            format!(
                "unknown element type `{}`: expected {} (for another layout give --kv-bytes-per-token)",
                shorten(text),
                Self::choices()
            )
        })
    }
}

impl fmt::Display for KvDtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Type of a recurrent state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateDtype {
    /// Four bytes.
    Float32,
    /// Two bytes.
    Bfloat16,
    /// Two bytes.
    Float16,
}

impl StateDtype {
    /// Bytes an element.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Float32 => 4,
            Self::Bfloat16 | Self::Float16 => 2,
        }
    }

    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Bfloat16 => "bfloat16",
            Self::Float16 => "float16",
        }
    }
}

impl FromStr for StateDtype {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("torch.").unwrap_or(text) {
            "float32" | "fp32" | "float" => Ok(Self::Float32),
            "bfloat16" | "bf16" => Ok(Self::Bfloat16),
            "float16" | "fp16" | "half" => Ok(Self::Float16),
            _ => Err(format!(
                "unknown type of states `{}`: expected float32, bfloat16 or float16",
                shorten(text)
            )),
        }
    }
}

/// Type of the index keys of sparse attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexerDtype {
    /// The engines' own: FP8 with scales alongside a latent, the cache's type alongside heads.
    Auto,
    /// Two bytes.
    Bf16,
    /// One byte, and four of scale for 128 elements.
    Fp8,
    /// Half a byte, and a byte of scale for 32 elements.
    Mxfp4,
}

impl FromStr for IndexerDtype {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "bf16" | "bfloat16" => Ok(Self::Bf16),
            "fp8" | "fp8_e4m3" => Ok(Self::Fp8),
            "mxfp4" => Ok(Self::Mxfp4),
            _ => Err(format!(
                "unknown type of index keys `{}`: expected auto, bf16, fp8 or mxfp4",
                shorten(text)
            )),
        }
    }
}

/// Where the cache lies, which decides whether ranks hold copies of what is not split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheTier {
    /// In the ranks' own memory: a latent cache, which cannot be split by heads, is on each.
    #[default]
    Gpu,
    /// In memory the ranks share: a latent cache is there once.
    Host,
}

impl FromStr for CacheTier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "gpu" => Ok(Self::Gpu),
            "host" => Ok(Self::Host),
            _ => Err(format!("unknown tier `{}`: expected gpu or host", shorten(text))),
        }
    }
}

impl fmt::Display for CacheTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Gpu => "gpu",
            Self::Host => "host",
        })
    }
}
