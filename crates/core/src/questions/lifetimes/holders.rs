//! The requests that still own pages in the stack: when they came, and how many pages are left to each.
//!
//! A request takes its pages over from those that touched them last, which its runs name. So the list follows
//! the stack exactly, at the cost of a few numbers a run, without asking it.

use crate::request::outcome::{Outcome, Run};
use crate::units::heap::{flat, heap_bytes};
use crate::units::{EventTime, PageCount, is_countable};
use serde::{Deserialize, Serialize};

/// Dead entries tolerated before the list is packed; few in tests, so that they pack.
const SLACK: usize = if cfg!(test) { 4 } else { 1024 };

/// A request that touched pages last.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Holder {
    /// Its number in the pool.
    number: u64,
    /// The latest event time in the pool as it came.
    pub time: EventTime,
    /// Pages that are still its own.
    pub pages: u32,
    /// What its pages are accounted to.
    pub account: u32,
}

flat!(Holder);

/// Known pages of a request, as they changed hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HandedPages {
    /// Where the one is listed that they were taken from, and that had them as its shallowest; none where the stack
    /// had forgotten them.
    pub from: Option<u32>,
    /// How many.
    pub pages: u32,
    /// How long ago they were touched, in milliseconds; none where that was forgotten.
    pub age_ms: Option<u64>,
    /// Whether they can be hits.
    pub can_hit: bool,
    /// Whether they were all that was left there.
    pub is_rest: bool,
}

flat!(HandedPages);

/// The list, oldest first; entries without pages may lie between.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Holders {
    entries: Vec<Holder>,
    /// From here on the numbers have no gaps.
    dense_from: usize,
    /// Number of the next request.
    next: u64,
    live: usize,
    /// Pages of all entries.
    total: u64,
    /// No entry before this one has pages.
    first_live: usize,
    /// By the pool's configuration.
    #[serde(skip)]
    bound: PageCount,
    now: Option<EventTime>,
    #[serde(skip)]
    taken: Vec<HandedPages>,
}

heap_bytes!(Holders { entries, taken; dense_from, next, live, total, first_live, bound, now });

/// For every place in the list before it was packed, its place now; that of an entry which is gone is the next one's.
pub(crate) struct Packed(Vec<u32>);

impl Packed {
    pub(crate) fn place(&self, before: usize) -> usize {
        self.0[before] as usize
    }
}

impl Holders {
    /// Nobody; the stack remembers so many pages.
    pub(crate) fn new(bound: PageCount) -> Self {
        Self {
            entries: Vec::new(),
            dense_from: 0,
            next: 0,
            live: 0,
            total: 0,
            first_live: 0,
            bound,
            now: None,
            taken: Vec::new(),
        }
    }

    /// Completes what was read back from a snapshot; whether it is a list of a stack that remembers so many pages.
    pub(crate) fn resume(&mut self, bound: PageCount) -> bool {
        self.bound = bound;
        let Self { entries, now, .. } = self;
        let pages: u64 = entries.iter().map(|holder| u64::from(holder.pages)).sum();
        let dense = entries.get(self.dense_from..);
        let is_dense = |dense: &[Holder]| {
            let numbers = (self.next.wrapping_sub(dense.len() as u64)..self.next).map(Some);
            dense.len() as u64 <= self.next && dense.iter().map(|holder| Some(holder.number)).eq(numbers)
        };
        let older = |holder: &Holder| Some(holder.time) <= *now;
        u32::try_from(entries.len()).is_ok()
            && is_countable(self.next)
            && dense.is_some_and(is_dense)
            && entries.is_sorted_by(|one, next| one.number < next.number && one.time <= next.time)
            && entries.last().is_none_or(older)
            && self.total == pages
            && self.live == entries.iter().filter(|holder| holder.pages > 0).count()
            && self.first_live <= entries.len()
            && entries[..self.first_live].iter().all(|holder| holder.pages == 0)
    }

    /// The entries, oldest first.
    pub(crate) fn entries(&self) -> &[Holder] {
        &self.entries
    }

