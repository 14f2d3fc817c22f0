//! Which engine's entry points turned the bodies of requests into prompts.

use crate::engines::profile::Profile;
use std::fmt;

/// An inference engine that serves chats. Engines make different prompts of one body: which blocks they join by what,
/// which fields they give to the chat template, what they leave out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ChatEngine {
    /// vLLM.
    #[default]
    Vllm,
    /// SGLang.
    Sglang,
}

impl ChatEngine {
    /// Every engine with the name users write.
    pub const NAMES: [(&'static str, Self); 2] = [("vllm", Self::Vllm), ("sglang", Self::Sglang)];

    /// The engine that serves the chats of a log whose cache is modelled as this profile: itself, where it serves
    /// chats; vLLM alongside a cache of another kind.
    pub const fn of_profile(profile: Profile) -> Self {
        match profile {
            Profile::Sglang => Self::Sglang,
            _ => Self::Vllm,
        }
    }
}

impl fmt::Display for ChatEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
        })
    }
}
