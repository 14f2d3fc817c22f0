//! The engines, a row each: which pages a request looks up, touches and leaves behind, in which order, and what else
//! differs from engine to engine (docs/engines.md, section 2).

use super::chat_engine::ChatEngine;
use crate::stack::Order;
use crate::units::text::named;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What the project knows of an engine.
#[derive(Debug)]
pub struct EngineSpec {
    /// The engine.
    pub profile: Profile,
    /// The name users write.
    pub name: &'static str,
    /// The model in a few words, for people.
    pub summary: &'static str,
    /// The page of the documentation with its rules, below `docs`.
    pub page: &'static str,
    /// The order in which a request's pages enter the stack.
    pub order: Order,
    /// What one pass over the requests gives.
    pub curve: EngineCurve,
    /// Where the pages of several groups of layers are kept.
    pub layout: Layout,
    /// The engine whose one stack says what could be found with unlimited capacity: itself where one pass gives every
    /// capacity. Without evictions, engines that look up all but the last token and store outputs find what vLLM does,
    /// and stores that look up and keep prompts only what the paper's model does.
    pub stack: Profile,
    /// Whether that stack follows requests that overlap: where one order of releases is the engine's.
    pub can_overlap: bool,
    /// Whether the engine keeps what it generates, unless it is told not to.
    pub keeps_outputs: bool,
    /// The entry points of its own that make prompts of chats; `None` where it serves none.
    pub chats: Option<ChatEngine>,
    /// How often the rules of this engine alone were mended. Enters the fingerprint of a configuration that names the
    /// engine, so that a state made by the former rules is not continued under the new ones.
    pub revision: u32,
    /// What makes the model an approximation of the engine, with the known error; `None` where it is none.
    pub approximation: Option<&'static str>,
}

/// What one pass over the requests gives of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineCurve {
    /// What every capacity finds.
    Every,
    /// The same, but for options under which more capacity can lose hits, and why it can.
    EveryUnless(&'static str),
    /// Nothing but the capacities that are modelled, each on its own, and why more capacity can lose hits: nothing
    /// follows for those in between, and no request has a required capacity.
    Single(&'static str),
}

impl EngineCurve {
    /// Why more capacity can lose hits; nothing where it cannot.
    pub fn why_single(self) -> &'static str {
        match self {
            Self::Every => "",
            Self::EveryUnless(why) | Self::Single(why) => why,
        }
    }
}

/// Where an engine keeps the pages of several groups of layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// In one place: a page is of all layers.
    Pages,
    /// In vLLM's one pool of blocks, which the groups share. A prompt's last token is always computed, and a page that
    /// is computed again leaves a copy.
    Blocks,
    /// Full attention in SGLang's tree, windows or states in a pool of their own.
    Pools,
    /// In a store alongside the engine, which keeps full pages of prompts only.
    Store,
}

/// What an engine's row need not say.
const USUAL: EngineSpec = EngineSpec {
    profile: Profile::Paper,
    name: "",
    summary: "",
    page: "engines.md",
    order: Order::LeafFirst,
    curve: EngineCurve::Every,
    layout: Layout::Pages,
    stack: Profile::Paper,
    can_overlap: false,
    keeps_outputs: false,
    chats: None,
    revision: 0,
    approximation: None,
};

