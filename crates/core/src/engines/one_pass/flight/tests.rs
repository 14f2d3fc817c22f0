//! Requests that overlap, compared with a cache of one capacity that goes page by page and pins what is in flight.

use crate::engines::one_pass::{Engine, EngineConfig, RangeEngine};
use crate::engines::profile::{OverlapMode, Profile};
use crate::request::event::RequestEvent;
use crate::request::outcome::Outcome;
use crate::stack::{InOrder, Overlap, Stack};
use crate::units::pages::{PageIds, Scope};
use crate::units::{EventTime, PageCount, PageSize};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

const SIZE: u64 = 4;

#[derive(Debug, Clone)]
struct Request {
    arrival: i64,
    duration: u64,
    input: u64,
    output: u64,
    /// Of the prompt's full pages, then of output pages whose ids are known.
    ids: Vec<u64>,
    outputs: Vec<u64>,
}

impl Request {
    fn event(&self) -> RequestEvent<'_> {
        RequestEvent {
            event_time: EventTime(self.arrival),
            duration_ms: Some(self.duration),
            input_tokens: Some(self.input),
            output_tokens: Some(self.output),
            page_ids: PageIds::from_slice(&self.ids),
            output_page_ids: PageIds::from_slice(&self.outputs),
            ..RequestEvent::default()
        }
    }

    fn stored(&self) -> u64 {
        self.input + self.output - 1
    }

    fn end(&self) -> i64 {
        self.arrival + self.duration as i64
    }

    /// The tokens that take a page each.
    fn growing_tokens(&self) -> impl Iterator<Item = u64> {
        let input = self.input;
        (input.div_ceil(SIZE)..self.stored().div_ceil(SIZE)).map(move |page| page * SIZE + 1 - input)
    }
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Arrives,
    Grows,
    Ends,
}

/// A step in the units that steps are counted in.
const STEP: u128 = 1 << 32;

/// A request in flight.
struct Live {
    index: usize,
    begun: u128,
    tokens: Vec<u64>,
}

/// Steps by which all requests in flight get their tokens: even until the next of them ends, up to as many as that one
/// says there are by then.
struct Clock<'a> {
    requests: &'a [Request],
    counted: (i64, u128),
    live: Vec<Live>,
    all: Vec<(usize, What)>,
}

impl Clock<'_> {
    /// The next to end, and the steps by then.
    fn next_end(&self) -> Option<(i64, usize, u128)> {
        let end = |live: &Live| {
            let request = &self.requests[live.index];
            (request.end(), live.index, live.begun + u128::from(request.output) * STEP)
        };
        self.live.iter().map(end).min()
    }

    /// When so many steps are done, in 1024ths of a millisecond; where that is before the next end.
    fn moment(&self, steps: u128) -> Option<i64> {
        let ((from, counted), (end, _, by_then)) = (self.counted, self.next_end()?);
        let (ahead, all) = (steps.saturating_sub(counted), by_then.saturating_sub(counted));
        let ticks = 1024 * (end - from).max(0) as u128;
        match ahead {
            0 => Some(1024 * from),
            _ if ahead > all => None,
            _ => Some(1024 * from + ((ticks * ahead + all / 2) / all) as i64),
        }
    }

    /// Lets everything happen that comes before this moment.
    fn advance(&mut self, now: i64) {
        loop {
            let moment = |live: &Live| self.moment(live.begun + u128::from(*live.tokens.first()?) * STEP);
            let growing = self.live.iter().filter_map(|live| Some((moment(live)?, live.index)));
            // Pages first, then ends, then pages that come before the next millisecond.
            let growing =
                growing.map(|(at, index)| (at / 1024, if at % 1024 == 0 { 0 } else { 2 }, index)).min();
            let end = self.next_end().map(|(time, index, _)| (time, 1, index));
            let Some((time, what, index)) = growing.into_iter().chain(end).min() else { return };
            if time >= now {
                return;
            }
            let live = self.live.iter().position(|live| live.index == index).expect("it is in flight");
            if what == 1 {
                let (_, _, by_then) = self.next_end().expect("this one");
                self.counted = (time.max(self.counted.0), by_then.max(self.counted.1));
                self.live.remove(live);
                self.all.push((index, What::Ends));
            } else {
                self.live[live].tokens.remove(0);
                self.all.push((index, What::Grows));
            }
        }
    }

    fn count_upto(&mut self, now: i64) {
        let (from, counted) = self.counted;
        let gone = self.next_end().filter(|(end, ..)| *end > from).map_or(0, |(end, _, by_then)| {
            let duration = (end - from) as u128;
            ((now - from) as u128 * by_then.saturating_sub(counted) + duration / 2) / duration
        });
        self.counted = (now, counted + gone);
    }
}

