//! What restarts cost, as it is reported.

use super::tally::{Lost, RestartsTally};
use super::{HOUR_MS, HOURS_A_DAY};
use crate::questions::costs::{PrefillCosts, Prices};
use crate::questions::question::QuestionFigures;
use crate::questions::sizes::ReportedSize;
use serde::{Deserialize, Serialize};

const NANOSECONDS_A_SECOND: f64 = 1e9;

const SECONDS_AN_HOUR: f64 = 3600.0;

const MS_A_DAY: f64 = (HOURS_A_DAY * HOUR_MS) as f64;

/// What requests of a window compute again where the cache is emptied every day at one hour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RestartsEstimate {
    /// Days from the first to the last request: sums by these are those a day.
    pub days: f64,
    /// What is provisioned first, where that is known, then what is recommended; where there is neither, the largest capacity
    /// of the curve.
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
    /// By the hour of the day; hours at which nothing is lost are left out.
    pub hours: Vec<RestartHour>,
}

/// What is lost where the cache is emptied every day at this hour.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RestartHour {
    /// The hour: 4 is a restart at 04:00.
    pub hour: u32,
    /// Tokens that are computed again.
    pub tokens: u64,
    /// What computing them takes one prefill worker, where the rate is known.
    pub prefill_seconds: Option<f64>,
    /// What that costs, where the price is known.
    pub money: Option<f64>,
    /// Whole minutes until the cache is warm: until 95 % of that is lost.
    pub warm_minutes: Option<u32>,
}

/// What computing costs, as far as that is known.
#[derive(Debug, Clone, Copy)]
pub struct RestartCosts {
    /// Whether it is known how fast prompts are computed.
    pub has_rate: bool,
    /// What is paid.
    pub prices: Prices,
}

impl RestartCosts {
    /// Those of the question what a cache is worth; without it nothing is known.
    pub fn of(worth: Option<&PrefillCosts>) -> Self {
        let prices = worth.map(|worth| worth.prices).unwrap_or_default();
        Self { has_rate: worth.is_some(), prices }
    }

    /// Seconds of one prefill worker.
    pub fn seconds(self, nanoseconds: f64) -> Option<f64> {
        self.has_rate.then_some(nanoseconds / NANOSECONDS_A_SECOND)
    }

    /// What these cost.
    pub fn money(self, nanoseconds: f64) -> Option<f64> {
        Some(self.seconds(nanoseconds)? * self.prices.accelerator_hour? / SECONDS_AN_HOUR)
    }
}

/// What a window says of sizes in these places, by what computing costs; `None` of no requests.
pub(super) fn estimate(
    worth: Option<&PrefillCosts>,
    place: impl Fn(u64) -> Option<usize>,
    tally: &RestartsTally,
    figures: &QuestionFigures<'_>,
) -> Option<RestartsEstimate> {
    let (first, last) = tally.span()?;
    let costs = RestartCosts::of(worth);
    let hour = |place: usize, hour: i64| {
        let Lost { tokens, nanoseconds, warm_minutes } = tally.lost(place, std::iter::once(hour));
        let (hour, nanoseconds) = (hour as u32, nanoseconds as f64);
        let (prefill_seconds, money) = (costs.seconds(nanoseconds), costs.money(nanoseconds));
        (tokens > 0).then_some(RestartHour { hour, tokens, prefill_seconds, money, warm_minutes })
    };
    let at = |size: ReportedSize| {
        let place = place(size.pages)?;
        let ReportedSize { pages, bytes, provisioned, recommended } = size;
        let hours = (0..HOURS_A_DAY).filter_map(|at| hour(place, at)).collect();
        Some(RestartsAt { pages, bytes, provisioned, recommended, hours })
    };
    Some(RestartsEstimate {
        days: last.abs_diff(first) as f64 / MS_A_DAY,
        sizes: ReportedSize::all(figures).into_iter().filter_map(at).collect(),
    })
}