    /// Pages of all entries.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The latest event time so far.
    pub(crate) fn now(&self) -> EventTime {
        self.now.unwrap_or_default()
    }

    /// What the latest request took over, in prefix order: one entry a run of its outcome, those that can be hits
    /// first.
    pub(crate) fn taken(&self) -> &[HandedPages] {
        &self.taken
    }

    /// Whether most entries are dead, so that packing pays.
    pub(crate) fn is_crowded(&self) -> bool {
        self.entries.len() - self.live > self.live + SLACK
    }

    /// Drops the entries without pages.
    pub(crate) fn pack(&mut self) -> Packed {
        let mut kept = 0;
        let place = |holder: &Holder| {
            let place = kept;
            kept += u32::from(holder.pages > 0);
            place
        };
        let packed = Packed(self.entries.iter().map(place).chain([self.live as u32]).collect());
        self.entries.retain(|holder| holder.pages > 0);
        self.dense_from = self.entries.len();
        self.first_live = 0;
        packed
    }

    /// Lets the pool's time pass; it never runs backwards.
    pub(crate) fn advance(&mut self, event_time: EventTime) -> EventTime {
        let now = self.now.map_or(event_time, |now| now.max(event_time));
        self.now = Some(now);
        now
    }

    /// How long ago the pages of an entry were touched, in milliseconds.
    pub(crate) fn age_at(&self, place: u32) -> u64 {
        self.age_of(self.entries[place as usize].time)
    }

    fn age_of(&self, time: EventTime) -> u64 {
        self.now().0.abs_diff(time.0)
    }

    /// Hands the pages of a request over to it. Returns how many it has.
    pub(crate) fn take(&mut self, outcome: &Outcome, account: u32) -> u32 {
        self.taken.clear();
        outcome.runs.iter().for_each(|run| self.take_run(run, true));
        outcome.unlooked.iter().for_each(|run| self.take_run(run, false));
        // A request's pages are counted in 32 bits everywhere.
        let pages = outcome.touched_pages() as u32;
        self.entries.push(Holder { number: self.next, time: self.now(), pages, account });
        self.next += 1;
        self.live += usize::from(pages > 0);
        self.total += u64::from(pages);
        pages
    }

    fn take_run(&mut self, run: &Run, can_hit: bool) {
        // Pages that the stack forgot and recalled name nobody who has any.
        let place = self.place(run.last_touched_by).filter(|place| self.entries[*place].pages >= run.pages);
        let age_ms = place.map(|place| self.age_of(self.entries[place].time));
        if let Some(place) = place {
            self.give(place, run.pages);
        }
        let is_rest = place.is_some_and(|place| self.entries[place].pages == 0);
        let from = place.map(|place| place as u32);
        self.taken.push(HandedPages { from, pages: run.pages, age_ms, can_hit, is_rest });
    }

    fn give(&mut self, place: usize, pages: u32) {
        let holder = &mut self.entries[place];
        holder.pages -= pages;
        self.live -= usize::from(holder.pages == 0);
        self.total -= u64::from(pages);
    }

    /// Forgets the oldest as the stack does: while the others are enough for every capacity up to the bound.
    /// `forgotten` receives the place of each and the pages it had and how long ago they were touched.
    pub(crate) fn forget_beyond_bound(&mut self, mut forgotten: impl FnMut(usize, u32, u64)) {
        while self.total > self.bound.0 {
            while self.entries[self.first_live].pages == 0 {
                self.first_live += 1;
            }
            let oldest = self.entries[self.first_live];
            if self.total - u64::from(oldest.pages) < self.bound.0 {
                return;
            }
            self.give(self.first_live, oldest.pages);
            forgotten(self.first_live, oldest.pages, self.age_of(oldest.time));
        }
    }

    /// Where a request is listed.
    fn place(&self, number: u64) -> Option<usize> {
        let dense = (self.entries.len() - self.dense_from) as u64;
        match number.checked_sub(self.next - dense) {
            Some(further) if further < dense => Some(self.dense_from + further as usize),
            Some(_) => None,
            None => {
                self.entries[..self.dense_from].binary_search_by_key(&number, |holder| holder.number).ok()
            }
        }
    }
}
