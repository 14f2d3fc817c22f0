//! The tier's state as plain data, for snapshots: what it is between two requests, when nothing is being written.

use super::residents::{groups_of, keys, list_of};
use super::{OffloadOptions, OffloadTier};
use crate::engines::groups::GroupSet;
use crate::engines::hybrid::HybridRules;
use crate::stack::runs::{MAX_PAGES, PieceIndex, RunTree, SavedRuns, StateFault};
use crate::units::PageCount;
use serde::{Deserialize, Serialize};

/// All that decides the tier's future answers, but for the rules of the pool above it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedOffload {
    /// Its size, in blocks of the pool.
    pub blocks: PageCount,
    /// Its configuration.
    pub options: OffloadOptions,
    /// Keys stored since the start.
    pub stored: u64,
    /// How many keys used once adaptive replacement wants; 0 for the other policy.
    pub wanted_once: f64,
    /// The chunks of each list, the oldest first.
    pub runs: SavedRuns,
    /// How often chunks were offered, where that matters.
    pub offers: Option<SavedRuns>,
}

pub(super) fn fault(fault: &'static str) -> StateFault {
    StateFault { part: "cache", position: 0, fault }
}

impl OffloadTier {
    /// The state as plain data.
    pub fn save(&self) -> SavedOffload {
        let mut saved = SavedOffload {
            blocks: self.capacity,
            options: self.rules.options,
            stored: 0,
            wanted_once: 0.0,
            runs: SavedRuns::default(),
            offers: self.offers.as_ref().map(|offers| offers.save()),
        };
        self.residents.save(&mut saved);
        saved
    }

    /// The tier that a state was saved from, under a pool of these rules.
    ///
    /// # Errors
    /// When the state is damaged: a node or a run that contradicts the others, too many chunks, options that the pool
    /// does not have.
    pub fn restore(saved: &SavedOffload, pool: &HybridRules) -> Result<Self, StateFault> {
        let OffloadOptions { blocks_per_chunk, .. } = saved.options;
        if saved.blocks.0 > MAX_PAGES || blocks_per_chunk == 0 {
            return Err(fault("is larger than one is modelled"));
        }
        let tier = Self::under(saved.blocks, saved.options, pool);
        let mut tier = tier.map_err(|_| fault("has rules that contradict each other"))?;
        let groups = pool.attention.groups().len() as u32;
        tier.residents.restore(saved, GroupSet::of_bits(u32::MAX >> (u32::BITS - groups)))?;
        match (&mut tier.offers, &saved.offers) {
            (Some(offers), Some(saved)) => offers.restore(saved, groups)?,
            (None, None) => {}
            _ => return Err(fault("counts offers where none are counted, or does not")),
        }
        Ok(tier)
    }
}

/// Lists, and the keys in each.
type KeyLists<const LISTS: usize> = [(PieceIndex, u64); LISTS];

/// A tree whose pieces stand in these lists; `None` where there are no pieces.
pub(super) fn restore_lists<const LISTS: usize>(
    runs: &SavedRuns,
    groups: GroupSet,
) -> Result<Option<(RunTree, KeyLists<LISTS>)>, StateFault> {
    let mut lists: Option<KeyLists<LISTS>> = None;
    let mut is_sound = runs.pieces.iter().all(|piece| piece.node != 0 && piece.order == 0);
    let tree = RunTree::restore(runs, u32::MAX, |tree, index| {
        let lists = lists.get_or_insert_with(|| [(); LISTS].map(|()| (tree.arena.new_list(), 0)));
        let (tag, own) = (tree.arena.get(index).tag, keys(tree.arena.get(index)));
        is_sound &= !groups_of(tag).is_empty() && groups_of(tag).is_in(groups);
        match lists.get_mut(list_of(tag) as usize) {
            Some((list, count)) => {
                *count += own;
                tree.arena.push(*list, index);
            }
            None => is_sound = false,
        }
    })?;
    match is_sound {
        true => Ok(lists.map(|lists| (tree, lists))),
        false => Err(fault("has chunks in lists or of groups that there are not")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::hybrid::HybridCache;
    use crate::engines::profile::Outputs;
    use crate::engines::rules::EngineRules;
    use crate::engines::vllm_offload::OffloadPolicy;
    use crate::request::event::RequestEvent;
    use crate::units::PageSize;
    use crate::units::pages::PageIds;

    /// A pool's rules, and the state of a tier under it that has served a few requests.
    fn served(policy: OffloadPolicy) -> (HybridRules, SavedOffload) {
        let attention = "full+window:9".parse().expect("groups");
        let rules = EngineRules { attention, ..EngineRules::default() };
        let rules = rules.hybrid(PageSize::new(16).expect("not zero"), Outputs::Cached);
        let options = OffloadOptions { policy, store_threshold: 2, blocks_per_chunk: 1 };
        let mut pool = HybridCache::new(PageCount(12), rules.clone()).expect("sound rules");
        let mut tier = OffloadTier::under(PageCount(8), options, &rules).expect("sound rules");
        for first in [1, 2, 1, 3, 2, 1, 4, 4, 3, 2, 1] {
            let ids = [first, 10, 11, 12];
            tier.request_under(
                &mut pool,
                &RequestEvent { page_ids: PageIds::from_slice(&ids), ..RequestEvent::default() },
            );
        }
        let saved = tier.save();
        assert!(saved.stored > 8 && saved.runs.pieces.len() > 1, "{saved:?}");
        (rules, saved)
    }

    #[test]
    fn a_damaged_state_is_refused() {
        for policy in [OffloadPolicy::Lru, OffloadPolicy::Arc] {
            let (rules, saved) = served(policy);
            assert_eq!(OffloadTier::restore(&saved, &rules).expect("sound").save(), saved);
            let damages: [fn(&mut SavedOffload); 9] = [
                |saved| saved.blocks = PageCount(1),
                |saved| saved.blocks = PageCount(u64::MAX),
                |saved| saved.options.blocks_per_chunk = 0,
                |saved| saved.offers = None,
                |saved| saved.options.store_threshold = 0,
                |saved| saved.runs.pieces[0].order = 1,
                |saved| saved.runs.pieces[0].node = 0,
                |saved| saved.runs.pieces[0].tag |= 1 << 4,
                |saved| saved.offers.iter_mut().for_each(|offers| offers.pieces[0].order = 3),
            ];
            for (number, damage) in damages.into_iter().enumerate() {
                let mut damaged = saved.clone();
                damage(&mut damaged);
                assert!(OffloadTier::restore(&damaged, &rules).is_err(), "damage {number}, {policy:?}");
            }
        }
        let (rules, mut saved) = served(OffloadPolicy::Arc);
        saved.wanted_once = f64::NAN;
        assert!(OffloadTier::restore(&saved, &rules).is_err());
        let (rules, mut saved) = served(OffloadPolicy::Lru);
        saved.runs.pieces[0].tag |= 1;
        assert!(OffloadTier::restore(&saved, &rules).is_err(), "one list");
    }
}
