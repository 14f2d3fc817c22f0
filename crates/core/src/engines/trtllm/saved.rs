//! The cache's state as plain data, for snapshots.

use super::queues::{BlockContent, TAGS};
use super::{QueueKey, TrtllmCache, TrtllmRules, tag_of};
use crate::stack::runs::{MAX_PAGES, RunTree, SavedRuns, StateFault};
use crate::units::PageCount;
use serde::{Deserialize, Serialize};

/// All that decides the cache's future answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedTrtllm {
    /// The modelled capacity, in blocks of the device.
    pub capacity: PageCount,
    /// The rules it keeps.
    pub rules: TrtllmRules,
    /// Requests served since the start.
    pub requests: u64,
    /// Requests turned away since the start.
    pub refused: u64,
    /// Time and number of the latest release.
    pub stamp: u64,
    /// The queues that hold a block, each with time and number of the release of its pieces.
    pub queues: Vec<(QueueKey, Vec<u64>)>,
    /// The blocks, queue after queue.
    pub runs: SavedRuns,
}

fn fault(fault: &'static str) -> StateFault {
    StateFault { part: "cache", position: 0, fault }
}

impl TrtllmCache {
    /// The state as plain data.
    pub fn save(&self) -> SavedTrtllm {
        let pieces = |list| self.tree.arena.in_list(list).map(|piece| piece.stamp).collect::<Vec<_>>();
        let queues = self.queues.lists().map(|(key, list)| (*key, pieces(list)));
        SavedTrtllm {
            capacity: self.capacity(),
            rules: self.rules,
            requests: self.requests,
            refused: self.refused,
            stamp: self.queues.stamp,
            queues: queues.filter(|(_, stamps)| !stamps.is_empty()).collect(),
            runs: self.tree.save(self.queues.lists().map(|(_, list)| list)),
        }
    }

    /// The cache a state was saved from.
    ///
    /// # Errors
    /// When the state is damaged: a node, a block or a queue that contradicts the others, too many blocks or too few.
    pub fn restore(saved: &SavedTrtllm) -> Result<Self, StateFault> {
        if saved.capacity.0 > MAX_PAGES || saved.rules.host.0 > MAX_PAGES {
            return Err(fault("is larger than one is modelled"));
        }
        let mut cache = Self::empty(saved.capacity.0, saved.rules);
        (cache.requests, cache.refused) = (saved.requests, saved.refused);
        cache.queues.stamp = saved.stamp;
        let mut places = Vec::new();
        for (key, stamps) in &saved.queues {
            if !key.is_possible() {
                return Err(fault("has a queue that there is not"));
            }
            places.extend(stamps.iter().map(|stamp| (*key, *stamp)));
        }
        if places.len() != saved.runs.pieces.len() {
            return Err(fault("has more blocks than its queues, or fewer"));
        }
        let (mut held, mut is_sound, mut places) = ([0; 2], true, places.into_iter());
        let queues = &mut cache.queues;
        cache.tree = RunTree::restore(&saved.runs, TAGS, |tree, index| {
            let Some((key, stamp)) = places.next() else { return };
            let list = queues.list(tree, key);
            let piece = tree.arena.get_mut(index);
            let is_named = BlockContent::of(piece) == BlockContent::Named;
            is_sound &= piece.tag & 255 == tag_of(key.level, key.priority)
                && piece.order <= saved.requests
                && !piece.ascending
                && stamp <= saved.stamp
                && (!is_named || piece.tag <= 255);
            piece.stamp = stamp;
            held[usize::from(key.level)] += u64::from(piece.pages());
            tree.arena.push(list, index);
        })?;
        match is_sound && held == [saved.capacity.0, saved.rules.host.0] {
            true => Ok(cache),
            false => Err(fault("has blocks in queues that are not theirs, too many or too few")),
        }
    }
}

saved_as! { TrtllmCache, SavedTrtllm, StateFault }
