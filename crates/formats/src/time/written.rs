//! What a value of a time says before anybody knows its unit: a number, or a date and time in one of the ways that
//! programs have of writing it.

use super::{Moment, NumberUnit, Numbers, Time, TimeBase, TimeFault, TimeForm, TimeNumber, time_of_number};
use crate::any_value::{Any, Scalar, TakeValue, wrong_kind};
use jiff::SignedDuration;
use jiff::civil::DateTime;
use jiff::fmt::temporal::{Pieces, PiecesOffset};
use jiff::fmt::{rfc2822, strtime};
use jiff::tz::Offset;
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess};
use std::borrow::Cow;
use std::time::Duration;

/// A time, or a length of time, as it is written.
#[derive(Debug, Clone, PartialEq)]
pub enum WrittenTime<'t> {
    Number(TimeNumber),
    /// Below zero.
    Negative,
    Text(Cow<'t, str>),
}

impl<'t> WrittenTime<'t> {
    /// What a text holds: a number, or a text by itself.
    pub fn of_text(text: impl Into<Cow<'t, str>>) -> Self {
        let text = text.into();
        let trimmed = text.trim();
        let number =
            trimmed.parse().map(TimeNumber::Whole).or_else(|_| trimmed.parse().map(TimeNumber::Fraction));
        match number {
            Ok(TimeNumber::Fraction(value)) if value.is_nan() => Self::Text(text),
            Ok(TimeNumber::Fraction(value)) if value.is_sign_negative() => Self::Negative,
            Ok(number) => Self::Number(number),
            Err(_) => Self::Text(text),
        }
    }

    /// Whether it says anything: gateways write a dash, or nothing, for what is not there.
    pub fn says_something(&self) -> bool {
        !matches!(self, Self::Text(text) if matches!(text.trim(), "" | "-"))
    }

    /// The time that this is.
    ///
    /// # Errors
    /// Why it is none.
    pub fn time(&self, numbers: Numbers) -> Result<Time, TimeFault> {
        match self {
            Self::Negative => Err(TimeFault::Negative),
            Self::Number(number) => time_of_number(*number, numbers),
            Self::Text(text) => time_of_text(text),
        }
    }

    /// The length of time that this is; numbers are in `unit`, texts name theirs (`8s`, `1m 30s`, `PT8S`, `00:00:08`).
    pub fn length(&self, unit: NumberUnit) -> Option<Duration> {
        match self {
            Self::Negative => None,
            Self::Number(number) => {
                number.nanoseconds(unit).and_then(|ns| u64::try_from(ns).ok()).map(Duration::from_nanos)
            }
            Self::Text(text) => {
                let length: SignedDuration = text.trim().parse().ok()?;
                Duration::try_from(length).ok()
            }
        }
    }
}

/// A date and time, with or without a zone.
fn time_of_text(text: &str) -> Result<Time, TimeFault> {
    // Go prints its monotonic clock behind a time, and a browser a minus of its own.
    let text = text.split(" m=").next().unwrap_or(text).trim();
    let text =
        &*if text.is_ascii() { Cow::Borrowed(text) } else { Cow::Owned(text.replace('\u{2212}', "-")) };
    if let Some(dated) = rfc3339(text).or_else(|| other_date(text)) {
        let (date, offset) = dated?;
        let form = if offset.is_some() { TimeForm::Date } else { TimeForm::DateWithoutZone };
        let moment = offset.unwrap_or(Offset::UTC).to_timestamp(date).map_err(|_| TimeFault::NoTime)?;
        let nanoseconds = i64::try_from(moment.as_nanosecond()).map_err(|_| TimeFault::NoTime)?;
        return match nanoseconds {
            ..0 => Err(TimeFault::Negative),
            nanoseconds => Ok(Time { moment: Moment(nanoseconds), clock: TimeBase::Epoch, form }),
        };
    }
    // A date and time alone, and something behind it.
    let begins_with_one = text.get(..DATE_AND_TIME).is_some_and(|begin| rfc3339(begin).is_some());
    Err(if begins_with_one { TimeFault::NoZone } else { TimeFault::NoTime })
}

/// Characters of `2025-11-20T12:00:00`.
const DATE_AND_TIME: usize = 19;

/// No offset is as long as a day.
const DAY_SECONDS: u32 = 24 * 60 * 60;

