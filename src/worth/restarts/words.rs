//! What restarts cost, in sentences and rows.

use super::{AverageRestartHour, HourClock, RestartsOfSize, RestartsResult};
use crate::present::document::Cell;
use crate::present::questions::restarts as shared;
use crate::present::words;

/// The heading.
pub fn title(result: &RestartsResult) -> String {
    let hours = match result.clock {
        HourClock::Utc => "hour of the day (UTC)",
        HourClock::Start => "hour of the day (days begin with the trace)",
    };
    format!("What an emptied cache costs, by {hours}")
}

/// The answer of each size, and what it counts.
pub fn sentences(result: &RestartsResult) -> Vec<String> {
    if result.sizes.iter().all(|at| at.hours.is_empty()) {
        return vec![
            "The log has no full hour between its first request that counts and its last one, so no restart is \
             counted."
                .to_owned(),
        ];
    }
    let mut all: Vec<String> = result.sizes.iter().filter_map(answer).collect();
    all.push(format!(
        "{} Rows are the mean over the days. Near the ends of the log a restart loses less: little is cached at first, and \
         what comes behind the end is not seen.",
        shared::what_is_counted()
    ));
    all
}

/// "80 GiB (provisioned): a restart at 04:00 costs the least, ...; at 15:00 the most, ..."
fn answer(at: &RestartsOfSize) -> Option<String> {
    let by_tokens =
        |one: &&AverageRestartHour, other: &&AverageRestartHour| one.tokens.total_cmp(&other.tokens);
    let least = at.hours.iter().min_by(by_tokens)?;
    // Of equals the first, as of the least.
    let most = at.hours.iter().rev().max_by(by_tokens)?;
    let (size, clock) = (size(at), |hour: &AverageRestartHour| shared::clock(hour.hour));
    let loss = |hour: &AverageRestartHour| {
        let tokens = hour.tokens.round() as u64;
        shared::loss((tokens, hour.prefill_seconds, hour.money, hour.warm_minutes))
    };
    if least.hour == most.hour {
        return Some(format!("{size}: a restart at {} loses {}.", clock(least), loss(least)));
    }
    Some(format!(
        "{size}: a restart at {} loses the least, {}; at {} the most, {}.",
        clock(least),
        loss(least),
        clock(most),
        loss(most)
    ))
}

/// `80 GiB (provisioned)`.
pub fn size(at: &RestartsOfSize) -> String {
    shared::size(at.pages, at.bytes, (at.provisioned, at.recommended))
}

/// The columns of [`rows`]; the first one names the row.
pub fn columns() -> [&'static str; 7] {
    ["restart at", "days", "tokens lost", "of the worst day", "prefill", "cost", "warm after"]
}

/// A row for each hour of the day.
pub fn rows(at: &RestartsOfSize) -> impl Iterator<Item = [Cell; 7]> + '_ {
    at.hours.iter().map(|hour| {
        [
            shared::clock(hour.hour).into(),
            Cell::Count(hour.restarts),
            Cell::Count(hour.tokens.round() as u64),
            Cell::Count(hour.most_tokens),
            Cell::known(hour.prefill_seconds, |found| Cell::Figure(shared::seconds(found))),
            Cell::known(hour.money, |found| Cell::Figure(words::money(found))),
            Cell::known(hour.warm_minutes, |found| Cell::Figure(shared::time(found))),
        ]
    })
}
