//! The capacity that lies in the most intervals (WHATIF 1): two multisets of interval ends, one scan.

use super::reading::Reading;
use crate::needs::Needs;
use crate::outcome::{BEYOND, Need};
use crate::units::is_countable;
use serde::{Deserialize, Serialize};

/// The intervals of a set of requests, from which single ones can be taken out again.
///
/// The memory is that of [`Needs`]: bounded by the tracked bound, however many requests there are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consensus {
    by_requests: Ends,
    by_pages: Ends,
    requests: u64,
    pages: u64,
}

/// Where intervals begin, and where they have ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Ends {
    begins: Needs,
    ends: Needs,
}

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

/// How many intervals begin less how many end at a capacity.
type Step = (Need, Level);

/// Intervals that hold a capacity: requests, and their pages.
type Level = (i64, i64);

impl Consensus {
    /// Puts a request in. `pages` is its weight: the larger of what it could reuse and of what hit.
    pub fn add(&mut self, reading: Reading, pages: u64) {
        self.requests += 1;
        self.pages += pages;
        let Some((from, to)) = interval(reading) else { return };
        self.by_requests.add(from, to, 1);
        self.by_pages.add(from, to, weight(pages));
    }

    /// Takes a request out that was put in before.
    pub fn remove(&mut self, reading: Reading, pages: u64) {
        self.requests -= 1;
        self.pages -= pages;
        let Some((from, to)) = interval(reading) else { return };
        self.by_requests.remove(from, to, 1);
        self.by_pages.remove(from, to, weight(pages));
    }

    /// The union of several sets.
    pub fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Self {
        Self {
            by_requests: Ends::merged(parts.clone().map(|part| &part.by_requests)),
            by_pages: Ends::merged(parts.clone().map(|part| &part.by_pages)),
            requests: parts.clone().map(|part| part.requests).sum(),
            pages: parts.map(|part| part.pages).sum(),
        }
    }

    /// Merges what is pending, so that reading copies nothing.
    pub fn consolidate(&mut self) {
        self.multisets_mut().into_iter().for_each(Needs::consolidate);
    }

    /// Whether nothing is pending.
    pub fn is_consolidated(&self) -> bool {
        self.multisets().into_iter().all(Needs::is_consolidated)
    }

    /// Whether this, read back from a snapshot, can be read and changed.
    pub fn is_sound(&self) -> bool {
        [self.requests, self.pages].into_iter().all(is_countable)
            && self.multisets().into_iter().all(Needs::is_sound)
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> usize {
        self.multisets().map(Needs::memory_bytes).iter().sum()
    }

    fn multisets(&self) -> [&Needs; 4] {
        [&self.by_requests.begins, &self.by_requests.ends, &self.by_pages.begins, &self.by_pages.ends]
    }

    fn multisets_mut(&mut self) -> [&mut Needs; 4] {
        let Self { by_requests, by_pages, .. } = self;
        [&mut by_requests.begins, &mut by_requests.ends, &mut by_pages.begins, &mut by_pages.ends]
    }

    /// Requests put in.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Their pages.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// The capacities that most requests agree on; of several ranges with as many requests the one with the
    /// most pages, of these the smallest. `None` without requests, and where every interval is empty or lies
    /// beyond the tracked bound.
    pub fn find(&self) -> Option<Agreed> {
        let more = |best: Agreed, range: Agreed| {
            if (range.requests, range.pages) > (best.requests, best.pages) { range } else { best }
        };
        self.ranges_without(&[]).into_iter().reduce(more).filter(|best| best.requests > 0)
    }

    /// Ranges of capacities that the same intervals hold, ascending, where so many of the intervals have no end: of the
    /// requests that do not tell one, which count as if they agreed with every larger capacity.
    pub fn ranges_without(&self, ends: &[Need]) -> Vec<Agreed> {
        let mut ranges: Vec<Agreed> = Vec::new();
        let mut level: Level = (0, 0);
        for (at, change) in self.steps(ends) {
            level = (level.0 + change.0, level.1 + change.1);
            let (requests, pages) = (level.0.unsigned_abs(), level.1.unsigned_abs());
            match ranges.last_mut() {
                Some(open) if (open.requests, open.pages) == (requests, pages) => continue,
                Some(open) => open.to = Some(at - 1),
                None => (),
            }
            ranges.push(Agreed { from: at, to: None, requests, pages });
        }
        ranges
    }

    /// Requests whose interval holds this capacity, and their pages.
    pub fn agreeing(&self, capacity: Need) -> (u64, u64) {
        (self.by_requests.holding(capacity), self.by_pages.holding(capacity))
    }

    /// Every capacity at which intervals begin or end, ascending and distinct; the `without` are no ends.
    fn steps(&self, without: &[Need]) -> Vec<Step> {
        let mut steps: Vec<Step> = without.iter().map(|end| (*end, (1, 0))).collect();
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        for (need, times) in self.by_requests.begins.consolidated().steps() {
            steps.push((need, (count(times), 0)));
        }
        for (need, times) in self.by_requests.ends.consolidated().steps() {
            steps.push((need, (-count(times), 0)));
        }
        for (need, times) in self.by_pages.begins.consolidated().steps() {
            steps.push((need, (0, count(times))));
        }
        for (need, times) in self.by_pages.ends.consolidated().steps() {
            steps.push((need, (0, -count(times))));
        }
        steps.retain(|(need, _)| *need != BEYOND);
        steps.sort_unstable_by_key(|(need, _)| *need);
        steps.dedup_by(|next, held| {
            let same = next.0 == held.0;
            if same {
                held.1 = (held.1.0 + next.1.0, held.1.1 + next.1.1);
            }
            same
        });
        steps
    }
}

/// The interval of a reading, with the first capacity behind it; `None` where it holds no capacity.
fn interval(reading: Reading) -> Option<(Need, Option<Need>)> {
    let Reading::Between { at_least, less_than } = reading else { return None };
    let is_empty = at_least == BEYOND || less_than.is_some_and(|end| end <= at_least);
    (!is_empty).then_some((at_least, less_than))
}

/// Pages of one request: [`crate::stack::MAX_REQUEST_PAGES`] bounds them.
fn weight(pages: u64) -> u32 {
    u32::try_from(pages).unwrap_or(u32::MAX)
}

impl Ends {
    fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Self {
        Self {
            begins: Needs::merged(parts.clone().map(|part| &part.begins)),
            ends: Needs::merged(parts.map(|part| &part.ends)),
        }
    }

    /// Intervals that hold this capacity, times as often as they were put in.
    fn holding(&self, capacity: Need) -> u64 {
        self.begins.count_upto(capacity).saturating_sub(self.ends.count_upto(capacity))
    }

    fn add(&mut self, from: Need, to: Option<Need>, times: u32) {
        if times == 0 {
            return;
        }
        self.begins.insert_many(from, times);
        if let Some(to) = to {
            self.ends.insert_many(to, times);
        }
    }

    fn remove(&mut self, from: Need, to: Option<Need>, times: u32) {
        if times == 0 {
            return;
        }
        self.begins.remove_many(from, times);
        if let Some(to) = to {
            self.ends.remove_many(to, times);
        }
    }
}