/// Digits of a fraction that are nanoseconds.
const FRACTION_DIGITS: usize = 9;

/// The same without the digits of a fraction that are finer than nanoseconds.
fn to_nanoseconds(text: Cow<'_, str>) -> Cow<'_, str> {
    let Some(start) = text.rfind(['.', ',']).map(|point| point + 1) else { return text };
    let digits = text[start..].bytes().take_while(u8::is_ascii_digit).count();
    match digits > FRACTION_DIGITS {
        true => Cow::Owned(format!("{}{}", &text[..start + FRACTION_DIGITS], &text[start + digits..])),
        false => text,
    }
}

type Dated = (DateTime, Option<Offset>);

/// RFC 3339, with a space for the `T`, slashes for dashes, a comma for the point, a space before the offset, `UTC` or
/// `GMT` for it, or none at all, as programs write it.
fn rfc3339(text: &str) -> Option<Result<Dated, TimeFault>> {
    let (text, is_utc) = match text.strip_suffix("UTC").or_else(|| text.strip_suffix("GMT")) {
        Some(text) => (text.trim_end(), true),
        None => (text, false),
    };
    let mut text = Cow::Borrowed(text);
    if text.as_bytes().get(4) == Some(&b'/') {
        text = Cow::Owned(text.replacen('/', "-", 2));
    }
    if let Some(offset) = text.rfind([' ']).filter(|at| text[at + 1..].starts_with(['+', '-'])) {
        text = Cow::Owned(format!("{}{}", &text[..offset], &text[offset + 1..]));
    }
    let text = to_nanoseconds(text);
    let pieces = Pieces::parse(text.as_bytes()).ok()?;
    let date = pieces.date().to_datetime(pieces.time()?);
    let offset = pieces.offset().map(|offset| match offset {
        PiecesOffset::Numeric(offset) => offset.offset(),
        _ => Offset::UTC,
    });
    if offset.is_some_and(|offset| offset.seconds().unsigned_abs() >= DAY_SECONDS) {
        return Some(Err(TimeFault::NoZone));
    }
    // The zones of the world and their summer times are not known here.
    if offset.is_none() && !is_utc && pieces.time_zone_annotation().is_some() {
        return Some(Err(TimeFault::NoZone));
    }
    Some(Ok((date, offset.or(is_utc.then_some(Offset::UTC)))))
}

/// Dates in other orders, as programs print them; those with `%z` have a zone.
const OTHER_DATES: [&str; 5] = [
    // An access log.
    "%d/%b/%Y:%H:%M:%S %z",
    // C's ctime, and the date command in UTC.
    "%a %b %e %H:%M:%S %Y",
    "%a %b %e %H:%M:%S UTC %Y",
    // JavaScript.
    "%a %b %e %Y %H:%M:%S GMT%z",
    "%e %b %Y %H:%M:%S",
];

/// RFC 2822, as mail and HTTP have it, or a date in another order.
fn other_date(text: &str) -> Option<Result<Dated, TimeFault>> {
    let zoned = rfc2822::parse(text).ok().map(|zoned| (zoned.datetime(), Some(zoned.offset())));
    // A browser names its zone once more behind the offset.
    let text = text.split(" (").next().unwrap_or(text).trim_matches(['[', ']']);
    let other = || {
        OTHER_DATES.into_iter().find_map(|format| {
            let parsed = strtime::parse(format, text).ok()?;
            let utc = format.contains("UTC").then_some(Offset::UTC);
            Some((parsed.to_datetime().ok()?, parsed.offset().or(utc)))
        })
    };
    zoned.or_else(other).map(Ok)
}

impl<'de> Deserialize<'de> for WrittenTime<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Any(TakeWritten).deserialize(deserializer)
    }
}

struct TakeWritten;

impl<'de> TakeValue<'de> for TakeWritten {
    type Taken = WrittenTime<'de>;

