//! What restarts cost, as it is reported.

use super::tally::{Lost, RestartsTally};
use super::{HOUR_MS, WARM_PERCENT};
use kvset_core::questions::worth::Prices;
use serde::Serialize;

const HOURS_A_DAY: i64 = 24;

const NANOSECONDS_A_SECOND: f64 = 1e9;

const SECONDS_AN_HOUR: f64 = 3600.0;

/// What the hours of a log count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HourClock {
    /// Hours of the day in UTC.
    Utc,
    /// Hours since the start of the trace, modulo 24.
    Start,
}

/// A size whose restarts are of interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartsSize {
    /// In pages; one of those that were counted at.
    pub pages: u64,
    /// The same in bytes, where a cost per token is known.
    pub bytes: Option<u64>,
    /// Whether that is what the cache holds today.
    pub is_provisioned: bool,
    /// Whether that is the smallest size of the curve as large as what is recommended.
    pub is_recommended: bool,
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
    pub sizes: Vec<RestartsAt>,
}

/// The same at one size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RestartsAt {
    /// The size.
    pub pages: u64,
    /// The same in bytes, where a cost per token is known.
    pub bytes: Option<u64>,
    /// Whether that is what the cache holds today.
    pub provisioned: bool,
    /// Whether that is the smallest size of the curve as large as what is recommended.
    pub recommended: bool,
    /// By the hour of the day; hours without a restart are left out.
    pub hours: Vec<RestartHour>,
    /// Each restart: one at every full hour after the first request that counts, up to the last request.
    pub restarts: Vec<Restart>,
}

/// What restarts in one hour of the day lose, on average over the days.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RestartHour {
    /// The hour: 4 is a restart at 04:00.
    pub hour: u8,
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
    /// Minutes until the cache is warm: the median of the days on which something is lost.
    pub warm_minutes: Option<u32>,
}

/// One restart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Restart {
    /// When, in milliseconds.
    pub time_ms: i64,
    /// Tokens that are computed again.
    pub tokens: u64,
    /// What computing them takes one prefill worker, where the rate is known.
    pub prefill_seconds: Option<f64>,
    /// What that costs, where the price is known.
    pub money: Option<f64>,
    /// Whole minutes until the cache is warm; absent where nothing is lost.
    pub warm_minutes: Option<u32>,
}

impl RestartsResult {
    /// What a tally came to at these sizes.
    pub fn of(tally: RestartsTally, sizes: &[RestartsSize], clock: HourClock, prices: Prices) -> Self {
        let price = prices.accelerator_hour.filter(|_| tally.has_rate());
        let costs =
            Costs { has_rate: tally.has_rate(), a_second: price.map(|price| price / SECONDS_AN_HOUR) };
        let counted = tally.finish();
        let at = |size: &RestartsSize| {
            let place = counted.sizes.binary_search(&size.pages).ok()?;
            let lost = counted.lost(place);
            Some(RestartsAt {
                pages: size.pages,
                bytes: size.bytes,
                provisioned: size.is_provisioned,
                recommended: size.is_recommended,
                hours: (0..HOURS_A_DAY).filter_map(|hour| costs.hour(hour, &lost)).collect(),
                restarts: lost.iter().map(|lost| costs.restart(lost)).collect(),
            })
        };
        let warm_share = WARM_PERCENT as f64 / 100.0;
        Self { clock, warm_share, sizes: sizes.iter().filter_map(at).collect() }
    }
}

/// What computing costs, as far as that is known.
struct Costs {
    has_rate: bool,
    a_second: Option<f64>,
}

impl Costs {
    fn seconds(&self, nanoseconds: f64) -> Option<f64> {
        self.has_rate.then_some(nanoseconds / NANOSECONDS_A_SECOND)
    }

    fn money(&self, nanoseconds: f64) -> Option<f64> {
        Some(self.seconds(nanoseconds)? * self.a_second?)
    }

    fn restart(&self, lost: &Lost) -> Restart {
        let nanoseconds = lost.nanoseconds as f64;
        Restart {
            time_ms: lost.hour * HOUR_MS,
            tokens: lost.tokens,
            prefill_seconds: self.seconds(nanoseconds),
            money: self.money(nanoseconds),
            warm_minutes: lost.warm_minutes,
        }
    }

    /// The restarts in this hour of the day; none where there are none.
    fn hour(&self, hour: i64, lost: &[Lost]) -> Option<RestartHour> {
        let of_hour = || lost.iter().filter(|lost| lost.hour.rem_euclid(HOURS_A_DAY) == hour);
        let restarts = of_hour().count() as u64;
        let most_tokens = of_hour().map(|lost| lost.tokens).max()?;
        let mean = |sum: u64| sum as f64 / restarts as f64;
        let nanoseconds = mean(of_hour().map(|lost| lost.nanoseconds).sum());
        let mut minutes: Vec<u32> = of_hour().filter_map(|lost| lost.warm_minutes).collect();
        minutes.sort_unstable();
        Some(RestartHour {
            hour: hour as u8,
            restarts,
            tokens: mean(of_hour().map(|lost| lost.tokens).sum()),
            most_tokens,
            prefill_seconds: self.seconds(nanoseconds),
            money: self.money(nanoseconds),
            warm_minutes: minutes.get(minutes.len().saturating_sub(1) / 2).copied(),
        })
    }
}
