//! More traffic, and less: copies of families laid over a log, and parts of its families.
//!
//! `k` times the traffic are `k` times as many families, independent of one another, at the times of day of the log.
//! The copies of a family stand on a *ring* of moments, evenly apart but for jitter. Nearer, they would repeat the
//! log's bursts at the same moment; farther, its daily rhythm would blur. Pages that are not common, and sessions,
//! get names of their own in each copy. Common pages do not grow.

use super::hash::{hash, unit};
use super::{Families, FamilyMember};
use crate::units::EventTime;
use std::ops::Range;

/// How far apart copies of a family are, as a share of the log's span, and at most in milliseconds.
const APART: f64 = 0.06;
const APART_AT_MOST_MS: f64 = 2.0 * 3600.0 * 1000.0;

/// What chance decides, beside the shift of each copy: these keep its numbers apart.
const FLIP: u64 = 101;
const FRACTION: u64 = 102;
const WINDOW: u64 = 103;

/// A factor and a seed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrafficGrowth {
    /// How many times the traffic.
    pub factor: f64,
    /// What chance begins from.
    pub seed: u64,
}

/// One request of a grown log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Occurrence {
    /// When it comes.
    pub time: EventTime,
    /// Which copy of its family it is of; 0 is the log itself.
    pub copy: u32,
    /// The request of the log, by its place.
    pub request: u32,
}

impl TrafficGrowth {
    /// How far apart copies of a family are, in a log of this span.
    pub fn apart_ms(self, span_ms: u64) -> f64 {
        (APART * span_ms as f64).min(APART_AT_MOST_MS)
    }

    /// Copies of each family, the last of them perhaps not of all.
    fn copies(self) -> u32 {
        (self.factor - 1e-9).ceil().max(1.0) as u32
    }

    /// By how much a copy of a family is shifted; `None` where the family has no such copy.
    fn shift(self, key: u64, copy: u32, apart_ms: f64) -> Option<i64> {
        let left = self.factor - f64::from(copy);
        if left < 1.0 && unit(&[self.seed, key, FRACTION]) >= left {
            return None;
        }
        let width = f64::from(self.copies()) * apart_ms;
        let place = (f64::from(copy) + unit(&[self.seed, key, u64::from(copy)]) - 0.5) * apart_ms;
        let place = (place + width / 2.0) % width - width / 2.0;
        let flip = if hash(&[self.seed, key, FLIP]) & 1 == 1 { -1.0 } else { 1.0 };
        Some((place * flip).round_ties_even() as i64)
    }

    /// The log grown so, of a factor of at least 1, in the order of its times: the families that are `kept`.
    pub fn overlay(
        self,
        log: &[FamilyMember],
        families: &Families,
        kept: &dyn Fn(u64) -> bool,
    ) -> Vec<Occurrence> {
        let apart_ms = self.apart_ms(span_ms(log));
        let of_family = |key: u64| -> Vec<(u32, i64)> {
            let shifted =
                (1..self.copies()).filter_map(|copy| Some((copy, self.shift(key, copy, apart_ms)?)));
            if kept(key) { std::iter::once((0, 0)).chain(shifted).collect() } else { Vec::new() }
        };
        let shifts: Vec<_> = families.all().iter().map(|family| of_family(family.key)).collect();
        let of_request = |(request, member): (usize, &FamilyMember)| {
            let shifts = &shifts[families.of_request(request)];
            let time = member.time.0;
            let at = move |(copy, shift): &(u32, i64)| Occurrence {
                time: EventTime(time.saturating_add(*shift)),
                copy: *copy,
                request: request as u32,
            };
            shifts.iter().map(at).collect::<Vec<_>>()
        };
        let mut all: Vec<Occurrence> = log.iter().enumerate().flat_map(of_request).collect();
        all.sort_unstable();
        all
    }

    /// Of a factor below 1: the parts of the families that are replayed in its place, so that each request is in as
    /// many.
    pub fn windows(self) -> Range<u32> {
        0..(1.0 / self.factor.min(1.0 - self.factor) - 1e-9).ceil().max(2.0) as u32
    }

    /// Whether a family is in one of these parts.
    pub fn is_in_window(self, key: u64, window: u32) -> bool {
        let place = unit(&[self.seed, key, WINDOW]) + f64::from(window) / f64::from(self.windows().end);
        place % 1.0 < self.factor
    }
}

/// The name of a page that is not common in a copy.
pub fn renamed(id: u64, copy: u32) -> u64 {
    if copy == 0 { id } else { hash(&[id, u64::from(copy)]) }
}

/// From the first request to the last one.
pub fn span_ms(log: &[FamilyMember]) -> u64 {
    let ends = log.first().zip(log.last());
    ends.map_or(0, |(first, last)| last.time.0.saturating_sub(first.time.0).max(0).unsigned_abs())
}
