//! Requests that overlap: the pages of those in flight lie above the stack of released ones.
//!
//! An engine looks a request up when it arrives, pins its pages until it ends, and lets them age from then on. A page
//! that somebody holds cannot be evicted. So the stack is that of *releases*: a request gets its slot when it ends,
//! for the pages that nobody else holds then, and all that is in flight lies above every slot. Along a path releases
//! never get later, so the tree of segments and regions serves as it is; what is in flight is owned by [`HELD`]
//! there, which is newer than every slot.
//!
//! A page that nobody holds needs room for all pages that lay above it at the worst moment since its release
//! ([`super::heights`]), and for itself. A page that is held is found wherever its holder runs, so it needs no more
//! than the prompt up to it does. What all requests in flight hold is another number ([`Overlap::room`]): where a
//! cache has no room for that, requests wait or are preempted, but those that run find what others hold that run.
//!
//! At one moment arrivals come first: what ends then is still held.
//!
//! A request that nobody overlaps leaves what [`Stack::access`] leaves: the page that it ends within counts as room
//! that the next request needs, not as height. So a log in which no two requests overlap gives the numbers of one
//! without durations.

mod agenda;
mod holds;
mod saved;
mod stay;

pub(crate) use agenda::{Agenda, EngineSteps};
pub use stay::{Growth, Stay};
pub(crate) use stay::{NextEvent, Phase};

use super::heights::{Height, Heights};
use super::ids::{Place, ROOT, SegmentId, Slot};
use super::slots::{Slots, Taken};
use super::tree::Tree;
use super::walk::SlotRun;
use super::{Access, ChainViolation, Lookup, Stack};
use crate::request::outcome::{BEYOND, Need, Outcome, Run};
use crate::units::EventTime;
use crate::units::heap::{flat, heap_bytes};
use crate::units::pages::Scope;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use holds::{Holds, SegmentTouch};
use serde::{Deserialize, Serialize};

pub(super) use saved::{FlightImage, is_owner};

/// Who owns the pages of requests in flight.
pub(super) const HELD: Slot = Slot(u32::MAX);

/// Most requests in flight at once; engines run a few hundred. Where there would be more, or they would hold more pages
/// than are tracked, the next to end ends early, and until it would have ended nothing is found.
pub const MAX_IN_FLIGHT: usize = 1 << 16;

/// A request in flight.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct FlightRequest {
    number: u64,
    scope: Scope,
    /// Where its pages with ids end.
    tail: Place,
    stay: Stay,
    /// The steps that were done as it arrived.
    begun: EngineSteps,
    /// Pages taken so far that are counted as having no id.
    unnamed: u64,
    /// Of its output pages with ids, those that were new with it: counted among the pages without ids.
    new_outputs: u32,
    /// Its output pages without ids.
    unshared_outputs: u32,
}

flat!(FlightRequest);

/// What other requests in flight hold when a request arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Overlap {
    /// Other requests in flight.
    pub requests: u64,
    /// Distinct pages they hold, those without ids too; [`BEYOND`] where these were too many to be followed.
    pub pages: Need,
    /// The most pages in flight since the request before arrived, those of this one's prompt among them: with less room
    /// requests wait, or are preempted. Absent where requests are taken one after another.
    pub room: Option<Need>,
}

/// What the ids of a segment's pages are unique within.
pub(super) fn scope_of(segment: SegmentId, tree: &Tree, slots: &Slots, flight: Option<&Flight>) -> Scope {
    match (tree.owner(segment), flight) {
        (HELD, Some(flight)) => flight.held.get(&segment).map_or(Scope::GLOBAL, |(scope, _)| *scope),
        (slot, _) => slots.scope(slot),
    }
}

/// All requests in flight, and the heights of the slots below them.
#[derive(Debug)]
pub(super) struct Flight {
    /// The latest moment that came.
    now: Option<EventTime>,
    heights: Heights,
    requests: Vec<Option<FlightRequest>>,
    free: Vec<u32>,
    /// Of each request, but for the one that is alone.
    agenda: Agenda<u32>,
    /// The only request in flight, as long as no other arrived since.
    alone: Option<u32>,
    /// Whether the last request that ended was alone from its arrival to its end.
    was_alone: bool,
    /// When the last of those would have ended that were too many to be followed.
    overrun_until: Option<EventTime>,
    /// The holders of each segment, and what the ids of its pages are unique within.
    held: HashMap<SegmentId, (Scope, Holds), FixedState>,
    /// Holders of segments that nobody holds any more, kept for their memory.
    spare: Vec<Holds>,
    /// Distinct pages with ids that are held; output pages that were new with their request are counted below.
    named: u64,
    /// Pages held that are counted as having no id.
    unnamed: u64,
    /// The most pages that were held at once since the last request arrived.
    most: u64,
    /// What others held when the last request arrived.
    others: Overlap,
    /// What a request releases; kept for its memory.
    released: Vec<(SegmentId, SegmentTouch)>,
}

