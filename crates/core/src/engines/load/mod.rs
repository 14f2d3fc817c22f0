//! Requests that overlap in a cache of one capacity: when each is looked up, takes room, waits for it, and ends.
//!
//! What a request holds, and by which rules, is the cache's ([`LoadedCache`]); this module says when. Requests are
//! looked up in the order of arrivals. A request takes its prompt's room as it is looked up, that of its output as
//! tokens come, evenly over its duration, and gives all of it back at its end. At one moment arrivals come first, as
//! in [`flight`](crate::stack::Stack::arrive).
//!
//! Where there is no room for a prompt, the request waits, as do all behind it, until others have ended; it is looked
//! up then, and takes as long from then on as the log says. Where there is none for an output, the request that came
//! last gives its room back and waits before all others, and nobody is looked up at that moment. It goes on from the
//! token it had come to, so the time it waited is added.
//!
//! A log of an engine that was as full has these times in its durations already ([`CacheLoad::ending_as_logged`]).

mod pace;

use crate::request::event::RequestEvent;
use crate::stack::{EngineSteps, Growth, MAX_IN_FLIGHT, NextEvent, Phase, Stay};
use crate::units::heap::{HeapBytes, heap_bytes};
use crate::units::{EventTime, is_countable};
use pace::TokenPace;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// A cache whose requests hold room while they are in flight.
pub(super) trait LoadedCache: Sized {
    /// What a request in flight holds.
    type Request: Serialize + HeapBytes;
    /// The same, read back from a snapshot.
    type Saved: for<'de> Deserialize<'de>;

    /// Lets happen what a clock of the cache's own brings about by this moment.
    fn pass_time(&mut self, _now: EventTime) {}
    /// Looks a request up and takes room for its prompt.
    fn begin(&mut self, event: &RequestEvent<'_>) -> Begun<Self::Request>;
    /// The output token, counted from 1, that takes or gives back room next; `None` where none does.
    fn next_token(&self, request: &Self::Request) -> Option<u64>;
    /// Takes and gives back that room; whether there was room to take.
    fn grow(&mut self, request: &mut Self::Request) -> bool;
    /// Makes the room that is wanted before so many requests in flight get a token each, as far as there is any.
    fn before_tokens(&mut self, _in_flight: usize) {}
    /// Ends a request.
    fn finish(&mut self, request: Self::Request);
    /// Takes away all that a request holds that has stored so many tokens of its output. This and what follows from
    /// it is for caches that lack room at times.
    fn preempt(&mut self, _request: &mut Self::Request, _tokens: u64) {}
    /// Tokens of its output that a request which was preempted had stored, and those it will have.
    fn stored(&self, _request: &Self::Request) -> (u64, u64) {
        (0, 0)
    }
    /// Looks a request that was preempted up again, and takes room for all that it had come to; whether there was any.
    fn resume(&mut self, _request: &mut Self::Request) -> bool {
        true
    }
    /// Forgets a request that was preempted.
    fn abandon(&mut self, request: Self::Request) {
        self.finish(request);
    }
    /// The request as a snapshot keeps it.
    fn save(&self, request: &Self::Request) -> Self::Request;
    /// Gives a request back what it held as it was saved; `None` where it held nothing of the kind.
    fn rejoin(&mut self, saved: Self::Saved) -> Option<Self::Request>;
}

/// What became of a request that arrived.
pub(super) enum Begun<R> {
    /// It is larger than the whole cache; nothing changed.
    Refused,
    /// Others hold what it needs; nothing changed.
    Waits,
    /// It is in flight, and found so many leading pages of its prompt.
    Runs(R, u64),
}

/// A request in flight, or one that was preempted.
#[derive(Debug, Serialize, Deserialize)]
struct LoadedRequest<R> {
    /// Makes the order that of look-ups.
    number: u64,
    /// When its first token would have been due, the time that it waited since added.
    begun: EventTime,
    duration_ms: u64,
    /// Output tokens in all.
    tokens: u64,
    request: R,
    /// Where it ends as the log says, which no snapshot keeps: the steps of the engine as it was looked up last, and
    /// the output tokens that it had by then.
    #[serde(skip)]
    steps: EngineSteps,
    #[serde(skip)]
    had: u64,
}

heap_bytes!(LoadedRequest<R> { request; number, begun, duration_ms, tokens, steps, had });

impl<R> LoadedRequest<R> {
    /// When it ends, if it never waits again.
    fn end(&self) -> EventTime {
        self.moment(None).0
    }

