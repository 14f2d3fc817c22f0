//! What explains counts of cached tokens where no capacity does: blocks larger than a page, and a limit of time.

use super::Replay;
use crate::present::words::{elapsed, integer, rate};
use kvset_core::questions::measured::{Agreed, Consensus, MeasuredReading, Verdict};
use kvset_core::request::event::RequestEvent;
use kvset_core::request::outcome::Outcome;
use kvset_core::units::PageSize;
use kvset_formats::trace::{TimeFacts, TraceClock};

/// Requests that are followed, and runs of pages that they share.
const MOST_REQUESTS: usize = 1 << 18;
const MOST_AGES: usize = 1 << 22;
/// Fewest requests on which something is said.
const FEWEST: usize = 3;
/// Different counts of which all are multiples of a step by no accident.
const MANY_COUNTS: usize = 8;
/// The share of requests that an explanation explains, and how much more than the capacity does.
const NEARLY_ALL: f64 = 0.95;
const CLEARLY_MORE: f64 = 0.05;
/// Limits of time that engines and providers have, the likeliest first, in minutes.
const LIMITS: [u64; 11] = [5, 60, 10, 30, 15, 1, 1440, 20, 2, 120, 720];

/// Follows what requests found.
#[derive(Debug, Default)]
pub(super) struct FoundTally {
    /// When requests came, in their order.
    arrivals: Vec<i64>,
    /// What all counts are multiples of, and the first different ones that are not zero.
    step: u64,
    counts: Vec<u64>,
    /// The requests that had something to find.
    findable: Vec<Findable>,
    /// Of each in turn: so many leading pages, and how long ago the oldest of them was used, in milliseconds.
    ages: Vec<(u64, u64)>,
}

/// A request that had something to find.
#[derive(Debug, Clone, Copy)]
struct Findable {
    /// Tokens that it found, and those of the pages that it shares with requests before it.
    found: u64,
    shared: u64,
    /// Where its ages end.
    ages: usize,
}

impl FoundTally {
    /// Takes the next request in.
    pub(super) fn observe(
        &mut self,
        event: &RequestEvent<'_>,
        outcome: &Outcome,
        page: PageSize,
        counted: bool,
    ) {
        if self.arrivals.len() >= MOST_REQUESTS || self.ages.len() >= MOST_AGES {
            return;
        }
        self.arrivals.push(event.event_time.0);
        let shared = outcome.reusable_prefix() * u64::from(page.get());
        let Some(found) = event.cached_tokens.count().filter(|found| counted && (*found > 0 || shared > 0))
        else {
            return;
        };
        if found > 0 {
            self.step = common_divisor(found, self.step);
            if self.counts.len() < MANY_COUNTS && !self.counts.contains(&found) {
                self.counts.push(found);
            }
        }
        let (mut pages, mut oldest) = (0, 0);
        for run in &outcome.runs {
            let used = usize::try_from(run.last_touched_by).ok().and_then(|number| self.arrivals.get(number));
            let age = used.map_or(0, |used| event.event_time.0.saturating_sub(*used));
            (pages, oldest) = (pages + u64::from(run.pages), oldest.max(u64::try_from(age).unwrap_or(0)));
            self.ages.push((pages, oldest));
        }
        self.findable.push(Findable { found, shared, ages: self.ages.len() });
    }

    /// Says of measured requests what explains them, where that is no capacity.
    pub(super) fn explain(&self, times: &TimeFacts, replay: &mut Replay) {
        let page = replay.page_size.map_or(0, |page| u64::from(page.get()));
        let Some(measured) = replay.whole.as_mut().and_then(|whole| whole.measured.as_mut()) else { return };
        use Verdict::{Capacity, Engine, MoreCaches, NoCapacity};
        let is_open = matches!(measured.verdict, Some(Capacity | Engine | MoreCaches | NoCapacity));
        if !is_open || measured.replicas > 1 {
            return;
        }
        let agree = measured.effective_capacity.map_or(0.0, |found| found.agreement);
        let limit = self.limit(page, agree).filter(|_| has_clock(times));
        let step = self.has_steps(page).then(|| self.of_steps(page));
        if limit.is_none() && step.is_none() {
            return;
        }
        measured.verdict = Some(if limit.is_some() { Verdict::TimeLimit } else { Verdict::LargerBlocks });
        measured.effective_capacity = None;
        if let Some((doubt, note)) = step {
            replay.doubt.get_or_insert(doubt);
            replay.notes.push(note);
        }
        replay.notes.extend(limit.map(|(limit, agreed)| self.of_limit(limit, &agreed, agree)));
    }

