//! What restarts cost, as it is reported.

use super::tally::RestartsTally;
use super::{HOUR_MS, HOURS_A_DAY};
use crate::questions::costs::PrefillCosts;
use crate::questions::question::{QuestionFigures, ReportedSize};
use serde::{Deserialize, Serialize};

const NANOSECONDS_A_SECOND: f64 = 1e9;

const SECONDS_AN_HOUR: f64 = 3600.0;

const MS_A_DAY: f64 = (HOURS_A_DAY * HOUR_MS) as f64;

/// What the hours of a log count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HourClock {
    /// Hours of the day in UTC.
    Utc,
    /// Hours since the start of the trace, modulo 24.
    Start,
}

/// What requests of a window compute again where the cache is emptied every day at one hour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RestartsEstimate {
    /// What the hours of a log that ends count from; UTC where it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<HourClock>,
    /// Days from the first to the last request: sums by these are those a day.
    pub days: f64,
    /// What is provisioned first, where that is known, then what is recommended; where there is neither, the largest
    /// capacity of the curve.
    pub sizes: Vec<RestartsAt>,
}

/// The same at one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RestartsAt {
    /// The size.
    pub pages: u64,
    /// The same in bytes, where a cost per token is known.
    pub bytes: Option<u64>,
    /// Whether that is what the cache holds today.
    pub provisioned: bool,
    /// Whether that is the smallest capacity of the curve as large as what is recommended.
    pub recommended: bool,
    /// By the hour of the day; hours at which nothing is lost are left out. Of a log that ends, hours without a
    /// restart are.
    pub hours: Vec<RestartHour>,
    /// Of a log that ends each restart: one at every full hour after its first request, up to the last one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<RestartLoss>,
}

/// What is lost where the cache is emptied every day at this hour.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RestartHour {
    /// The hour: 4 is a restart at 04:00.
    pub hour: u32,
    /// Of a log that ends the days that have it: the other figures are their sums.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<u64>,
    /// Tokens that are computed again.
    pub tokens: u64,
    /// Of a log that ends those of the worst day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_tokens: Option<u64>,
    /// What computing them takes one prefill worker, where the rate is known.
    pub prefill_seconds: Option<f64>,
    /// What that costs, where the price is known.
    pub money: Option<f64>,
    /// Whole minutes until the cache is warm: until 95 % of that is lost.
    pub warm_minutes: Option<u32>,
}

/// One restart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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

/// What a window says of sizes in these places, by what computing costs; `None` of no requests.
pub(super) fn estimate(
    costs: Option<&PrefillCosts>,
    place: impl Fn(u64) -> Option<usize>,
    tally: &RestartsTally,
    figures: &QuestionFigures<'_>,
) -> Option<RestartsEstimate> {
    let (first, last) = tally.span()?;
    let at = |size: ReportedSize| {
        let ReportedSize { pages, bytes, provisioned, recommended } = size;
        let losses = Losses { tally, costs, place: place(pages)? };
        let (hours, restarts) = match tally.has_single_days() {
            true => (losses.by_hour(), losses.single().collect()),
            false => (losses.of_day(), Vec::new()),
        };
        Some(RestartsAt { pages, bytes, provisioned, recommended, hours, restarts })
    };
    Some(RestartsEstimate {
        clock: None,
        days: last.abs_diff(first) as f64 / MS_A_DAY,
        sizes: ReportedSize::all(figures).into_iter().filter_map(at).collect(),
    })
}

/// What restarts lose at the size in one place.
#[derive(Clone, Copy)]
struct Losses<'a> {
    tally: &'a RestartsTally,
    /// What computing costs, where that is known.
    costs: Option<&'a PrefillCosts>,
    place: usize,
}

impl Losses<'_> {
    /// By the hour of a day that stands for all.
    fn of_day(self) -> Vec<RestartHour> {
        let hours = (0..HOURS_A_DAY).map(|hour| self.row(hour, std::iter::once(hour)));
        hours.filter(|row| row.tokens > 0).collect()
    }

    /// By the hour of the day, over the days of the log.
    fn by_hour(self) -> Vec<RestartHour> {
        let of_hour =
            |hour: i64| self.tally.full_hours().filter(move |at| at.rem_euclid(HOURS_A_DAY) == hour);
        let row = |hour: i64| {
            let single = of_hour(hour).map(|at| self.tally.lost(self.place, std::iter::once(at)).0);
            let most_tokens = Some(single.max()?);
            let restarts = Some(of_hour(hour).count() as u64);
            Some(RestartHour { restarts, most_tokens, ..self.row(hour, of_hour(hour)) })
        };
        (0..HOURS_A_DAY).filter_map(row).collect()
    }

    /// Each restart of the log.
    fn single(self) -> impl Iterator<Item = RestartLoss> {
        self.tally.full_hours().map(move |hour| {
            let RestartHour { tokens, prefill_seconds, money, warm_minutes, .. } =
                self.row(hour, std::iter::once(hour));
            RestartLoss { time_ms: hour * HOUR_MS, tokens, prefill_seconds, money, warm_minutes }
        })
    }

    /// The sums of restarts at these full hours.
    fn row(self, hour: i64, hours: impl Iterator<Item = i64>) -> RestartHour {
        let (tokens, nanoseconds, warm_minutes) = self.tally.lost(self.place, hours);
        let prefill_seconds = self.costs.map(|_| nanoseconds as f64 / NANOSECONDS_A_SECOND);
        let price = self.costs.and_then(|costs| costs.prices.accelerator_hour);
        RestartHour {
            hour: hour as u32,
            restarts: None,
            tokens,
            most_tokens: None,
            prefill_seconds,
            money: prefill_seconds.zip(price).map(|(seconds, price)| seconds * price / SECONDS_AN_HOUR),
            warm_minutes,
        }
    }
}
