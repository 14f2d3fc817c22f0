//! Overlap: the pages that requests in flight pin, where a log says how long requests took.
//!
//! A request with event time `t` and duration `d` holds its pages during `[t, t+d)`: those of its prompt
//! and, from the start, all that its output will fill. A live engine cannot evict them meanwhile. Full
//! pages with known ids are shared, so however many requests hold one it counts once; pages without ids
//! (outputs of unknown ids, a partial last page) are held by one request alone.
//!
//! What is measured, when a request arrives and before it holds anything: how many *other* requests are in
//! flight, and how many distinct pages they hold. Time is the largest event time of the pool so far, for
//! records follow offsets: a record with an earlier time arrives late, it moves nothing back.
//!
//! Why the largest measurement, added to a requirement, is enough. The stack orders requests by arrival
//! and an engine orders them by their end. The pages that an engine may hold above a page, beyond its
//! stack distance, are thus those of requests that arrived before the page was last touched and ended
//! after: requests in flight when its toucher arrived, whose pages were measured then. It is more than
//! needed where the stack distance counts some of these pages too, or where most moments are calmer: a
//! safe addition, not an exact one.

mod pinned;

use crate::engines::config::CacheConfig;
use crate::request::event::{RequestEvent, full_pages};
use crate::request::outcome::BEYOND;
use crate::request::sample::Sample;
use crate::stack::Overlap;
use crate::units::heap::heap_bytes;
use crate::units::ratio::Ratio;
use crate::units::{EventTime, PageCount, PageSize};
use pinned::{PinnedIndex, PinnedPages};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most requests held at once in a pool; an engine runs far fewer.
const MAX_REQUESTS: usize = 1 << 16;

/// The requests in flight in one pool.
///
/// A request costs a copy of its ids, one label comparison and one step a node of its path, as in the stack, and
/// another copy of the ids nobody holds yet where somebody holds those before them; a request without a duration
/// costs next to nothing. Memory is bounded by the tracked bound in ids and [`MAX_REQUESTS`] entries; a request that
/// would pass either is not followed, and until it ends every measurement says so.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct InFlight {
    /// Largest event time so far.
    now: Option<EventTime>,
    /// Whether any request told its duration: before that, nothing is measured.
    timed: bool,
    /// End, pages held and pages without ids of each.
    by_end: BinaryHeap<Reverse<(EventTime, PinnedIndex, u64)>>,
    pages: PinnedPages,
    /// Pages without ids, of all requests.
    private_pages: u64,
    /// When the last request that is not followed will have ended.
    untold_until: Option<EventTime>,
    /// The arriving request's ids; kept for its memory.
    #[serde(skip)]
    ids: Vec<u64>,
    /// Event times of the next arrivals, as far as they are known.
    #[serde(skip)]
    upcoming: std::vec::IntoIter<EventTime>,
}

heap_bytes!(InFlight { by_end, pages, ids, upcoming; now, timed, private_pages, untold_until });

impl InFlight {
    /// Says when the next requests arrive, in their order: the pages of one that ends before the next arrives are
    /// seen by nobody, so that they need not be looked at. All of them have to arrive then.
    pub fn expect(&mut self, arrivals: Vec<EventTime>) {
        self.upcoming = arrivals.into_iter();
    }

    /// Measures what others hold as this request arrives, then holds its pages for its duration. `None`
    /// until a request of the log told its duration.
    pub fn arrive(
        &mut self,
        event: &RequestEvent<'_>,
        page_size: PageSize,
        config: &CacheConfig,
    ) -> Option<Overlap> {
        let now = self.now.max(Some(event.event_time)).unwrap_or_default();
        self.now = Some(now);
        self.release_ended(now);
        self.timed |= event.duration_ms.is_some();
        let others = self.timed.then(|| self.measure(now, config.sample_rate));
        let duration_ms = i64::try_from(event.duration_ms.unwrap_or(0)).unwrap_or(i64::MAX);
        let end = EventTime(event.event_time.0.saturating_add(duration_ms));
        if end > now.max(self.next_arrival(event)) {
            self.hold(event, end, page_size, config);
        }
        others
    }

    /// When the request after this one arrives; the earliest time where that is not known.
    fn next_arrival(&mut self, event: &RequestEvent<'_>) -> EventTime {
        let expected = self.upcoming.next();
        debug_assert!(expected.is_none_or(|time| time == event.event_time), "it is the one expected");
        self.upcoming.as_slice().first().copied().unwrap_or(EventTime(i64::MIN))
    }

    /// Whether what a snapshot said fits together, and fits the bound.
    pub fn is_sound(&self, max_pages: PageCount) -> bool {
        self.pages.count().saturating_add(self.private_pages) <= max_pages.0
            && self.pages.are_held_by(self.by_end.iter().map(|Reverse((_, tail, _))| *tail))
            && self.by_end.iter().map(|Reverse((.., private))| u128::from(*private)).sum::<u128>()
                == u128::from(self.private_pages)
    }

    fn release_ended(&mut self, now: EventTime) {
        while self.by_end.peek().is_some_and(|Reverse((end, ..))| *end <= now)
            && let Some(Reverse((_, tail, private_pages))) = self.by_end.pop()
        {
            self.pages.release(tail, &mut self.ids);
            self.private_pages -= private_pages;
        }
        self.untold_until = self.untold_until.filter(|end| *end > now);
    }

    fn measure(&self, now: EventTime, sample_rate: Ratio) -> Overlap {
        debug_assert!(self.untold_until.is_none_or(|end| end > now), "ended requests are released first");
        let pages = match self.untold_until {
            Some(_) => BEYOND,
            None => sample_rate.whole_of(self.pages.count()) + self.private_pages,
        };
        Overlap { requests: self.by_end.len() as u64, pages, room: None }
    }

    fn hold(&mut self, event: &RequestEvent<'_>, end: EventTime, page_size: PageSize, config: &CacheConfig) {
        let private_pages = self.take_ids(event, page_size, config.sample_rate);
        let most = self.pages.count().saturating_add(self.ids.len() as u64);
        let most = most.saturating_add(self.private_pages).saturating_add(private_pages);
        if most > config.max_tracked_pages.0 || self.by_end.len() >= MAX_REQUESTS {
            self.untold_until = self.untold_until.max(Some(end));
            return;
        }
        let tail = self.pages.hold(&mut self.ids);
        self.private_pages += private_pages;
        self.by_end.push(Reverse((end, tail, private_pages)));
    }

    /// Copies the followed ids of the request's full pages, the first one keyed by its scope; returns how
    /// many pages it holds besides.
    fn take_ids(&mut self, event: &RequestEvent<'_>, page_size: PageSize, sample_rate: Ratio) -> u64 {
        let size = u64::from(page_size.get());
        // The engine has accepted the request, so its ids fit its tokens.
        let prompt = full_pages(event, page_size, false).unwrap_or(event.page_ids);
        let outputs = event.output_page_ids;
        let with_ids = prompt.len() as u64 + outputs.len() as u64;
        let input = event.input_tokens.unwrap_or((prompt.len() as u64).saturating_mul(size));
        let tokens = input.saturating_add(event.output_tokens.unwrap_or(0));
        self.ids.clear();
        let sample = Sample::at(sample_rate);
        sample.append_followed(event.scope, prompt, &mut self.ids);
        sample.append_followed(event.scope, outputs, &mut self.ids);
        if let Some(first) = self.ids.first_mut() {
            *first = event.scope.first_page(*first);
        }
        tokens.div_ceil(size).saturating_sub(with_ids)
    }
}

#[cfg(test)]
mod tests;
