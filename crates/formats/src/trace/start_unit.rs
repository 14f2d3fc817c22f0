//! The unit of times that count from a start of their own and are numbers without a unit: told from what the first rows
//! of a file can be.
//!
//! Formats mean milliseconds. Programs that print fractions mean seconds (`time.monotonic()`, `time.perf_counter()`),
//! unless requests then came hours apart; and what took seconds did not take milliseconds.

use crate::record::stated_time::StatedTime;
use crate::time::{NumberUnit, TimeBase, TimeForm};
use std::time::Duration;

/// Rows that are looked at.
const MOST_ROWS: u64 = 64;
/// Fewest that show anything.
const FEWEST_ROWS: u64 = 2;
/// Numbers with fractions that are so far from each other on average may be milliseconds.
const FAR_APART: f64 = 300.0;
/// A request takes longer than so many milliseconds.
const SHORTEST_MS: f64 = 100.0;

/// What the first rows show.
#[derive(Debug, Default)]
pub(super) struct StartUnit {
    rows: u64,
    /// Whether a row says when it came in another way, or not at all.
    is_other: bool,
    fractions: u64,
    /// The first and the last number.
    first: f64,
    last: f64,
    /// Rows with both ends, and all from one to the other.
    ended: u64,
    spent: f64,
    /// Lengths whose unit is known.
    lasted: Duration,
}

impl StartUnit {
    /// Takes the next row in; whether another may show more.
    pub fn note(&mut self, row: &str) -> bool {
        let stated = StatedTime::of_object_in(row, |_| NumberUnit::Seconds).unwrap_or_default();
        let is_seconds = TimeForm::Number(NumberUnit::Seconds);
        let counts = stated.start().or(stated.end());
        let Some(time) = counts.filter(|time| time.clock == TimeBase::Start && time.form == is_seconds)
        else {
            self.is_other = true;
            return false;
        };
        let number = time.moment.seconds();
        if self.rows == 0 {
            (self.first, self.last) = (number, number);
        }
        (self.first, self.last) = (self.first.min(number), self.last.max(number));
        self.rows += 1;
        self.fractions += u64::from(number.fract() != 0.0);
        if let Some((start, end)) = stated.start().zip(stated.end()) {
            self.ended += 1;
            self.spent += end.moment.seconds() - start.moment.seconds();
        }
        self.lasted += stated.length().unwrap_or_default();
        self.rows < MOST_ROWS
    }

    /// Whether the numbers are seconds.
    pub fn are_seconds(&self) -> bool {
        let Self { rows, fractions, ended, spent, .. } = *self;
        let span = self.last - self.first;
        if self.is_other || rows < FEWEST_ROWS || span <= 0.0 {
            return false;
        }
        let have_fractions = fractions * 2 >= rows;
        let at_once = |unit: f64| self.lasted.as_secs_f64() / (span * unit);
        // As milliseconds nearly all rows were in flight together, as seconds hardly any two.
        let overlap = at_once(0.001) >= rows as f64 / 2.0 && at_once(1.0) <= rows as f64 / 10.0;
        let are_short = ended * 2 >= rows && spent > 0.0 && spent < ended as f64 * SHORTEST_MS;
        are_short || (have_fractions && (overlap || span / ((rows - 1) as f64) < FAR_APART))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are_seconds(rows: impl Iterator<Item = String>) -> bool {
        let mut found = StartUnit::default();
        rows.for_each(|row| {
            found.note(&row);
        });
        found.are_seconds()
    }

    #[test]
    fn fractions_and_lengths_show_seconds() {
        for (row, seconds) in [
            (&(|at| format!(r#"{{"timestamp": {at}.25}}"#)) as &dyn Fn(u32) -> String, true),
            (&|at| format!(r#"{{"start_time": {}.5, "ids": [1]}}"#, 91_223 + 40 * at), true),
            (&|at| format!(r#"{{"timestamp": {}.125, "latency_s": 2.5}}"#, 400 * at), true),
            (&|at| format!(r#"{{"start_time": {}, "end_time": {}}}"#, 40 * at, 40 * at + 12), true),
            (&|at| format!(r#"{{"timestamp": {}}}"#, 150 * at), false),
            (&|at| format!(r#"{{"timestamp": {}.0}}"#, 150 * at), false),
            (&|at| format!(r#"{{"timestamp": {}.3}}"#, 2_000 * at), false),
            (&|at| format!(r#"{{"timestamp_ms": {}.3}}"#, 20 * at), false),
            (&|at| format!(r#"{{"start_time": {}, "end_time": {}}}"#, 40 * at, 40 * at + 900), false),
            (&|at| format!(r#"{{"timestamp": {}.5}}"#, 1_763_640_000 + at), false),
            (&|_| r#"{"prompt": "x"}"#.to_owned(), false),
        ] {
            assert_eq!(are_seconds((0..12).map(row)), seconds, "{}", row(3));
        }
    }
}