    fn scalar<E: de::Error>(self, scalar: Scalar<'de>) -> Result<WrittenTime<'de>, E> {
        match scalar {
            Scalar::Unsigned(value) => Ok(WrittenTime::Number(TimeNumber::Whole(value))),
            Scalar::Float(value) if value >= 0.0 => Ok(WrittenTime::Number(TimeNumber::Fraction(value))),
            Scalar::Signed(_) | Scalar::Float(_) => Ok(WrittenTime::Negative),
            Scalar::Text(text) => Ok(WrittenTime::of_text(text)),
            Scalar::Null | Scalar::Flag(_) => Err(wrong_kind()),
        }
    }

    fn object<A: MapAccess<'de>>(self, object: A) -> Result<WrittenTime<'de>, A::Error> {
        of_object(object)
    }
}

/// A time that a database or a library made an object of: `{"$date": ...}` and `{"$numberLong": ...}` of MongoDB, and
/// a date of Protobuf, `{"seconds": ..., "nanos": ...}`.
fn of_object<'de, A: MapAccess<'de>>(mut map: A) -> Result<WrittenTime<'de>, A::Error> {
    let (mut written, mut seconds, mut nanoseconds) = (None, None, 0);
    while let Some(name) = map.next_key::<Cow<'_, str>>()? {
        match &*name {
            "$date" | "$numberLong" => written = Some(map.next_value()?),
            "seconds" | "_seconds" => seconds = Some(map.next_value()?),
            "nanos" | "_nanoseconds" => nanoseconds = map.next_value::<u32>()?,
            _ => return Err(de::Error::custom("an object that is no time")),
        }
    }
    // Fewer digits are a length, or count from a start that the object does not name.
    let date = match seconds {
        Some(WrittenTime::Number(TimeNumber::Whole(seconds @ 1_000_000_000..))) => seconds
            .checked_mul(1_000_000_000)
            .and_then(|date| date.checked_add(nanoseconds.into()))
            .map(|date| WrittenTime::Number(TimeNumber::Whole(date))),
        _ => None,
    };
    written.or(date).ok_or_else(|| de::Error::custom("an object that is no time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 1_763_640_000_000;

    fn ms(text: &str) -> Result<i64, TimeFault> {
        WrittenTime::of_text(text).time(Numbers::Dates).map(|time| time.moment.ms())
    }

    #[test]
    fn dates_are_read_as_programs_print_them() {
        for text in [
            "Thu Nov 20 12:00:00 2025",
            "Thu Nov 20 12:00:00 UTC 2025",
            "20 Nov 2025 12:00:00",
            "Thu Nov 20 2025 13:00:00 GMT+0100 (Central European Standard Time)",
            "2025-11-20 12:00:00 +0000 UTC m=+0.123",
            "2025-11-20T12:00:00.000000000999Z",
            "2025-11-20T07:00:00\u{2212}05:00",
            "20/Nov/2025:13:00:00 +0100",
        ] {
            assert_eq!(ms(text), Ok(NOON), "{text}");
        }
        assert_eq!(ms("Sat Nov  1 12:00:00 2025"), Ok(1_761_998_400_000));
        for text in ["11/20/2025 12:00:00", "25-11-20 12:00:00", "Nov 20 12:00:00", "2025-11-20"] {
            assert_eq!(ms(text), Err(TimeFault::NoTime), "{text}");
        }
    }

    #[test]
    fn an_offset_of_a_day_or_more_is_none() {
        for text in ["2025-11-20T12:00:00+24:00", "2025-11-20T12:00:00-25:30"] {
            assert_eq!(ms(text), Err(TimeFault::NoZone), "{text}");
        }
        assert_eq!(ms("2025-11-21T02:00:00+14:00"), Ok(NOON));
    }

    #[test]
    fn times_of_databases_are_objects() {
        let ms = |json: &str| {
            let written: WrittenTime<'_> = serde_json::from_str(json).map_err(|_| ())?;
            written
                .time(Numbers::DatesOr(NumberUnit::Milliseconds))
                .map(|time| time.moment.ms())
                .map_err(|_| ())
        };
        for json in [
            r#"{"$date": "2025-11-20T12:00:00Z"}"#,
            r#"{"$date": {"$numberLong": "1763640000000"}}"#,
            r#"{"$date": 1763640000000}"#,
            r#"{"seconds": 1763640000, "nanos": 0}"#,
            r#"{"seconds": "1763640000"}"#,
            r#"{"_seconds": 1763640000, "_nanoseconds": 400000}"#,
        ] {
            assert_eq!(ms(json), Ok(NOON), "{json}");
        }
        for json in [r#"{"seconds": 5, "nanos": 1}"#, r#"{"year": 2025}"#, "{}", r#"{"nanos": 1}"#] {
            assert_eq!(ms(json), Err(()), "{json}");
        }
    }
}
