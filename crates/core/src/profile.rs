//! Engine profiles: which pages a request looks up, touches and leaves behind, and in which order
//! (ENGINES 2).

use super::ratio::Ratio;
use super::stack::Order;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The engine whose cache is modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// The paper's model: pages touched root first, prompt pages only.
    #[default]
    Paper,
    /// Pages touched leaf first after the whole request was looked up.
    LeafFirst,
    /// vLLM v1: leaf first, with output pages, the recomputed last page and the partial page.
    Vllm,
    /// SGLang: whole leaf nodes evicted; node-accurate at each asked capacity.
    Sglang,
    /// LMCache in-process: the paper's order, an approximation.
    Lmcache,
    /// Mooncake store: the paper's order at an effective capacity, an approximation.
    Mooncake,
}

impl Profile {
    /// Every profile with the name users write.
    pub const NAMES: [(&'static str, Profile); 6] = [
        ("paper", Profile::Paper),
        ("leaf-first", Profile::LeafFirst),
        ("vllm", Profile::Vllm),
        ("sglang", Profile::Sglang),
        ("lmcache", Profile::Lmcache),
        ("mooncake", Profile::Mooncake),
    ];

    /// The name users write.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, profile)| *profile == self).map_or("paper", |(name, _)| name)
    }

    /// How often the rules of this engine alone were mended. Enters the fingerprint of a configuration that names the
    /// engine, so that a state made by the former rules is not continued under the new ones.
    pub fn revision(self) -> u32 {
        match self {
            // 1: a free page is wanted before every decoded token.
            Self::Sglang => 1,
            _ => 0,
        }
    }

    /// Whether each capacity is modelled on its own: more capacity can lose hits, so nothing follows for
    /// the capacities in between, and no request has a required capacity.
    pub fn is_pointwise(self) -> bool {
        self == Self::Sglang
    }

    /// The order in which a request's pages enter the stack.
    pub fn order(self) -> Order {
        match self {
            Self::Paper | Self::Lmcache | Self::Mooncake => Order::RootFirst,
            Self::LeafFirst | Self::Vllm | Self::Sglang => Order::LeafFirst,
        }
    }

    /// Share of its nominal capacity that the engine keeps filled.
    pub fn effective_share(self) -> Ratio {
        match self {
            Self::Mooncake => Ratio::per_mille(875),
            _ => Ratio::ONE,
        }
    }

    /// The model in a few words, for people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Paper => "pages touched root first, prompts only",
            Self::LeafFirst => "pages touched leaf first after look-up",
            Self::Vllm => "leaf first, with outputs, partial pages and the recomputed last page",
            Self::Sglang => "whole leaf nodes evicted, modelled at each capacity asked for",
            Self::Lmcache => "root first, an approximation",
            Self::Mooncake => "root first at an effective capacity, an approximation",
        }
    }

    /// Whether the engine keeps what it generates, unless it is told not to.
    pub fn keeps_outputs(self) -> bool {
        matches!(self, Self::Vllm | Self::Sglang)
    }

    /// What makes the model an approximation of the engine, with the known error; `None` where it is none.
    pub fn approximation(self) -> Option<&'static str> {
        match self {
            Self::Paper | Self::LeafFirst | Self::Vllm | Self::Sglang => None,
            Self::Lmcache => Some(
                "LMCache in-process is modelled as one root-first LRU order; measured, hits were off by up to 1 %",
            ),
            Self::Mooncake => Some(
                "Mooncake evicts in batches: it is modelled as one root-first LRU order at 0.875 of the nominal \
                 capacity; beside running stores, hits were off by -5.4 to +6.1 %",
            ),
        }
    }

    /// What a reader of its figures should know: the fact, and what it means for them.
    pub fn caveat(self) -> Option<(String, String)> {
        if self.is_pointwise() {
            return Some((
                "Nothing is said about capacities that were not asked for".to_owned(),
                "SGLang evicts whole leaves of its tree, so more capacity can lose hits. Each capacity was \
                 modelled on its own, node by node; no requirement follows, and nothing for those in between."
                    .to_owned(),
            ));
        }
        let meaning = self.approximation()?;
        Some((format!("The profile {self} is an approximation"), format!("{meaning}.")))
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, profile)| *profile).ok_or_else(|| {
            let names: Vec<_> = Self::NAMES.iter().map(|(name, _)| *name).collect();
            format!("unknown engine `{text}`: expected one of {}", names.join(", "))
        })
    }
}

/// Whether output tokens enter the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outputs {
    /// They do (what vLLM and SGLang do).
    #[default]
    Cached,
    /// They do not.
    Ignored,
}
