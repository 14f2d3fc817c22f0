//! A follower as a snapshot keeps it, and what it becomes where its stack forgets: both by where the requests end that
//! still own pages. Taken one after another, from the oldest on, they leave every page with the request that owns it.

use super::{Follower, SlotRun};
use crate::request::outcome::Outcome;
use crate::stack::flight::scope_of;
use crate::stack::ids::{Place, SegmentId, Slot, TOP};
use crate::stack::{Access, MAX_REQUEST_PAGES, Stack, StackConfig};
use crate::units::heap::flat;
use crate::units::is_countable;
use crate::units::packed::{self, DerivedArray};
use crate::units::pages::{PageIds, Scope};
use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize, Serializer};

/// A request that owns pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, packed(4))]
pub(super) struct PageOwner {
    /// Its number.
    number: u64,
    /// Its last page lies above this place of the stack's tree; [`TOP`] where it owns no page that has an id.
    segment: SegmentId,
    pages: u32,
    /// Its pages without ids.
    outputs: u32,
}

flat!(PageOwner);

/// What is read back.
#[derive(Deserialize)]
pub(super) struct Saved {
    /// From the oldest on.
    #[serde(with = "packed")]
    ends: Vec<PageOwner>,
    requests: u64,
    accumulated: u64,
}

impl From<Saved> for Follower {
    fn from(saved: Saved) -> Self {
        let Saved { ends, requests, accumulated } = saved;
        Self { unread: ends, requests, accumulated, ..Self::default() }
    }
}

impl Serialize for Follower {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let ends = self.ends();
        let ends = DerivedArray { count: ends.len(), element: |at: usize| ends[at] };
        // The fields of `Saved`.
        (ends, self.requests, self.accumulated).serialize(to)
    }
}

impl Follower {
    /// Completes what was read back from a snapshot; whether it fits the stack it followed and can go on.
    pub fn resume(&mut self, stack: &Stack) -> bool {
        let ends = std::mem::take(&mut self.unread);
        let in_order = ends.is_sorted_by(|one, next| { one.number } < { next.number });
        let counted = ends.last().is_none_or(|last| last.number < self.requests);
        let fits = |end: &PageOwner| {
            let PageOwner { segment, pages, outputs, .. } = *end;
            let place = Place { segment, pages };
            u64::from(outputs) <= MAX_REQUEST_PAGES
                && (place == TOP || (pages > 0 && stack.tree.holds(place)))
        };
        if !in_order || !counted || !is_countable(self.accumulated) || !ends.iter().all(fits) {
            return false;
        }
        for PageOwner { number, segment, pages, outputs } in ends {
            let path = stack.path_to(Place { segment, pages });
            let pages = self.take_over(&path);
            self.take_all();
            self.push_slot(&path, pages + outputs, number);
        }
        // More than the pool itself holds no replica does.
        self.slots.total() <= stack.tracked_pages().0
    }

    /// A stack of the same requests that depends on no other.
    pub fn into_stack(self, of: &Stack, config: StackConfig) -> Stack {
        let (mut stack, mut outcome) = (Stack::new(config), Outcome::default());
        for PageOwner { number, segment, pages, outputs } in self.ends() {
            let (scope, ids) = of.ids_to(Place { segment, pages });
            stack.requests = number;
            let access = Access {
                scope,
                pages: PageIds::from_slice(&ids),
                unshared_outputs: outputs,
                ..Access::default()
            };
            // Refused it cannot be: its pages are keyed by their prefixes, as they were.
            let taken = stack.access(&access, &mut outcome);
            debug_assert!(taken.is_ok(), "these only follow");
        }
        (stack.requests, stack.accumulated) = (self.requests, self.accumulated);
        stack
    }

    /// Takes the runs of the current request away from their slots.
    fn take_all(&mut self) {
        for SlotRun { slot, pages } in &self.slot_runs {
            self.slots.take(*slot, *pages);
        }
    }

    /// Where the requests end that own pages, from the oldest on.
    fn ends(&self) -> Vec<PageOwner> {
        let mut held = vec![0_u64; self.slots.len()];
        for part in self.parts.values() {
            part.owners(&self.regions, part.pages)
                .for_each(|(slot, pages)| held[slot.index()] += u64::from(pages));
        }
        let end = |slot: Slot| {
            let place = self.end_of(slot).unwrap_or(TOP);
            let outputs = self.slots.weight(slot) - held[slot.index()];
            // A request's pages are counted in 32 bits.
            let (number, outputs) = (self.slots.request_number(slot), outputs as u32);
            PageOwner { number, segment: place.segment, pages: place.pages, outputs }
        };
        self.slots.owners().map(end).collect()
    }

    /// Below the last page of a slot, if it owns one.
    fn end_of(&self, slot: Slot) -> Option<Place> {
        let segment = self.slots.tail(slot);
        let part = self.parts.get(&segment)?;
        let mut pages = 0;
        for (owner, owned) in part.owners(&self.regions, part.pages) {
            pages += owned;
            if owner == slot {
                return Some(Place { segment, pages });
            }
        }
        None
    }
}

impl Stack {
    /// The path to a place, segment by segment from the root on.
    fn path_to(&self, place: Place) -> Vec<Place> {
        let above = |place: &Place| Some(self.tree.place(place.segment)).filter(|above| *above != TOP);
        let mut path: Vec<Place> = match place {
            TOP => Vec::new(),
            place => std::iter::successors(Some(place), above).collect(),
        };
        path.reverse();
        path
    }

    /// The ids on the path to a place, and what they are unique within.
    fn ids_to(&self, place: Place) -> (Scope, Vec<u64>) {
        let path = self.path_to(place);
        let above = |place: &Place| self.tree.ids_above(*place).flat_map(PageIds::iter);
        let mut ids: Vec<u64> = path.iter().flat_map(above).collect();
        let flight = self.flight.as_deref();
        let scope = |top: &Place| scope_of(top.segment, &self.tree, &self.slots, flight);
        let scope = path.first().map_or(Scope::GLOBAL, scope);
        if let Some(first) = ids.first_mut() {
            *first = scope.id_of_first_page(*first);
        }
        (scope, ids)
    }
}