/// Declares [`Profile`] and the rows of [`Profile::ALL`], an engine in one place.
macro_rules! engines {
    (
        $(#[$about:meta])+
        pub enum Profile {$(
            $(#[$meta:meta])+
            $Name:ident => { $($spec:tt)+ }
        )+}
    ) => {
        $(#[$about])+
        pub enum Profile {$(
            $(#[$meta])+
            $Name,
        )+}

        impl Profile {
            /// Every engine, in the order in which they are listed and have their ink in pictures.
            pub const ALL: &[EngineSpec] = &[$(EngineSpec { profile: Profile::$Name, $($spec)+ ..USUAL },)+];
        }
    };
}

engines! {
    /// The engine whose cache is modelled.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Profile {
        /// The paper's model: pages touched root first, prompt pages only.
        #[default]
        Paper => {
            name: "paper",
            summary: "pages touched root first, prompts only",
            order: Order::RootFirst,
        }
        /// Pages touched leaf first after the whole request was looked up.
        LeafFirst => {
            name: "leaf-first",
            summary: "pages touched leaf first after look-up",
            stack: Profile::LeafFirst,
            can_overlap: true,
        }
        /// vLLM v1: leaf first, with output pages, the recomputed last page and the partial page; with several groups
        /// of attention, its shared pool of blocks at each requested capacity.
        Vllm => {
            name: "vllm",
            summary: "leaf first, with outputs, partial pages and the recomputed last page",
            page: "engines/vllm.md",
            curve: EngineCurve::EveryUnless(
                "Groups of layers that share one pool of blocks evict each other, and a page that a draft head loses \
                 is computed into a second copy, so more capacity can lose hits",
            ),
            layout: Layout::Blocks,
            stack: Profile::Vllm,
            can_overlap: true,
            keeps_outputs: true,
            chats: Some(ChatEngine::Vllm),
        }
        /// SGLang: whole leaf nodes evicted; node-accurate at each requested capacity.
        Sglang => {
            name: "sglang",
            summary: "whole leaf nodes evicted, modelled at each capacity requested",
            page: "engines/sglang.md",
            curve: EngineCurve::Single(
                "SGLang evicts whole leaves of its tree, so more capacity can lose hits",
            ),
            layout: Layout::Pools,
            stack: Profile::Vllm,
            keeps_outputs: true,
            chats: Some(ChatEngine::Sglang),
        }
        /// LMCache in the engine's process: chunks of tokens, by its rules at each requested capacity.
        Lmcache => {
            name: "lmcache",
            summary: "chunks of tokens in one order, modelled at each capacity requested",
            page: "engines/lmcache.md",
            order: Order::RootFirst,
            curve: EngineCurve::Single(
                "LMCache makes room for chunks that are there already and moves chunks in two directions, so it is not \
                 shown that more capacity loses no hits",
            ),
            layout: Layout::Store,
        }
        /// LMCache as a process of its own: chunks of tokens, a watermark and batches in event time, by its rules at
        /// each asked capacity.
        LmcacheMp => {
            name: "lmcache-mp",
            summary: "chunks of tokens, a watermark and batches, modelled at each capacity requested",
            page: "engines/lmcache.md",
            curve: EngineCurve::Single(
                "LMCache's process evicts a share of its chunks at a time, so more capacity can lose hits",
            ),
            layout: Layout::Store,
            approximation: Some(
                "LMCache's process makes room once a second by its own clock, which is taken to be whole seconds of \
                 event time; prompts that are stored in several steps are not modelled",
            ),
        }
        /// Mooncake store: leases, watermark and batches in event time, by its rules at each requested capacity.
        Mooncake => {
            name: "mooncake",
            summary: "leases, a watermark and batches, modelled at each capacity requested",
            page: "engines/mooncake.md",
            order: Order::RootFirst,
            curve: EngineCurve::Single(
                "Mooncake evicts in batches when its clock says so, so more capacity can lose hits",
            ),
            layout: Layout::Store,
            approximation: Some(
                "Mooncake's answers depend on its clock: compared with a running store, hits were off by -0.6 to 0.3 % \
                 at 18 capacities of three traces, where two runs of the store differ by up to 0.6 %, and by -1.5 to \
                 0.0 % where requests come in bursts; replicas, pins and objects of several sizes are not modelled",
            ),
        }
        /// TensorRT-LLM: queues of blocks by retention priority, and blocks in host memory, at each requested capacity.
        Trtllm => {
            name: "trtllm",
            summary: "queues of blocks by priority, modelled at each capacity requested",
            page: "engines/trtllm.md",
            curve: EngineCurve::Single(
                "TensorRT-LLM evicts the lowest priority first, and nobody finds what followed an evicted block, so \
                 more capacity can lose hits",
            ),
            stack: Profile::Vllm,
            keeps_outputs: true,
            approximation: Some(
                "TensorRT-LLM's block manager is modelled as its sources have it, one request after another, and was \
                 not compared with its own classes; parts of blocks are not found, and a request has one priority",
            ),
        }
    }
}

impl Profile {
    /// Every profile with the name users write.
    pub const NAMES: [(&'static str, Profile); Self::ALL.len()] = {
        let mut names = [("", Self::Paper); Self::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = (Self::ALL[at].name, Self::ALL[at].profile);
            at += 1;
        }
        names
    };

    /// Its row.
    pub const fn spec(self) -> &'static EngineSpec {
        &Self::ALL[self as usize]
    }

    /// The name users write.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// Whether it is a store alongside the engine, which keeps full pages of prompts only.
    pub fn is_store(self) -> bool {
        self.spec().layout == Layout::Store
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
        named(&Self::NAMES, "engine", text)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_saved_under_its_name_and_its_stack_has_one_curve() {
        for spec in Profile::ALL {
            assert_eq!(serde_json::to_string(&spec.profile).expect("a name"), format!("\"{}\"", spec.name));
            assert!(!matches!(spec.stack.spec().curve, EngineCurve::Single(_)), "{}", spec.name);
        }
    }
}
