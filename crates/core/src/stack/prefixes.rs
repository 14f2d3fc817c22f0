//! Which page ends the prefix that a compact event names by its last id.
//!
//! An index over all pages, kept only by a stack that is asked: eight bytes a page and what the table leaves free. It
//! follows from the tree, so a snapshot leaves it out.

use super::flight::{Flight, scope_of};
use super::ids::{Place, ROOT};
use super::slots::Slots;
use super::tree::Tree;
use crate::units::pages::{PageIds, Scope};
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet, HashTable};
use std::hash::BuildHasher;

/// The pages as the index reads them. A page is named by the place below it.
#[derive(Clone, Copy)]
pub(super) struct Held<'a> {
    pub(super) tree: &'a Tree,
    pub(super) slots: &'a Slots,
    /// Requests in flight, where those are followed.
    pub(super) flight: Option<&'a Flight>,
}

impl Held<'_> {
    /// What the ids on a page's path are unique within: all requests that share its first page have one scope.
    pub(super) fn scope(self, page: Place) -> Scope {
        scope_of(page.segment, self.tree, self.slots, self.flight)
    }

    /// A page's id, as requests bring it.
    fn id(self, page: Place, scope: Scope) -> u64 {
        let id = self.tree.id_above(page);
        let is_first = page.pages == 1 && self.tree.place(page.segment).segment == ROOT;
        if is_first { scope.id_of_first_page(id) } else { id }
    }

    /// Pages of the path that ends with a page.
    fn depth(self, page: Place) -> u64 {
        let (mut depth, mut place) = (0, page);
        while place.segment != ROOT {
            depth += u64::from(place.pages);
            place = self.tree.place(place.segment);
        }
        depth
    }
}

/// How many held prefixes are what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    None,
    /// The prefix that ends with this page.
    One(Place),
    Several,
}

/// All pages by scope and id.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    state: RandomState,
    /// One page for each id of a scope.
    pages: HashTable<Place>,
    /// By the same hash, pages whose id another page of their scope had already: none where ids are chained. Kept
    /// apart, so that a log with one id under a million prefixes is as quick as any.
    repeated: HashMap<u64, HashSet<Place, RandomState>, RandomState>,
}

impl Prefixes {
    /// The index of all pages held.
    pub(super) fn of(held: Held<'_>) -> Self {
        let mut index = Self::default();
        for (segment, _) in held.tree.segments() {
            index.insert_below(held, Place { segment, pages: 0 });
        }
        index
    }

    fn hash(&self, scope: Scope, id: u64) -> u64 {
        self.state.hash_one(scope.key(id))
    }

    /// Enters the pages of a segment below a place in it.
    pub(super) fn insert_below(&mut self, held: Held<'_>, place: Place) {
        let scope = held.scope(place);
        self.visit_below(held, place, scope, |index, hash, page, id| index.insert(held, hash, page, id));
    }

    /// Takes the pages of a segment below a place in it out again, before they leave the tree.
    pub(super) fn remove_below(&mut self, held: Held<'_>, place: Place) {
        let scope = held.scope(place);
        self.visit_below(held, place, scope, |index, hash, page, _| index.remove(hash, page));
    }

    fn visit_below(
        &mut self,
        held: Held<'_>,
        place: Place,
        scope: Scope,
        mut visit: impl FnMut(&mut Self, u64, Place, u64),
    ) {
        let ids = held.tree.ids_below(place).flat_map(PageIds::iter);
        for (pages, id) in (place.pages + 1..).zip(ids) {
            let page = Place { pages, ..place };
            let id = if pages == 1 { held.id(page, scope) } else { id };
            visit(self, self.hash(scope, id), page, id);
        }
    }

    fn insert(&mut self, held: Held<'_>, hash: u64, page: Place, id: u64) {
        let scope = held.scope(page);
        let Self { state, pages, repeated } = self;
        let is_same = |other: &Place| held.scope(*other) == scope && held.id(*other, scope) == id;
        if pages.find(hash, is_same).is_some() {
            repeated.entry(hash).or_default().insert(page);
            return;
        }
        let hash_again = |page: &Place| {
            let scope = held.scope(*page);
            state.hash_one(scope.key(held.id(*page, scope)))
        };
        pages.insert_unique(hash, page, hash_again);
    }

    fn remove(&mut self, hash: u64, page: Place) {
        if let Ok(entry) = self.pages.find_entry(hash, |other| *other == page) {
            entry.remove();
        } else if let Some(others) = self.repeated.get_mut(&hash) {
            others.remove(&page);
            if others.is_empty() {
                self.repeated.remove(&hash);
            }
        }
    }

    /// The prefix of so many pages in a scope that ends with an id.
    pub(super) fn find(&self, held: Held<'_>, scope: Scope, last_id: u64, pages: u64) -> Found {
        let hash = self.hash(scope, last_id);
        let is_same = |page: &Place| held.scope(*page) == scope && held.id(*page, scope) == last_id;
        let others = self.repeated.get(&hash).into_iter().flatten().filter(|page| is_same(page));
        let all = self.pages.find(hash, is_same).into_iter().chain(others);
        let mut ends = all.filter(|page| held.depth(**page) == pages);
        match (ends.next(), ends.next()) {
            (None, _) => Found::None,
            (Some(page), None) => Found::One(*page),
            (Some(_), Some(_)) => Found::Several,
        }
    }

    /// Bytes of memory held, spare room included.
    pub(super) fn memory_bytes(&self) -> usize {
        let repeated: usize = self.repeated.values().map(HashSet::allocation_size).sum();
        size_of::<Self>() + self.pages.allocation_size() + self.repeated.allocation_size() + repeated
    }
}
