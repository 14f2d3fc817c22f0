//! The date of a request, for templates that ask for the date of today.

use jiff::fmt::strtime;
use jiff::{Timestamp, tz::TimeZone};
use kvset_core::units::EventTime;

/// Directives that are formatted as Python formats them, with a flag or without.
const DIRECTIVES: &str = "aAbBdeHIjmMpSyYFT";
/// Flags of the C library that Python passes on: no padding, spaces, zeros.
const FLAGS: &str = "-_0";

/// Formats a moment in UTC as Python's `strftime` does in the C locale. `None` for a directive that is not known or
/// that Python formats otherwise, and for a moment outside of the calendar.
pub(super) fn strftime(format: &str, time: EventTime) -> Option<String> {
    let moment = Timestamp::from_millisecond(time.0).ok()?.to_zoned(TimeZone::UTC);
    is_as_in_python(format).then(|| strtime::format(format, &moment).ok())?
}

/// Whether Python formats every directive alike.
fn is_as_in_python(format: &str) -> bool {
    let mut characters = format.chars();
    while characters.any(|character| character == '%') {
        let Some(first) = characters.next() else { return false };
        let directive = if FLAGS.contains(first) { characters.next() } else { Some(first) };
        let known = directive.is_some_and(|directive| DIRECTIVES.contains(directive));
        if !known && first != '%' {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python's `datetime.fromtimestamp(s, UTC).strftime` gives.
    #[test]
    fn moments_are_formatted_as_python_formats_them() {
        let all = "%a %A %b %B %d %-d %e %H %I %m %-m %M %p %S %y %Y %F %T %%";
        for (seconds, text) in [
            (0, "Thu Thursday Jan January 01 1  1 00 12 01 1 00 AM 00 70 1970 1970-01-01 00:00:00 %"),
            (
                951_827_696,
                "Tue Tuesday Feb February 29 29 29 12 12 02 2 34 PM 56 00 2000 2000-02-29 12:34:56 %",
            ),
            (
                1_798_761_599,
                "Thu Thursday Dec December 31 31 31 23 11 12 12 59 PM 59 26 2026 2026-12-31 23:59:59 %",
            ),
            (-1, "Wed Wednesday Dec December 31 31 31 23 11 12 12 59 PM 59 69 1969 1969-12-31 23:59:59 %"),
        ] {
            assert_eq!(strftime(all, EventTime(seconds * 1000)).as_deref(), Some(text));
        }
        for format in ["%", "%Q", "%-", "%f", "%Z", "%s"] {
            assert_eq!(strftime(format, EventTime(0)), None, "{format}");
        }
    }
}
