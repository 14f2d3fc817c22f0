//! The capacity that lies in the most intervals: one scan over where they begin and end.

use crate::request::outcome::{BEYOND, Need};

/// How many intervals begin less how many end at a capacity.
pub(super) type IntervalStep = (Need, HeldIntervals);

/// Intervals that hold a capacity: requests, and their pages.
pub(super) type HeldIntervals = (i64, i64);

/// The capacities that lie in the most intervals, in followed pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed {
    /// The smallest of them.
    pub from: Need,
    /// The largest of them; `None` where no request sets an upper bound.
    pub to: Option<Need>,
    /// Requests whose interval holds them.
    pub requests: u64,
    /// The pages of these requests: the larger of what they could reuse and of what hit.
    pub pages: u64,
}

impl Agreed {
    /// Whether a capacity is among them.
    pub fn holds(&self, capacity: Need) -> bool {
        self.from <= capacity && self.to.is_none_or(|to| capacity <= to)
    }

    /// How far the evidence leaves room for them, next to others that explain as much: those that hold what is
    /// provisioned first, then those without an upper end. A hit shows that a cache is larger than these capacities;
    /// a miss, which has many causes, hardly shows that it is smaller.
    pub(super) fn standing(&self, provisioned: Option<Need>) -> (bool, bool) {
        (provisioned.is_some_and(|each| self.holds(each)), self.to.is_none())
    }
}

/// The intervals of a set of requests, by the capacities at which any begins or ends.
#[derive(Debug)]
pub struct Intervals {
    /// Ascending and distinct.
    steps: Vec<IntervalStep>,
    /// The intervals that hold each of these capacities and those up to the next.
    levels: Vec<HeldIntervals>,
    requests: u64,
    pages: u64,
}

impl Intervals {
    /// Those that begin and end at these capacities, in any order, of so many requests with so many pages.
    pub(super) fn of(mut steps: Vec<IntervalStep>, requests: u64, pages: u64) -> Self {
        sum_up(&mut steps);
        let mut level: HeldIntervals = (0, 0);
        let rise = |(_, change): &IntervalStep| {
            level = (level.0 + change.0, level.1 + change.1);
            level
        };
        let levels = steps.iter().map(rise).collect();
        Self { steps, levels, requests, pages }
    }

    /// Requests, those whose interval holds no capacity among them.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Their pages.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// The capacities that most requests agree on; of several ranges with as many requests the one that the evidence
    /// leaves the most room for, where each cache has so many pages `provisioned`, of these the one with the most
    /// pages, then the smallest. `None` without requests, and where every interval is empty or lies beyond the
    /// tracked bound.
    pub fn find(&self, provisioned: Option<Need>) -> Option<Agreed> {
        let rank = |range: &Agreed| (range.requests, range.standing(provisioned), range.pages);
        let more = |best: Agreed, range: Agreed| if rank(&range) > rank(&best) { range } else { best };
        ranges(&self.steps).into_iter().reduce(more).filter(|best| best.requests > 0)
    }

    /// Ranges of capacities that the same intervals hold, ascending, where so many of the intervals have no end: of the
    /// requests that do not tell one, which count as if they agreed with every larger capacity.
    pub fn ranges_without(&self, ends: &[Need]) -> Vec<Agreed> {
        let mut steps: Vec<IntervalStep> = ends.iter().map(|end| (*end, (1, 0))).collect();
        steps.extend(&self.steps);
        sum_up(&mut steps);
        ranges(&steps)
    }

    /// Requests whose interval holds this capacity, and their pages.
    pub fn agreeing(&self, capacity: Need) -> (u64, u64) {
        let upto = self.steps.partition_point(|(need, _)| *need <= capacity);
        let (requests, pages) = upto.checked_sub(1).map_or((0, 0), |at| self.levels[at]);
        (requests.unsigned_abs(), pages.unsigned_abs())
    }
}

/// Ranges of capacities that the same intervals hold, ascending; steps are ascending and distinct.
fn ranges(steps: &[IntervalStep]) -> Vec<Agreed> {
    let mut ranges: Vec<Agreed> = Vec::new();
    let mut level: HeldIntervals = (0, 0);
    for (at, change) in steps {
        level = (level.0 + change.0, level.1 + change.1);
        let (requests, pages) = (level.0.unsigned_abs(), level.1.unsigned_abs());
        match ranges.last_mut() {
            Some(open) if (open.requests, open.pages) == (requests, pages) => continue,
            Some(open) => open.to = Some(at - 1),
            None => (),
        }
        ranges.push(Agreed { from: *at, to: None, requests, pages });
    }
    ranges
}

/// Makes steps ascending and distinct; those beyond the tracked bound bound nothing.
pub(super) fn sum_up(steps: &mut Vec<IntervalStep>) {
    steps.retain(|(need, _)| *need != BEYOND);
    // Nearly all of them are in order, which this sort makes use of.
    steps.sort_by_key(|(need, _)| *need);
    steps.dedup_by(|next, held| {
        let same = next.0 == held.0;
        if same {
            held.1 = (held.1.0 + next.1.0, held.1.1 + next.1.1);
        }
        same
    });
}
