//! Requests that the caches of a bank have served before their pool takes them.
//!
//! Caches of different capacities know nothing of each other, so a batch of requests can be served by one cache at a
//! time, on as many threads as the caller has. What each found waits here until the request's turn comes.

use super::BankHits;
use super::points::Point;
use crate::request::event::RequestEvent;
use crate::units::heap::heap_bytes;

/// One cache of a bank with a batch of requests that it has to serve; may be sent to another thread.
pub struct Lane<'a> {
    cache: &'a mut Point,
    events: &'a [RequestEvent<'a>],
    hits: &'a mut Vec<BankHits>,
}

impl<'a> Lane<'a> {
    pub(super) fn new(
        cache: &'a mut Point,
        events: &'a [RequestEvent<'a>],
        hits: &'a mut Vec<BankHits>,
    ) -> Self {
        hits.clear();
        Self { cache, events, hits }
    }

    /// Serves the requests of the batch that it has not served yet.
    pub fn serve(&mut self) {
        let unserved = self.events.get(self.hits.len()..).unwrap_or_default();
        for event in unserved {
            let hits = self.cache.serve(event);
            self.hits.push(hits);
        }
    }
}

/// What the caches found of the requests that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// One list a cache, each of one entry per request.
    pub hits: Vec<Vec<BankHits>>,
    /// Requests served, and those of them whose turn has come.
    served: usize,
    taken: usize,
}

heap_bytes!(Ahead { hits; served, taken });

impl Ahead {
    /// Begins with a batch of so many requests for so many caches.
    pub fn begin(&mut self, requests: usize, caches: usize) {
        self.hits.resize_with(caches, Vec::new);
        (self.served, self.taken) = (requests, 0);
    }

    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.taken == self.served
    }

    /// What each cache found of the next request; `None` where none waits.
    pub fn next(&mut self) -> Option<impl Iterator<Item = BankHits>> {
        let at = (!self.is_empty()).then_some(self.taken)?;
        self.taken += 1;
        Some(self.hits.iter().filter_map(move |hits| hits.get(at).copied()))
    }
}
