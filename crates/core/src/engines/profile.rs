//! Engine profiles: which pages a request looks up, touches and leaves behind, and in which order
//! (docs/engines.md, section 2).

use crate::stack::Order;
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
    /// vLLM v1: leaf first, with output pages, the recomputed last page and the partial page; with several groups
    /// of attention, its shared pool of blocks at each requested capacity.
    Vllm,
    /// SGLang: whole leaf nodes evicted; node-accurate at each requested capacity.
    Sglang,
    /// LMCache in the engine's process: chunks of tokens, by its rules at each requested capacity.
    Lmcache,
    /// LMCache as a process of its own: chunks of tokens, a watermark and batches in event time, by its rules at each
    /// asked capacity.
    LmcacheMp,
    /// Mooncake store: leases, watermark and batches in event time, by its rules at each requested capacity.
    Mooncake,
    /// TensorRT-LLM: queues of blocks by retention priority, and blocks in host memory, at each requested capacity.
    Trtllm,
}

impl Profile {
    /// Every profile with the name users write.
    pub const NAMES: [(&'static str, Profile); 8] = [
        ("paper", Profile::Paper),
        ("leaf-first", Profile::LeafFirst),
        ("vllm", Profile::Vllm),
        ("sglang", Profile::Sglang),
        ("lmcache", Profile::Lmcache),
        ("lmcache-mp", Profile::LmcacheMp),
        ("mooncake", Profile::Mooncake),
        ("trtllm", Profile::Trtllm),
    ];

    /// The name users write.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, profile)| *profile == self).map_or("paper", |(name, _)| name)
    }

    /// How often the rules of this engine alone were mended. Enters the fingerprint of a configuration that names the
    /// engine, so that a state made by the former rules is not continued under the new ones.
    pub fn revision(self) -> u32 {
        match self {
            Self::Paper
            | Self::LeafFirst
            | Self::Vllm
            | Self::Sglang
            | Self::Lmcache
            | Self::LmcacheMp
            | Self::Mooncake
            | Self::Trtllm => 0,
        }
    }

    /// The order in which a request's pages enter the stack.
    pub fn order(self) -> Order {
        match self {
            Self::Paper | Self::Lmcache | Self::Mooncake => Order::RootFirst,
            Self::LeafFirst | Self::Vllm | Self::Sglang | Self::LmcacheMp | Self::Trtllm => Order::LeafFirst,
        }
    }

    /// Whether each capacity is modelled on its own, whatever its options: more capacity can lose hits, so nothing
    /// follows for the capacities in between, and no request has a required capacity.
    pub(crate) fn is_always_pointwise(self) -> bool {
        matches!(self, Self::Sglang | Self::Trtllm) || self.is_store()
    }

    /// Whether it is a store alongside the engine, which keeps full pages of prompts only.
    pub fn is_store(self) -> bool {
        matches!(self, Self::Lmcache | Self::LmcacheMp | Self::Mooncake)
    }

    /// The model in a few words, for people.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Paper => "pages touched root first, prompts only",
            Self::LeafFirst => "pages touched leaf first after look-up",
            Self::Vllm => "leaf first, with outputs, partial pages and the recomputed last page",
            Self::Sglang => "whole leaf nodes evicted, modelled at each capacity requested",
            Self::Lmcache => "chunks of tokens in one order, modelled at each capacity requested",
            Self::LmcacheMp => {
                "chunks of tokens, a watermark and batches, modelled at each capacity requested"
            }
            Self::Mooncake => "leases, a watermark and batches, modelled at each capacity requested",
            Self::Trtllm => "queues of blocks by priority, modelled at each capacity requested",
        }
    }

    /// Whether the engine keeps what it generates, unless it is told not to.
    pub fn keeps_outputs(self) -> bool {
        matches!(self, Self::Vllm | Self::Sglang | Self::Trtllm)
    }

    /// Whether requests that overlap can be modelled: where one order of releases is the engine's.
    pub fn can_overlap(self) -> bool {
        matches!(self, Self::LeafFirst | Self::Vllm)
    }

    /// What makes the model an approximation of the engine, with the known error; `None` where it is none.
    pub fn approximation(self) -> Option<&'static str> {
        match self {
            Self::Paper | Self::LeafFirst | Self::Vllm | Self::Sglang | Self::Lmcache => None,
            Self::LmcacheMp => Some(
                "LMCache's process makes room once a second by its own clock, which is taken to be whole seconds of \
                 event time; prompts that are stored in several steps are not modelled",
            ),
            Self::Mooncake => Some(
                "Mooncake's answers depend on its clock: compared with a running store, hits were off by -0.6 to 0.3 % at \
                 18 capacities of three traces, where two runs of the store differ by up to 0.6 %, and by -1.5 to 0.0 % \
                 where requests come in bursts; replicas, pins and objects of several sizes are not modelled",
            ),
            Self::Trtllm => Some(
                "TensorRT-LLM's block manager is modelled as its sources have it, one request after another, and was not \
                 compared with its own classes; parts of blocks are not found, and a request has one priority",
            ),
        }
    }

    /// Why more capacity can lose hits, where each capacity is modelled on its own.
    pub fn why_pointwise(self) -> &'static str {
        match self {
            Self::Sglang => "SGLang evicts whole leaves of its tree, so more capacity can lose hits",
            Self::Lmcache => {
                "LMCache makes room for chunks that are there already and moves chunks in two directions, so it is \
                 not shown that more capacity loses no hits"
            }
            Self::LmcacheMp => {
                "LMCache's process evicts a share of its chunks at a time, so more capacity can lose hits"
            }
            Self::Mooncake => {
                "Mooncake evicts in batches when its clock says so, so more capacity can lose hits"
            }
            Self::Trtllm => {
                "TensorRT-LLM evicts the lowest priority first, and nobody finds what followed an evicted block, so more \
                 capacity can lose hits"
            }
            _ => {
                "Groups of layers that share one pool of blocks evict each other, and a page that a draft head loses is computed \
                 into a second copy, so more capacity can lose hits"
            }
        }
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

/// Whether requests that overlap are modelled as such, where a log says how long they took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OverlapMode {
    /// They are: pages of requests in flight stay, and a page grows old from the end of the last request that holds it.
    On,
    /// One request is served after another, in the order in which they come.
    #[default]
    Off,
}

impl OverlapMode {
    /// Every mode with the name users write.
    pub const NAMES: [(&'static str, OverlapMode); 2] = [("on", OverlapMode::On), ("off", OverlapMode::Off)];

    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
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
