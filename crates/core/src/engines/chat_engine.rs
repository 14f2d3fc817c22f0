//! Which engine's entry points turned the bodies of requests into prompts.

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
}

impl fmt::Display for ChatEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
        })
    }
}
