//! Hits by the minute in which they are found, the full hours since their last use, and the size that they need.

use super::{HOUR_MS, HOURS_A_DAY, MINUTE_MS, MINUTES_A_DAY, MINUTES_AN_HOUR, WARM_PERCENT};
use crate::questions::counters::{Counter, Share};
use crate::questions::question::Horizon;
use crate::units::heap::{flat, heap_bytes};
use crate::units::is_countable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Most hours from the first to the last request of a log that ends: ten years.
const MOST_HOURS: i64 = 10 * 366 * HOURS_A_DAY;

/// Most counts that are kept.
const MOST_COUNTS: usize = 1 << 23;

/// The log is too long, or too large, to count restarts of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooManyRestarts {
    /// It has too many hours.
    #[error(
        "--restarts counts every full hour from the first to the last request, and these are more than ten years apart: \
         correct the times that are wrong, or leave --restarts out"
    )]
    Hours,
    /// It has too many counts.
    #[error(
        "--restarts keeps more than {MOST_COUNTS} counts of this log: name fewer --capacities, or take a part of it"
    )]
    Counts,
}

/// What one request adds: what it would lose.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RestartsShare {
    /// When it came, in milliseconds.
    pub(super) time_ms: i64,
    pub(super) lost: Vec<LostHits>,
}

heap_bytes!(RestartsShare { lost; time_ms });

/// Hits of one request that were used last in one hour, and that one size is the smallest to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LostHits {
    /// Full hours since that use: 1 to 24, which stands for any more.
    pub(super) hours: u8,
    /// Place of the size.
    pub(super) place: u32,
    pub(super) tokens: u64,
    /// What computing them takes; zero where no rate is known.
    pub(super) nanoseconds: u64,
}

flat!(LostHits);

impl RestartsShare {
    /// When the request came, in milliseconds: not before the one before it.
    pub fn time_ms(&self) -> i64 {
        self.time_ms
    }
}

/// Hits that a restart may lose: of a day, or of the whole log minute by minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartsTally {
    is_of_day: bool,
    /// The first and the last arrival, in milliseconds.
    span: Option<(i64, i64)>,
    /// By minute (of the day, or since the times began to count), hours and place as in [`LostHits`]: tokens, and
    /// nanoseconds to compute them.
    counts: BTreeMap<(i64, u8, u32), (u64, u64)>,
}

heap_bytes!(RestartsTally { counts; is_of_day, span });

impl RestartsTally {
    /// Milliseconds of the first and the last request; `None` of no requests.
    pub(super) fn span(&self) -> Option<(i64, i64)> {
        self.span
    }

    /// The full hours behind the first request, up to the last one; none of no requests.
    pub(super) fn full_hours(&self) -> RangeInclusive<i64> {
        let (first, last) = self.span.unwrap_or_default();
        first.div_euclid(HOUR_MS) + 1..=last.div_euclid(HOUR_MS)
    }

    /// Whether each day is counted by itself.
    pub(super) fn has_single_days(&self) -> bool {
        !self.is_of_day
    }

    /// Whether there is room for more.
    ///
    /// # Errors
    /// [`TooManyRestarts`].
    pub fn check_room(&self) -> Result<(), TooManyRestarts> {
        let hours = self.full_hours();
        if hours.end().saturating_sub(*hours.start()) >= MOST_HOURS {
            Err(TooManyRestarts::Hours)
        } else if self.counts.len() > MOST_COUNTS {
            Err(TooManyRestarts::Counts)
        } else {
            Ok(())
        }
    }

    /// What restarts at these full hours lose within 24 hours each, at the size in this place. An hour is one of the
    /// day, where days are one: then it is that of every day.
    pub(super) fn lost(&self, place: usize, hours: impl Iterator<Item = i64>) -> (u64, u64, Option<u32>) {
        let mut by_minute = Vec::new();
        let mut sum = (0, 0);
        for hour in hours {
            for (minutes, (_, lost_for, size), found) in self.day_from(hour * MINUTES_AN_HOUR) {
                let is_lost = minutes / MINUTES_AN_HOUR < i64::from(*lost_for);
                if is_lost && *size as usize <= place {
                    add(&mut sum, *found);
                    by_minute.push((minutes as u32, found.0));
                }
            }
        }
        (sum.0, sum.1, warm(by_minute, sum.0))
    }

