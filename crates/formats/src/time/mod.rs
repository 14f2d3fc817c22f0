//! Times and lengths of time as logs write them: the one place that says which moment a value is.
//!
//! | written | read as |
//! |---|---|
//! | a number with 10 digits before its point | seconds since the Unix epoch |
//! | one with 13, 16 or 19 | milliseconds, microseconds or nanoseconds since the epoch |
//! | one with fewer than 10 | time since the trace's own start, in the unit of its format |
//! | any other number | no time of a log: it would be in 1970 or thousands of years ahead |
//! | a date and time as RFC 3339, RFC 2822 or an access log writes it | that moment, whatever its offset |
//! | a date and time without a zone | UTC, and [`Time::form`] says so |
//!
//! Ten digits of seconds last from September 2001 to November 2286, so no date of a log is one in two units. A field
//! or a user may state the unit ([`Numbers`]).

mod written;

pub use written::WrittenTime;

use jiff::{SignedDuration, Timestamp};
use std::fmt;
use std::time::Duration;

/// A moment in nanoseconds: since the Unix epoch, or since a trace's own start ([`TimeBase`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(i64);

/// Nanoseconds a millisecond.
const MS: i64 = 1_000_000;
impl Moment {
    /// The first moment that is a date of a log: in September 2001.
    pub const FIRST_DATE: Self = Self(1_000_000_000_000_000_000);

    /// A moment by its milliseconds; the nearest there is where that is out of range.
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms.saturating_mul(MS))
    }

    /// Milliseconds, halves rounded up.
    pub const fn ms(self) -> i64 {
        self.0.saturating_add(MS / 2).div_euclid(MS)
    }

    /// Seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Whether it is between two milliseconds.
    pub const fn has_fraction(self) -> bool {
        self.0 % MS != 0
    }

    /// The moment so much later.
    pub fn after(self, length: Duration) -> Self {
        Self(self.0.saturating_add(nanoseconds(length)))
    }

    /// The moment so much earlier.
    pub fn before(self, length: Duration) -> Self {
        Self(self.0.saturating_sub(nanoseconds(length)))
    }

    /// How much later this moment is than another; nothing where it is not.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// The moment moved by as much as `to` is from `from`.
    pub fn moved(self, from: Self, to: Self) -> Self {
        Self(self.0.saturating_add(to.0.saturating_sub(from.0)))
    }

    /// Date and time in UTC, to the second: `2025-11-20T12:00:00Z`. For moments since the epoch.
    pub fn date(self) -> String {
        date_of_ms(self.0.div_euclid(MS))
    }
}

fn nanoseconds(length: Duration) -> i64 {
    i64::try_from(length.as_nanos()).unwrap_or(i64::MAX)
}

/// Date and time in UTC, to the second, of milliseconds since the epoch: `2025-11-20T12:00:00Z`. The nearest moment of
/// the calendar, which ends with the year 9999.
pub fn date_of_ms(ms: i64) -> String {
    let (first, last) = (Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    let second = ms.div_euclid(1000).clamp(first, last);
    Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH).to_string()
}

/// Milliseconds of a length of time, halves rounded up.
pub fn ms_of(length: Duration) -> u64 {
    let ms = length.as_nanos().saturating_add(MS as u128 / 2) / MS as u128;
    u64::try_from(ms).unwrap_or(u64::MAX)
}

/// A length of time in words: `1h 30m`, `250ms`.
pub fn words(length: Duration) -> String {
    format!("{:#}", SignedDuration::try_from(length).unwrap_or(SignedDuration::MAX))
}

/// What a moment counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimeBase {
    /// The Unix epoch: moments of any two logs compare.
    Epoch,
    /// The trace's own start: moments of two files do not.
    Start,
}

/// A unit that numbers are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NumberUnit {
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

impl NumberUnit {
    /// Every unit with the name that users write.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("s", Self::Seconds),
        ("ms", Self::Milliseconds),
        ("us", Self::Microseconds),
        ("ns", Self::Nanoseconds),
    ];

    const fn nanoseconds(self) -> i64 {
        match self {
            Self::Seconds => 1_000_000_000,
            Self::Milliseconds => MS,
            Self::Microseconds => 1_000,
            Self::Nanoseconds => 1,
        }
    }

    /// The unit in which a number is a date of a log.
    fn of_date(number: TimeNumber) -> Option<Self> {
        Self::NAMES.into_iter().map(|(_, unit)| unit).find(|unit| number.is_date_in(*unit))
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
            Self::Nanoseconds => "nanoseconds",
        }
    }
}

