//! Requests that overlap in a slow cache: a token at a time, each at its moment, everybody looked through for the next.

use std::collections::VecDeque;

/// A cache that serves requests a token at a time.
pub trait SlowCache: Clone {
    /// What is asked of it, and a request in flight.
    type Asked;
    type Request: Clone;
    /// Looks a request up and takes room for its prompt; `None` where there is none, which leaves the cache useless.
    fn begin(&mut self, asked: &Self::Asked) -> Option<Self::Request>;
    /// Pages that it found, and output tokens that it has stored and will have stored.
    /// The same, which leaves a cache that has no room as the search for it does.
    fn try_begin(&mut self, asked: &Self::Asked) -> Option<Self::Request> {
        let mut next = self.clone();
        let request = next.begin(asked)?;
        *self = next;
        Some(request)
    }
    /// Whether the next token is one before which room is wanted, and makes that for so many requests in flight.
    fn wants(&self, _request: &Self::Request) -> bool {
        false
    }
    fn before_tokens(&mut self, _in_flight: usize) {}
    fn hits(request: &Self::Request) -> u64;
    fn stored(request: &Self::Request) -> (u64, u64);
    /// Stores one more token of the output; `None` where there is no room, which changes nothing that counts.
    fn decode(&mut self, request: &mut Self::Request) -> Option<()>;
    fn finish(&mut self, request: Self::Request);
    /// Takes away all that a request holds.
    fn preempt(&mut self, request: &Self::Request) {
        self.finish(request.clone());
    }
    /// Takes room again for a request that [`SlowCache::preempt`] took it from; `None` as for [`SlowCache::begin`].
    fn resume(&mut self, preempted: &Self::Request) -> Option<Self::Request>;
    /// As [`SlowCache::try_begin`] is for [`SlowCache::begin`].
    fn try_resume(&mut self, preempted: &Self::Request) -> Option<Self::Request> {
        let mut next = self.clone();
        let request = next.resume(preempted)?;
        *self = next;
        Some(request)
    }
}

/// When a request arrives, how long it takes, and its output tokens.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub arrival: i64,
    pub duration: i64,
    pub tokens: i64,
}

#[derive(Debug, Clone)]
struct Flight<R> {
    number: u64,
    begun: i64,
    times: Times,
    request: R,
}

/// A moment: the millisecond, whether something ends (1), grows in this very millisecond (0) or before the next one
/// (2).
type Moment = (i64, u8, u64);

impl<R> Flight<R> {
    fn of_token(&self, token: i64) -> (i64, u8) {
        let Times { duration, tokens, .. } = self.times;
        let (tokens, token) = (tokens.max(1), token.min(tokens.max(1)));
        let exact = (duration * token) % tokens == 0;
        (self.begun + duration * token / tokens, if exact { 0 } else { 2 })
    }
}

pub struct SlowLoad<C: SlowCache> {
    pub cache: C,
    now: i64,
    number: u64,
    flights: Vec<Flight<C::Request>>,
    preempted: VecDeque<Flight<C::Request>>,
    /// Until when none of them goes on.
    held_up: i64,
    /// Requests that waited, and those whose room was taken away.
    pub waited: usize,
    pub preemptions: usize,
}

impl<C: SlowCache> SlowLoad<C> {
    pub fn new(cache: C) -> Self {
        let (flights, preempted) = (Vec::new(), VecDeque::new());
        Self {
            cache,
            now: i64::MIN,
            number: 0,
            flights,
            preempted,
            held_up: i64::MIN,
            waited: 0,
            preemptions: 0,
        }
    }

    fn moment(flight: &Flight<C::Request>) -> Moment {
        let (done, all) = C::stored(&flight.request);
        let (time, phase) = match done < all {
            true => flight.of_token(done as i64 + 1),
            false => (flight.begun + flight.times.duration, 1),
        };
        (time, phase, flight.number)
    }

    fn next(&self) -> Option<(Moment, usize)> {
        self.flights.iter().enumerate().map(|(at, flight)| (Self::moment(flight), at)).min()
    }

