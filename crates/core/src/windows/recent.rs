//! Windows over offsets: the last N requests, and everything since the start.

use super::reserve_few;
use crate::questions::counters::{Counter, Share};
use crate::questions::observers::{Observation, ObservationShape, PoolSections, UnreadSections};
use crate::sizing::exact_curve::{FoundPages, FoundRun};
use crate::stack::Overlap;
use crate::units::heap::{HeapBytes, flat, heap_bytes};
use crate::units::{EventTime, Offset};
use crate::windows::step_counts::StepHits;
use crate::windows::tally::{Position, RequestSummary, Tally, TallyShape};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

/// Everything since the start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Everything {
    extent: Option<Position>,
    pub(super) tally: Tally,
}

heap_bytes!(Everything { tally; extent });

impl Everything {
    pub(super) fn new(shape: TallyShape) -> Self {
        Self { extent: None, tally: Tally::new(shape.without_end()) }
    }

    pub(super) fn observe(&mut self, summary: &RequestSummary) {
        let own = summary.position;
        let extent = self.extent.map_or(own, |extent| extent.earliest(own));
        self.extent = Some(extent);
        self.tally.add(summary, summary.pages_unseen_since(extent.arrival));
    }

    pub(super) fn view(&self) -> Option<(Position, &Tally)> {
        self.extent.map(|extent| (extent, &self.tally))
    }

    /// Gives what is counted alongside.
    pub(super) fn save_observations<'a>(&'a self, image: &mut PoolSections<'a>) {
        image.push_tally(self.tally.observation.as_deref());
    }

    /// Takes it back.
    pub(super) fn take_question_counts(&mut self, shape: TallyShape, saved: &mut UnreadSections) {
        self.tally.observation = saved.tally(shape.without_end().observation);
    }

    /// Whether this, read back from a snapshot, can be added to.
    pub(super) fn is_sound(&self, shape: TallyShape) -> bool {
        self.tally.is_sound(shape.without_end())
    }
}

/// The last N requests: each one's share of the tally is kept, to be taken out again exactly.
///
/// Memory is 80 bytes a request, with 8 for each target ratio, 8 for each threshold its hits are spread
/// over and, where hits at every capacity are requested, 16 for each run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LastRequests {
    capacity: usize,
    requests: VecDeque<TallyShare>,
    /// Needs and hits of the held requests, one after another.
    needs: VecDeque<u64>,
    hits: VecDeque<StepHits>,
    /// Their found pages, where hits at every capacity are requested.
    found: Option<VecDeque<FoundRun>>,
    /// What each adds alongside, where more is asked; a snapshot keeps it apart.
    #[serde(skip)]
    observations: HeldObservations,
    /// What is counted of these when the window is shown.
    #[serde(skip)]
    when_shown: Option<Box<ObservationShape>>,
    pub(super) tally: Tally,
}

heap_bytes!(LastRequests { requests, needs, hits, found, observations, tally; capacity, when_shown });

/// What requests add alongside, in the order in which they came.
#[derive(Debug, Clone, Default)]
struct HeldObservations {
    shares: VecDeque<Arc<Observation>>,
    /// What these hold on the heap: asked for with every estimate, and they lie far apart.
    bytes: usize,
}

impl HeldObservations {
    fn push(&mut self, share: Arc<Observation>) {
        self.bytes += share.heap_bytes();
        self.shares.push_back(share);
    }

    fn pop(&mut self) -> Option<Arc<Observation>> {
        let share = self.shares.pop_front()?;
        self.bytes -= share.heap_bytes();
        Some(share)
    }

    fn iter(&self) -> impl ExactSizeIterator<Item = &Observation> {
        self.shares.iter().map(Arc::as_ref)
    }
}

impl HeapBytes for HeldObservations {
    fn heap_bytes(&self) -> usize {
        self.shares.capacity() * size_of::<Arc<Observation>>() + self.bytes
    }
}

/// One request's share of the tally.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct TallyShare {
    arrival: u64,
    offset: Offset,
    event_time: EventTime,
    /// A request's pages are counted in 32 bits everywhere.
    page_accesses: u32,
    rest_tokens: u32,
    recomputed: u32,
    reusable: u32,
    /// Pages it touched: all of them are distinct once it is the window's first request.
    touched: u32,
    /// Of the pages that held requests touched, those last touched between this request and the next
    /// held one: they become the window's own when this request leaves.
    retouched: u64,
    /// How many entries of `hits` are its own.
    steps: u32,
    /// How many entries of `found` are its own.
    runs: u32,
    /// What it met in flight.
    overlap: Option<Overlap>,
}