    /// The step of the engine in which it has this token.
    fn steps_of(&self, token: u64) -> EngineSteps {
        self.steps.after(token.saturating_sub(self.had))
    }

    /// When this token is due, or the end.
    fn moment(&self, token: Option<u64>) -> (EventTime, Phase) {
        let growth = Growth {
            pages: u32::from(token.is_some()),
            next_token: token.unwrap_or(0),
            tokens_per_page: 0,
            tokens: self.tokens,
        };
        Stay { arrival: self.begun, duration_ms: self.duration_ms, begins_partial: false, growth }.next()
    }

    /// Output tokens that were due before the one of another request that comes now.
    fn tokens_before(&self, now: NextEvent<usize>) -> u64 {
        let elapsed = now.time.0.saturating_sub(self.begun.0).max(0).unsigned_abs();
        let (due, all) = (u128::from(elapsed) * u128::from(self.tokens), u128::from(self.duration_ms.max(1)));
        let before =
            if now.phase == Phase::GrowsLater { due / all } else { due.div_ceil(all).saturating_sub(1) };
        // At most all of them.
        u64::try_from(before).unwrap_or(u64::MAX).min(self.tokens)
    }
}

/// A cache and its requests in flight.
#[derive(Debug)]
pub(super) struct CacheLoad<C: LoadedCache> {
    pub(super) cache: C,
    /// The latest moment that came; later than the last arrival where requests wait.
    now: Option<EventTime>,
    /// The number of the next request.
    number: u64,
    flights: Vec<Option<LoadedRequest<C::Request>>>,
    free: Vec<usize>,
    pace: TokenPace,
    /// Those that were preempted and wait, the first to go on first.
    preempted: VecDeque<LoadedRequest<C::Request>>,
    /// Until then, the next token of the one that had its room taken for it, none of them goes on.
    held_up: Option<EventTime>,
}

impl<C: LoadedCache + HeapBytes> HeapBytes for CacheLoad<C> {
    fn heap_bytes(&self) -> usize {
        let Self { cache, flights, free, pace, preempted, now: _, number: _, held_up: _ } = self;
        let requests = flights.heap_bytes() + free.heap_bytes() + pace.heap_bytes() + preempted.heap_bytes();
        cache.heap_bytes() + requests
    }
}

impl<C: LoadedCache> CacheLoad<C> {
    pub(super) fn new(cache: C) -> Self {
        Self {
            cache,
            now: None,
            number: 0,
            flights: Vec::new(),
            free: Vec::new(),
            pace: TokenPace::served(),
            preempted: VecDeque::new(),
            held_up: None,
        }
    }

    /// The same, with requests that end when the log says, where nobody is in flight yet.
    pub(super) fn ending_as_logged(self) -> Self {
        Self { pace: TokenPace::logged(), ..self }
    }

    /// Lets everything happen that comes before a request, and looks it up; the pages it found, none where it was
    /// refused.
    pub(super) fn arrive(&mut self, event: &RequestEvent<'_>) -> u64 {
        let mut now = self.now.max(Some(event.event_time)).unwrap_or_default();
        loop {
            self.pass(now);
            self.cache.pass_time(now);
            let begun = match self.resume_all(now) {
                true => self.cache.begin(event),
                false => Begun::Waits,
            };
            match begun {
                Begun::Refused => return 0,
                Begun::Runs(request, found) => {
                    self.run(event, now, request);
                    return found;
                }
                Begun::Waits => match self.next_change() {
                    Some(change) => now = change.max(now),
                    None => return 0,
                },
            }
        }
    }

    /// Whether its counts are ones that a log can come to.
    pub(super) fn is_countable(&self) -> bool {
        is_countable(self.number)
    }

