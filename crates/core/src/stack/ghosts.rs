//! A bounded memory of what was forgotten, so that a page beyond the bound is not taken for a new one.
//!
//! Without it a request that returns after the bound forgot its pages would look cold, require nothing,
//! and pull the coverage quantiles down: the estimate would be too small exactly where the cache is.

use crate::units::heap::HeapBytes;
use crate::units::pages::{PageIds, mix};
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet, VecDeque};

/// Forgotten tails as 32-bit fingerprints of their ids, found by the page above and the first page.
///
/// A new page is taken for a forgotten one with a chance of 2^-32 a tail that hangs below the same
/// page. What falls out of this memory too looks new again; it holds half as many pages as the stack.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ghosts {
    max_pages: usize,
    pages: usize,
    #[serde(with = "sorted")]
    tails: Tails,
    /// Keys from the longest forgotten to the latest; one that was recalled may linger.
    order: VecDeque<u64>,
}

type Tails = HashMap<u64, Box<[u32]>, foldhash::fast::RandomState>;

/// Writes the map in key order, so that equal memories give equal bytes.
mod sorted {
    use super::*;

    pub fn serialize<S: serde::Serializer>(map: &Tails, serializer: S) -> Result<S::Ok, S::Error> {
        map.iter().collect::<BTreeMap<_, _>>().serialize(serializer)
    }

    pub fn deserialize<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Tails, D::Error> {
        BTreeMap::deserialize(deserializer).map(|map| map.into_iter().collect())
    }
}

fn fingerprint(id: u64) -> u32 {
    (mix(id) >> 32) as u32
}

fn key(above: u64, first: u32) -> u64 {
    mix(above ^ mix(u64::from(first) + 1))
}

impl Ghosts {
    /// Sized to a stack of `bound` pages: about 2 bytes a tracked page once the bound is reached.
    pub(super) fn for_bound(bound: u64) -> Self {
        let max_pages = (bound / 2).max(1024) as usize;
        Self { max_pages, pages: 0, tails: HashMap::default(), order: VecDeque::new() }
    }

    /// Whether this, read back from a snapshot, has room as the `fresh` one and can forget all it remembers.
    pub(super) fn is_like(&self, fresh: &Self) -> bool {
        let order: HashSet<u64> = self.order.iter().copied().collect();
        self.max_pages == fresh.max_pages
            && self.pages == self.tails.values().map(|tail| tail.len()).sum::<usize>()
            && self.tails.iter().all(|(key, tail)| !tail.is_empty() && order.contains(key))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tails.is_empty()
    }

    /// Remembers a tail below the page `above` (0 at the root), its labels in prefix order; drops the
    /// oldest ones when full.
    pub(super) fn remember<'a>(&mut self, above: u64, labels: impl Iterator<Item = PageIds<'a>> + Clone) {
        let mut tail = Vec::with_capacity(labels.clone().map(PageIds::len).sum());
        labels.for_each(|label| tail.extend(label.iter().map(fingerprint)));
        self.insert(above, tail.into());
        while self.pages > self.max_pages
            && let Some(oldest) = self.order.pop_front()
        {
            self.remove(oldest);
        }
        if self.order.len() > 2 * self.tails.len() + 1024 {
            self.order.retain(|key| self.tails.contains_key(key));
        }
    }

    fn insert(&mut self, above: u64, tail: Box<[u32]>) {
        if let Some(&first) = tail.first() {
            let key = key(above, first);
            self.remove(key);
            self.pages += tail.len();
            self.order.push_back(key);
            self.tails.insert(key, tail);
        }
    }

    fn remove(&mut self, key: u64) -> Option<Box<[u32]>> {
        let tail = self.tails.remove(&key)?;
        self.pages -= tail.len();
        Some(tail)
    }

    /// How many of the pages below `above`, the first of them `first` and then `rest`, were forgotten.
    /// They enter the tree again, so their memory goes; what hangs below them is kept.
    pub(super) fn recall(&mut self, above: u64, first: u64, rest: PageIds<'_>) -> usize {
        let (mut above, mut first, mut found) = (above, first, 0);
        while let Some(tail) = self.remove(key(above, fingerprint(first))) {
            let further = rest.from(found).iter().zip(&tail[1..]);
            let pages = 1 + further.take_while(|(id, known)| fingerprint(*id) == **known).count();
            found += pages;
            above = if found == 1 { first } else { rest.get(found - 2).unwrap_or(first) };
            self.insert(above, tail[pages..].into());
            match rest.get(found - 1) {
                Some(next) => first = next,
                None => break,
            }
        }
        found
    }
}

impl HeapBytes for Ghosts {
    fn heap_bytes(&self) -> usize {
        self.pages * size_of::<u32>() + self.tails.allocation_size() + self.order.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recall(ghosts: &mut Ghosts, above: u64, ids: &[u64]) -> usize {
        ghosts.recall(above, ids[0], PageIds::from_slice(&ids[1..]))
    }

    fn remember(ghosts: &mut Ghosts, above: u64, ids: std::ops::Range<u64>) {
        let ids: Vec<u64> = ids.collect();
        ghosts.remember(above, std::iter::once(PageIds::from_slice(&ids)));
    }

    #[test]
    fn a_tail_recalled_in_part_keeps_its_rest() {
        let mut ghosts = Ghosts::for_bound(1);
        remember(&mut ghosts, 0, 1..6);
        assert_eq!(recall(&mut ghosts, 0, &[1, 2, 9]), 2, "9 is new");
        assert_eq!(recall(&mut ghosts, 2, &[3]), 1);
        assert_eq!(recall(&mut ghosts, 3, &[4, 5, 6]), 2);
        assert!(ghosts.is_empty() && ghosts.pages == 0);
    }

    #[test]
    fn tails_below_one_another_are_recalled_together() {
        let mut ghosts = Ghosts::for_bound(1);
        remember(&mut ghosts, 3, 4..7);
        remember(&mut ghosts, 0, 1..4);
        remember(&mut ghosts, 2, 8..10);
        assert_eq!(recall(&mut ghosts, 0, &[1, 2, 8, 9]), 4, "a branch below a page in the middle");
        assert_eq!(recall(&mut ghosts, 2, &[3, 4, 5, 6, 7]), 4);
    }

    #[test]
    fn forgets_the_oldest_when_full_and_never_grows_past_its_limit() {
        let mut ghosts = Ghosts::for_bound(1);
        for head in 0..50_000 {
            remember(&mut ghosts, 0, head * 10..head * 10 + 2);
            recall(&mut ghosts, 0, &[head * 7]);
            assert!(ghosts.pages <= ghosts.max_pages && ghosts.order.len() <= 2 * ghosts.max_pages + 1025);
        }
        assert_eq!(recall(&mut ghosts, 0, &[0]), 0);
        assert_eq!(recall(&mut ghosts, 0, &[499_990, 499_991]), 2);
    }
}
