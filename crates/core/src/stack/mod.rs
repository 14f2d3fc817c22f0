//! The LRU stack of one pool, kept a run at a time (docs/design.md, section 2).
//!
//! Pages live in a path-compressed radix tree ([`tree`]); every request owns one slot
//! ([`slots`]); the pages of a slot are one contiguous run that ends at that request's last page.
//! A request therefore costs one label comparison and one suffix sum a run, not a probe a page.
//!
//! Why the suffix sum is the stack distance: above page `j` of slot `s` in the stack are (a) the pages
//! of all newer slots, those of the request's own path among them wherever they sit, and (b) the other
//! pages of slot `s`: the deeper ones were touched after `j`, the shallower ones have just been moved to
//! the top by this request. That is `W(s) - 1` distinct pages for every `j` of the slot, root first.
//! Leaf first, only the slot's pages between its shallowest remaining one and `j` are above `j`.
#[cfg(test)]
pub(crate) mod naive;
pub mod needs;
pub mod runs;

mod arena;
mod arrays;
mod chain;
mod digests;
mod flight;
mod follower;
mod ghosts;
mod heights;
mod ids;
mod image;
mod index;
mod keys;
mod look_ahead;
mod look_up;
mod merge;
mod prefetch;
mod range;
mod regions;
mod renumbering;
mod segment_labels;
mod slots;
mod stretches;
mod sums;
mod table;
mod tree;
mod walk;

#[cfg(test)]
mod tests;

use crate::request::outcome::{BEYOND, Outcome, Run};
use crate::units::heap::heap_bytes;
use crate::units::pages::{PageIds, Scope};
use crate::units::{PageCount, is_countable};
use chain::ChainIndex;
use flight::{Flight, HELD};
use ghosts::Ghosts;
use ids::{Place, ROOT, SegmentId, Slot, TOP};
use merge::Merging;
use serde::{Deserialize, Serialize};
use slots::{Slots, Taken};
use tree::Tree;
use walk::SlotRun;

pub use chain::{ChainCheck, ChainPolicy};
pub(crate) use flight::{Agenda, EngineSteps, NextEvent, Phase};
pub use flight::{Growth, MAX_IN_FLIGHT, Overlap, Stay};
pub use follower::Follower;
pub use look_ahead::{LOOK_AHEAD, Upcoming, look_ahead};
pub use range::{InOrder, Range, RangeStack};

/// The order in which a request's pages enter the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Pages are touched in prefix order, so the root is the oldest of them (the paper).
    RootFirst,
    /// Pages are pushed from the leaf to the root after the whole request was looked up (vLLM).
    LeafFirst,
}

/// Most pages a stack may be asked to track: labels are addressed with 32 bits, garbage included.
pub const MAX_TRACKED_PAGES: u64 = 1 << 31;

/// Most pages one request may bring, output pages included.
pub const MAX_REQUEST_PAGES: u64 = 1 << 24;

/// How a stack is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackConfig {
    /// Order within a request.
    pub order: Order,
    /// Capacities up to this one are exact; beyond it only [`BEYOND`] is reported. At most
    /// [`MAX_TRACKED_PAGES`]. Memory holds this many pages and at most one request more.
    pub max_tracked_pages: PageCount,
    /// Which ids are watched for chain violations.
    pub chain_check: ChainCheck,
    /// What happens to a request that violates the chain.
    pub chain_policy: ChainPolicy,
}

/// One request, reduced to what moves the stack.
#[derive(Debug, Clone, Copy, Default)]
pub struct Access<'a> {
    /// What the ids are unique within.
    pub scope: Scope,
    /// The pages touched, in prefix order: the prompt's, then output pages with known ids.
    pub pages: PageIds<'a>,
    /// Whether who made the ids declares them chained.
    pub ids_chained: bool,
    /// Leading pages that are the prompt's.
    pub prompt_pages: usize,
    /// Only this many leading pages can be hits; the others are touched all the same.
    pub lookup_limit: usize,
    /// Output pages nobody shares, below the last page.
    pub unshared_outputs: u32,
    /// Pages every need grows by: room that another request's unshareable page takes.
    pub extra_need: u64,
    /// Known pages that cannot be hits are computed into other blocks, while those they were in grow old where they
    /// are.
    pub keeps_copies: bool,
}