    /// Requests in flight.
    fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// Files a request that was looked up now; one of no duration is over at once.
    fn run(&mut self, event: &RequestEvent<'_>, now: EventTime, request: C::Request) {
        let duration_ms = event.duration_ms.unwrap_or(0);
        if duration_ms == 0 {
            self.complete(request, self.in_flight() + 1);
            return;
        }
        while self.in_flight() >= MAX_IN_FLIGHT {
            let Some(first) = self.pop() else { break };
            self.end(first.at);
        }
        let begun = match self.pace {
            TokenPace::Served(_) => now,
            TokenPace::Logged(_) => event.event_time,
        };
        let tokens = event.output_tokens.unwrap_or(0);
        let flight = LoadedRequest {
            number: 0,
            begun,
            duration_ms,
            tokens,
            request,
            steps: EngineSteps::default(),
            had: 0,
        };
        self.file(flight, now);
    }

    /// Ends a request with all of its output, as far as there is room, among so many in flight.
    fn complete(&mut self, mut request: C::Request, in_flight: usize) {
        while self.cache.next_token(&request).is_some() {
            self.cache.before_tokens(in_flight);
            if !self.cache.grow(&mut request) {
                break;
            }
        }
        self.cache.finish(request);
    }

    /// Gives a request that begins or goes on now the next number and a place.
    fn file(&mut self, mut flight: LoadedRequest<C::Request>, now: EventTime) {
        flight.number = self.number;
        self.number += 1;
        let at = self.free.pop().unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() - 1
        });
        self.pace.begin(&mut flight, at, now);
        self.flights[at] = Some(flight);
        self.schedule(at);
    }

    /// Puts what comes next for a request on the agenda.
    fn schedule(&mut self, at: usize) {
        let Some(flight) = &self.flights[at] else { return };
        self.pace.schedule(flight, at, self.cache.next_token(&flight.request));
    }

    /// The next thing to happen, without those of requests that were preempted.
    fn peek(&mut self) -> Option<NextEvent<usize>> {
        let flights = &self.flights;
        self.pace.peek(|number, at| flights[at].as_ref().is_some_and(|flight| flight.number == number))
    }

    fn pop(&mut self) -> Option<NextEvent<usize>> {
        let next = self.peek();
        self.pace.pop();
        next
    }

    /// The first moment at which a request that waits may find room.
    fn next_change(&mut self) -> Option<EventTime> {
        let next = self.next_time().map(|time| EventTime(time.0.saturating_add(1)));
        [next, self.held_up].into_iter().flatten().min()
    }

    fn next_time(&mut self) -> Option<EventTime> {
        self.peek().map(|next| next.time)
    }

    /// Lets everything happen that comes before this moment; those that were preempted go on as soon as there is room.
    fn pass(&mut self, now: EventTime) {
        self.now = Some(now);
        loop {
            let next = self.next_time().filter(|time| *time < now);
            if let Some(until) = self.held_up.filter(|until| *until <= next.unwrap_or(now)) {
                self.resume_all(until);
                continue;
            }
            let Some(time) = next else { return };
            self.cache.pass_time(time);
            // Tokens of different requests are of one step; one that gets another begins the next.
            let mut last = None;
            while self.next_time() == Some(time)
                && let Some(next) = self.pop()
            {
                if next.phase == Phase::Ends {
                    self.end(next.at);
                    continue;
                }
                if last.is_none_or(|(phase, number)| phase != next.phase || number >= next.number) {
                    self.cache.before_tokens(self.in_flight());
                }
                last = Some((next.phase, next.number));
                self.grow(next);
            }
            self.resume_all(EventTime(time.0.saturating_add(1)));
        }
    }

    fn end(&mut self, at: usize) {
        if let Some(flight) = self.flights[at].take() {
            self.free.push(at);
            match self.pace {
                TokenPace::Served(_) => self.cache.finish(flight.request),
                // It may have waited for some of its tokens until then.
                TokenPace::Logged(_) => self.complete(flight.request, self.in_flight() + 1),
            }
        }
    }

    /// Lets a request take the room of its next token, from those that came last where there is no other.
    fn grow(&mut self, now: NextEvent<usize>) {
        let token = self.flights[now.at].as_ref().and_then(|flight| self.cache.next_token(&flight.request));
        let mut next = None;
        while let Some(flight) = &mut self.flights[now.at] {
            if self.cache.grow(&mut flight.request) {
                self.schedule(now.at);
                break;
            }
            let steps = flight.steps_of(token.unwrap_or(0));
            next = token.map(|token| self.pace.moment_after(flight, token.saturating_add(1)));
            let numbers = self.flights.iter().enumerate();
            let last = numbers.filter_map(|(at, flight)| Some((flight.as_ref()?.number, at))).max();
            let Some((_, last)) = last else { return };
            let Some(mut flight) = self.flights[last].take() else { return };
            self.free.push(last);
            let tokens = match last == now.at {
                // Each of its tokens that came before took its own room.
                true => self.cache.next_token(&flight.request).map_or(flight.tokens, |next| next - 1),
                false => self.pace.tokens_before(&flight, steps, now),
            };
            self.cache.preempt(&mut flight.request, tokens);
            self.preempted.push_front(flight);
        }
        self.held_up = self.held_up.max(next);
    }

    /// Lets those that were preempted go on, from this moment; whether all of them do.
    fn resume_all(&mut self, now: EventTime) -> bool {
        if self.held_up > Some(now) {
            return false;
        }
        self.held_up = None;
        while let Some(mut flight) = self.preempted.pop_front() {
            let (stored, all) = self.cache.stored(&flight.request);
            let due = if stored < all { self.pace.moment_after(&flight, stored + 1) } else { flight.end() };
            if self.cache.resume(&mut flight.request) {
                let waited = now.0.saturating_sub(due.0).max(0);
                match self.pace {
                    TokenPace::Served(_) => flight.begun = EventTime(flight.begun.0.saturating_add(waited)),
                    // Its latest token is computed as it goes on.
                    TokenPace::Logged(_) => flight.had = stored.saturating_add(1).min(flight.tokens),
                }
                self.file(flight, now);
            } else if self.peek().is_some() {
                self.preempted.push_front(flight);
                return false;
            } else {
                // Alone it found room once, so it does not come to this but where a longer prompt needs more than that.
                self.cache.abandon(flight.request);
            }
        }
        true
    }
}