heap_bytes!(Flight {
    heights, requests, free, agenda, held, spare, released;
    now, alone, was_alone, overrun_until, named, unnamed, most, others
});

impl Flight {
    /// Nobody in flight, above slots of these heights.
    fn new(heights: Heights) -> Self {
        Self {
            now: None,
            heights,
            requests: Vec::new(),
            free: Vec::new(),
            agenda: Agenda::new(),
            alone: None,
            was_alone: true,
            overrun_until: None,
            held: HashMap::default(),
            spare: Vec::new(),
            named: 0,
            unnamed: 0,
            most: 0,
            others: Overlap::default(),
            released: Vec::new(),
        }
    }

    /// Pages that lie above all slots.
    pub(super) fn pages(&self) -> u64 {
        self.named + self.unnamed
    }

    /// The capacity that has room for all of them.
    fn needed(&self) -> Need {
        if self.overrun_until.is_some() { BEYOND } else { self.pages() }
    }

    /// Pages that requests in flight leave behind when they end.
    pub(super) fn stored_pages(&self) -> u64 {
        let outputs =
            |request: &FlightRequest| u64::from(request.new_outputs) + u64::from(request.unshared_outputs);
        self.named + self.in_flight().map(outputs).sum::<u64>()
    }

    fn in_flight(&self) -> impl Iterator<Item = &FlightRequest> {
        self.requests.iter().flatten()
    }

    /// Requests in flight.
    pub(super) fn len(&self) -> usize {
        self.requests.len() - self.free.len()
    }

    /// The holders of a segment, made where there are none.
    fn holds_of(&mut self, segment: SegmentId, scope: Scope) -> &mut Holds {
        let spare = &mut self.spare;
        let fresh = || (scope, spare.pop().unwrap_or_default());
        &mut self.held.entry(segment).or_insert_with(fresh).1
    }

    /// Ends a request's hold of a segment; `parts` receives what nobody holds then, the deepest first.
    fn end_hold(&mut self, place: Place, parts: &mut Vec<(SegmentId, SegmentTouch)>) {
        let Some((_, holds)) = self.held.get_mut(&place.segment) else { return };
        holds.end(place.pages, |touch| parts.push((place.segment, touch)));
        if holds.held() == 0
            && let Some((_, mut holds)) = self.held.remove(&place.segment)
        {
            holds.clear();
            self.spare.push(holds);
        }
    }

    /// Files a request that arrived; returns its place.
    fn file(&mut self, request: FlightRequest) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.requests.push(None);
            self.requests.len() as u32 - 1
        });
        self.requests[at as usize] = Some(request);
        at
    }

    /// Lets a request take the pages that one which is alone need not take: that which its prompt ends within, and by
    /// and by those of its output.
    fn overlap(&mut self, at: u32) {
        let Some(FlightRequest { number, stay, begun, .. }) = self.requests[at as usize] else { return };
        self.agenda.ends(stay.end(), number, at, (begun, stay.growth.tokens));
        self.schedule(at);
        self.take_pages(at, u64::from(stay.begins_partial));
    }

    /// Puts the next page that a request takes on the agenda, where there is one.
    fn schedule(&mut self, at: u32) {
        let Some(FlightRequest { number, stay, begun, .. }) = self.requests[at as usize] else { return };
        if stay.growth.pages > 0 {
            self.agenda.grows(begun.after(stay.growth.next_token), number, at);
        }
    }

    /// Takes a request's next output page; nothing where it ended early.
    fn grow(&mut self, NextEvent { number, at, .. }: NextEvent<u32>) {
        let Some(request) = &mut self.requests[at as usize] else { return };
        if request.number == number {
            request.stay.growth = request.stay.growth.skip(1);
            self.schedule(at);
            self.take_pages(at, 1);
        }
    }

    /// Takes pages that are counted as having no id.
    fn take_pages(&mut self, at: u32, pages: u64) {
        let Some(request) = &mut self.requests[at as usize] else { return };
        request.unnamed += pages;
        self.unnamed += pages;
        self.heights.add_to_all(pages as i64);
        self.note_most();
    }

    fn note_most(&mut self) {
        self.most = self.most.max(self.pages());
    }

    /// The most pages in flight since this was asked last; [`BEYOND`] where they were too many to be followed.
    fn take_most(&mut self) -> Need {
        let now = self.pages();
        let most = std::mem::replace(&mut self.most, now);
        if self.overrun_until.is_some() { BEYOND } else { most }
    }

    /// The next to end, taken off the agenda.
    fn pop_end(&mut self) -> Option<u32> {
        self.alone.take().or_else(|| self.agenda.pop_end().map(|next| next.at))
    }
}