/// What of a request can be hits, and at which capacity.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lookup {
    /// Only this many leading pages can be hits.
    pub limit: usize,
    /// Pages every need grows by.
    pub extra_need: u64,
    /// Known pages that cannot be hits leave a copy where they are.
    pub keeps_copies: bool,
}

impl Access<'_> {
    fn lookup(&self) -> Lookup {
        let Self { lookup_limit: limit, extra_need, keeps_copies, .. } = *self;
        Lookup { limit, extra_need, keeps_copies }
    }
}

impl Lookup {
    /// How many pages of a run, with `above` pages of the path before it, leave a copy where they are.
    #[inline]
    fn copies_of(&self, run: SlotRun, above: usize) -> u32 {
        if self.keeps_copies { run.pages - self.hits_of(run, above) } else { 0 }
    }

    /// How many pages of a run can be hits.
    #[inline]
    fn hits_of(&self, run: SlotRun, above: usize) -> u32 {
        self.limit.saturating_sub(above).min(run.pages as usize) as u32
    }
}

/// The request's ids break the chain and the policy is to refuse it; the stack did not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{pages} new pages carry ids already known under another prefix (of the ids watched)")]
pub struct ChainViolation {
    /// Offending pages found among the ids watched.
    pub pages: u64,
}

/// The LRU stack of one pool.
#[derive(Debug, Deserialize)]
#[serde(try_from = "image::StackImage")]
pub struct Stack {
    config: StackConfig,
    tree: Tree,
    slots: Slots,
    chain: ChainIndex,
    ghosts: Ghosts,
    requests: u64,
    accumulated: u64,
    /// Whether a page was found to break the chain, so that nobody's word for it counts any more.
    disproved: bool,
    /// A range whose requests are being taken.
    merging: Option<Box<Merging>>,
    /// Requests in flight, once those are followed.
    flight: Option<Box<Flight>>,
    /// The last request's path, segment by segment (how far it went in each), and its walk slot by slot.
    path: Vec<Place>,
    slot_runs: Vec<SlotRun>,
    /// Copies that lie above all slots: the next one has them as its oldest pages.
    copies: u32,
}

heap_bytes!(Stack {
    tree, slots, chain, ghosts, merging, flight, path, slot_runs;
    config, requests, accumulated, disproved, copies
});

impl Stack {
    /// An empty stack.
    pub fn new(config: StackConfig) -> Self {
        let bound = config.max_tracked_pages.0.clamp(1, MAX_TRACKED_PAGES);
        Self {
            config: StackConfig { max_tracked_pages: PageCount(bound), ..config },
            tree: Tree::new(),
            slots: Slots::new(),
            chain: ChainIndex::new(config.chain_check),
            ghosts: Ghosts::for_bound(bound),
            requests: 0,
            accumulated: 0,
            disproved: false,
            merging: None,
            flight: None,
            path: Vec::new(),
            slot_runs: Vec::new(),
            copies: 0,
        }
    }

    /// Looks a request up, then moves its pages to the top of the stack.
    ///
    /// `outcome` receives the runs of the reusable prefix, `new_pages` and `chain_violations`;
    /// `page_accesses` is the caller's, who knows which pages are the prompt's.
    ///
    /// # Errors
    /// [`ChainViolation`] under [`ChainPolicy::Reject`]; nothing has changed then.
    pub fn access(&mut self, access: &Access<'_>, outcome: &mut Outcome) -> Result<(), ChainViolation> {
        outcome.clear();
        if let Some(segment) = self.only_page(access) {
            self.touch_only_page(segment, access, outcome);
            return Ok(());
        }
        let (known, mismatched) = self.walk(access);
        outcome.chain_violations = self.check_chain(access, known)? + mismatched;
        self.disproved |= outcome.chain_violations > 0;
        self.take_path(access, outcome);
        let recalled = self.report_ghosts(access, known, outcome);
        self.take_over(access, known);
        let unseen = (access.pages.len() - known) as u64 - recalled;
        self.finish(unseen, access, outcome);
        Ok(())
    }

