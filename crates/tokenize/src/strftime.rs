//! The date of a request, for templates that ask for the date of today.

use kvset_core::units::EventTime;
use std::fmt::Write;

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A moment in UTC, taken apart.
struct Moment {
    year: i64,
    /// 1 to 12.
    month: usize,
    /// 1 to 31.
    day: i64,
    /// 0 is Sunday.
    weekday: usize,
    second_of_day: i64,
}

impl Moment {
    /// Days to a date of the Gregorian calendar (H. Hinnant, "chrono-compatible low-level date
    /// algorithms", `civil_from_days`).
    fn at(time: EventTime) -> Self {
        let seconds = time.0.div_euclid(1000);
        let days = seconds.div_euclid(86_400);
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month: month as usize,
            day: day_of_year - (153 * march_month + 2) / 5 + 1,
            weekday: (days + 4).rem_euclid(7) as usize,
            second_of_day: seconds.rem_euclid(86_400),
        }
    }
}

/// Formats a moment in UTC as Python's `strftime` does in the C locale. `None` for a directive that is
/// not among `%a %A %b %B %d %-d %e %H %I %m %-m %M %p %S %y %Y %F %T %%`.
pub(super) fn strftime(format: &str, time: EventTime) -> Option<String> {
    let moment = Moment::at(time);
    let (hour, minute) = (moment.second_of_day / 3600, moment.second_of_day / 60 % 60);
    let month_name = MONTHS[moment.month - 1];
    let mut text = String::new();
    let mut rest = format.chars();
    while let Some(character) = rest.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        let written = match rest.next()? {
            'a' => write!(text, "{}", &DAYS[moment.weekday][..3]),
            'A' => write!(text, "{}", DAYS[moment.weekday]),
            'b' => write!(text, "{}", &month_name[..3]),
            'B' => write!(text, "{month_name}"),
            'd' => write!(text, "{:02}", moment.day),
            'e' => write!(text, "{:2}", moment.day),
            '-' => match rest.next()? {
                'd' => write!(text, "{}", moment.day),
                'm' => write!(text, "{}", moment.month),
                _ => return None,
            },
            'm' => write!(text, "{:02}", moment.month),
            'y' => write!(text, "{:02}", moment.year.rem_euclid(100)),
            'Y' => write!(text, "{}", moment.year),
            'H' => write!(text, "{hour:02}"),
            'I' => write!(text, "{:02}", (hour + 11) % 12 + 1),
            'p' => write!(text, "{}", if hour < 12 { "AM" } else { "PM" }),
            'M' => write!(text, "{minute:02}"),
            'S' => write!(text, "{:02}", moment.second_of_day % 60),
            'F' => write!(text, "{}-{:02}-{:02}", moment.year, moment.month, moment.day),
            'T' => write!(text, "{hour:02}:{minute:02}:{:02}", moment.second_of_day % 60),
            '%' => write!(text, "%"),
            _ => return None,
        };
        // Writing into a string cannot fail.
        written.ok()?;
    }
    Some(text)
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
        for format in ["%", "%Q", "%-", "%c"] {
            assert_eq!(strftime(format, EventTime(0)), None, "{format}");
        }
    }
}
