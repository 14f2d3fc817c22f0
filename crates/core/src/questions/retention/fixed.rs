//! A retention from the write on, that no use refreshes: a page goes so long after it was written, and what finds
//! it gone writes it anew. What is still there is not written again.
//!
//! When a page was written is not a function of its last use, so each time to live is a state of its own. But pages
//! that one request touched last lie in one line, and requests take them from its shallow end; so for each such
//! line a few runs of pages written together are enough, and whoever takes a whole line takes its runs in one piece.

use super::Ttl;
use super::lines::{ChainLine, ChainLines, PageLine};
use super::sliding::PagesOverTime;
use crate::questions::lifetimes::{HandedPages, Holders, Packed};
use crate::request::outcome::Outcome;
use crate::units::EventTime;
use crate::units::heap::heap_bytes;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::VecDeque;

/// What such caches hold, one a time to live, followed through a log.
#[derive(Debug)]
pub(super) struct Fixed {
    /// Of every request in the list.
    lines: ChainLines,
    caches: Vec<FixedCache>,
}

heap_bytes!(Fixed { lines, caches });

/// What one of them holds but for whose it is.
#[derive(Debug)]
struct FixedCache {
    ttl: Ttl,
    /// What has not expired, by when it was written.
    there: VecDeque<PageLine>,
    level: PagesOverTime,
    /// Nothing expires up to this moment, so that until then there is nothing to look for.
    stays_until: EventTime,
}

heap_bytes!(FixedCache { there; ttl, level, stays_until });

/// One of them as a snapshot keeps it: its time to live, the lines of each request in the list, what has not expired,
/// and how much that is.
type SavedFixedCache = (Ttl, Vec<Vec<PageLine>>, VecDeque<PageLine>, PagesOverTime);

impl Fixed {
    pub(super) fn new(ttls: &[Ttl]) -> Self {
        let cache = |ttl: &Ttl| FixedCache::of(*ttl, VecDeque::new(), PagesOverTime::default());
        Self { lines: ChainLines::new(ttls.len()), caches: ttls.iter().map(cache).collect() }
    }

    /// Drops what expires before `now`.
    pub(super) fn advance(&mut self, now: EventTime) {
        self.caches.iter_mut().for_each(|cache| cache.advance(now));
    }

    /// Follows a request that has taken its pages over. Adds the leading pages that were there with each time to live.
    pub(super) fn follow(&mut self, holders: &Holders, outcome: &Outcome, hits: &mut Vec<u64>) {
        let Self { lines, caches } = self;
        for (at, cache) in caches.iter_mut().enumerate() {
            hits.push(cache.follow(lines, at, holders, outcome));
        }
    }

    /// What each holds now.
    pub(super) fn levels(&self) -> impl Iterator<Item = &PagesOverTime> {
        self.caches.iter().map(|cache| &cache.level)
    }

    /// Follows the list as it is packed: the lines of those who have pages stay.
    pub(super) fn renumber(&mut self, packed: &Packed) {
        self.lines.retain(|place| packed.place(place) < packed.place(place + 1));
    }

    /// Whether this, read back from a snapshot, keeps pages for so long and follows the list.
    pub(super) fn is_sound(&self, ttls: &[Ttl], holders: &Holders) -> bool {
        let own = self.caches.iter().map(|cache| cache.ttl);
        own.eq(ttls.iter().copied())
            && (ttls.is_empty() || self.lines.requests() == holders.entries().len())
            && self.caches.iter().all(|cache| cache.is_sound(holders))
    }
}

impl Serialize for Fixed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let saved = self.caches.iter().enumerate().map(|(at, cache)| -> SavedFixedCache {
            (cache.ttl, self.lines.all_runs(at).collect(), cache.there.clone(), cache.level)
        });
        serializer.collect_seq(saved)
    }
}

impl<'de> Deserialize<'de> for Fixed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let saved = Vec::<SavedFixedCache>::deserialize(deserializer)?;
        let mut lines = ChainLines::new(saved.len());
        let requests = saved.first().map_or(0, |(_, lines, ..)| lines.len());
        if saved.iter().any(|(_, lines, ..)| lines.len() != requests) {
            return Err(D::Error::custom("times to live that follow different lists"));
        }
        for request in 0..requests {
            for (_, saved_lines, ..) in &saved {
                let mut line = ChainLine::default();
                saved_lines[request].iter().for_each(|run| lines.append(&mut line, *run));
                lines.push(line);
            }
        }
        let cache = |(ttl, _, there, level): SavedFixedCache| FixedCache::of(ttl, there, level);
        Ok(Self { lines, caches: saved.into_iter().map(cache).collect() })
    }
}