    /// What [`Stack::access`] comes to for a request of one known page: no more than that changes hands.
    fn touch_only_page(&mut self, segment: SegmentId, access: &Access<'_>, outcome: &mut Outcome) {
        let slot_run = SlotRun { slot: self.tree.owner(segment), pages: 1 };
        self.path.clear();
        self.path.push(Place { segment, pages: 1 });
        self.tree.take_over(segment, 1, self.slots.next_slot());
        self.take(slot_run, 0, access, outcome);
        self.push_slot(segment, access);
        self.finish(0, access, outcome);
    }

    /// Counts the pages that are new with a request, of which `unseen` have ids.
    #[inline]
    fn finish(&mut self, unseen: u64, access: &Access<'_>, outcome: &mut Outcome) {
        outcome.new_pages = unseen + u64::from(access.unshared_outputs);
        self.accumulated += outcome.new_pages;
        self.forget_beyond_bound();
    }

    /// Whether this, read back from a snapshot, is kept as the `fresh` one and counts what can be counted.
    pub fn is_like(&self, fresh: &Self) -> bool {
        self.config == fresh.config
            && self.ghosts.is_like(&fresh.ghosts)
            && is_countable(self.requests)
            && is_countable(self.accumulated)
    }

    /// Relies on nobody's word that ids are chained any more, as after a violation. A snapshot leaves that to
    /// whoever keeps the count of violations.
    pub fn disprove_chains(&mut self) {
        self.disproved = true;
    }

    /// Whether nobody's word that ids are chained counts any more.
    pub fn is_disproved(&self) -> bool {
        self.disproved
    }

    /// Pages held now.
    pub fn tracked_pages(&self) -> PageCount {
        let merging = self.merging.as_ref().map_or(0, |merging| merging.pages);
        let in_flight = self.flight.as_ref().map_or(0, |flight| flight.stored_pages());
        PageCount(self.slots.total() + u64::from(self.copies) + merging + in_flight)
    }

    /// Distinct pages ever seen. Exact until the bound made the stack forget; an upper bound after.
    pub fn accumulated_pages(&self) -> PageCount {
        PageCount(self.accumulated)
    }

    /// How it is kept.
    pub fn config(&self) -> StackConfig {
        self.config
    }

    /// The path of the last request accepted, as long as nothing was forgotten.
    fn path(&self) -> &[Place] {
        &self.path
    }

    /// Whether a request of so many pages may make the stack forget.
    pub fn may_forget(&self, pages: u64) -> bool {
        self.slots.total() + pages > self.config.max_tracked_pages.0
    }

    /// Requests accepted so far; also the number the next one gets.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Requests that still own pages.
    pub fn live_requests(&self) -> u64 {
        (self.slots.live() + self.flight.as_ref().map_or(0, |flight| flight.len())) as u64
    }

    /// The largest capacity with exact results.
    pub fn max_tracked_pages(&self) -> PageCount {
        self.config.max_tracked_pages
    }

    /// Enters the ids of the new pages into the chain index and counts those already there.
    fn check_chain(&mut self, access: &Access<'_>, known: usize) -> Result<u64, ChainViolation> {
        let new_ids = access.pages.from(known);
        let violations = self.chain.insert(access.scope, new_ids);
        if violations > 0 && self.config.chain_policy == ChainPolicy::Reject {
            self.chain.remove(access.scope, new_ids.iter());
            return Err(ChainViolation { pages: violations });
        }
        Ok(violations)
    }