impl<C: LoadedCache + Serialize> Serialize for CacheLoad<C> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let saved = |flight: &LoadedRequest<C::Request>| LoadedRequest {
            number: flight.number,
            begun: flight.begun,
            duration_ms: flight.duration_ms,
            tokens: flight.tokens,
            request: self.cache.save(&flight.request),
            steps: flight.steps,
            had: flight.had,
        };
        let mut flights: Vec<_> = self.flights.iter().flatten().map(saved).collect();
        flights.sort_unstable_by_key(|flight| flight.number);
        let preempted: Vec<_> = self.preempted.iter().map(saved).collect();
        let Self { cache, now, number, held_up, .. } = self;
        (cache, now, number, flights, preempted, held_up).serialize(serializer)
    }
}

impl<'de, C: LoadedCache + Deserialize<'de>> Deserialize<'de> for CacheLoad<C> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (cache, now, next_number, flights, preempted, held_up): (_, _, _, Vec<_>, Vec<_>, _) =
            Deserialize::deserialize(deserializer)?;
        let mut load = Self { now, held_up, ..Self::new(cache) };
        for (flights, is_preempted) in [(flights, false), (preempted, true)] {
            if flights.len() > MAX_IN_FLIGHT {
                return Err(serde::de::Error::custom("more requests are in flight than are followed"));
            }
            for LoadedRequest::<C::Saved> { number, begun, duration_ms, tokens, request, steps, had } in
                flights
            {
                let request = load.cache.rejoin(request).ok_or_else(|| {
                    serde::de::Error::custom(
                        "a request in flight contradicts the cache: rebuild from the log",
                    )
                })?;
                let flight = LoadedRequest { number, begun, duration_ms, tokens, request, steps, had };
                match is_preempted {
                    true => load.preempted.push_back(flight),
                    false => {
                        load.flights.push(Some(flight));
                        load.schedule(load.flights.len() - 1);
                    }
                }
            }
        }
        load.number = next_number;
        Ok(load)
    }
}