    /// Pages that the request finds; `None` where it is larger than the cache.
    pub fn arrive(&mut self, asked: &C::Asked, times: Times) -> Option<u64> {
        let mut now = self.now.max(times.arrival);
        loop {
            self.pass(now);
            if self.resume_all(now) {
                if !self.fits_alone(asked) {
                    return None;
                }
                if let Some(request) = self.cache.try_begin(asked) {
                    let hits = C::hits(&request);
                    self.run(request, now, times);
                    return Some(hits);
                }
            }
            self.waited += 1;
            let next = self.next().map(|((time, ..), _)| time + 1);
            let held_up = Some(self.held_up).filter(|until| *until > i64::MIN);
            now = now.max(next.into_iter().chain(held_up).min().expect("somebody holds what it waits for"));
        }
    }

    fn fits_alone(&self, asked: &C::Asked) -> bool {
        let mut alone = self.cache.clone();
        self.flights.iter().for_each(|flight| alone.preempt(&flight.request));
        let Some(mut request) = alone.begin(asked) else { return false };
        while C::stored(&request).0 < C::stored(&request).1 {
            if alone.wants(&request) {
                alone.before_tokens(1);
            }
            if alone.decode(&mut request).is_none() {
                return false;
            }
        }
        true
    }

    fn run(&mut self, mut request: C::Request, now: i64, times: Times) {
        if times.duration == 0 {
            while C::stored(&request).0 < C::stored(&request).1 {
                if self.cache.wants(&request) {
                    self.cache.before_tokens(self.flights.len() + 1);
                }
                if self.cache.decode(&mut request).is_none() {
                    break;
                }
            }
            return self.cache.finish(request);
        }
        self.flights.push(Flight { number: self.number, begun: now, times, request });
        self.number += 1;
    }

    fn pass(&mut self, now: i64) {
        self.now = now;
        loop {
            let next = self.next().map(|((time, ..), _)| time).filter(|time| *time < now);
            if self.held_up > i64::MIN && self.held_up <= next.unwrap_or(now) {
                self.resume_all(self.held_up);
                continue;
            }
            let Some(time) = next else { return };
            let mut wanted = None;
            while let Some(((same, phase, number), at)) = self.next().filter(|((same, ..), _)| *same == time)
            {
                assert_eq!(same, time);
                match phase {
                    1 => {
                        let flight = self.flights.remove(at);
                        self.cache.finish(flight.request);
                    }
                    _ => {
                        if self.cache.wants(&self.flights[at].request) {
                            if wanted.is_none_or(|(same, last)| same != phase || last >= number) {
                                self.cache.before_tokens(self.flights.len());
                            }
                            wanted = Some((phase, number));
                        }
                        self.grow(number);
                    }
                }
            }
            self.resume_all(time + 1);
        }
    }

    fn grow(&mut self, number: u64) {
        let is_it = |flight: &&mut Flight<C::Request>| flight.number == number;
        while let Some(flight) = self.flights.iter_mut().find(is_it) {
            let (stored, _) = C::stored(&flight.request);
            let (next, phase) = flight.of_token(stored as i64 + 2);
            if self.cache.decode(&mut flight.request).is_some() {
                return;
            }
            self.held_up = self.held_up.max(next + i64::from(phase / 2));
            let last = self.flights.iter().enumerate().max_by_key(|(_, flight)| flight.number);
            let flight = self.flights.remove(last.expect("itself").0);
            self.cache.preempt(&flight.request);
            self.preempted.push_front(flight);
            self.preemptions += 1;
        }
    }

    fn resume_all(&mut self, now: i64) -> bool {
        if now < self.held_up {
            return false;
        }
        self.held_up = i64::MIN;
        while let Some(mut flight) = self.preempted.pop_front() {
            match self.cache.try_resume(&flight.request) {
                Some(request) => {
                    let (stored, all) = C::stored(&flight.request);
                    let (due, phase) = flight.of_token(stored as i64 + 1);
                    let due = if stored < all {
                        due + i64::from(phase / 2)
                    } else {
                        flight.begun + flight.times.duration
                    };
                    flight.begun += (now - due).max(0);
                    (flight.request, flight.number) = (request, self.number);
                    self.number += 1;
                    self.flights.push(flight);
                }
                None if self.flights.is_empty() => {}
                None => {
                    self.preempted.push_front(flight);
                    return false;
                }
            }
        }
        true
    }
}