    /// Takes the pages on the path away from the slots that owned them.
    fn take_path(&mut self, access: &Access<'_>, outcome: &mut Outcome) {
        let mut above = 0;
        for at in 0..self.slot_runs.len() {
            let slot_run = self.slot_runs[at];
            self.take(slot_run, above, access, outcome);
            above += slot_run.pages as usize;
        }
    }

    /// Takes a run of the path, with `above` pages before it, away from its slot. Writes one run for the pages that
    /// can be hits, one for the others.
    #[inline]
    fn take(&mut self, slot_run: SlotRun, above: usize, access: &Access<'_>, outcome: &mut Outcome) {
        let taken = self.slots.take(slot_run.slot, slot_run.pages);
        // Slots only get older along a path, so the pages above were those of newer ones, as are copies that no slot
        // has.
        let taken = Taken { newer: taken.newer + above as u64 + u64::from(self.copies), ..taken };
        self.write_run(slot_run, taken, above, access.lookup(), outcome);
        // The copies stay where the pages were: above what is left of their slot, below the next one's.
        let copies = access.lookup().copies_of(slot_run, above);
        if copies > 0 && !self.slots.add_above(slot_run.slot, copies) {
            self.copies += copies;
        }
    }

    /// Writes what a request finds of a run whose slot is `found`.
    #[inline]
    fn write_run(
        &self,
        slot_run: SlotRun,
        found: Taken,
        above: usize,
        lookup: Lookup,
        outcome: &mut Outcome,
    ) {
        let Taken { weight, newer, request } = found;
        let can_hit = lookup.hits_of(slot_run, above);
        let (need, step) = match self.config.order {
            Order::RootFirst => (newer + weight, 0),
            Order::LeafFirst => (newer + 1, 1),
        };
        let run = Run { pages: can_hit, need: need + lookup.extra_need, step, last_touched_by: request };
        run.push_upto(self.config.max_tracked_pages, &mut outcome.runs);
        if can_hit < slot_run.pages {
            let rest = Run { pages: slot_run.pages - can_hit, need: run.need_at(can_hit), ..run };
            rest.push_upto(self.config.max_tracked_pages, &mut outcome.unlooked);
        }
    }

    /// Adds the pages after the known ones that were forgotten, not new, as a run beyond the bound;
    /// returns how many.
    fn report_ghosts(&mut self, access: &Access<'_>, known: usize, outcome: &mut Outcome) -> u64 {
        if self.ghosts.is_empty() {
            return 0;
        }
        let Some(next) = access.pages.get(known) else { return 0 };
        let id_at = |index: usize| match index {
            0 => access.pages.get(0).map(|first| access.scope.first_page(first)),
            _ => access.pages.get(index),
        };
        let above = known.checked_sub(1).and_then(id_at).unwrap_or(0);
        let first = id_at(known).unwrap_or(next);
        let recalled = self.ghosts.recall(above, first, access.pages.from(known + 1));
        let lookup = access.lookup_limit.saturating_sub(known).min(recalled);
        let parts = [(lookup, &mut outcome.runs), (recalled - lookup, &mut outcome.unlooked)];
        for (pages, runs) in parts.into_iter().filter(|(pages, _)| *pages > 0) {
            runs.push(Run { pages: pages as u32, need: BEYOND, step: 0, last_touched_by: 0 });
        }
        recalled as u64
    }

    /// Gives the request its slot and makes the tree show it: the path changes hands, the new pages hang
    /// below it. Returns the segment of its last page.
    fn take_over(&mut self, access: &Access<'_>, known: usize) -> SegmentId {
        let tail = self.hang(access, known, self.slots.next_slot());
        self.push_slot(tail, access);
        tail
    }

