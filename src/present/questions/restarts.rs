//! What an emptied cache costs, by hour of the day.

use crate::present::document::{Cell, Section, Table};
use crate::present::words::{self, bytes_up, capacity, elapsed, integer, money};
use kvset_core::questions::restarts::{RestartHour, RestartsAt, RestartsEstimate, WARM_PERCENT};

const MINUTE_MS: i64 = 60_000;

/// The section of a window: what its requests lose where the cache is emptied every day at an hour; none where they lose
/// nothing at any.
pub(super) fn section(restarts: &RestartsEstimate) -> Option<Section> {
    let columns = ["emptied at", "tokens lost", "prefill", "cost", "warm after"];
    let table = |at: &RestartsAt| {
        let mut table = Table::new(size(at.pages, at.bytes, (at.provisioned, at.recommended)), columns);
        at.hours.iter().for_each(|hour| table.row(row(hour)));
        table.unless_empty()
    };
    let tables: Vec<Table> = restarts.sizes.iter().filter_map(table).collect();
    tables.first()?;
    let mut sentences: Vec<String> = restarts.sizes.iter().filter_map(answer).collect();
    sentences.push(format!("{} Sums are those of this window's requests.", what_is_counted()));
    Some(Section {
        title: "What an emptied cache costs, by hour of the day (UTC)".to_owned(),
        sentences,
        tables,
    })
}

fn row(hour: &RestartHour) -> [Cell; 5] {
    [
        clock(hour.hour).into(),
        Cell::Count(hour.tokens),
        Cell::known(hour.prefill_seconds, |found| Cell::Figure(seconds(found))),
        Cell::known(hour.money, |found| Cell::Figure(money(found))),
        Cell::known(hour.warm_minutes, |found| Cell::Figure(time(found))),
    ]
}

/// "80 GiB (provisioned): emptied every day at 04:00 it loses the least, ...; at 15:00 the most, ..."
fn answer(at: &RestartsAt) -> Option<String> {
    let least = at.hours.iter().min_by_key(|hour| hour.tokens)?;
    let most = at.hours.iter().rev().max_by_key(|hour| hour.tokens)?;
    let lost = |hour: &RestartHour| loss((hour.tokens, hour.prefill_seconds, hour.money, hour.warm_minutes));
    let size = size(at.pages, at.bytes, (at.provisioned, at.recommended));
    let (first, last) = (clock(least.hour), clock(most.hour));
    Some(match first == last {
        true => format!("{size}: emptied every day at {first} it loses {}.", lost(least)),
        false => format!(
            "{size}: emptied every day at {first} it loses the least, {}; at {last} the most, {}.",
            lost(least),
            lost(most)
        ),
    })
}

/// What the figures are.
pub(crate) fn what_is_counted() -> String {
    format!(
        "Counted are tokens that the whole cache would have found and one emptied at the hour computes again within 24 hours. \
         It is warm when {} of that is lost.",
        words::percent(WARM_PERCENT as f64 / 100.0)
    )
}

/// `80 GiB (provisioned)`; whether it is that, and whether recommended.
pub(crate) fn size(pages: u64, bytes: Option<u64>, roles: (bool, bool)) -> String {
    let size = bytes.map_or_else(|| capacity(pages, None), bytes_up);
    let role = match roles {
        (true, true) => " (provisioned and recommended)",
        (true, false) => " (provisioned)",
        (false, true) => " (recommended)",
        (false, false) => "",
    };
    format!("{size}{role}")
}

/// `1,234,567 tokens (103 s of prefill, which cost 0.07), warm after 12 min`, of tokens, seconds, money and minutes.
pub(crate) fn loss(
    (tokens, prefill_seconds, paid, warm_minutes): (u64, Option<f64>, Option<f64>, Option<u32>),
) -> String {
    let prefill = prefill_seconds.map_or_else(String::new, |found| {
        let cost = paid.map_or_else(String::new, |cost| format!(", which cost {}", money(cost)));
        format!(" ({} of prefill{cost})", seconds(found))
    });
    let warm = warm_minutes.map_or_else(String::new, |minutes| format!(", warm after {}", time(minutes)));
    format!("{} tokens{prefill}{warm}", integer(tokens))
}

/// `04:00`.
pub(crate) fn clock(hour: u32) -> String {
    format!("{hour:02}:00")
}

pub(crate) fn seconds(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.1} s") } else { format!("{seconds:.0} s") }
}

pub(crate) fn time(minutes: u32) -> String {
    elapsed(i64::from(minutes) * MINUTE_MS)
}