    /// Whether blocks larger than a page explain what pages do not.
    fn has_steps(&self, page: u64) -> bool {
        // What is shared is known in whole pages.
        let explains = |block: u64, request: &Findable| {
            let found = request.found / block * block;
            found < request.shared + page && found + block > request.shared
        };
        let by = |block: u64| self.findable.iter().filter(|request| explains(block, request)).count();
        if self.step <= page || page == 0 {
            return false;
        }
        let (by_page, by_step) = (by(page), by(self.step));
        let are_nearly_all = by_step as f64 >= NEARLY_ALL * self.findable.len() as f64;
        by_step >= by_page + FEWEST && (are_nearly_all || self.counts.len() >= MANY_COUNTS)
    }

    /// The same in a few words, and in a sentence.
    fn of_steps(&self, page: u64) -> (String, String) {
        let (step, requests) = (integer(self.step), integer(self.findable.len() as u64));
        match self.counts.len() {
            1 => (
                format!("the engine's blocks seem larger than pages of {page} tokens"),
                format!(
                    "all counts of cached tokens are {step} or 0, where prompts share more pages of {page}: the engine's \
                     blocks seem to be of {step} tokens, or of a part of them, and what is less than a block is not \
                     lost; give the engine's own block as --page-size"
                ),
            ),
            _ => (
                format!("the engine's blocks are of {step} tokens, and pages of {page}"),
                format!(
                    "the counts of cached tokens of {requests} requests are all multiples of {step}: the engine's blocks are \
                     larger than pages of {page} tokens, and what is less than a block is not lost; give --page-size {}",
                    self.step
                ),
            ),
        }
    }

    /// Between which limits of time those are that explain each request.
    fn readings(&self, page: u64) -> Vec<(MeasuredReading, u64)> {
        let mut from = 0;
        let reading = |request: &Findable| {
            let ages = &self.ages[std::mem::replace(&mut from, request.ages)..request.ages];
            let age =
                |pages: u64| ages.iter().find(|(known, _)| pages > 0 && *known >= pages).map(|(_, age)| *age);
            let at_least = age(request.found / page).unwrap_or(0);
            (
                MeasuredReading::Between {
                    at_least,
                    less_than: age((request.found + self.step.max(page)) / page),
                },
                1,
            )
        };
        self.findable.iter().map(reading).collect()
    }

    /// The limit of time that explains nearly all, where the capacity that so many agree on does not.
    fn limit(&self, page: u64, agree: f64) -> Option<(u64, Agreed)> {
        let readings = self.readings(page.max(1));
        let count =
            |has: fn(&MeasuredReading) -> bool| readings.iter().filter(|(reading, _)| has(reading)).count();
        let found =
            count(|reading| matches!(reading, MeasuredReading::Between { at_least, .. } if *at_least > 0));
        let gone = count(|reading| matches!(reading, MeasuredReading::Between { less_than: Some(_), .. }));
        if found < FEWEST || gone < FEWEST {
            return None;
        }
        let agreed = Consensus::default().intervals(&readings).find(None)?;
        let share = agreed.requests as f64 / self.findable.len().max(1) as f64;
        let (from, to) = (agreed.from, agreed.to.unwrap_or(agreed.from));
        let known = LIMITS.iter().map(|minutes| minutes * 60_000).find(|limit| (from..=to).contains(limit));
        let limit = known.unwrap_or(from.next_multiple_of(1000).min(to));
        (share >= NEARLY_ALL && share >= agree + CLEARLY_MORE && limit >= 1000).then_some((limit, agreed))
    }

    fn of_limit(&self, limit: u64, agreed: &Agreed, agree: f64) -> String {
        let option = match limit {
            _ if limit.is_multiple_of(3_600_000) => format!("{}h", limit / 3_600_000),
            _ if limit.is_multiple_of(60_000) => format!("{}m", limit / 60_000),
            _ => format!("{}s", limit / 1000),
        };
        let share = |requests: u64| rate(requests as f64 / self.findable.len().max(1) as f64);
        format!(
            "a limit of time explains the cached tokens of {} of the requests, and the best capacity those of {}: the cache \
             forgets what nobody asked for in {}, however large it is; --ttl {option} models that",
            share(agreed.requests),
            rate(agree),
            elapsed(i64::try_from(limit).unwrap_or(i64::MAX))
        )
    }
}

fn has_clock(times: &TimeFacts) -> bool {
    matches!(times.clock, Some(TraceClock::Epoch | TraceClock::Start))
}

fn common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}