impl fmt::Display for NumberUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How the numbers of a field of times are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// Dates in whatever unit makes them dates; smaller numbers count from the trace's start, in this unit.
    DatesOr(NumberUnit),
    /// Dates in whatever unit makes them dates: no log of a service counts from a start of its own.
    Dates,
    /// In this unit, as the field's name says.
    In(NumberUnit),
    /// In this unit, as the user says; a number that is a date in another unit alone contradicts that.
    Told(NumberUnit),
}

/// A time as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time {
    /// The moment.
    pub moment: Moment,
    /// What it counts from.
    pub clock: TimeBase,
    /// How it was written.
    pub form: TimeForm,
}

/// How a time is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimeForm {
    /// A number in this unit.
    Number(NumberUnit),
    /// A date and time with its zone.
    Date,
    /// A date and time without one, taken as UTC.
    DateWithoutZone,
}

impl fmt::Display for TimeForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(unit) => write!(f, "numbers in {unit}"),
            Self::Date => f.pad("dates with a zone"),
            Self::DateWithoutZone => f.pad("dates without a zone, read as UTC"),
        }
    }
}

impl Time {
    /// Milliseconds of a field that is documented to hold them: since the epoch where that is a date.
    pub fn of_ms(ms: i64) -> Self {
        let moment = Moment::from_ms(ms);
        let clock = if moment >= Moment::FIRST_DATE { TimeBase::Epoch } else { TimeBase::Start };
        Self { moment, clock, form: TimeForm::Number(NumberUnit::Milliseconds) }
    }

    /// When something began that ended then and took so long.
    #[must_use]
    pub fn before(self, length: Duration) -> Self {
        Self { moment: self.moment.before(length), ..self }
    }
}

/// Why a value is no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TimeFault {
    /// Neither a number nor a date.
    #[error("is neither a number nor a date and time as RFC 3339 writes it")]
    NoTime,
    /// A date and time, and then something that is no offset.
    #[error("has a zone that is no offset such as Z or +08:00 (RFC 3339)")]
    NoZone,
    /// Below zero.
    #[error("is negative")]
    Negative,
    /// Farther than 292 years from where it counts.
    #[error("is out of range: in {0} it is more than 292 years from where it counts")]
    OutOfRange(NumberUnit),
    /// A number that is a date in no unit.
    #[error(
        "is a date of a log in no unit: as seconds, milliseconds, microseconds or nanoseconds since the epoch it is in \
         1970, or thousands of years ahead"
    )]
    NoDate,
    /// A number that is no date in the unit told, but in another.
    #[error("is a date in {fits}, not in {told}, the unit that is set")]
    OtherUnit { told: NumberUnit, fits: NumberUnit },
}

/// A number that is not negative.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TimeNumber {
    Whole(u64),
    Fraction(f64),
}

impl TimeNumber {
    /// Nanoseconds, halves rounded up; `None` where that does not fit 64 bits.
    fn nanoseconds(self, unit: NumberUnit) -> Option<i64> {
        match self {
            Self::Whole(value) => i64::try_from(value).ok()?.checked_mul(unit.nanoseconds()),
            Self::Fraction(value) => {
                let nanoseconds = (value * unit.nanoseconds() as f64).round();
                (nanoseconds < i64::MAX as f64).then_some(nanoseconds as i64)
            }
        }
    }

    fn is_below(self, limit: u32) -> bool {
        match self {
            Self::Whole(value) => value < u64::from(limit),
            Self::Fraction(value) => value < f64::from(limit),
        }
    }

    fn is_date_in(self, unit: NumberUnit) -> bool {
        self.nanoseconds(unit).is_some_and(|nanoseconds| Moment(nanoseconds) >= Moment::FIRST_DATE)
            // Ten digits of seconds, however many of the others.
            && match self {
                Self::Whole(value) => value / (1_000_000_000 / unit.nanoseconds() as u64) < 10_000_000_000,
                Self::Fraction(value) => value * (unit.nanoseconds() as f64) < 1e19,
            }
    }
}

