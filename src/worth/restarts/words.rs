//! What restarts cost, in sentences and rows.

use super::{HourClock, RestartHour, RestartsAt, RestartsResult};
use crate::present::document::Cell;
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
        "Counted are tokens that the whole cache would have found and one emptied at the hour computes again, on average over \
         the days. It is warm when {} of that is lost. Near the ends of the log a restart loses less: little is cached at \
         first, and what comes behind the end is not seen.",
        words::percent(result.warm_share)
    ));
    all
}

/// "80 GiB (provisioned): a restart at 04:00 costs the least, ...; at 15:00 the most, ..."
fn answer(at: &RestartsAt) -> Option<String> {
    let by_tokens = |one: &&RestartHour, other: &&RestartHour| one.tokens.total_cmp(&other.tokens);
    let least = at.hours.iter().min_by(by_tokens)?;
    // Of equals the first, as of the least.
    let most = at.hours.iter().rev().max_by(by_tokens)?;
    let size = size(at);
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
pub fn size(at: &RestartsAt) -> String {
    let size = at.bytes.map_or_else(|| words::capacity(at.pages, None), words::bytes_up);
    format!("{size}{}", role(at))
}

fn role(at: &RestartsAt) -> &'static str {
    match (at.provisioned, at.recommended) {
        (true, true) => " (provisioned and recommended)",
        (true, false) => " (provisioned)",
        (false, true) => " (recommended)",
        (false, false) => "",
    }
}

/// `1,234,567 tokens (103 s of prefill, which cost 0.07), warm after 12 min`.
fn loss(hour: &RestartHour) -> String {
    let prefill = hour.prefill_seconds.map_or_else(String::new, |found| {
        let cost = hour.money.map_or_else(String::new, |cost| format!(", which cost {}", words::money(cost)));
        format!(" ({} of prefill{cost})", seconds(found))
    });
    let warm =
        hour.warm_minutes.map_or_else(String::new, |minutes| format!(", warm after {}", time(minutes)));
    format!("{} tokens{prefill}{warm}", words::integer(hour.tokens.round() as u64))
}

fn clock(hour: &RestartHour) -> String {
    format!("{:02}:00", hour.hour)
}

fn seconds(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.1} s") } else { format!("{seconds:.0} s") }
}

fn time(minutes: u32) -> String {
    words::elapsed(i64::from(minutes) * super::MINUTE_MS)
}

/// The columns of [`rows`]; the first one names the row.
pub fn columns() -> [&'static str; 7] {
    ["restart at", "days", "tokens lost", "of the worst day", "prefill", "cost", "warm after"]
}

/// A row for each hour of the day.
pub fn rows(at: &RestartsAt) -> impl Iterator<Item = [Cell; 7]> + '_ {
    at.hours.iter().map(|hour| {
        [
            clock(hour).into(),
            Cell::Count(hour.restarts),
            Cell::Count(hour.tokens.round() as u64),
            Cell::Count(hour.most_tokens),
            Cell::known(hour.prefill_seconds, |found| Cell::Figure(seconds(found))),
            Cell::known(hour.money, |found| Cell::Figure(words::money(found))),
            Cell::known(hour.warm_minutes, |found| Cell::Figure(time(found))),
        ]
    })
}
