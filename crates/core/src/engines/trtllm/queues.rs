//! The free blocks of device and host, by priority.

use crate::stack::runs::{NONE, Piece, PieceIndex, RunTree};
use crate::units::EventTime;
use crate::units::heap::{flat, heap_bytes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// TensorRT-LLM's `kDefaultRetentionPriority`.
pub const DEFAULT_PRIORITY: u8 = 35;
/// Its highest.
pub const MAX_PRIORITY: u8 = 100;
/// The least priority of blocks that go to the host (`kDefaultSecondaryOffloadMinPriority`).
pub const OFFLOAD_PRIORITY: u8 = 30;

pub(super) const DEVICE: u8 = 0;
pub(super) const HOST: u8 = 1;

/// Numbers of releases within a millisecond.
const RELEASES_A_MS: u32 = 20;

/// The tags there are: a priority, a level and whether blocks are blank.
pub(super) const TAGS: u32 = 1 << 9;
const BLANK: u32 = 1 << 8;

/// What keeps a piece apart from others.
pub(super) fn tag_of(level: u8, priority: u8) -> u32 {
    u32::from(level) << 7 | u32::from(priority)
}

/// Blocks by what they hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockContent {
    /// Pages that a path leads to.
    Named,
    /// Pages that nobody finds: those without ids, second copies, and what was left on the host.
    Lost,
    /// Nothing yet: nothing of them goes to the host.
    Blank,
}

impl BlockContent {
    pub fn of(piece: &Piece) -> Self {
        match (piece.node, piece.tag & BLANK) {
            (NONE, BLANK) => Self::Blank,
            (NONE, _) => Self::Lost,
            _ => Self::Named,
        }
    }
}

/// Which free blocks stand in one queue. Those with a time stand apart, since it ends for them in the order of their
/// releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct QueueKey {
    /// 0 on the device, 1 on the host.
    pub level: u8,
    /// From 0 to 100.
    pub priority: u8,
    /// How long blocks keep it from their release on; 0 for as long as they are there.
    pub duration_ms: u64,
}

flat!(QueueKey);

impl QueueKey {
    pub(super) fn default_of(level: u8) -> Self {
        Self { level, priority: DEFAULT_PRIORITY, duration_ms: 0 }
    }

    /// That of a piece, without a time.
    pub(super) fn of_tag(tag: u32) -> Self {
        Self { level: (tag >> 7 & 1) as u8, priority: (tag & 127) as u8, duration_ms: 0 }
    }

    /// Whether there is such a queue: blocks at the default priority have nothing to fall back to, and those of the
    /// host no time.
    pub(super) fn is_possible(self) -> bool {
        let may_be_timed = self.level == DEVICE && self.priority != DEFAULT_PRIORITY;
        self.level <= HOST && self.priority <= MAX_PRIORITY && (self.duration_ms == 0 || may_be_timed)
    }

    /// Whether blocks come to it in one order with those of another queue, or leave it at their time.
    fn is_stamped(self) -> bool {
        self.level == DEVICE && self.priority != DEFAULT_PRIORITY
    }
}

/// The queues that may hold a block, each in the order of releases.
#[derive(Debug, Clone, Default)]
pub(super) struct FreeQueues {
    lists: BTreeMap<QueueKey, PieceIndex>,
    /// Time and number of the latest release: no later one is smaller.
    pub stamp: u64,
}

heap_bytes!(FreeQueues { lists; stamp });

impl FreeQueues {
    /// The piece whose blocks leave a level next.
    pub fn front(&mut self, tree: &mut RunTree, level: u8) -> Option<PieceIndex> {
        let mut oldest: Option<(u8, u64, PieceIndex)> = None;
        let mut empty = None;
        for (key, list) in self.lists.range(QueueKey { level, priority: 0, duration_ms: 0 }..) {
            if key.level != level || oldest.is_some_and(|(priority, ..)| priority < key.priority) {
                break;
            }
            match tree.arena.first(*list) {
                Some(piece) => {
                    let first = (key.priority, tree.arena.get(piece).stamp, piece);
                    oldest = Some(oldest.map_or(first, |oldest| oldest.min(first)));
                }
                None => empty = Some(*key),
            }
        }
        if let Some(list) = empty.and_then(|key| self.lists.remove(&key)) {
            tree.arena.drop_list(list);
        }
        oldest.map(|(.., piece)| piece)
    }

    /// Appends blocks that no path leads to.
    pub fn push_new(&mut self, tree: &mut RunTree, key: QueueKey, content: BlockContent, count: u64) {
        if count > 0 {
            let blank = if content == BlockContent::Blank { BLANK } else { 0 };
            // Blocks are fewer than 2^32.
            let piece = tree.add_piece(Piece::new(NONE, blank, (0, count as u32), 0));
            self.push(tree, key, piece);
        }
    }

    /// Appends a piece that stands in no queue, joined to the one before it where it goes on as that does.
    pub fn push(&mut self, tree: &mut RunTree, key: QueueKey, piece: PieceIndex) {
        let stamp = if key.is_stamped() { self.stamp } else { 0 };
        let list = *self.lists.entry(key).or_insert_with(|| tree.arena.new_list());
        let own = tree.arena.get_mut(piece);
        (own.tag, own.stamp) = (own.tag & BLANK | tag_of(key.level, key.priority), stamp);
        let Some(last) = tree.arena.last(list).map(|last| (last, tree.arena.get(last))) else {
            return tree.arena.push(list, piece);
        };
        let (own, (last, before)) = (tree.arena.get(piece), last);
        let room = u64::from(before.to) + u64::from(own.pages()) < u64::from(u32::MAX);
        match own.node {
            _ if before.stamp != stamp => tree.arena.push(list, piece),
            NONE if before.node == NONE && before.tag == own.tag && room => {
                let pages = own.pages();
                tree.arena.get_mut(last).to += pages;
                tree.remove_piece(piece);
            }
            NONE => tree.arena.push(list, piece),
            _ => tree.append(list, piece),
        }
    }

    /// Lets time pass up to a moment: blocks whose time is over go to the default queue, in the order in which it
    /// ended.
    pub fn expire(&mut self, tree: &mut RunTree, now: EventTime) {
        let now = now.0.clamp(0, 1 << 43) as u64;
        self.lists.retain(|key, list| {
            let is_kept = key.duration_ms == 0 || tree.arena.first(*list).is_some();
            if !is_kept {
                tree.arena.drop_list(*list);
            }
            is_kept
        });
        loop {
            let timed = self.lists.iter().filter(|(key, _)| key.duration_ms > 0);
            let first = timed.filter_map(|(key, list)| {
                let piece = tree.arena.first(*list)?;
                let stamp = tree.arena.get(piece).stamp;
                Some(((stamp >> RELEASES_A_MS).saturating_add(key.duration_ms), stamp, piece))
            });
            match first.min() {
                Some((ends, _, piece)) if ends <= now => {
                    tree.arena.unlink(piece);
                    self.push(tree, QueueKey::default_of(DEVICE), piece);
                }
                _ => break,
            }
        }
        self.stamp = (self.stamp + 1).max(now << RELEASES_A_MS);
    }

    /// The queues with their lists.
    pub fn lists(&self) -> impl Iterator<Item = (&QueueKey, PieceIndex)> {
        self.lists.iter().map(|(key, list)| (key, *list))
    }

    /// The list of a queue that is read back.
    pub fn list(&mut self, tree: &mut RunTree, key: QueueKey) -> PieceIndex {
        *self.lists.entry(key).or_insert_with(|| tree.arena.new_list())
    }
}
