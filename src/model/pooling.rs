//! The pool of blocks that a hybrid model's layers share.

use kvset_core::engines::hybrid::{Attention, DraftLayers};
use serde::{Deserialize, Serialize};

/// The pool of a hybrid model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedPool {
    /// The groups, as `--attention` takes them.
    pub attention: Attention,
    /// Layers of all groups, without those added.
    pub layers: u64,
    /// Layers of one group, those added to make the groups equal among them.
    pub layers_a_group: u64,
    /// Bytes of a block, by the token of its page, over all ranks.
    pub block_bytes_per_token: u64,
    /// Fewest tokens of a block, where a state of one layer must fit a page of one layer.
    pub least_block_tokens: Option<u64>,
    /// The groups that a draft head's layers lie in, where the config lists them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draft_layers: Option<DraftLayers>,
}

/// Whether a model has such a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// All layers keep alike: one group.
    #[default]
    Alike,
    /// Several groups share it.
    Shared(SharedPool),
    /// It has several kinds of layers that are not modelled together, for this reason.
    NotModelled(String),
}
