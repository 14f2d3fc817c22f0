//! Restarts of a cache: moments from which it knew nothing older.
//!
//! After a restart a request that comes back to old pages finds none of them: its interval begins at zero, or where
//! the pages end that others have brought back since. What tells this from a cache that is too small, or from
//! another policy, is that from then on *no* request finds a page last touched before, though several came back to
//! pages that the cache was large enough to hold.
//!
//! A request that finds a page last touched by request `a` rules out every moment between the two. Moments
//! that nothing rules out are kept as ranges; a request that misses a page last touched by request `t` is
//! explained by any of them after `t`. The fewest moments that explain the most are found from the left, as
//! points that stab intervals.

use crate::request::outcome::{Need, Outcome};
use crate::units::heap::{flat, heap_bytes};
use crate::units::{EventTime, is_countable};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Most restarts of one cache that are reported.
pub const MAX_RESTARTS: usize = 64;

/// Ranges of moments, and requests that missed pages, that are kept; beyond that the oldest ranges, and the
/// requests that came back to the most distant pages, are let go.
const MAX_KEPT: usize = 1 << 14;

/// Requests that must have missed what the cache could hold before this is called a restart.
const MIN_MISSES: usize = 2;

/// Requests with something to reuse, from the first miss on, none of which found anything older.
const MIN_FOLLOWERS: u64 = 8;

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestPosition {
    /// Its number in its cache: what [`crate::request::outcome::Run::last_touched_by`] refers to.
    pub number: u64,
    /// Its number in the trace, counted from 0.
    pub index: u64,
    /// When it arrived.
    pub event_time: EventTime,
}

/// A request that found less than its reusable prefix, and that a restart may explain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Miss {
    seen: RequestPosition,
    /// Need of the first page that it missed: its interval ends there.
    need: Need,
    /// The request that touched that page last.
    touched_by: u64,
    /// Requests with something to reuse before it.
    followed: u64,
}

flat!(Miss);

/// Follows one cache. A request costs one look at its outcome, amortised.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restarts {
    /// Ranges of request numbers before which a restart is not ruled out, ascending.
    open: Vec<(u64, u64)>,
    /// Whether the next request begins a range of its own.
    cut: bool,
    /// By number.
    misses: Vec<Miss>,
    /// Requests with something to reuse.
    with_reuse: u64,
}

heap_bytes!(Restarts { open, misses; cut, with_reuse });

impl Restarts {
    /// Takes in a request that hit `hits` pages; requests come by number.
    pub fn observe(&mut self, hits: u64, outcome: &Outcome, seen: RequestPosition) {
        self.open_before(seen.number);
        if outcome.runs.is_empty() {
            return;
        }
        if let Some(touched_by) = last_touch(outcome, hits) {
            self.rule_out_after(touched_by);
        }
        if let Some((need, touched_by)) = first_missed(outcome, hits) {
            let miss = Miss { seen, need, touched_by, followed: self.with_reuse };
            // Moments are only ever ruled out: what none explains now, none will.
            if self.may_explain(&miss) {
                self.misses.push(miss);
                self.limit();
            }
        }
        self.with_reuse += 1;
    }

    /// The restarts of a cache that holds `capacity` pages, by time: the first request that missed what the cache
    /// could have held, and how many did from that one on.
    pub fn found(&self, capacity: Need) -> Vec<(RequestPosition, u64)> {
        let emptied = self.emptied(capacity).into_iter();
        emptied.map(|misses| (misses[0].seen, misses.len() as u64)).collect()
    }

    /// What the restarts of a cache that holds `capacity` pages explain of the requests that arrived `during` these
    /// event times, in milliseconds.
    pub fn explained(&self, capacity: Need, during: &Range<i64>) -> (u64, Vec<Need>) {
        let (mut restarts, mut ends) = (0, Vec::new());
        for misses in self.emptied(capacity) {
            let own = misses.iter().filter(|miss| during.contains(&miss.seen.event_time.0));
            let before = ends.len();
            ends.extend(own.map(|miss| miss.need));
            restarts += u64::from(ends.len() > before);
        }
        (restarts, ends)
    }