/// All that happens, in its order. A request of no duration is over before anything else happens.
fn happenings(requests: &[Request]) -> Vec<(usize, What)> {
    let mut clock = Clock { requests, counted: (0, 0), live: Vec::new(), all: Vec::new() };
    for (index, request) in requests.iter().enumerate() {
        clock.advance(request.arrival);
        clock.count_upto(request.arrival);
        clock.all.push((index, What::Arrives));
        let tokens = request.growing_tokens();
        if request.duration == 0 {
            clock.all.extend(tokens.map(|_| (index, What::Grows)));
            clock.all.push((index, What::Ends));
        } else {
            clock.live.push(Live { index, begun: clock.counted.1, tokens: tokens.collect() });
        }
    }
    clock.advance(i64::MAX);
    clock.all
}

/// A page in the cache: one with an id, or one that nobody can find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Page {
    Named(u64),
    Nameless(u64),
}

/// A cache of one capacity. Where more is held than it has room for, it runs over until enough has ended; what is
/// held is found meanwhile, as far as the cache would hold the prompt up to there alone.
struct Cache {
    capacity: u64,
    /// Pages without a name that requests hold.
    taken: u64,
    /// The oldest first.
    free: VecDeque<Page>,
    held: BTreeMap<Page, u32>,
    nameless: u64,
}

impl Cache {
    fn in_use(&self) -> u64 {
        self.taken + self.held.len() as u64
    }

    /// Lets the oldest free pages go that no longer fit.
    fn make_room(&mut self) {
        while self.in_use() + self.free.len() as u64 > self.capacity && self.free.pop_front().is_some() {}
    }

    fn take(&mut self) {
        self.taken += 1;
        self.make_room();
    }

    fn holds(&self, page: Page) -> bool {
        self.held.contains_key(&page) || self.free.contains(&page)
    }

    /// Whether a prompt finds its page of this index.
    fn finds(&self, index: u64, page: Page) -> bool {
        self.free.contains(&page) || (self.held.contains_key(&page) && index < self.capacity)
    }

    fn hold(&mut self, page: Page) {
        self.free.retain(|free| *free != page);
        *self.held.entry(page).or_default() += 1;
        self.make_room();
    }

    fn release(&mut self, page: Page) {
        let holders = self.held.get_mut(&page).expect("somebody holds it");
        *holders -= 1;
        if *holders == 0 {
            self.held.remove(&page);
            self.free.push_back(page);
        }
    }

    fn nameless(&mut self) -> Page {
        self.nameless += 1;
        Page::Nameless(self.nameless)
    }
}

/// Hits of each request in a cache of this capacity.
fn serve(requests: &[Request], capacity: u64, has_outputs: bool) -> Vec<u64> {
    let mut cache = Cache { capacity, taken: 0, free: VecDeque::new(), held: BTreeMap::new(), nameless: 0 };
    let mut hits = vec![0; requests.len()];
    let mut taken: BTreeMap<usize, u64> = BTreeMap::new();
    for (index, what) in happenings(requests) {
        let request = &requests[index];
        let (full, stored) =
            (request.input / SIZE, if has_outputs { request.stored() } else { request.input });
        match what {
            What::Arrives => {
                let limit = if has_outputs { (request.input - 1) / SIZE } else { full };
                let found = (0..limit).zip(&request.ids);
                hits[index] = found.take_while(|(at, id)| cache.finds(*at, Page::Named(**id))).count() as u64;
                // Hits are pinned before room is made for the rest.
                let (known, new): (Vec<u64>, _) =
                    request.ids.iter().partition(|id| cache.holds(Page::Named(**id)));
                known.into_iter().chain(new).for_each(|id| cache.hold(Page::Named(id)));
                if has_outputs && !request.input.is_multiple_of(SIZE) {
                    cache.take();
                    taken.insert(index, 1);
                }
            }
            What::Grows if has_outputs => {
                cache.take();
                *taken.entry(index).or_default() += 1;
            }
            What::Grows => {}
            What::Ends => {
                if has_outputs {
                    let outputs = stored / SIZE - full;
                    let taken = taken.remove(&index).unwrap_or(0);
                    assert_eq!(taken - outputs, u64::from(!stored.is_multiple_of(SIZE)));
                    let known = request.outputs.iter().take(outputs as usize).map(|id| Page::Named(*id));
                    let known: Vec<Page> = known.collect();
                    for _ in known.len() as u64..outputs {
                        let page = cache.nameless();
                        cache.free.push_back(page);
                    }
                    known.into_iter().rev().for_each(|page| cache.free.push_back(page));
                    cache.taken -= outputs;
                    release_prompt(&mut cache, request);
                    // Blank from now on.
                    cache.taken -= taken - outputs;
                } else {
                    release_prompt(&mut cache, request);
                }
            }
        }
    }
    hits
}

