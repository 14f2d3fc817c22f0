//! What restarts cost, as it is reported.

use kvset_core::questions::counters::Counter;
use kvset_core::questions::restarts::{
    HOUR_MS, HOURS_A_DAY, Lost, RestartCosts, RestartsObserver, RestartsRequest, RestartsShape,
    RestartsTally, WARM_PERCENT,
};
use kvset_core::questions::sizes::ReportedSize;
use serde::Serialize;

/// Most hours from the first to the last request: ten years.
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

/// What the hours of a log count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HourClock {
    /// Hours of the day in UTC.
    Utc,
    /// Hours since the start of the trace, modulo 24.
    Start,
}

/// What an emptied cache costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RestartsResult {
    /// What the hours count from.
    pub clock: HourClock,
    /// A cache is warm once this share is lost of all that a restart loses.
    pub warm_share: f64,
    /// What the cache holds today first, where that is given, then what is recommended; where there is neither, the largest
    /// size of the curve.
    pub sizes: Vec<RestartsOfSize>,
}

/// The same at one size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RestartsOfSize {
    /// The size.
    pub pages: u64,
    /// The same in bytes, where a cost per token is known.
    pub bytes: Option<u64>,
    /// Whether that is what the cache holds today.
    pub provisioned: bool,
    /// Whether that is the smallest size of the curve as large as what is recommended.
    pub recommended: bool,
    /// By the hour of the day; hours without a restart are left out.
    pub hours: Vec<AverageRestartHour>,
    /// Each restart: one at every full hour after the first request that counts, up to the last request.
    pub restarts: Vec<RestartLoss>,
}

/// What restarts in one hour of the day lose, on average over the days.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AverageRestartHour {
    /// The hour: 4 is a restart at 04:00.
    pub hour: u32,
    /// Days that have it.
    pub restarts: u64,
    /// Tokens that are computed again.
    pub tokens: f64,
    /// Those of the worst day.
    pub most_tokens: u64,
    /// What computing them takes one prefill worker, where the rate is known.
    pub prefill_seconds: Option<f64>,
    /// What that costs, where the price is known.
    pub money: Option<f64>,
    /// Whole minutes until the cache is warm: until 95 % is lost of what all these restarts lose.
    pub warm_minutes: Option<u32>,
}

/// One restart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RestartLoss {
    /// When, in milliseconds.
    pub time_ms: i64,
    /// Tokens that are computed again within 24 hours.
    pub tokens: u64,
    /// What computing them takes one prefill worker, where the rate is known.
    pub prefill_seconds: Option<f64>,
    /// What that costs, where the price is known.
    pub money: Option<f64>,
    /// Whole minutes until the cache is warm; absent where nothing is lost.
    pub warm_minutes: Option<u32>,
}

/// The restarts of a log while it is read.
#[derive(Debug)]
pub struct RestartsLog {
    observer: RestartsObserver,
    tally: RestartsTally,
}

impl RestartsLog {
    /// Nothing yet, counted at so many capacities.
    pub fn new(observer: RestartsObserver, capacities: usize) -> Self {
        Self { observer, tally: RestartsTally::new(RestartsShape::of_log(capacities)) }
    }

    /// Adds a request that counts, or only warms the cache.
    ///
    /// # Errors
    /// [`TooManyRestarts`].
    pub fn add(&mut self, request: RestartsRequest<'_>, counted: bool) -> Result<(), TooManyRestarts> {
        let share = self.observer.observe(request);
        if counted {
            self.tally.add(&share);
        }
        let hours = self.hours().map_or(0, |(first, last)| last.saturating_sub(first));
        match () {
            () if hours > MOST_HOURS => Err(TooManyRestarts::Hours),
            () if self.tally.counts() > MOST_COUNTS => Err(TooManyRestarts::Counts),
            () => Ok(()),
        }
    }

    /// The hours of the first and of the last request that counts.
    fn hours(&self) -> Option<(i64, i64)> {
        let (first, last) = self.tally.span()?;
        Some((first.div_euclid(HOUR_MS), last.div_euclid(HOUR_MS)))
    }

    /// What it came to at these sizes.
    pub fn result(&self, sizes: &[ReportedSize], clock: HourClock) -> RestartsResult {
        let costs = RestartCosts::of(self.observer.worth());
        let (first, last) = self.hours().unwrap_or_default();
        let hours = first + 1..=last;
        let at = |size: &ReportedSize| {
            let place = self.observer.place(size.pages)?;
            let of_hour = |hour: i64| hours.clone().filter(move |at| at.rem_euclid(HOURS_A_DAY) == hour);
            let row = |hour: i64| {
                let single = of_hour(hour).map(|at| self.tally.lost(place, std::iter::once(at)).tokens);
                let all = self.tally.lost(place, of_hour(hour));
                row(hour, (of_hour(hour).count() as u64, single.max()?), all, costs)
            };
            let restart = |at: i64| restart(at, self.tally.lost(place, std::iter::once(at)), costs);
            Some(RestartsOfSize {
                pages: size.pages,
                bytes: size.bytes,
                provisioned: size.provisioned,
                recommended: size.recommended,
                hours: (0..HOURS_A_DAY).filter_map(row).collect(),
                restarts: hours.clone().map(restart).collect(),
            })
        };
        let warm_share = WARM_PERCENT as f64 / 100.0;
        RestartsResult { clock, warm_share, sizes: sizes.iter().filter_map(at).collect() }
    }
}

fn restart(hour: i64, lost: Lost, costs: RestartCosts) -> RestartLoss {
    let nanoseconds = lost.nanoseconds as f64;
    RestartLoss {
        time_ms: hour * HOUR_MS,
        tokens: lost.tokens,
        prefill_seconds: costs.seconds(nanoseconds),
        money: costs.money(nanoseconds),
        warm_minutes: lost.warm_minutes,
    }
}

/// The restarts in this hour of the day, so many, of which one loses the most tokens, and all together so much.
fn row(
    hour: i64,
    (restarts, most_tokens): (u64, u64),
    all: Lost,
    costs: RestartCosts,
) -> Option<AverageRestartHour> {
    let mean = |sum: u64| sum as f64 / restarts as f64;
    let nanoseconds = mean(all.nanoseconds);
    (restarts > 0).then(|| AverageRestartHour {
        hour: hour as u32,
        restarts,
        tokens: mean(all.tokens),
        most_tokens,
        prefill_seconds: costs.seconds(nanoseconds),
        money: costs.money(nanoseconds),
        warm_minutes: all.warm_minutes,
    })
}