    /// What is found within a day of a minute, with the minutes since that.
    fn day_from(&self, start: i64) -> impl Iterator<Item = (i64, &(i64, u8, u32), &(u64, u64))> {
        let first = if self.is_of_day { start.rem_euclid(MINUTES_A_DAY) } else { start };
        let passed = if self.is_of_day { first } else { 0 };
        let upto = first.saturating_add(MINUTES_A_DAY);
        let at = |minute: i64| (minute, 0, 0);
        // Of one day for all, what comes before the minute is of the next day.
        let next = self.counts.range(at(0)..at(passed));
        let since = move |minute: i64| (minute - first).rem_euclid(MINUTES_A_DAY);
        let found = self.counts.range(at(first)..at(upto)).chain(next);
        found.map(move |(key, sum)| (since(key.0), key, sum))
    }
}

/// Adds tokens, and nanoseconds to compute them.
fn add((tokens, nanoseconds): &mut (u64, u64), more: (u64, u64)) {
    *tokens = tokens.saturating_add(more.0);
    *nanoseconds = nanoseconds.saturating_add(more.1);
}

/// The minutes in which so many of the tokens are lost that the cache is warm.
fn warm(mut by_minute: Vec<(u32, u64)>, tokens: u64) -> Option<u32> {
    by_minute.sort_unstable();
    let enough = |lost: u64| u128::from(lost) * 100 >= u128::from(tokens) * u128::from(WARM_PERCENT);
    let mut lost = 0_u64;
    let warm = by_minute.into_iter().find(|(_, found)| {
        lost = lost.saturating_add(*found);
        tokens > 0 && enough(lost)
    });
    warm.map(|(minute, _)| minute + 1)
}

impl Share for RestartsShare {
    /// Sizes, and whether the log ends.
    type Shape = (usize, Horizon);

    fn is_sound(&self, (sizes, _): (usize, Horizon)) -> bool {
        let is_sound = |loss: &LostHits| {
            (1..=HOURS_A_DAY).contains(&i64::from(loss.hours))
                && (loss.place as usize) < sizes
                && is_countable(loss.tokens)
        };
        self.lost.iter().all(is_sound)
    }
}

impl Counter for RestartsTally {
    type Share = RestartsShare;

    /// All days of a log that goes on are one; those of a log that ends are each by itself.
    fn new((_, horizon): (usize, Horizon)) -> Self {
        Self { is_of_day: horizon == Horizon::Endless, span: None, counts: BTreeMap::new() }
    }

    fn add(&mut self, share: &RestartsShare) {
        self.span = union(self.span, Some((share.time_ms, share.time_ms)));
        let minute = share.time_ms.div_euclid(MINUTE_MS);
        let minute = if self.is_of_day { minute.rem_euclid(MINUTES_A_DAY) } else { minute };
        for LostHits { hours, place, tokens, nanoseconds } in share.lost.iter().copied() {
            add(self.counts.entry((minute, hours, place)).or_default(), (tokens, nanoseconds));
        }
    }

    fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        parts.cloned().reduce(|mut sum, part| {
            sum.span = union(sum.span, part.span);
            for (key, lost) in part.counts {
                add(sum.counts.entry(key).or_default(), lost);
            }
            sum
        })
    }

    fn is_sound(&self, (sizes, horizon): (usize, Horizon)) -> bool {
        let is_sound = |((minute, hours, place), (tokens, _)): (&(i64, u8, u32), &(u64, u64))| {
            (!self.is_of_day || (0..MINUTES_A_DAY).contains(minute))
                && (1..=HOURS_A_DAY).contains(&i64::from(*hours))
                && (*place as usize) < sizes
                && is_countable(*tokens)
        };
        self.is_of_day == (horizon == Horizon::Endless)
            && self.span.is_none_or(|(first, last)| first <= last)
            && (self.span.is_some() || self.counts.is_empty())
            && self.counts.iter().all(is_sound)
    }
}

fn union(one: Option<(i64, i64)>, other: Option<(i64, i64)>) -> Option<(i64, i64)> {
    let both = one.into_iter().chain(other);
    both.reduce(|(first, last), (from, to)| (first.min(from), last.max(to)))
}