fn release_prompt(cache: &mut Cache, request: &Request) {
    request.ids.iter().rev().for_each(|id| cache.release(Page::Named(*id)));
    cache.make_room();
}

/// Sessions that grow, part and overlap. Ids are unique to their prefix.
fn requests(outputs_have_ids: bool) -> impl Strategy<Value = Vec<Request>> {
    let one = (
        0i64..4,
        0u64..12,
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        0usize..4,
        0u64..SIZE,
        1u64..14,
    );
    prop::collection::vec(one, 1..80).prop_map(move |all| {
        let (mut time, mut fresh, mut requests) = (0, 0u64, Vec::<Request>::new());
        for (wait, duration, before, cut, new, rest, output) in all {
            time += wait;
            let mut ids = Vec::new();
            if !requests.is_empty() {
                let before = &requests[before.index(requests.len())];
                let ended = before.arrival + (before.duration as i64) < time;
                ids.extend(&before.ids);
                if ended && outputs_have_ids {
                    ids.extend(&before.outputs);
                }
                ids.truncate(cut.index(ids.len() + 1));
            }
            let mut next = || {
                fresh += 1;
                fresh
            };
            ids.extend((0..new).map(|_| next()));
            if ids.is_empty() {
                ids.push(next());
            }
            // The last page of a prompt that is wholly known is computed anew, which takes a second copy of it.
            let rest = if new == 0 { rest.max(1) } else { rest };
            let input = ids.len() as u64 * SIZE + rest;
            let pages = (input + output - 1) / SIZE - input / SIZE;
            let outputs = if outputs_have_ids { (0..pages).map(|_| next()).collect() } else { Vec::new() };
            requests.push(Request { arrival: time, duration, input, output, ids, outputs });
        }
        requests
    })
}

fn engine(profile: Profile) -> Engine {
    Engine::new(EngineConfig { profile, overlap: OverlapMode::On, ..EngineConfig::default() })
}

fn observe(engine: &mut Engine, event: &RequestEvent<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    engine.observe(event, PageSize::new(SIZE as u32).expect("not zero"), &mut outcome).expect("sound");
    outcome
}

fn check(requests: &[Request], profile: Profile) -> Result<(), TestCaseError> {
    let mut engine = engine(profile);
    let outcomes: Vec<Outcome> =
        requests.iter().map(|request| observe(&mut engine, &request.event())).collect();
    for capacity in 1..200 {
        let found: Vec<u64> = outcomes.iter().map(|outcome| outcome.hits_at(capacity)).collect();
        prop_assert_eq!(found, serve(requests, capacity, profile == Profile::Vllm), "at {} pages", capacity);
    }
    Ok(())
}

