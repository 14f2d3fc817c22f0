//! Requests in flight as a snapshot keeps them. Who holds which segment, and how high slots lie, follows from the
//! requests and the stack's own arrays.

use super::{Agenda, EngineSteps, Flight, FlightRequest, Growth, MAX_IN_FLIGHT};
use crate::stack::heights::{Height, Heights};
use crate::stack::ids::{ROOT, SegmentId, Slot};
use crate::stack::slots::Slots;
use crate::stack::tree::Tree;
use crate::stack::{HELD, MAX_REQUEST_PAGES};
use crate::units::packed::{self, DerivedArray};
use crate::units::{EventTime, is_countable};
use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize, Serializer};

/// A request that was the last to touch held pages of a segment, this one among them.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C, packed(4))]
struct SavedTouch {
    segment: SegmentId,
    pages: u32,
    number: u64,
}

/// What is read back.
#[derive(Debug, Deserialize)]
pub(in crate::stack) struct FlightImage {
    now: Option<EventTime>,
    was_alone: bool,
    overrun_until: Option<EventTime>,
    /// When steps were counted last, and how many there were.
    counted: (EventTime, EngineSteps),
    /// The most pages held at once since the last request arrived.
    most: u64,
    /// Number of the request that is alone.
    alone: Option<u64>,
    /// In order of their numbers.
    requests: Vec<FlightRequest>,
    /// In order of their segments and, within one, from the deepest on.
    #[serde(with = "packed")]
    touched: Vec<SavedTouch>,
    /// How much higher each slot was once.
    #[serde(with = "packed")]
    fallen: Vec<u32>,
}

impl Serialize for Flight {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { now, was_alone, overrun_until, alone, heights, held, most, .. } = self;
        let counted = self.agenda.counted();
        let mut requests: Vec<&FlightRequest> = self.in_flight().collect();
        requests.sort_by_key(|request| request.number);
        let mut touched: Vec<SavedTouch> = Vec::new();
        for (segment, held) in held {
            let of = |(pages, number)| SavedTouch { segment: *segment, pages, number };
            touched.extend(held.1.touched().map(of));
        }
        // Stable, so that those of a segment stay in their order.
        touched.sort_by_key(|touch| touch.segment.0);
        let fallen: Vec<u32> = heights.iter().map(|height| height.fallen() as u32).collect();
        let alone = alone.and_then(|at| self.requests[at as usize]).map(|request| request.number);
        let touched = DerivedArray { count: touched.len(), element: |at: usize| touched[at] };
        let fallen = DerivedArray { count: fallen.len(), element: |slot: usize| fallen[slot] };
        // The fields of `FlightImage`.
        (now, was_alone, overrun_until, counted, most, alone, requests, touched, fallen).serialize(serializer)
    }
}

impl FlightImage {
    /// The requests in flight above these slots, whose paths lead through this tree; `requests` is the number of the
    /// next one. `None` where that contradicts itself.
    pub(in crate::stack) fn build(self, tree: &Tree, slots: &Slots, requests: u64) -> Option<Flight> {
        let Self { now, was_alone, overrun_until, counted, most, alone, requests: saved, touched, fallen } =
            self;
        let in_order = saved.is_sorted_by(|one, next| one.number < next.number)
            && saved.last().is_none_or(|last| last.number < requests);
        if !in_order || saved.len() > MAX_IN_FLIGHT || fallen.len() != slots.len() {
            return None;
        }
        let mut flight = Flight::new(Heights::default());
        (flight.now, flight.was_alone, flight.overrun_until) = (now, was_alone, overrun_until);
        (flight.agenda, flight.most) = (Agenda::since(counted), most);
        for saved in saved {
            flight.resume(saved, alone, tree)?;
        }
        if flight.alone.is_some() != alone.is_some() || (alone.is_some() && flight.len() > 1) {
            return None;
        }
        flight.resume_touched(&touched, requests)?;
        flight.count_named(tree)?;
        let pages = flight.pages();
        let height = |(at_or_above, fallen): (u64, &u32)| {
            Height::new(at_or_above + pages + u64::from(*fallen)).fall_to(at_or_above + pages)
        };
        let heights: Vec<Height> = slots.at_or_above().into_iter().zip(&fallen).map(height).collect();
        flight.heights = Heights::of(heights.into_iter());
        Some(flight)
    }
}

impl Flight {
    /// Takes a request in that was in flight.
    fn resume(&mut self, request: FlightRequest, alone: Option<u64>, tree: &Tree) -> Option<()> {
        let FlightRequest { number, scope, tail, stay, unnamed, unshared_outputs, .. } = request;
        let Growth { pages, next_token, tokens_per_page, tokens } = stay.growth;
        let counts = [unnamed, u64::from(unshared_outputs), u64::from(pages)];
        let numbers = [next_token, tokens_per_page, tokens];
        let is_sound = counts.into_iter().all(|count| count <= 2 * MAX_REQUEST_PAGES)
            && numbers.into_iter().all(is_countable)
            && (tail == crate::stack::TOP || tree.holds(tail));
        if !is_sound {
            return None;
        }
        let (mut place, mut steps) = (tail, 0);
        while place.segment != ROOT {
            // A path that leads back to itself ends here.
            steps += 1;
            if steps > tree.table_len() || !tree.holds(place) || place.pages == 0 {
                return None;
            }
            self.holds_of(place.segment, scope).count(place.pages);
            place = tree.place(place.segment);
        }
        self.unnamed += unnamed;
        let at = self.file(request);
        if alone == Some(number) {
            self.alone = Some(at);
        } else {
            self.agenda.ends(stay.end(), number, at, (request.begun, tokens));
            self.schedule(at);
        }
        Some(())
    }

    fn resume_touched(&mut self, touched: &[SavedTouch], requests: u64) -> Option<()> {
        for SavedTouch { segment, pages, number } in touched.iter().copied() {
            let holds = &mut self.held.get_mut(&segment)?.1;
            let fits = holds.push_touched(pages, number) && number < requests;
            fits.then_some(())?;
        }
        self.held.values().all(|(_, holds)| holds.is_sound()).then_some(())
    }

    /// Counts the pages with ids that are held: in the tree they are owned by nobody else.
    fn count_named(&mut self, tree: &Tree) -> Option<()> {
        let mut named: u64 = 0;
        let mut segments = 0;
        for (id, segment) in tree.segments().filter(|(_, segment)| segment.slot == HELD) {
            let (_, pages) = tree.owners(id, segment.len()).next()?;
            (self.held.get(&id)?.1.held() == pages).then_some(())?;
            named += u64::from(pages);
            segments += 1;
        }
        let new_outputs: u64 = self.in_flight().map(|request| u64::from(request.new_outputs)).sum();
        self.named = named.checked_sub(new_outputs)?;
        (segments == self.held.len()).then_some(())
    }
}

/// Whether a slot that arrays name is one of so many, or that of requests in flight where there may be any.
pub(in crate::stack) fn is_owner(slot: Slot, slots: usize, may_be_held: bool) -> bool {
    slot.index() < slots || (may_be_held && slot == HELD)
}