    /// Gives the path to a slot and hangs the request's new pages below it. Returns the segment of its last page.
    fn hang(&mut self, access: &Access<'_>, known: usize, slot: Slot) -> SegmentId {
        for step in &self.path {
            if slot != HELD || !self.tree.belongs_to(*step, slot) {
                self.tree.take_over(step.segment, step.pages, slot);
            }
        }
        let end = self.path.last().copied().unwrap_or(TOP);
        let Some(next) = access.pages.get(known) else { return end.segment };
        let key = if known == 0 { access.scope.first_page(next) } else { next };
        let tail = self.tree.append(end, key, access.pages.from(known + 1), slot);
        if tail == end.segment && self.reads_every_page(access.ids_chained) {
            self.tree.remember_lengthened(end, access.pages.from(known - end.pages as usize));
        }
        self.lengthen_path(tail, (access.pages.len() - known) as u32);
        tail
    }

    /// Adds new pages at the end of the current request's path.
    fn lengthen_path(&mut self, tail: SegmentId, pages: u32) {
        match self.path.last_mut() {
            Some(last) if last.segment == tail => last.pages += pages,
            _ => self.path.push(Place { segment: tail, pages }),
        }
    }

    /// Gives the request the newest slot, with `tail` the segment of its last page; none if it has no pages.
    #[inline]
    fn push_slot(&mut self, tail: SegmentId, access: &Access<'_>) {
        let number = self.requests;
        self.requests += 1;
        let weight = access.pages.len() as u32 + access.unshared_outputs + std::mem::take(&mut self.copies);
        if weight == 0 {
            return;
        }
        self.slots.push(weight, tail, number, access.scope);
        if self.slots.begins_leaf() {
            self.make_room();
        }
    }

    /// Renumbers the slots when most of them are dead, so that the sums stay as short as the number
    /// of live requests; amortised over the requests that made the slots.
    fn make_room(&mut self) {
        if self.slots.crowded(self.tree.segment_count()) {
            let renumbered = self.slots.renumber();
            self.tree.renumber_slots(&renumbered);
        }
    }

    /// Forgets what no capacity up to the bound asks for.
    #[inline]
    fn forget_beyond_bound(&mut self) {
        let bound = self.config.max_tracked_pages.0;
        if self.pages() > bound {
            self.forget_oldest(bound);
        }
    }

    /// Pages of all slots, and those above them.
    #[inline]
    fn pages(&self) -> u64 {
        self.slots.total() + self.flight.as_ref().map_or(0, |flight| flight.pages())
    }

    /// Cuts the oldest slots off while what remains still answers every capacity up to the bound. A function by
    /// itself, so that the way of a request in a pool below its bound is short.
    #[inline(never)]
    fn forget_oldest(&mut self, bound: u64) {
        while self.pages() > bound
            && let Some(oldest) = self.slots.oldest()
            && self.pages() - self.slots.weight(oldest) >= bound
        {
            self.forget(oldest);
        }
    }

    /// Cuts one slot's run, the tail of a path, off the tree. The slot is the oldest, so nothing
    /// hangs below its pages.
    fn forget(&mut self, slot: Slot) {
        let parts = self.parts_of(slot);
        let scope = self.slots.scope(slot);
        if let Some(&head) = parts.last() {
            let labels = parts.iter().rev().flat_map(|&part| self.tree.ids_below(part));
            self.ghosts.remember(self.tree.id_above(self.tree.above(head)), labels);
        }
        for part in parts {
            let ids = self.tree.ids_below(part).flat_map(PageIds::iter);
            match self.tree.above(part).segment {
                ROOT => self.chain.remove_path_start(scope, ids),
                _ => self.chain.remove(scope, ids),
            }
            self.tree.remove_deepest(part.segment);
        }
        self.slots.clear(slot);
        self.tree.collect_garbage();
    }

    /// The parts of segments the oldest slot still owns, from its last page upwards: each is what lies
    /// below a place.
    fn parts_of(&self, slot: Slot) -> Vec<Place> {
        let mut parts = Vec::new();
        let mut segment = self.slots.tail(slot);
        while let Some((owner, pages)) = self.tree.deepest(segment) {
            if owner != slot {
                break;
            }
            parts.push(Place { segment, pages });
            if pages > 0 {
                break;
            }
            segment = self.tree.place(segment).segment;
        }
        parts
    }
}
