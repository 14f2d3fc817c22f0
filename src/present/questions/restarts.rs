//! What an emptied cache costs, by hour of the day.

use super::sizes::size;
use crate::present::document::{Cell, Columns, Section, Table};
use crate::present::words::{self, elapsed, integer, money};
use kvset_core::questions::restarts::{HourClock, RestartHour, RestartsAt, RestartsEstimate, WARM_PERCENT};

const MINUTE_MS: i64 = 60_000;

/// The section of a window, or of a log that ends: what its requests lose where the cache is emptied at an hour; none
/// of a window that loses nothing at any.
pub(super) fn section(restarts: &RestartsEstimate) -> Option<Section> {
    let clock = restarts.clock;
    let tables = restarts.sizes.iter().filter_map(|at| table(at, clock).unless_empty()).collect::<Vec<_>>();
    let note = match (clock, tables.is_empty()) {
        (None, true) => return None,
        (None, false) => format!("{} Sums are those of this window's requests.", what_is_counted()),
        (Some(_), true) => {
            "The log has no full hour between its first request that counts and its last one, so no restart is counted."
                .to_owned()
        }
        (Some(_), false) => format!(
            "{} Rows are the mean over the days. Near the ends of the log a restart loses less: little is cached at first, \
             and what comes behind the end is not seen.",
            what_is_counted()
        ),
    };
    let answers = restarts.sizes.iter().filter_map(|at| answer(at, clock));
    Some(Section::new(title(clock.unwrap_or(HourClock::Utc)), answers.chain([note]), tables))
}

fn title(clock: HourClock) -> String {
    let hours = match clock {
        HourClock::Utc => "UTC",
        HourClock::Start => "days begin with the trace",
    };
    format!("What an emptied cache costs, by hour of the day ({hours})")
}

/// A row for each hour; columns that only a log that ends fills are left out of others.
fn table(at: &RestartsAt, clock: Option<HourClock>) -> Table {
    let first = if clock.is_some() { "restart at" } else { "emptied at" };
    let columns: Columns<'_, RestartHour> = &[
        (first, &|row| hour(row).into()),
        ("days", &|row| Cell::known(row.restarts, Cell::Count)),
        ("tokens lost", &|row| Cell::Count(mean_tokens(row).round() as u64)),
        ("of the worst day", &|row| Cell::known(row.most_tokens, Cell::Count)),
        ("prefill", &|row| Cell::figure(row.prefill_seconds, |found| seconds(found / days(row)))),
        ("cost", &|row| Cell::figure(row.money, |found| money(found / days(row)))),
        ("warm after", &|row| Cell::figure(row.warm_minutes, time)),
    ];
    let caption = size(at.pages, at.bytes, (at.provisioned, at.recommended));
    Table::of(caption, &at.hours, columns).spare(&["days", "of the worst day"])
}

/// Days that a row's figures are the sums of.
fn days(row: &RestartHour) -> f64 {
    row.restarts.unwrap_or(1) as f64
}

fn mean_tokens(row: &RestartHour) -> f64 {
    row.tokens as f64 / days(row)
}

/// The hours of the least and of the greatest loss, of equals the first.
fn extremes(at: &RestartsAt) -> Option<[&RestartHour; 2]> {
    let by_tokens =
        |one: &&RestartHour, other: &&RestartHour| mean_tokens(one).total_cmp(&mean_tokens(other));
    Some([at.hours.iter().min_by(by_tokens)?, at.hours.iter().rev().max_by(by_tokens)?])
}

/// "80 GiB (provisioned): a restart at 04:00 loses the least, ...; at 15:00 the most, ..."
fn answer(at: &RestartsAt, clock: Option<HourClock>) -> Option<String> {
    let [least, most] = extremes(at)?;
    let size = size(at.pages, at.bytes, (at.provisioned, at.recommended));
    let first = hour(least);
    let emptied = match clock {
        Some(_) => format!("a restart at {first}"),
        None => format!("emptied every day at {first} it"),
    };
    Some(match least.hour == most.hour {
        true => format!("{size}: {emptied} loses {}.", loss(least)),
        false => format!(
            "{size}: {emptied} loses the least, {}; at {} the most, {}.",
            loss(least),
            hour(most),
            loss(most)
        ),
    })
}

/// What the figures are.
fn what_is_counted() -> String {
    format!(
        "Lost are tokens that the kept cache finds and a cache emptied at the hour computes again, within 24 hours. The \
         emptied cache is warm once {} of this loss has happened.",
        words::percent(WARM_PERCENT as f64 / 100.0)
    )
}

/// `1,234,567 tokens (103 s of prefill, which cost 0.07), warm after 12 min`: the mean of its days.
fn loss(row: &RestartHour) -> String {
    let prefill = row.prefill_seconds.map_or_else(String::new, |found| {
        let paid = row.money.map(|found| format!(", which cost {}", money(found / days(row))));
        format!(" ({} of prefill{})", seconds(found / days(row)), paid.unwrap_or_default())
    });
    let warm = row.warm_minutes.map_or_else(String::new, |minutes| format!(", warm after {}", time(minutes)));
    format!("{} tokens{prefill}{warm}", integer(mean_tokens(row).round() as u64))
}

/// `04:00`.
fn hour(row: &RestartHour) -> String {
    format!("{:02}:00", row.hour)
}

fn seconds(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.1} s") } else { format!("{seconds:.0} s") }
}

fn time(minutes: u32) -> String {
    elapsed(i64::from(minutes) * MINUTE_MS)
}
