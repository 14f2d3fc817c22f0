//! Times that nobody reads: where no row says when its request came, and where one says that it came long before.

use super::words::{any, words, words_of_last};
use crate::row_values::walk;
use crate::time::{Numbers, WrittenTime};
use kvset_core::units::names::listed;
use serde_json::Value;

/// How long before the time that was read another one lies that is when requests came, in milliseconds: what was read
/// is when rows were written then.
pub(super) const LONG_BEFORE_MS: i64 = 60_000;
/// Days of spreadsheets, of this century: they count from the end of 1899.
const DAYS: std::ops::Range<f64> = 36_526.0..73_050.0;

/// Whether a value is a date, or by its name and size a time of the last decades in seconds to nanoseconds, or in days
/// as spreadsheets count.
pub(super) fn is_time(last: &[String], value: &Value) -> bool {
    const TIMES: [&str; 14] =
        listed("time timestamp ts date at created start started received begin when logged unix ns");
    let text = value.as_str().unwrap_or_default();
    let digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let is_date = (16..=40).contains(&text.len())
        && [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15].into_iter().all(digit)
        && text.as_bytes()[4] == b'-';
    let number = value.as_f64().or_else(|| text.parse().ok()).unwrap_or(0.0);
    // Loki writes it in front of each line.
    let is_of_line = text.len() == 19 && last.last().is_some_and(|name| name == "0") && is_moment(number);
    let is_of_days = DAYS.contains(&number) && number.fract() != 0.0;
    is_date
        || is_of_line
        || (is_moment(number) && any(last, &TIMES))
        || (is_of_days && any(last, &["date", "datetime", "day"]))
}

/// Whether a number is a time of 2001 to 2096, in seconds to nanoseconds since 1970.
pub(super) fn is_moment(number: f64) -> bool {
    [1.0, 1e3, 1e6, 1e9].iter().any(|unit| (1e9..4e9).contains(&(number / unit)))
}

/// Whether a name is one of when a request came, and not of when something else began.
pub(super) fn says_arrival(path: &str) -> bool {
    const CAME: [&str; 12] = listed(
        "start started begin began received arrived arrival requested request submitted queued enqueued",
    );
    const OTHERS: [&str; 12] =
        listed("session conversation thread user account process server boot job window response end");
    any(&words_of_last(&[path.rsplit('.').next().unwrap_or_default()]), &CAME) && !any(&words(path), &OTHERS)
}

/// The time at a path of a row, in milliseconds since the epoch.
pub(super) fn moment_at(row: &Value, path: &str) -> Option<i64> {
    let mut moment = None;
    walk(row, &mut |here, value| {
        if here == path && moment.is_none() {
            let written = value.to_string();
            let written = serde_json::from_str::<WrittenTime<'_>>(&written).ok();
            moment = written.and_then(|written| written.time(Numbers::Dates).ok());
        }
    });
    moment.map(|time| time.moment.ms())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_of_arrivals_are_told_from_those_of_other_begins() {
        for path in ["request_started", "trace.received", "queuedAt", "meta.submitted_ms"] {
            assert!(says_arrival(path), "{path}");
        }
        for path in ["session_started", "end", "logged", "user.requested", "response_started"] {
            assert!(!says_arrival(path), "{path}");
        }
        assert_eq!(moment_at(&json!({"a": {"b": "2025-10-09T08:53:20Z"}}), "a.b"), Some(1_760_000_000_000));
        assert_eq!(moment_at(&json!({"a": 5}), "a"), None);
    }
}
