//! A head of the model's own that drafts in the same cache (MTP, EAGLE), and the groups that it costs a page.

use super::attention::GroupKind;
use serde::{Deserialize, Serialize};

/// The groups of attention that hold layers of a draft head, where some of them are windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DraftLayers {
    /// Groups of both kinds; so vLLM goes on where it finds no layer of the head in any group.
    #[default]
    All,
    /// Full groups alone.
    Full,
    /// Windows alone.
    Windows,
}

impl DraftLayers {
    /// Every place with the name users write.
    pub const NAMES: [(&'static str, DraftLayers); 3] =
        [("all", Self::All), ("full", Self::Full), ("windows", Self::Windows)];

    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Full => "full",
            Self::Windows => "windows",
        }
    }
}

/// A head that drafts in the same cache; one of no tokens is none. Snapshots have it as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "u32", try_from = "u32")]
pub struct DraftHead {
    /// Tokens that it drafts at a time (`num_speculative_tokens`).
    pub tokens: u32,
    /// Where its layers lie.
    pub layers: DraftLayers,
}

/// Where the number of a head says its layers; below are the tokens.
const LAYERS_AT: u32 = 16;

impl DraftHead {
    /// A head with layers in all groups of attention.
    pub fn of(tokens: u32) -> Self {
        Self { tokens, layers: DraftLayers::All }
    }

    /// Whether there is one.
    pub fn drafts(self) -> bool {
        self.tokens > 0
    }

    /// Whether groups of a kind hold layers of it, so that they lose the last page that they find: a draft's state of
    /// a page depends on the token behind it. A head has no states.
    pub(in crate::engines) fn is_in(self, kind: GroupKind) -> bool {
        self.drafts()
            && match kind {
                GroupKind::Full => self.layers != DraftLayers::Windows,
                GroupKind::Window(_) => self.layers != DraftLayers::Full,
                GroupKind::Mamba => false,
            }
    }
}

impl From<DraftHead> for u32 {
    fn from(head: DraftHead) -> Self {
        head.tokens | (head.layers as u32) << LAYERS_AT
    }
}

impl TryFrom<u32> for DraftHead {
    type Error = &'static str;

    fn try_from(number: u32) -> Result<Self, Self::Error> {
        let layers = DraftLayers::NAMES.iter().find(|(_, layers)| *layers as u32 == number >> LAYERS_AT);
        let (_, layers) = layers.ok_or("a draft head has layers in groups that there are not")?;
        Ok(Self { tokens: number & ((1 << LAYERS_AT) - 1), layers: *layers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_in_all_groups_is_the_number_of_its_tokens_and_others_are_told_apart() {
        for (_, layers) in DraftLayers::NAMES {
            let head = DraftHead { tokens: 64, layers };
            assert_eq!(DraftHead::try_from(u32::from(head)), Ok(head));
        }
        assert_eq!(u32::from(DraftHead::of(3)), 3, "as it was saved before layers were known");
        assert!(DraftHead::try_from(3 << LAYERS_AT).is_err());
    }
}
