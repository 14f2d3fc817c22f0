//! Detection of ids that are not prefix-chained: one id under two prefixes (docs/design.md, section 2).

use crate::units::heap::heap_bytes;
use crate::units::pages::{PageIds, Scope};
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

/// Which ids are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChainCheck {
    /// One id in 256, chosen by hash: enough to notice a wrong id scope, at no cost a hit.
    #[default]
    Sampled,
    /// Every id: the count is exact, at about 20 bytes per page.
    Full,
}

impl ChainCheck {
    /// Whether an id is watched in its scope.
    #[inline]
    pub fn watches(self, scope: Scope, id: u64) -> bool {
        /// An odd number without a pattern. A product's upper bits depend on all of the id's, which is as much
        /// scrambling as a sample needs, and asked of every new page.
        const SCRAMBLER: u64 = 0xd6e8_feb8_6659_fd93;
        match self {
            Self::Sampled => (id ^ scope.value()).wrapping_mul(SCRAMBLER) >> 56 == 0,
            Self::Full => true,
        }
    }
}

/// What happens to a request that carries a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChainPolicy {
    /// It is counted; its pages are keyed by their whole prefix, so results stay exact. Where the maker of a
    /// request's ids declares them chained, that is trusted, until the first violation.
    #[default]
    Report,
    /// It is refused. Nobody's word for the chain counts.
    Reject,
    /// It is counted, and not looked for in known pages: all ids are taken to be chained as their definition says
    /// (docs/design.md, section 1), so that a request reads a few ids of each run it follows, however long it is. One
    /// request in 64 is read whole all the same; pages found to differ are counted.
    Trust,
}

/// The watched ids of all pages in the tree, with how many pages carry each.
#[derive(Debug)]
pub(super) struct ChainIndex {
    check: ChainCheck,
    pages_by_id: HashMap<u64, u32, foldhash::fast::RandomState>,
}

heap_bytes!(ChainIndex { pages_by_id; check });

impl ChainIndex {
    pub(super) fn new(check: ChainCheck) -> Self {
        Self { check, pages_by_id: HashMap::default() }
    }

    /// Enters the ids of pages new to the tree; returns how many were already there.
    pub(super) fn insert(&mut self, scope: Scope, ids: PageIds<'_>) -> u64 {
        let (mut violations, check) = (0, self.check);
        for id in ids.iter().filter(|id| check.watches(scope, *id)) {
            let pages = self.pages_by_id.entry(scope.key(id)).or_insert(0);
            violations += u64::from(*pages > 0);
            *pages += 1;
        }
        violations
    }

    /// Takes ids out that [`insert`](Self::insert) entered.
    pub(super) fn remove(&mut self, scope: Scope, ids: impl Iterator<Item = u64>) {
        ids.for_each(|id| self.remove_id(scope, id));
    }

    /// The same for pages at the root, the first of whose ids carries the scope already.
    pub(super) fn remove_path_start(&mut self, scope: Scope, mut ids: impl Iterator<Item = u64>) {
        if let Some(first) = ids.next() {
            self.remove_id(scope, scope.id_of_first_page(first));
            self.remove(scope, ids);
        }
    }

    /// Enters ids read from a snapshot.
    pub(super) fn restore(&mut self, scope: Scope, ids: impl Iterator<Item = u64>) {
        ids.for_each(|id| self.restore_id(scope, id));
    }

    /// The same for pages at the root, the first of whose ids carries the scope already.
    pub(super) fn restore_path_start(&mut self, scope: Scope, mut ids: impl Iterator<Item = u64>) {
        if let Some(first) = ids.next() {
            self.restore_id(scope, scope.id_of_first_page(first));
            self.restore(scope, ids);
        }
    }

    fn restore_id(&mut self, scope: Scope, id: u64) {
        if self.check.watches(scope, id) {
            *self.pages_by_id.entry(scope.key(id)).or_insert(0) += 1;
        }
    }

    fn remove_id(&mut self, scope: Scope, id: u64) {
        if !self.check.watches(scope, id) {
            return;
        }
        let key = scope.key(id);
        if let Some(pages) = self.pages_by_id.get_mut(&key) {
            *pages -= 1;
            if *pages == 0 {
                self.pages_by_id.remove(&key);
            }
        }
    }

    /// Watched ids of pages in the tree.
    #[cfg(test)]
    pub(super) fn counts(&self) -> std::collections::BTreeMap<u64, u32> {
        self.pages_by_id.iter().map(|(id, pages)| (*id, *pages)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers in a row, in steps, in the upper bits alone, and scrambled; of all scopes.
    #[test]
    fn one_id_in_256_is_watched_however_ids_are_made() {
        let shapes: [fn(u64) -> u64; 6] = [
            |n| n,
            |n| n * 1000,
            |n| n << 6,
            |n| n << 32,
            |n| n << 46,
            |n| Scope::named(&n.to_le_bytes()).value(),
        ];
        for (index, shape) in shapes.iter().enumerate() {
            for scope in [Scope::GLOBAL, Scope::named(b"a"), Scope::named(b"b")] {
                let ids = (0..1 << 18).map(shape);
                let watched = ids.filter(|id| ChainCheck::Sampled.watches(scope, *id)).count();
                assert!((900..1150).contains(&watched), "{watched} of 2^18 ids of shape {index}");
            }
        }
    }
}