const PROFILES: [Profile; 2] = [Profile::LeafFirst, Profile::Vllm];

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn overlapping_requests_hit_as_in_a_cache_of_each_capacity(requests in requests(false)) {
        check(&requests, Profile::Vllm)?;
        check(&requests, Profile::LeafFirst)?;
    }

    #[test]
    fn outputs_with_ids_are_found_once_their_request_ended(requests in requests(true)) {
        check(&requests, Profile::Vllm)?;
    }

    /// Durations of none, and such that each request ends before the next comes.
    #[test]
    fn where_nobody_overlaps_every_number_is_that_of_one_after_another(
        requests in requests(true),
        is_instant in any::<bool>(),
        profile in prop::sample::select(&PROFILES[..]),
    ) {
        let mut engine = engine(profile);
        let mut serial = Engine::new(EngineConfig { profile, ..EngineConfig::default() });
        for (index, request) in requests.iter().enumerate() {
            let event = match is_instant {
                true => RequestEvent { duration_ms: Some(0), ..request.event() },
                false => RequestEvent { event_time: EventTime(index as i64 * 100), ..request.event() },
            };
            prop_assert_eq!(observe(&mut engine, &event), observe(&mut serial, &event));
            let others = engine.others_in_flight().map(|others| (others.requests, others.pages));
            prop_assert_eq!(others, Some((0, 0)));
            let counts = |stack: &Stack| {
                (stack.tracked_pages(), stack.accumulated_pages(), stack.live_requests(), stack.requests())
            };
            prop_assert_eq!(counts(engine.stack()), counts(serial.stack()));
        }
    }

    /// A state read back goes on as the one that was written, scopes included.
    #[test]
    fn requests_in_flight_are_in_snapshots(
        requests in requests(true),
        at in any::<prop::sample::Index>(),
        first in any::<prop::sample::Index>(),
        profile in prop::sample::select(&PROFILES[..]),
    ) {
        let (at, first) = (at.index(requests.len()), first.index(requests.len()));
        let event = |index: usize| {
            let request = &requests[index];
            // Before the first duration requests are taken one after another.
            let duration_ms = request.event().duration_ms.filter(|_| index >= first);
            let scope = if request.ids[0].is_multiple_of(2) { Scope::named(b"two") } else { Scope::GLOBAL };
            RequestEvent { duration_ms, scope, ..request.event() }
        };
        let mut whole = engine(profile);
        (0..at).for_each(|index| drop(observe(&mut whole, &event(index))));
        let bytes = postcard::to_allocvec(&whole).expect("memory");
        let mut read: Engine = postcard::from_bytes(&bytes).expect("what was written");
        let config = EngineConfig { profile, overlap: OverlapMode::On, ..EngineConfig::default() };
        prop_assert!(read.resume(&config));
        prop_assert_eq!(&postcard::to_allocvec(&read).expect("memory"), &bytes);
        for index in at..requests.len() {
            prop_assert_eq!(observe(&mut read, &event(index)), observe(&mut whole, &event(index)));
        }
    }

    /// A stack that forgets answers every capacity up to its bound, until more is in flight than it tracks: steps are
    /// counted without the requests that it lets go then.
    #[test]
    fn forgetting_changes_no_answer_up_to_the_bound(requests in requests(true), bound in 1u64..60) {
        let mut all = engine(Profile::Vllm);
        let config = EngineConfig { max_tracked_pages: PageCount(bound), ..all.config() };
        let (mut bounded, mut is_exact) = (Engine::new(config), true);
        for request in &requests {
            let event = request.event();
            let (found, bounded) = (observe(&mut all, &event), observe(&mut bounded, &event));
            let others = all.others_in_flight().map_or(0, |others| others.pages);
            is_exact &= others + request.ids.len() as u64 + request.outputs.len() as u64 <= bound;
            for capacity in 1..=bound {
                let (bounded, found) = (bounded.hits_at(capacity), found.hits_at(capacity));
                prop_assert!(bounded == found || !is_exact, "{} of {} at {} pages", bounded, found, capacity);
                prop_assert!(bounded <= request.ids.len() as u64, "{} at {} pages", bounded, capacity);
            }
        }
    }

    /// Bytes that are no state are refused, or make one that goes on; none of them panics.
    #[test]
    fn damaged_snapshots_do_no_harm(
        requests in requests(true),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut engine = engine(Profile::Vllm);
        requests.iter().for_each(|request| drop(observe(&mut engine, &request.event())));
        let mut bytes = postcard::to_allocvec(&engine).expect("memory");
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(mut read) = postcard::from_bytes::<Engine>(&bytes)
            && read.resume(&engine.config())
        {
            requests.iter().for_each(|request| drop(read.observe(
                &request.event(),
                PageSize::new(SIZE as u32).expect("not zero"),
                &mut Outcome::default(),
            )));
        }
    }
}

