//! The date of a request, for templates that ask for the date of today.

use chrono::DateTime;
use chrono::format::{Fixed, Item, Numeric, StrftimeItems};
use kvset_core::units::EventTime;

/// Formats a moment in UTC as Python's `strftime` does in the C locale. `None` for a directive that is not known or
/// that Python formats otherwise, and for a moment outside of the calendar.
pub(super) fn strftime(format: &str, time: EventTime) -> Option<String> {
    let moment = DateTime::from_timestamp_millis(time.0)?;
    let items = StrftimeItems::new(format).parse().ok()?;
    items.iter().all(is_as_in_python).then(|| moment.format_with_items(items.iter()).to_string())
}

/// Whether Python writes the same.
const fn is_as_in_python(item: &Item<'_>) -> bool {
    match item {
        Item::Literal(_) | Item::OwnedLiteral(_) | Item::Space(_) | Item::OwnedSpace(_) => true,
        Item::Numeric(number, _) => matches!(
            number,
            Numeric::Year
                | Numeric::YearMod100
                | Numeric::Month
                | Numeric::Day
                | Numeric::Ordinal
                | Numeric::Hour
                | Numeric::Hour12
                | Numeric::Minute
                | Numeric::Second
        ),
        Item::Fixed(name) => matches!(
            name,
            Fixed::ShortMonthName
                | Fixed::LongMonthName
                | Fixed::ShortWeekdayName
                | Fixed::LongWeekdayName
                | Fixed::UpperAmPm
        ),
        Item::Error => false,
    }
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
