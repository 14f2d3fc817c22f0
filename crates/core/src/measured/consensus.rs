//! The intervals of a set of requests: two multisets of interval ends (WHATIF 1).

use super::intervals::{Intervals, Level, Step};
use super::reading::Reading;
use crate::needs::Needs;
use crate::outcome::{BEYOND, Need};
use crate::units::is_countable;
use serde::{Deserialize, Serialize};

/// The intervals of a set of requests.
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

impl Consensus {
    /// Puts a request in. `pages` is its weight: the larger of what it could reuse and of what hit.
    pub fn add(&mut self, reading: Reading, pages: u64) {
        self.requests += 1;
        self.pages += pages;
        let Some((from, to)) = interval(reading) else { return };
        self.by_requests.add(from, to, 1);
        self.by_pages.add(from, to, weight(pages));
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

    /// What these intervals say together with those of the `latest` readings, each with its weight in pages.
    pub fn intervals(&self, latest: &[(Reading, u64)]) -> Intervals {
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let requests = |(need, times): (Need, u64)| (need, (count(times), 0));
        let pages = |(need, times): (Need, u64)| (need, (0, count(times)));
        let Self { by_requests, by_pages, .. } = self;
        let mut steps: Vec<Step> = Vec::new();
        steps.extend(by_requests.begins.consolidated().steps().map(requests));
        steps.extend(by_requests.ends.consolidated().steps().map(requests).map(negative));
        steps.extend(by_pages.begins.consolidated().steps().map(pages));
        steps.extend(by_pages.ends.consolidated().steps().map(pages).map(negative));
        for (reading, pages) in latest {
            let Some((from, to)) = interval(*reading) else { continue };
            let begins = (from, (1, i64::from(weight(*pages))));
            steps.push(begins);
            steps.extend(to.map(|to| negative((to, begins.1))));
        }
        let requests = self.requests + latest.len() as u64;
        let pages = self.pages + latest.iter().map(|(_, pages)| pages).sum::<u64>();
        Intervals::of(steps, requests, pages)
    }
}

/// The same where intervals end.
fn negative((need, (requests, pages)): (Need, Level)) -> Step {
    (need, (-requests, -pages))
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

    fn add(&mut self, from: Need, to: Option<Need>, times: u32) {
        if times == 0 {
            return;
        }
        self.begins.insert_many(from, times);
        if let Some(to) = to {
            self.ends.insert_many(to, times);
        }
    }
}