fn time_of_number(number: TimeNumber, numbers: Numbers) -> Result<Time, TimeFault> {
    let dated = NumberUnit::of_date(number);
    let (unit, clock) = match numbers {
        Numbers::In(unit) | Numbers::Told(unit) if number.is_date_in(unit) => (unit, TimeBase::Epoch),
        Numbers::In(unit) => (unit, TimeBase::Start),
        Numbers::Told(told) => match dated {
            Some(fits) => return Err(TimeFault::OtherUnit { told, fits }),
            None => (told, TimeBase::Start),
        },
        Numbers::Dates => (dated.ok_or(TimeFault::NoDate)?, TimeBase::Epoch),
        Numbers::DatesOr(unit) => dated.map_or((unit, TimeBase::Start), |unit| (unit, TimeBase::Epoch)),
    };
    // A larger number could be a date as well, or lies between the dates of two units.
    let counts_from_start = number.is_below(1_000_000_000);
    if matches!(numbers, Numbers::DatesOr(_)) && clock == TimeBase::Start && !counts_from_start {
        return Err(TimeFault::NoDate);
    }
    let nanoseconds = number.nanoseconds(unit).ok_or(TimeFault::OutOfRange(unit))?;
    Ok(Time { moment: Moment(nanoseconds), clock, form: TimeForm::Number(unit) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOON: i64 = 1_763_640_000_000;

    fn time(text: &str, numbers: Numbers) -> Result<(i64, TimeBase), TimeFault> {
        WrittenTime::of_text(text).time(numbers).map(|time| (time.moment.ms(), time.clock))
    }

    #[test]
    fn a_number_is_a_date_in_one_unit_or_counts_from_a_start() {
        const MS: Numbers = Numbers::DatesOr(NumberUnit::Milliseconds);
        for number in
            ["1763640000", "1763640000000", "1763640000000000", "1763640000000000000", "1763640000.0"]
        {
            for numbers in [MS, Numbers::DatesOr(NumberUnit::Seconds), Numbers::Dates] {
                assert_eq!(time(number, numbers), Ok((NOON, TimeBase::Epoch)), "{number}");
            }
        }
        assert_eq!(time("0", MS), Ok((0, TimeBase::Start)));
        assert_eq!(time("999999999", MS), Ok((999_999_999, TimeBase::Start)));
        assert_eq!(time("27.5", Numbers::DatesOr(NumberUnit::Seconds)), Ok((27_500, TimeBase::Start)));
        for number in ["0", "999999999", "11763640000", "176364000000000", "17636400000000000000000"] {
            assert_eq!(time(number, Numbers::Dates), Err(TimeFault::NoDate), "{number}");
        }
        assert_eq!(time("17636400000000", MS), Err(TimeFault::NoDate), "the year 2528");
        assert_eq!(time("11763640000", MS), Err(TimeFault::NoDate), "May of 1970");
        assert_eq!(time("-5", MS).or(time("-0.5", MS)), Err(TimeFault::Negative));
        assert_eq!(time("nan", MS), Err(TimeFault::NoTime));
        assert_eq!(time("inf", MS), Err(TimeFault::NoDate));
        assert_eq!(
            time("1e300", Numbers::In(NumberUnit::Seconds)),
            Err(TimeFault::OutOfRange(NumberUnit::Seconds))
        );
    }

    #[test]
    fn a_stated_unit_holds() {
        let ns = Numbers::In(NumberUnit::Nanoseconds);
        assert_eq!(time("1763640000", ns), Ok((1_764, TimeBase::Start)), "of a simulator");
        assert_eq!(time("1763640000000000000", ns), Ok((NOON, TimeBase::Epoch)));
        let told = |unit| Numbers::Told(unit);
        assert_eq!(time("5", told(NumberUnit::Seconds)), Ok((5_000, TimeBase::Start)));
        assert_eq!(time("1763640000", told(NumberUnit::Seconds)), Ok((NOON, TimeBase::Epoch)));
        let (told_ms, s) = (NumberUnit::Milliseconds, NumberUnit::Seconds);
        assert_eq!(time("1763640000", told(told_ms)), Err(TimeFault::OtherUnit { told: told_ms, fits: s }));
        assert_eq!(time("1763640000000", told(s)), Err(TimeFault::OtherUnit { told: s, fits: told_ms }));
    }

    #[test]
    fn dates_are_read_with_any_offset() {
        for date in [
            "2025-11-20T12:00:00.5Z",
            "2025-11-20t12:00:00.500z",
            "2025-11-20 12:00:00.5+00:00",
            "2025-11-20T20:00:00.5+08:00",
            "2025-11-20T07:00:00.5-05:00",
            "2025-11-20T17:30:00,5+0530",
            "2025-11-20 13:00:00.500000000+01",
            "2025-11-20 12:00:00.5 +0000",
            "2025-11-20 12:00:00.5 +0000 UTC",
            "2025-11-20 12:00:00.5 UTC",
            "2025/11/20 12:00:00.5 GMT",
            "2025-11-20T13:00:00.5+01:00[Europe/Berlin]",
            "1763640000.5",
            "1763640000500",
        ] {
            assert_eq!(time(date, Numbers::Dates), Ok((NOON + 500, TimeBase::Epoch)), "{date}");
        }
        for date in [
            "2025-11-20T12:00:00Z",
            "2025-11-20T20:00:00+08:00",
            "20/Nov/2025:13:00:00 +0100",
            "[20/Nov/2025:13:00:00 +0100]",
            "Thu, 20 Nov 2025 12:00:00 GMT",
            "Thu, 20 Nov 2025 04:00:00 -0800",
        ] {
            assert_eq!(time(date, Numbers::Dates), Ok((NOON, TimeBase::Epoch)), "{date}");
            assert_eq!(
                WrittenTime::of_text(date).time(Numbers::Dates).map(|time| time.form),
                Ok(TimeForm::Date)
            );
        }
    }

    #[test]
    fn a_date_without_a_zone_is_taken_as_utc_and_says_so() {
        for date in [
            "2025-11-20T12:00:00",
            "2025-11-20 12:00:00",
            "2025/11/20 12:00:00",
            "2025-11-20T12:00:00.000000",
        ] {
            let time = WrittenTime::of_text(date).time(Numbers::Dates).expect(date);
            assert_eq!((time.moment.ms(), time.form), (NOON, TimeForm::DateWithoutZone), "{date}");
        }
    }

    #[test]
    fn what_is_no_zone_and_what_is_no_date_is_refused() {
        for date in [
            "2025-11-20T12:00:00.5+zz:zz",
            "2025-11-20T12:00:00+99:00",
            "2025-11-20T12:00:00 PST",
            "2025-11-20T12:00:00[Europe/Berlin]",
            "2025-11-20 12:00:00 Berlin",
        ] {
            assert_eq!(time(date, Numbers::Dates), Err(TimeFault::NoZone), "{date}");
        }
        for text in ["", "soon", "2025-11-20", "2025-13-20T12:00:00Z", "12:00:00", "2025-11-20T25:00:00Z"] {
            assert_eq!(time(text, Numbers::Dates), Err(TimeFault::NoTime), "{text}");
        }
        assert_eq!(time("1969-12-31T23:59:59Z", Numbers::Dates), Err(TimeFault::Negative));
    }

    #[test]
    fn lengths_are_read_in_their_unit_or_their_own() {
        let length =
            |text: &str, unit| WrittenTime::of_text(text).length(unit).map(|length| length.as_micros());
        assert_eq!(length("1.5", NumberUnit::Seconds), Some(1_500_000));
        assert_eq!(length("900", NumberUnit::Milliseconds), Some(900_000));
        for (text, microseconds) in [
            ("8s", 8_000_000),
            ("350ms", 350_000),
            ("1m2.5s", 62_500_000),
            ("980.5µs", 980),
            ("1h 30m", 5_400_000_000),
            ("PT8.5S", 8_500_000),
            ("00:00:08.5", 8_500_000),
        ] {
            assert_eq!(length(text, NumberUnit::Milliseconds), Some(microseconds), "{text}");
        }
        for text in ["-1", "-8s", "", "soon"] {
            assert_eq!(length(text, NumberUnit::Seconds), None, "{text}");
        }
    }

    #[test]
    fn moments_and_lengths_are_shown() {
        assert_eq!(Moment::from_ms(NOON + 999).date(), "2025-11-20T12:00:00Z");
        assert_eq!(date_of_ms(-1), "1969-12-31T23:59:59Z");
        assert_eq!(date_of_ms(i64::MAX), "9999-12-30T22:00:00Z");
        assert_eq!(words(Duration::from_millis(90_250)), "1m 30s 250ms");
    }

    proptest! {
        #[test]
        fn seconds_become_milliseconds_exactly(ms in 0i64..9_000_000_000_000) {
            let text = format!("{}.{:03}", ms / 1000, ms % 1000);
            let read = WrittenTime::of_text(text.as_str()).time(Numbers::In(NumberUnit::Seconds)).map(|time| time.moment.ms());
            prop_assert_eq!(read, Ok(ms), "{}", text);
        }

        #[test]
        fn no_number_is_a_date_in_two_units(number: u64) {
            let units = NumberUnit::NAMES.into_iter().filter(|(_, unit)| TimeNumber::Whole(number).is_date_in(*unit));
            prop_assert!(units.count() <= 1);
        }

        #[test]
        fn any_text_is_a_time_or_none(text: String) {
            let written = WrittenTime::of_text(text.as_str());
            let _ = (written.time(Numbers::Dates), written.length(NumberUnit::Seconds));
        }
    }
}