flat!(TallyShare);

/// What is counted when the window is shown, if anything.
fn when_shown(shape: TallyShape) -> Option<Box<ObservationShape>> {
    let shape = shape.observation.when_shown();
    shape.is_something().then(|| Box::new(shape))
}

impl LastRequests {
    pub(super) fn new(requests: u32, shape: TallyShape) -> Self {
        Self {
            capacity: requests.max(1) as usize,
            requests: VecDeque::new(),
            needs: VecDeque::new(),
            hits: VecDeque::new(),
            found: shape.whole_curve.then(VecDeque::new),
            observations: HeldObservations::default(),
            when_shown: when_shown(shape),
            tally: Tally::new(shape.of_latest()),
        }
    }

    pub(super) fn observe(&mut self, summary: &RequestSummary) {
        if self.requests.len() == self.capacity {
            self.release_oldest();
        }
        // What one request gains here another one loses, so the tally never has less than it gives back.
        let touched = summary.pages_touched();
        let mut unseen = touched;
        for touch in &summary.touches {
            if let Some(index) = self.last_held_upto(touch.last_touched_by) {
                self.requests[index].retouched += touch.pages;
                unseen -= touch.pages;
            }
        }
        self.tally.add_but_found(summary, unseen);
        self.hold(summary, touched);
    }

    /// Position of the last held request whose number is at most `arrival`.
    ///
    /// Numbers follow each other without a gap but where a request between was not counted, so its place
    /// is mostly where its number says; a search would miss the processor's caches a dozen times.
    fn last_held_upto(&self, arrival: u64) -> Option<usize> {
        let after_first = arrival.checked_sub(self.requests.front()?.arrival)?;
        let index = usize::try_from(after_first).ok()?;
        if self.requests.get(index).is_some_and(|held| held.arrival == arrival) {
            return Some(index);
        }
        self.requests.partition_point(|held| held.arrival <= arrival).checked_sub(1)
    }

    fn hold(&mut self, summary: &RequestSummary, touched: u64) {
        self.needs.extend(&summary.needs);
        self.hits.extend(&summary.hits);
        self.found.iter_mut().for_each(|found| found.extend(&summary.found));
        summary.observation.iter().for_each(|share| self.observations.push(Arc::clone(share)));
        reserve_few(&mut self.requests);
        self.requests.push_back(TallyShare {
            arrival: summary.position.arrival,
            offset: summary.position.offset,
            event_time: summary.position.event_time,
            page_accesses: summary.page_accesses as u32,
            rest_tokens: summary.rest_tokens,
            recomputed: summary.recomputed_pages,
            reusable: summary.reusable as u32,
            touched: touched as u32,
            retouched: 0,
            steps: summary.hits.len() as u32,
            runs: summary.found.len() as u32,
            overlap: summary.overlap,
        });
    }

    fn release_oldest(&mut self) {
        let Some(held) = self.requests.pop_front() else { return };
        let tally = &mut self.tally;
        tally.requests -= 1;
        tally.page_accesses -= u64::from(held.page_accesses);
        tally.rest_tokens -= u64::from(held.rest_tokens);
        tally.recomputed_pages -= u64::from(held.recomputed);
        tally.reusable -= u64::from(held.reusable);
        tally.requests_with_reuse -= u64::from(held.reusable > 0);
        tally.distinct_pages = tally.distinct_pages - u64::from(held.touched) + held.retouched;
        for hits in (0..held.steps).filter_map(|_| self.hits.pop_front()) {
            tally.hits.remove(&hits);
        }
        if let Some(overlap) = held.overlap {
            tally.overlaps.remove(overlap);
        }
        for needs in &mut tally.needs {
            let need = self.needs.pop_front().filter(|_| held.reusable > 0);
            need.into_iter().for_each(|need| needs.remove(need));
        }
        self.found.iter_mut().for_each(|found| drop(found.drain(..held.runs as usize)));
        if let Some((observation, share)) = tally.observation.as_deref_mut().zip(self.observations.pop()) {
            observation.remove(&share);
        }
    }