impl FixedCache {
    fn of(ttl: Ttl, there: VecDeque<PageLine>, level: PagesOverTime) -> Self {
        Self { ttl, there, level, stays_until: EventTime(i64::MIN) }
    }

    #[inline]
    fn advance(&mut self, now: EventTime) {
        if now > self.stays_until {
            self.expire(now);
        }
        self.level.last_until(now);
    }

    fn expire(&mut self, now: EventTime) {
        // What is written from now on stays at least until now.
        self.stays_until = now;
        while let Some(oldest) = self.there.front() {
            let end = self.ttl.end_of(oldest.at).unwrap_or(EventTime(i64::MAX));
            if end >= now {
                self.stays_until = end;
                return;
            }
            self.level.last_until(end);
            self.level.pages -= u64::from(oldest.pages);
            self.there.pop_front();
        }
    }

    /// Follows a request that has taken its pages over. Returns the leading pages that were there.
    fn follow(&mut self, lines: &mut ChainLines, at: usize, holders: &Holders, outcome: &Outcome) -> u64 {
        let now = holders.now();
        let line = ChainLine::default();
        let mut arriving =
            MovingRequest { lines, ttl: self.ttl, line, hits: 0, is_broken: false, written: 0, now };
        for taken in holders.taken() {
            arriving.is_broken |= !taken.can_hit;
            match taken.from {
                Some(from) => arriving.take(arriving.lines.index(from as usize, at), taken),
                None => arriving.write(taken.pages),
            }
        }
        arriving.write(u32::try_from(outcome.new_pages).unwrap_or(u32::MAX));
        arriving.lines.push(arriving.line);
        self.level.pages += u64::from(arriving.written);
        if arriving.written > 0 {
            self.there.push_back(PageLine { at: now, pages: arriving.written });
        }
        arriving.hits
    }

    fn is_sound(&self, holders: &Holders) -> bool {
        let there: u64 = self.there.iter().map(|run| u64::from(run.pages)).sum();
        self.there.iter().is_sorted_by_key(|run| run.at)
            && self.there.back().is_none_or(|run| run.at <= holders.now())
            && self.level.is_sound(there, holders)
    }
}

/// A request while its pages move.
struct MovingRequest<'a> {
    lines: &'a mut ChainLines,
    ttl: Ttl,
    now: EventTime,
    line: ChainLine,
    /// Leading pages that were there.
    hits: u64,
    /// A page was not there, or cannot be a hit.
    is_broken: bool,
    written: u32,
}

impl MovingRequest<'_> {
    /// Moves the shallowest pages of a line to the request that arrives.
    #[inline(always)]
    fn take(&mut self, index: usize, taken: &HandedPages) {
        if taken.is_rest && self.lines.oldest(index).is_some_and(|at| self.is_there(at)) {
            self.hit(taken.pages);
            self.lines.append_rest(index, &mut self.line);
            return;
        }
        let mut left = taken.pages;
        while let Some(run) = self.lines.take_first(index, left) {
            left -= run.pages;
            if self.is_there(run.at) {
                self.hit(run.pages);
                self.lines.append(&mut self.line, run);
            } else {
                self.write(run.pages);
            }
        }
    }

    /// Whether what was written then has not expired.
    #[inline(always)]
    fn is_there(&self, at: EventTime) -> bool {
        self.ttl.end_of(at).is_none_or(|end| self.now <= end)
    }

    /// Writes pages that are not there.
    #[inline(always)]
    fn write(&mut self, pages: u32) {
        if pages > 0 {
            self.is_broken = true;
            self.written += pages;
            self.lines.append(&mut self.line, PageLine { at: self.now, pages });
        }
    }

    /// Finds pages there.
    #[inline(always)]
    fn hit(&mut self, pages: u32) {
        self.hits += if self.is_broken { 0 } else { u64::from(pages) };
    }
}