impl Stack {
    /// Whether requests are followed while they are in flight.
    pub fn follows_flights(&self) -> bool {
        self.flight.is_some()
    }

    /// Follows requests while they are in flight from now on. Pages released so far keep their order; what lay above
    /// them since is taken to be what does now.
    pub fn follow_flights(&mut self) {
        if self.flight.is_none() {
            let heights = self.slots.at_or_above().into_iter().map(Height::new);
            self.flight = Some(Box::new(Flight::new(Heights::of(heights))));
        }
    }

    /// What others held when the last request arrived; none where nobody is followed.
    pub fn others_in_flight(&self) -> Option<Overlap> {
        self.flight.as_ref().map(|flight| flight.others)
    }

    /// Looks a request up as it arrives and holds its pages for as long as it stays; those of requests that ended
    /// before are released first. [`Stack::follow_flights`] goes before. A request with an earlier arrival than the one
    /// before arrives with that one.
    ///
    /// # Errors
    /// [`ChainViolation`] as of [`Stack::access`]; time went on all the same.
    pub fn arrive(
        &mut self,
        access: &Access<'_>,
        stay: Stay,
        outcome: &mut Outcome,
    ) -> Result<(), ChainViolation> {
        outcome.clear();
        self.pass_time(stay.arrival);
        let Some(mut flight) = self.flight.take() else { return self.access(access, outcome) };
        let arrived = self.arrive_in(&mut flight, access, stay, outcome);
        self.flight = Some(flight);
        self.forget_beyond_bound();
        arrived
    }

    /// Lets everything happen that comes before a request which arrives now.
    pub fn pass_time(&mut self, now: EventTime) {
        let Some(mut flight) = self.flight.take() else { return };
        let now = flight.now.max(Some(now)).unwrap_or_default();
        flight.now = Some(now);
        self.advance(&mut flight, now);
        self.flight = Some(flight);
        self.forget_beyond_bound();
    }

    fn arrive_in(
        &mut self,
        flight: &mut Flight,
        access: &Access<'_>,
        stay: Stay,
        outcome: &mut Outcome,
    ) -> Result<(), ChainViolation> {
        let (known, mismatched) = self.walk_whole(access);
        outcome.chain_violations = self.check_chain(access, known)? + mismatched;
        self.disproved |= outcome.chain_violations > 0;
        let (requests, pages) = (flight.len() as u64, flight.needed());
        let (mut above, mut copies) = (0, 0);
        for at in 0..self.slot_runs.len() {
            let slot_run = self.slot_runs[at];
            self.report_run(flight, slot_run, above, access, outcome);
            copies += self.hold_run(flight, slot_run, access.lookup().copies_of(slot_run, above));
            above += slot_run.pages as usize;
        }
        let recalled = self.report_ghosts(access, known, outcome);
        self.hold_path(flight, access, (known, copies), stay);
        flight.others = Overlap { requests, pages, room: Some(flight.take_most()) };
        let unseen = (access.pages.len() - known) as u64 - recalled;
        outcome.new_pages = unseen + u64::from(access.unshared_outputs);
        self.accumulated += outcome.new_pages;
        Ok(())
    }

    /// Follows a request down the tree, one of a single page too; returns how many pages are known and what was
    /// mistaken on trust.
    fn walk_whole(&mut self, access: &Access<'_>) -> (usize, u64) {
        if let Some(segment) = self.only_page(access) {
            self.path.clear();
            self.slot_runs.clear();
            self.path.push(Place { segment, pages: 1 });
            self.slot_runs.push(SlotRun { slot: self.tree.owner(segment), pages: 1 });
            return (1, 0);
        }
        self.walk(access)
    }

