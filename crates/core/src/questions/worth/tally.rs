//! Prefill time of a set of requests, by capacity.

use crate::questions::costs::PrefillRate;
use crate::questions::counters::{Counter, Share};
use crate::questions::question::Horizon;
use crate::questions::retention::{AgeTable, Ages};
use crate::units::heap::heap_bytes;
use crate::units::is_countable;
use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

const NANOSECONDS_A_SECOND: f64 = 1e9;

const NANOSECONDS_A_MS: f64 = 1e6;

/// Nanoseconds of a tick, in which times are kept: 31 bits of these are minutes.
const TICK: u64 = 100;

/// Different times that are kept of a log that ends, at all capacities together.
const MOST_TIMES_OF_LOG: usize = 1 << 27;

/// The same at one capacity in a window that may go on for ever.
const MOST_TIMES_OF_WINDOW: u32 = 1 << 15;

/// What is counted besides the capacities: without a cache, and with one of unlimited capacity.
const LIMITS: usize = 2;

/// Different times kept at most of each of so many columns.
fn most_times(columns: usize, horizon: Horizon) -> u32 {
    match horizon {
        Horizon::Endless => MOST_TIMES_OF_WINDOW,
        Horizon::Finite => (MOST_TIMES_OF_LOG / columns).min(u32::MAX as usize) as u32,
    }
}

/// What one request adds: its times, equal ones of columns one after the other once.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorthShare {
    arrival_ms: i64,
    times: Vec<(u32, u64, u64)>,
}

heap_bytes!(WorthShare { times; arrival_ms });

impl WorthShare {
    /// Of a request with a prompt of so many tokens, of which unlimited capacity has so many, and each capacity those
    /// found: tokens that are not computed, and the seconds that loading those takes which lie in tiers below.
    pub fn of(
        rate: &PrefillRate,
        arrival_ms: i64,
        (prompt, unlimited): (u64, u64),
        found: impl Iterator<Item = (u64, f64)>,
    ) -> Self {
        let mut times: Vec<(u32, u64, u64)> = Vec::new();
        let mut latest = None;
        for found in [(0, 0.0), (unlimited, 0.0)].into_iter().chain(found) {
            if latest == Some(found)
                && let Some((columns, ..)) = times.last_mut()
            {
                *columns += 1;
                continue;
            }
            latest = Some(found);
            let (tokens, load_seconds) = found;
            let computing = nanoseconds(rate.seconds(tokens.min(prompt), prompt));
            times.push((1, computing, nanoseconds(load_seconds)));
        }
        Self { arrival_ms, times }
    }

    fn columns(&self) -> usize {
        self.times.iter().map(|(columns, ..)| *columns as usize).sum()
    }
}

/// Beyond 584 years as if it were these.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * NANOSECONDS_A_SECOND).round() as u64
}

/// Prefill time, by capacity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorthTally {
    requests: u64,
    /// The first and the last arrival, in milliseconds.
    span: Option<(i64, i64)>,
    /// Of computing, one entry a column.
    nanoseconds: Vec<u128>,
    /// Of each request to load and to compute, in ticks. Kept as ages are: exact up to three minutes, longer ones to 24
    /// bits, and coarser where there are more different ones than are kept.
    times: AgeTable,
}

heap_bytes!(WorthTally { nanoseconds, times; requests, span });

impl WorthTally {
    /// Requests that were added.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// From the first to the last arrival, in milliseconds.
    pub fn span_ms(&self) -> u64 {
        self.span.map_or(0, |(first, last)| first.abs_diff(last))
    }

    /// Seconds of computing of all requests, without a cache, then unlimited, then by capacity.
    pub fn seconds(&self) -> impl Iterator<Item = f64> + '_ {
        self.nanoseconds.iter().map(|nanoseconds| *nanoseconds as f64 / NANOSECONDS_A_SECOND)
    }

    /// In the same order, the times in milliseconds that these shares of the requests do not exceed: the smallest such.
    pub(super) fn quantiles<'a>(&'a self, shares: &'a [Ratio]) -> impl Iterator<Item = Vec<f64>> + 'a {
        let ms = |ticks: Option<u64>| (ticks.unwrap_or(0) * TICK) as f64 / NANOSECONDS_A_MS;
        self.times.columns().map(move |times: Cow<'_, Ages>| {
            Ages::quantiles_of(times, shares, 0).into_iter().map(ms).collect()
        })
    }
}

impl Share for WorthShare {
    /// Capacities, and whether the log ends.
    type Shape = (usize, Horizon);

    fn is_sound(&self, (capacities, _): (usize, Horizon)) -> bool {
        self.columns() == capacities + LIMITS
    }
}

impl Counter for WorthTally {
    type Share = WorthShare;

    fn new((capacities, horizon): (usize, Horizon)) -> Self {
        let columns = capacities + LIMITS;
        Self {
            requests: 0,
            span: None,
            nanoseconds: vec![0; columns],
            times: AgeTable::new(columns, most_times(columns, horizon)),
        }
    }

    fn add(&mut self, share: &WorthShare) {
        debug_assert_eq!(share.columns(), self.nanoseconds.len());
        self.requests += 1;
        let (first, last) = self.span.unwrap_or((share.arrival_ms, share.arrival_ms));
        self.span = Some((first.min(share.arrival_ms), last.max(share.arrival_ms)));
        let columns =
            share.times.iter().flat_map(|(columns, computing, _)| (0..*columns).map(|_| *computing));
        self.nanoseconds.iter_mut().zip(columns).for_each(|(sum, time)| *sum += u128::from(time));
        let ticks = |(columns, computing, loading): &(u32, u64, u64)| {
            (*columns as usize, loading.saturating_add(*computing).saturating_add(TICK / 2) / TICK)
        };
        self.times.add_runs(share.times.iter().map(ticks));
    }

    fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        let first = parts.clone().next()?;
        let mut sum = Self {
            requests: 0,
            span: None,
            nanoseconds: vec![0; first.nanoseconds.len()],
            times: AgeTable::merged(parts.clone().map(|part| &part.times)),
        };
        for part in parts {
            sum.requests += part.requests;
            let both = sum.span.into_iter().chain(part.span);
            sum.span = both.reduce(|(first, last), (from, to)| (first.min(from), last.max(to)));
            sum.nanoseconds.iter_mut().zip(&part.nanoseconds).for_each(|(sum, time)| *sum += time);
        }
        Some(sum)
    }

    fn consolidate(&mut self) {
        self.times.consolidate();
    }

    fn is_consolidated(&self) -> bool {
        self.times.is_consolidated()
    }

    fn is_sound(&self, (capacities, horizon): (usize, Horizon)) -> bool {
        let columns = capacities + LIMITS;
        self.nanoseconds.len() == columns
            && is_countable(self.requests)
            && self.span.is_some() == (self.requests > 0)
            && self.span.is_none_or(|(first, last)| first <= last)
            // Each request takes at most what 64 bits hold.
            && self.nanoseconds.iter().all(|sum| sum >> u64::BITS <= u128::from(self.requests))
            && self.times.is_sound(columns, most_times(columns, horizon))
    }
}