    fn emptied(&self, capacity: Need) -> Vec<Vec<&Miss>> {
        let mut groups: Vec<(u64, Vec<&Miss>)> = Vec::new();
        for miss in self.misses.iter().filter(|miss| miss.need <= capacity) {
            match groups.last_mut() {
                Some((moment, misses)) if miss.touched_by < *moment => misses.push(miss),
                _ => {
                    let moment = self.last_open_upto(miss.seen.number);
                    let moment = moment.filter(|moment| miss.touched_by < *moment);
                    groups.extend(moment.map(|moment| (moment, vec![miss])));
                }
            }
        }
        let groups = groups.into_iter().map(|(_, misses)| misses).filter(|misses| {
            misses.len() >= MIN_MISSES && self.with_reuse - misses[0].followed >= MIN_FOLLOWERS
        });
        groups.take(MAX_RESTARTS).collect()
    }

    /// Whether this, read back from a snapshot, can go on.
    pub fn is_sound(&self) -> bool {
        self.open.len() <= MAX_KEPT
            && self.misses.len() <= MAX_KEPT
            && is_countable(self.with_reuse)
            && self.open.iter().all(|(first, last)| first <= last)
            && self.open.is_sorted_by(|one, next| one.1 < next.0)
            && self.misses.iter().all(|miss| miss.followed <= self.with_reuse)
    }

    fn open_before(&mut self, number: u64) {
        match self.open.last_mut().filter(|_| !self.cut) {
            Some((_, last)) => *last = number,
            None => self.open.push((number, number)),
        }
        self.cut = false;
    }

    /// A page was found that `number` touched last: there was no restart since.
    fn rule_out_after(&mut self, number: u64) {
        while self.open.pop_if(|(first, _)| *first > number).is_some() {}
        if let Some((_, last)) = self.open.last_mut() {
            *last = (*last).min(number);
        }
        self.cut = true;
    }

    /// The last moment not ruled out, up to the one before request `number`.
    fn last_open_upto(&self, number: u64) -> Option<u64> {
        let upto = self.open.partition_point(|(first, _)| *first <= number);
        upto.checked_sub(1).map(|at| self.open[at].1.min(number))
    }

    /// Whether a moment that is not ruled out lies between the miss and the last touch of what it missed.
    fn may_explain(&self, miss: &Miss) -> bool {
        self.last_open_upto(miss.seen.number).is_some_and(|at| miss.touched_by < at)
    }

    /// Keeps within [`MAX_KEPT`]: first what no moment explains goes, then the larger half of needs.
    fn limit(&mut self) {
        if self.open.len() > MAX_KEPT {
            self.open.drain(..MAX_KEPT / 2);
        }
        if self.misses.len() <= MAX_KEPT {
            return;
        }
        let mut misses = std::mem::take(&mut self.misses);
        misses.retain(|miss| self.may_explain(miss));
        if misses.len() > MAX_KEPT / 2 {
            misses.sort_by_key(|miss| miss.need);
            misses.truncate(MAX_KEPT / 2);
            misses.sort_by_key(|miss| miss.seen.number);
        }
        self.misses = misses;
    }
}

/// The request that touched the last of `hits` pages last before this one; `None` where nothing hit. Hits
/// beyond what the log shows were found as well.
fn last_touch(outcome: &Outcome, hits: u64) -> Option<u64> {
    let mut left = hits.min(outcome.reusable_prefix()).checked_sub(1)?;
    for run in &outcome.runs {
        match left.checked_sub(u64::from(run.pages)) {
            None => return Some(run.last_touched_by),
            Some(rest) => left = rest,
        }
    }
    None
}

/// Need of the first page that did not hit though it was there once, and the request that touched it last; `None`
/// where all hit, and where pages of one need did and did not, which no capacity explains.
fn first_missed(outcome: &Outcome, hits: u64) -> Option<(Need, u64)> {
    let mut left = hits;
    for run in &outcome.runs {
        match left.checked_sub(u64::from(run.pages)) {
            None => {
                let need = outcome.need_of_prefix(hits + 1);
                return (outcome.need_of_prefix(hits) < need).then_some((need, run.last_touched_by));
            }
            Some(rest) => left = rest,
        }
    }
    None
}