    /// Reports a run of the path, with `above` pages before it.
    pub(super) fn report_run(
        &mut self,
        flight: &Flight,
        slot_run: SlotRun,
        above: usize,
        access: &Access<'_>,
        outcome: &mut Outcome,
    ) {
        let SlotRun { slot, pages } = slot_run;
        if slot == HELD {
            self.report_held(flight, pages, access.lookup(), outcome);
            return;
        }
        let found = self.slots.take(slot, 0);
        // Else the page that the last request ended within is height already.
        let extra_need = if flight.len() == 0 && flight.was_alone { access.extra_need } else { 0 };
        let newer = match flight.overrun_until {
            Some(_) => BEYOND - found.weight,
            None => flight.heights.get(slot).with_room(extra_need).most().saturating_sub(found.weight),
        };
        let lookup = Lookup { extra_need: 0, ..access.lookup() };
        self.write_run(slot_run, Taken { newer, ..found }, above, lookup, outcome);
    }

    /// Reports the first pages of the path, which are held: each needs no more than the prompt up to it.
    fn report_held(&self, flight: &Flight, pages: u32, lookup: Lookup, outcome: &mut Outcome) {
        let bound = self.config.max_tracked_pages;
        let is_followed = flight.overrun_until.is_none();
        let limit = u32::try_from(lookup.limit).unwrap_or(u32::MAX);
        let mut above = 0;
        for place in &self.path {
            let left = place.pages.min(pages - above);
            let touches = flight.held.get(&place.segment).map(|(_, holds)| holds.touches(left));
            for SegmentTouch { begin, end, number } in touches.into_iter().flatten() {
                let hits = limit.saturating_sub(above).min(end - begin);
                let run = |from: u32, pages: u32| {
                    let (need, step) = if is_followed { (u64::from(from) + 1, 1) } else { (BEYOND, 0) };
                    Run { pages, need, step, last_touched_by: number }
                };
                run(above, hits).push_upto(bound, &mut outcome.runs);
                run(above + hits, end - begin - hits).push_upto(bound, &mut outcome.unlooked);
                above += end - begin;
            }
            if above == pages {
                return;
            }
        }
    }

    /// Takes a run of the path away from its slot, where so many copies of its pages stay. Gives those of pages that
    /// are held, which the request has for itself.
    fn hold_run(&mut self, flight: &mut Flight, SlotRun { slot, pages }: SlotRun, copies: u32) -> u32 {
        if slot == HELD {
            return copies;
        }
        let taken = self.slots.take(slot, pages);
        flight.heights.add_to_newer(slot, i64::from(pages));
        flight.named += u64::from(pages);
        if copies > 0 {
            self.leave_copies(flight, (slot, taken.request), copies);
        }
        0
    }

    /// Leaves copies above a slot, at the place of pages that have just been taken from it.
    fn leave_copies(&mut self, flight: &mut Flight, (slot, request): (Slot, u64), copies: u32) {
        if self.slots.add_above(slot, copies) {
            flight.heights.add_to_newer(Slot(slot.0 + 1), -i64::from(copies));
            flight.heights.add_to_all(i64::from(copies));
        } else {
            let scope = self.slots.scope(slot);
            flight.heights.add_to_all(i64::from(copies));
            flight.heights.push(Height::new(flight.pages() + u64::from(copies)));
            self.slots.push(copies, ROOT, request, scope);
        }
    }

    /// Hands the path to those in flight, hangs the new pages below it, and files the request.
    fn hold_path(
        &mut self,
        flight: &mut Flight,
        access: &Access<'_>,
        (known, copies): (usize, u32),
        stay: Stay,
    ) {
        let number = self.requests;
        self.requests += 1;
        let prompt = access.prompt_pages.min(access.pages.len());
        self.hang(access, known, HELD);
        let new = access.pages.len() - known;
        let new_outputs = access.pages.len() - prompt.max(known);
        let new_prompt = new - new_outputs;
        flight.named += new_prompt as u64;
        flight.heights.add_to_all(new_prompt as i64);
        for place in &self.path {
            flight.holds_of(place.segment, access.scope).hold(place.pages, number);
        }
        // Output pages that were known already are held from the start.
        let known_outputs = access.pages.len() - prompt - new_outputs;
        let growth = stay.growth.skip(u32::try_from(known_outputs).unwrap_or(u32::MAX));
        while flight.len() >= MAX_IN_FLIGHT
            || (flight.len() > 0 && flight.named > self.config.max_tracked_pages.0)
        {
            let Some(first) = flight.pop_end() else { break };
            let end = flight.requests[first as usize].map(|request| request.stay.end());
            flight.overrun_until = flight.overrun_until.max(end);
            self.end(flight, first);
        }
        let begun = flight.agenda.count_upto(flight.now.unwrap_or_default());
        let at = flight.file(FlightRequest {
            number,
            scope: access.scope,
            tail: self.path.last().copied().unwrap_or(super::TOP),
            stay: Stay { growth, ..stay },
            begun,
            unnamed: 0,
            new_outputs: new_outputs as u32,
            unshared_outputs: access.unshared_outputs + copies,
        });
        if flight.len() == 1 && flight.overrun_until.is_none() {
            flight.alone = Some(at);
        } else if stay.duration_ms == 0 {
            let own = u64::from(stay.begins_partial) + u64::from(growth.pages);
            flight.take_pages(at, own + u64::from(copies));
            self.end(flight, at);
        } else {
            flight.overlap(at);
            flight.take_pages(at, u64::from(copies));
        }
        flight.note_most();
    }

