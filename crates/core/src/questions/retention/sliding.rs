//! A retention that every use refreshes: pages stay until they were not used for so long.

use super::Ttl;
use crate::questions::lifetimes::{Holder, Holders, Packed};
use crate::units::EventTime;
use crate::units::heap::flat;
use serde::{Deserialize, Serialize};

/// Page-milliseconds beyond which a sum read back from a snapshot cannot be one: the largest count of pages over all
/// of time.
const MOST_INTEGRAL: u128 = 1 << 120;

/// What such a cache holds, followed through a log.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Sliding {
    ttl: Ttl,
    /// No request before this one in the list holds pages here.
    first: usize,
    pub(super) level: PagesOverTime,
    /// Nothing of the list expires up to this moment, so that until then there is nothing to look for.
    #[serde(skip, default = "unknown")]
    stays_until: EventTime,
    /// The stack forgot pages that are held here.
    pub(super) is_beyond_bound: bool,
}

flat!(Sliding);

/// Before every moment: it has to be looked for.
fn unknown() -> EventTime {
    EventTime(i64::MIN)
}

/// A number of pages over time.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct PagesOverTime {
    /// Pages now.
    pub(super) pages: u64,
    /// Page-milliseconds so far.
    pub(super) integral: u128,
    since: Option<EventTime>,
}

impl PagesOverTime {
    /// Lets time pass, pages staying as they are.
    #[inline]
    pub(super) fn last_until(&mut self, time: EventTime) {
        let since = self.since.replace(time).unwrap_or(time);
        self.integral += u128::from(self.pages) * u128::from(time.0.abs_diff(since.0));
    }

    /// Whether this, read back from a snapshot, has so many pages now.
    pub(super) fn is_sound(&self, pages: u64, holders: &Holders) -> bool {
        let since = self.since.unwrap_or_default();
        self.pages == pages && since == holders.now() && self.integral < MOST_INTEGRAL
    }
}

impl Sliding {
    pub(super) fn new(ttl: Ttl) -> Self {
        Self {
            ttl,
            first: 0,
            level: PagesOverTime::default(),
            stays_until: unknown(),
            is_beyond_bound: false,
        }
    }

    /// Drops what expires before `now`.
    #[inline]
    pub(super) fn advance(&mut self, holders: &Holders, now: EventTime) {
        if now > self.stays_until {
            self.expire(holders, now);
        }
        self.level.last_until(now);
    }

    fn expire(&mut self, holders: &Holders, now: EventTime) {
        // Whoever comes stays at least until now.
        self.stays_until = now;
        while let Some(holder) = holders.entries().get(self.first) {
            if holder.pages > 0 {
                let end = self.ttl.end_of(holder.time).unwrap_or(EventTime(i64::MAX));
                if end >= now {
                    self.stays_until = end;
                    return;
                }
                self.level.last_until(end);
                self.level.pages -= u64::from(holder.pages);
            }
            self.first += 1;
        }
    }

    /// Follows a request that has taken its `pages` over, so many of them from those that were here.
    pub(super) fn follow(&mut self, taken: u64, pages: u32) {
        self.level.pages = self.level.pages - taken + u64::from(pages);
    }

    /// Follows the stack as it forgets a request's pages.
    pub(super) fn forget(&mut self, place: usize, pages: u32) {
        if place >= self.first {
            self.level.pages -= u64::from(pages);
            self.is_beyond_bound = true;
        }
    }

    pub(super) fn renumber(&mut self, packed: &Packed) {
        self.first = packed.place(self.first);
    }

    /// Whether this, read back from a snapshot, keeps pages for so long and follows the list.
    pub(super) fn is_sound(&self, ttl: Ttl, holders: &Holders) -> bool {
        let here = holders.entries().get(self.first..);
        let pages = |holders: &[Holder]| holders.iter().map(|holder| u64::from(holder.pages)).sum();
        self.ttl == ttl && here.is_some_and(|here| self.level.is_sound(pages(here), holders))
    }
}