#[test]
fn ranges_of_requests_with_durations_are_taken_in_order() {
    let config = EngineConfig { profile: Profile::Vllm, overlap: OverlapMode::On, ..EngineConfig::default() };
    let mut range = RangeEngine::new(config).expect("without durations");
    let size = PageSize::new(SIZE as u32).expect("not zero");
    let ids = [1];
    let event = RequestEvent { page_ids: PageIds::from_slice(&ids), ..RequestEvent::default() };
    assert_eq!(range.observe(&event, size), Ok(()));
    let lasting = RequestEvent { duration_ms: Some(1), ..event };
    assert_eq!(range.observe(&lasting, size), Err(InOrder::Overlap));
    let mut engine = engine(Profile::Vllm);
    observe(&mut engine, &lasting);
    assert_eq!(engine.merge(range.finish(size)), Err(InOrder::Overlap));
}

/// On a live server seven of a burst of eight equal prompts found 31 of 32 pages, and none in the model, since more
/// was in flight than the pool holds.
#[test]
fn a_burst_of_equal_prompts_finds_its_first_where_more_is_in_flight_than_there_is_room() {
    let (long, prompt): (Vec<u64>, Vec<u64>) = ((100..140).collect(), (0..32).collect());
    let event = |time: i64, ids: &'static [u64]| RequestEvent {
        event_time: EventTime(time),
        duration_ms: Some(50),
        input_tokens: Some(ids.len() as u64 * SIZE),
        output_tokens: Some(5),
        page_ids: PageIds::from_slice(ids),
        ..RequestEvent::default()
    };
    let (long, prompt): (&'static [u64], &'static [u64]) = (long.leak(), prompt.leak());
    let mut engine = engine(Profile::Vllm);
    observe(&mut engine, &event(0, long));
    let first = observe(&mut engine, &event(1, prompt));
    assert_eq!(first.hits_at(60), 0);
    for at in 2..9 {
        let found = observe(&mut engine, &event(at, prompt));
        assert_eq!([60, 40, 31, 30].map(|capacity| found.hits_at(capacity)), [31, 31, 31, 30]);
        let room = engine.others_in_flight().and_then(|others| others.room);
        assert_eq!(room, Some(72), "what all of them hold is another number");
    }
}

/// Requests get a token in each step of the engine: one that ends early says how many steps there were until then.
#[test]
fn tokens_come_in_steps_that_all_requests_share() {
    let mut engine = engine(Profile::Vllm);
    let event = |time: i64, duration: u64, output: u64, ids: &'static [u64]| RequestEvent {
        event_time: EventTime(time),
        duration_ms: Some(duration),
        input_tokens: Some(ids.len() as u64 * SIZE),
        output_tokens: Some(output),
        page_ids: PageIds::from_slice(ids),
        ..RequestEvent::default()
    };
    // Evenly over its own duration the first would have 2 tokens after 200 ms, and take one page.
    observe(&mut engine, &event(0, 1000, 10, &[1]));
    observe(&mut engine, &event(0, 200, 6, &[2]));
    observe(&mut engine, &event(201, 1, 1, &[3]));
    let held = engine.others_in_flight().map(|others| (others.requests, others.pages));
    assert_eq!(held, Some((1, 3)), "its prompt's page, and those of its first and fifth token");
}

#[test]
fn a_request_that_comes_late_arrives_with_the_one_before() {
    let mut engine = engine(Profile::Vllm);
    let event = |time, duration, ids: &'static [u64]| RequestEvent {
        event_time: EventTime(time),
        duration_ms: Some(duration),
        page_ids: PageIds::from_slice(ids),
        ..RequestEvent::default()
    };
    observe(&mut engine, &event(100, 50, &[1, 2]));
    let late = observe(&mut engine, &event(90, 5, &[1, 2, 3]));
    assert_eq!(late.need_of_prefix(2), 2, "held by the first");
    // It was over before the clock came to it.
    observe(&mut engine, &event(101, 5, &[9]));
    assert_eq!(engine.others_in_flight(), Some(Overlap { requests: 1, pages: 2, room: Some(3) }));
}
