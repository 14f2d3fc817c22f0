//! What the caller says beside the config.

use super::error::ModelError;
use super::fields::{Fields, shorten};
use kvset_core::units::PageSize;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How the cache is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostOptions {
    /// Type of cached elements; the config's own type where it is `None`.
    pub kv_dtype: Option<KvDtype>,
    /// Ranks the model is split over; at least 1.
    pub tensor_parallel: std::num::NonZeroU32,
    /// Where the cache lies.
    pub tier: Tier,
    /// Tokens a page, to round reserves up to whole pages with.
    pub page_size: Option<PageSize>,
}

impl Default for CostOptions {
    /// The config's own type, one rank, on the GPU, no page size.
    fn default() -> Self {
        Self { kv_dtype: None, tensor_parallel: std::num::NonZeroU32::MIN, tier: Tier::Gpu, page_size: None }
    }
}

/// Type of the cached elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KvDtype {
    /// Four bytes.
    Fp32,
    /// Two bytes.
    Bf16,
    /// Two bytes.
    Fp16,
    /// One byte; `fp8_e4m3` and `fp8_e5m2` are the same size.
    Fp8,
}

impl KvDtype {
    /// Bytes an element.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Fp32 => 4,
            Self::Bf16 | Self::Fp16 => 2,
            Self::Fp8 => 1,
        }
    }

    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Bf16 => "bf16",
            Self::Fp16 => "fp16",
            Self::Fp8 => "fp8",
        }
    }
}

impl FromStr for KvDtype {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fp32" | "float32" | "float" => Ok(Self::Fp32),
            "bf16" | "bfloat16" => Ok(Self::Bf16),
            "fp16" | "float16" | "half" => Ok(Self::Fp16),
            "fp8" | "fp8_e4m3" | "fp8_e5m2" | "float8_e4m3fn" | "float8_e5m2" => Ok(Self::Fp8),
            _ => Err(format!("unknown element type `{}`: expected bf16, fp16, fp32 or fp8", shorten(text))),
        }
    }
}

impl fmt::Display for KvDtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where the cache lies, which decides whether ranks hold copies of what is not split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// In the ranks' own memory: a latent cache, which cannot be split by heads, is on each.
    #[default]
    Gpu,
    /// In memory the ranks share: a latent cache is there once.
    Host,
}

impl FromStr for Tier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "gpu" => Ok(Self::Gpu),
            "host" => Ok(Self::Host),
            _ => Err(format!("unknown tier `{}`: expected gpu or host", shorten(text))),
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Gpu => "gpu",
            Self::Host => "host",
        })
    }
}

/// The type the config says the model computes in, which engines cache in unless told otherwise.
pub(super) fn declared_dtype(fields: &Fields<'_>) -> Result<KvDtype, ModelError> {
    let declared = fields.dtype()?.ok_or_else(|| ModelError::Missing {
        field: fields.path_of("torch_dtype"),
        needed_for: "it says how many bytes a cached element takes; --kv-dtype says it too",
    })?;
    declared.parse().map_err(|_| ModelError::Unexpected {
        field: fields.path_of("torch_dtype"),
        found: format!("the text `{}`", shorten(declared)),
        expected: "bfloat16, float16 or float32 (or --kv-dtype given)".to_owned(),
    })
}