    /// Gives what its requests add alongside.
    pub(super) fn save_observations<'a>(&'a self, image: &mut PoolSections<'a>) {
        image.push_shares(self.observations.iter());
    }

    /// Takes it back; the counts are the sum.
    pub(super) fn take_question_counts(&mut self, shape: TallyShape, saved: &mut UnreadSections) {
        if !shape.observation.is_something() {
            return;
        }
        self.when_shown = when_shown(shape);
        let shares = saved.shares(self.requests.len(), shape.observation);
        shares.for_each(|share| self.observations.push(Arc::new(share)));
        let Some(mut tally) = shape.of_latest().observation.tally() else { return };
        self.observations
            .iter()
            .filter(|share| share.is_sound(shape.observation))
            .for_each(|share| tally.as_mut().add(share));
        self.tally.observation = Some(tally);
    }

    /// The counts of its requests, those that are made when the window is shown among them.
    pub(super) fn shown(&self) -> Cow<'_, Tally> {
        let mut tally = Cow::Borrowed(&self.tally);
        if let Some(runs) = &self.found {
            let mut found = Box::<FoundPages>::default();
            runs.iter().for_each(|run| found.defer(run));
            tally.to_mut().found = Some(found);
        }
        if let Some(mut counts) = self.when_shown.as_ref().and_then(|shape| shape.tally()) {
            self.observations.iter().for_each(|share| counts.as_mut().add(share));
            tally.to_mut().observation.get_or_insert_default().take_shown(*counts);
        }
        tally
    }

    /// The window as it stands. Finding the earliest event time and the smallest offset looks at every held request,
    /// which is done when the window is shown, not when a request arrives.
    pub(super) fn view(&self) -> Option<Position> {
        let first = self.requests.front()?;
        let event_time = self.requests.iter().map(|held| held.event_time).min()?;
        let offset = self.requests.iter().map(|held| held.offset).min()?;
        Some(Position { arrival: first.arrival, offset, event_time })
    }

    /// Whether this, read back from a snapshot, is a window like `fresh` whose requests can all be taken out
    /// again: the tally is exactly their sum.
    pub(super) fn is_sound(&self, fresh: &Self, shape: TallyShape) -> bool {
        let latest = shape.of_latest();
        let steps: u64 = self.requests.iter().map(|held| u64::from(held.steps)).sum();
        let runs: u64 = self.requests.iter().map(|held| u64::from(held.runs)).sum();
        let found = || self.found.iter().flatten();
        self.tally.is_sound(latest)
            && self.capacity == fresh.capacity
            && self.requests.len() <= self.capacity
            && self.needs.len() == self.requests.len() * shape.targets
            && self.hits.len() as u64 == steps
            && self.found.is_some() == shape.whole_curve
            && found().count() as u64 == runs
            && self.observations.shares.len()
                == if shape.observation.is_something() { self.requests.len() } else { 0 }
            && self.observations.iter().all(|share| share.is_sound(shape.observation))
            && self.hits.iter().all(|hits| (hits.step as usize) < shape.thresholds)
            && found().all(FoundRun::is_of_an_engine)
            && self.recount(latest).is_some_and(|recount| recount == self.tally.consolidated())
    }

    /// The sum of the held requests; `None` where pages were touched again more often than later requests touched any.
    fn recount(&self, shape: TallyShape) -> Option<Tally> {
        let mut needs = self.needs.iter().copied();
        let mut hits = self.hits.iter().copied();
        let mut observations = self.observations.shares.iter();
        let mut tally = Tally::new(shape);
        for held in &self.requests {
            let summary = RequestSummary {
                page_accesses: u64::from(held.page_accesses),
                rest_tokens: held.rest_tokens,
                recomputed_pages: held.recomputed,
                reusable: u64::from(held.reusable),
                needs: needs.by_ref().take(shape.targets).collect(),
                hits: hits.by_ref().take(held.steps as usize).collect(),
                overlap: held.overlap,
                observation: observations.next().cloned(),
                ..RequestSummary::default()
            };
            tally.add(&summary, 0);
        }
        // From the newest on: what it touched, and of that what earlier requests had touched.
        for held in self.requests.iter().rev() {
            tally.distinct_pages = tally.distinct_pages.checked_sub(held.retouched)?;
            tally.distinct_pages += u64::from(held.touched);
        }
        tally.consolidate();
        Some(tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::config::PoolConfig;
    use crate::questions::enabled::Questions;
    use crate::questions::measured::{CachedPages, Explanation, MeasuredShare, Modelled};
    use crate::questions::observers::Observers;
    use crate::questions::routing::RoutingShare;
    use crate::request::outcome::{Outcome, Run};
    use crate::units::PageSize;
    use crate::units::ratio::Ratio;
    use crate::windows::tally::{CountingRules, Position};

    const PAGE: PageSize = PageSize::new(16).expect("not zero");

    fn shape() -> TallyShape {
        let questions = Questions {
            measured: true,
            routers: vec!["round-robin:2".parse().expect("a router")],
            ..Questions::default()
        };
        let config = PoolConfig { questions, ..PoolConfig::default() };
        TallyShape {
            targets: 1,
            thresholds: 1,
            whole_curve: true,
            observation: Observers::new(config.observed(), &[], PAGE).expect("asked").shape(),
        }
    }

    /// A full window of requests that each touch the pages of the one before and one new page.
    fn window() -> LastRequests {
        let mut window = LastRequests::new(3, shape());
        let rules = CountingRules { target_ratios: &[Ratio::ONE], thresholds: &[9], whole_curve: true };
        for arrival in 0..5_u64 {
            let known = Run { pages: 2, need: 3, step: 1, last_touched_by: arrival.saturating_sub(1) };
            let outcome = Outcome { page_accesses: 3, new_pages: 1, runs: vec![known], ..Outcome::default() };
            let mut summary = RequestSummary::default();
            summary.read(&outcome, Position { arrival, ..Position::default() }, &rules);
            summary.overlap = Some(Overlap { requests: 1, pages: 2, room: Some(3) });
            summary.observation = Some(Arc::new(observation(&outcome)));
            window.observe(&summary);
        }
        window
    }

    /// What a request adds where the measured hits and a router are asked about.
    fn observation(outcome: &Outcome) -> Observation {
        let cached = CachedPages::stated(1);
        let measured = MeasuredShare::of(cached, outcome, None, Explanation::by_prompts(1));
        Observation {
            measured: Some(Box::new(Modelled::Curve(measured))),
            routers: Some(Box::new(vec![Some(RoutingShare::of(1, outcome, &[Ratio::ONE]))])),
            ..Observation::default()
        }
    }

    #[test]
    fn a_held_request_is_found_by_its_number_also_where_numbers_between_are_missing() {
        let mut window = LastRequests::new(4, shape());
        for arrival in [1, 3, 4, 7, 8] {
            let position = Position { arrival, ..Position::default() };
            window.observe(&RequestSummary { position, needs: vec![0], ..RequestSummary::default() });
        }
        let found = [2, 3, 4, 5, 6, 7, 8, 9].map(|arrival| window.last_held_upto(arrival));
        let expected = [None, Some(0), Some(1), Some(1), Some(1), Some(2), Some(3), Some(3)];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_shares_hold_on_the_heap_follows_them_as_they_come_and_go() {
        let held = window().observations;
        let each: usize = held.shares.iter().map(HeapBytes::heap_bytes).sum();
        assert!((held.shares.len(), held.bytes) == (3, each) && each > 0, "{held:?}");
        assert_eq!(held.heap_bytes(), each + held.shares.capacity() * size_of::<Arc<Observation>>());
    }

    #[test]
    fn a_tally_smaller_than_its_requests_is_refused_before_they_are_taken_out_of_it() {
        let fresh = LastRequests::new(3, shape());
        assert!(fresh.is_sound(&fresh, shape()) && window().is_sound(&fresh, shape()));
        let forgeries: [fn(&mut LastRequests); 18] = [
            |window| window.tally.requests -= 1,
            |window| window.tally.page_accesses -= 1,
            |window| window.tally.reusable -= 1,
            |window| window.tally.requests_with_reuse -= 1,
            |window| window.tally.distinct_pages -= 1,
            |window| window.tally.hits.remove(&StepHits { step: 0, pages: 1 }),
            |window| window.tally.needs[0] = Default::default(),
            |window| window.tally.overlaps = Default::default(),
            |window| window.tally.found = Some(Default::default()),
            |window| window.requests[0].page_accesses += 1,
            |window| window.requests[1].touched = u32::MAX,
            |window| window.requests[2].retouched += 1,
            |window| window.requests[0].steps += 1,
            |window| window.hits[1].pages += 1,
            |window| window.needs[1] += 1,
            |window| window.capacity = 2,
            |window| window.observations.shares[0] = Arc::default(),
            |window| window.tally.observation = None,
        ];
        for (index, forge) in forgeries.into_iter().enumerate() {
            let mut forged = window();
            forge(&mut forged);
            assert!(!forged.is_sound(&fresh, shape()), "forgery {index}");
        }
    }
}
