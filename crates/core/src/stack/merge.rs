//! A range of requests, taken by a stack of its own, merged into the stack that took all before it.
//!
//! Request after request, the pages that were touched first in the range are looked for here. What lies above one of
//! them in this stack is what the range has touched until then and what is left of the newer slots; the range's other
//! distances are final. Meanwhile all pages that the range has touched belong to a slot newer than all others, which
//! has no sum yet. At the end the requests that own them get slots of their own.

use super::ids::{Place, TOP};
use super::range::{InOrder, Range, RangeStep};
use super::stretches::Stretches;
use super::{Access, Stack};
use crate::request::outcome::{Outcome, Run};
use crate::units::heap::heap_bytes;
use crate::units::pages::PageIds;

/// A range that is being merged.
#[derive(Debug)]
pub(super) struct Merging {
    range: Range,
    places: Stretches,
    /// Number of the range's first request.
    first_request: u64,
    /// Steps, runs and ids of the range that were taken.
    steps: usize,
    runs: usize,
    ids: usize,
    /// Distinct pages of the range that these steps touched.
    pub(super) pages: u64,
}

heap_bytes!(Merging { range, places; first_request, steps, runs, ids, pages });

impl Stack {
    /// Begins to merge the range of the next requests. [`Stack::access_next`] is to be called for each of them before
    /// the stack is used otherwise.
    ///
    /// # Errors
    /// [`InOrder`]: its requests have to be taken one after another. Nothing has changed then.
    pub fn merge(&mut self, range: Range) -> Result<(), InOrder> {
        if self.slots.total() + range.pages > self.config.max_tracked_pages.0 || !self.ghosts.is_empty() {
            return Err(InOrder::Bound);
        }
        if self.follows_flights() {
            return Err(InOrder::Overlap);
        }
        if range.config != self.config || self.is_merging() {
            return Err(InOrder::Unfit);
        }
        if !range.steps.is_empty() {
            self.merging = Some(Box::new(Merging {
                places: Stretches::new(range.segments),
                range,
                first_request: self.requests,
                steps: 0,
                runs: 0,
                ids: 0,
                pages: 0,
            }));
        }
        Ok(())
    }

    /// Whether requests of a range are still to be taken.
    #[inline]
    pub fn is_merging(&self) -> bool {
        self.merging.is_some()
    }

    /// What [`Stack::access`] would find of the range's next request, with the pages it moves moved; false where there
    /// is none. Every need grows by `extra_need`, as it did where the range was taken.
    pub fn access_next(&mut self, extra_need: u64, outcome: &mut Outcome) -> bool {
        let Some(mut merging) = self.merging.take() else { return false };
        outcome.clear();
        let step = merging.next_step(outcome);
        self.resolve_first_touches(&mut merging, &step, extra_need, outcome);
        merging.pages = step.upto;
        self.requests += 1;
        if merging.steps < merging.range.steps.len() {
            self.merging = Some(merging);
        } else {
            self.graft(&merging);
        }
        true
    }

    /// Looks for the pages that a request touches first in its range.
    fn resolve_first_touches(
        &mut self,
        merging: &mut Merging,
        step: &RangeStep,
        extra_need: u64,
        outcome: &mut Outcome,
    ) {
        let Merging { range, places, ids, .. } = merging;
        let branch = places.place(step.branch);
        let access = Access {
            scope: step.scope,
            pages: step.first_touches(&range.ids, ids),
            lookup_limit: step.lookup_limit as usize,
            // The range's pages are all above, and so are copies that the request itself left among them.
            extra_need: extra_need + step.above + step.own_copies(),
            keeps_copies: step.keeps_copies,
            ..Access::default()
        };
        let known = self.walk_below(branch, &access);
        let new = access.pages.from(known);
        outcome.chain_violations = self.chain.insert(access.scope, new);
        self.disproved |= outcome.chain_violations > 0;
        self.take_path(&access, outcome);
        let appended = self.hand_over(branch, &access, new);
        outcome.new_pages = new.len() as u64 + u64::from(step.unshared_outputs);
        self.accumulated += outcome.new_pages;
        self.note_places(branch, appended, step, places);
    }

    /// Gives the pages walked to the slot that stands for the range's, the new ones with them. Returns the place they
    /// hang below now.
    fn hand_over(&mut self, branch: Place, access: &Access<'_>, new: PageIds<'_>) -> Option<Place> {
        let slot = self.slots.next_slot();
        for step in &self.path {
            self.tree.take_over(step.segment, step.pages, slot);
        }
        let end = self.path.last().copied().unwrap_or(branch);
        let next = new.get(0)?;
        let key = if end == TOP { access.scope.first_page(next) } else { next };
        let segment = self.tree.append(end, key, new.from(1), slot);
        Some(Place { segment, pages: self.tree.len(segment) - new.len() as u32 })
    }

    /// Remembers where the pages lie that a request touched first.
    fn note_places(&self, branch: Place, appended: Option<Place>, step: &RangeStep, places: &mut Stretches) {
        let mut begin = step.end.pages - step.first_touches;
        for place in &self.path {
            let is_rest = place.segment == branch.segment;
            let above = Place { pages: if is_rest { branch.pages } else { 0 }, ..*place };
            places.push(step.end.segment, begin, above);
            begin += place.pages - above.pages;
        }
        if let Some(above) = appended {
            places.push(step.end.segment, begin, above);
        }
    }

    /// Gives the range's requests their slots, and each the pages it owns: those of its path that no later one
    /// touched.
    fn graft(&mut self, merging: &Merging) {
        let Merging { range, places, first_request, .. } = merging;
        for (number, pages) in &range.owners {
            let RangeStep { end, scope, .. } = range.steps[*number as usize];
            let end = places.place(end);
            self.take_over_path(end);
            let pages = *pages + std::mem::take(&mut self.copies);
            self.slots.push(pages, end.segment, first_request + u64::from(*number), scope);
            if self.slots.begins_leaf() {
                self.make_room();
            }
        }
    }

    /// Gives all pages above a place to the next slot.
    fn take_over_path(&mut self, end: Place) {
        let (mut place, slot) = (end, self.slots.next_slot());
        while place != TOP {
            self.tree.take_over(place.segment, place.pages, slot);
            place = self.tree.place(place.segment);
        }
    }
}

impl Merging {
    /// Goes to the next request, and writes what it found in its range.
    fn next_step(&mut self, outcome: &mut Outcome) -> RangeStep {
        let Self { range, first_request, steps, runs, .. } = self;
        let step = range.steps[*steps];
        *steps += 1;
        let in_pool =
            |run: &Run| Run { last_touched_by: first_request.wrapping_add(run.last_touched_by), ..*run };
        for (count, found) in [(step.runs, &mut outcome.runs), (step.unlooked, &mut outcome.unlooked)] {
            let end = *runs + count as usize;
            found.extend(range.runs[*runs..end].iter().map(in_pool));
            *runs = end;
        }
        step
    }
}
