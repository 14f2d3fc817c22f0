//! The host's part of a tree, which is empty without HiCache.

use super::auxiliary::Auxiliary;
use super::node::{NONE, NodeIndex};
use crate::engines::profile::Outputs;
use crate::units::heap::heap_bytes;
use crate::units::{PageCount, PageSize};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// When a node is written to the host: SGLang's `--hicache-write-policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WritePolicy {
    /// As it enters the device.
    #[default]
    WriteThrough,
    /// As a second insertion passes it.
    WriteThroughSelective,
    /// As the device evicts it.
    WriteBack,
}

impl WritePolicy {
    /// Every policy with the name users write.
    pub const NAMES: [(&'static str, Self); 3] = [
        ("write-through", Self::WriteThrough),
        ("write-through-selective", Self::WriteThroughSelective),
        ("write-back", Self::WriteBack),
    ];

    /// The name users write.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, policy)| *policy == self).map_or("write-through", |(name, _)| name)
    }

    /// Insertions that must pass a node before it is written; `None` where they do not count.
    pub(super) fn insertions(self) -> Option<u8> {
        match self {
            Self::WriteThrough => Some(1),
            Self::WriteThroughSelective => Some(2),
            Self::WriteBack => None,
        }
    }
}

/// What is below the device.
pub trait HostTier {
    /// What the host keeps to; `None` where there is none.
    fn rules(&self) -> Option<&HicacheRules>;
}

/// No host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoHost;

impl HostTier for NoHost {
    fn rules(&self) -> Option<&HicacheRules> {
        None
    }
}

/// What the model of HiCache keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HicacheRules {
    /// Usable pages of the host.
    pub host: PageCount,
    /// When a node is written to the host.
    pub write: WritePolicy,
    /// Tokens per page.
    pub page_size: PageSize,
    /// Whether output tokens enter the cache.
    pub outputs: Outputs,
}

impl HostTier for HicacheRules {
    fn rules(&self) -> Option<&HicacheRules> {
        Some(self)
    }
}

/// The host's part of a tree.
#[derive(Debug, Clone)]
pub(super) struct HostSide {
    /// When nodes are written to it; none where there is no host.
    pub(super) write: Option<WritePolicy>,
    /// Usable pages.
    pub(super) room: u64,
    /// Those of the pool alongside.
    pub(super) other_room: u64,
    /// Nodes without children that only the host holds and that may be evicted from it, by stamp.
    pub(super) leaves: BTreeMap<u64, NodeIndex>,
    /// What its pool alongside holds.
    pub(super) auxiliary: Auxiliary,
    /// The node that is matched, while room is made to load it back.
    pub(super) pinned: NodeIndex,
    /// The same until the next step, so that its copy on the host stays.
    pub(super) kept: NodeIndex,
    /// Pages on the host.
    pub(super) pages: u64,
    /// Pages written to it since the start; not saved.
    pub(super) written: u64,
    /// Nodes that were on both sides when they got their place, in that order. Who left a side since stays until
    /// somebody looks.
    pub(super) duplicates: BTreeMap<u64, NodeIndex>,
    /// The last place given.
    pub(super) sequence: u64,
    /// The step of the scheduler.
    pub(super) step: u64,
    /// Nodes that are being loaded back until it ends, and those whose windows or states are locked for being written.
    pub(super) loading: Vec<NodeIndex>,
    pub(super) locked: Vec<NodeIndex>,
    /// Nodes that are written together, and those of a window; kept for their memory.
    pub(super) chain: Vec<NodeIndex>,
    pub(super) window: Vec<NodeIndex>,
}

heap_bytes!(HostSide {
    leaves, auxiliary, duplicates, loading, locked, chain, window;
    write, room, other_room, pinned, kept, pages, written, sequence, step
});

impl HostSide {
    pub(super) fn new(auxiliary: Auxiliary) -> Self {
        Self {
            write: None,
            room: 0,
            other_room: 0,
            leaves: BTreeMap::new(),
            auxiliary,
            pinned: NONE,
            kept: NONE,
            pages: 0,
            written: 0,
            duplicates: BTreeMap::new(),
            sequence: 0,
            step: 1,
            loading: Vec::new(),
            locked: Vec::new(),
            chain: Vec::new(),
            window: Vec::new(),
        }
    }
}

/// Rows of so many bytes that a pool of a host gets of its memory, split as that of the device's pools is: this one's
/// bytes and the other's. The engine has one more than the bytes hold.
pub(super) fn host_rows(host: u64, [own, other]: [u64; 2], row: u64) -> u64 {
    let wide = u128::from;
    let rows = wide(host) * wide(own) / (wide(own) + wide(other)).max(1) / wide(row).max(1);
    if host == 0 { 0 } else { u64::try_from(rows).unwrap_or(u64::MAX).saturating_add(1) }
}