    /// Lets everything happen that comes before this moment.
    fn advance(&mut self, flight: &mut Flight, now: EventTime) {
        if let Some(at) = flight.alone.take() {
            if flight.requests[at as usize].is_some_and(|request| request.stay.ends_before(now)) {
                self.end(flight, at);
                flight.was_alone = true;
            } else {
                flight.overlap(at);
            }
        }
        while let Some(next) = flight.agenda.pop_before(now) {
            match next.phase {
                Phase::Ends => self.end(flight, next.at),
                Phase::Grows | Phase::GrowsLater => flight.grow(next),
            }
        }
        flight.overrun_until = flight.overrun_until.filter(|end| *end >= now);
    }

    /// Releases what nobody else holds of a request that ends, the last page first.
    fn end(&mut self, flight: &mut Flight, at: u32) {
        let Some(request) = flight.requests[at as usize].take() else { return };
        flight.free.push(at);
        flight.was_alone = false;
        if flight.len() == 0 {
            flight.agenda.clear();
        }
        let held_before = flight.pages();
        let mut parts = std::mem::take(&mut flight.released);
        let mut place = request.tail;
        while place.segment != ROOT {
            flight.end_hold(place, &mut parts);
            place = self.tree.place(place.segment);
        }
        let named: u64 = parts.iter().map(|(_, touch)| u64::from(touch.end - touch.begin)).sum();
        // Its new output pages are the last ones of its path, and were counted without their ids.
        flight.named = flight.named + u64::from(request.new_outputs) - named;
        flight.unnamed -= request.unnamed;
        let released = named + u64::from(request.unshared_outputs);
        let at_or_above = flight.pages() + released;
        flight.heights.add_to_all(at_or_above as i64 - held_before as i64);
        // The page that it ends within is blank from now on, and was not while the others were released.
        // What more would lie above while too many are in flight is more than is tracked.
        let is_overrun = flight.overrun_until.is_some_and(|until| request.stay.end() <= until);
        let untold = if is_overrun { self.config.max_tracked_pages.0 } else { 0 };
        let most = Height::new(at_or_above.max(held_before) + untold);
        self.release(flight, &request, &parts, most.fall_to(at_or_above));
        parts.clear();
        flight.released = parts;
    }

    /// Gives what a request releases its slots: one, or several where others touched the pages further up later and
    /// ended before. The oldest has this `height`.
    fn release(
        &mut self,
        flight: &mut Flight,
        request: &FlightRequest,
        parts: &[(SegmentId, SegmentTouch)],
        mut height: Height,
    ) {
        let (mut makes_room, mut unshared) = (false, request.unshared_outputs);
        let mut push = |stack: &mut Self, weight: u32, tail: SegmentId, number: u64| {
            flight.heights.push(height);
            height.lower(weight);
            stack.slots.push(weight, tail, number, request.scope);
            makes_room |= stack.slots.begins_leaf();
        };
        for same in parts.chunk_by(|(_, below), (_, above)| below.number == above.number) {
            let slot = self.slots.next_slot();
            same.iter().for_each(|(segment, touch)| self.tree.release(*segment, touch.begin, slot));
            let pages: u32 = same.iter().map(|(_, touch)| touch.end - touch.begin).sum();
            push(self, pages + std::mem::take(&mut unshared), same[0].0, same[0].1.number);
        }
        if unshared > 0 {
            push(self, unshared, ROOT, request.number);
        }
        if makes_room && self.slots.crowded(self.tree.segment_count()) {
            let live: Vec<Height> = self.slots.owners().map(|slot| flight.heights.get(slot)).collect();
            self.make_room();
            flight.heights = Heights::of(live.into_iter());
        }
    }
}
