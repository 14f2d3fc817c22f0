//! The names that rows and records have for when a request came, when it was answered and how long that took: the one
//! place that says which field is which.
//!
//! A name may end in the unit of its numbers ([`UNITS`]): `timestamp_ns`, `start_time_ms`, `latency_ms`. A length of
//! time that names no unit counts where its value does (`1.5s`), or where those who write it under that name have
//! one.

use super::json::{ParseTrouble, read_time};
use super::members::members;
use crate::spelling::Spellings;
use crate::time::{NumberUnit, Numbers, Time, TimeFault, TimeNumber, WrittenTime};
use hashbrown::HashMap;
use kvset_core::units::names::listed;
use serde::de::{Error, MapAccess};
use serde_json::value::RawValue;
use std::sync::LazyLock;
use std::time::Duration;

/// What a field says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeRole {
    /// When the request came; of several those that say most go first.
    Arrival(usize),
    /// When it was answered.
    End,
    /// How long that took; of several the first of [`LENGTHS`] holds.
    Length(usize),
}

/// Names of when a request came, those that say most first, with what their numbers are where their writers have a
/// unit.
const ARRIVALS: [(&str, Option<Numbers>); 36] = [
    ("arrival_time", Some(Numbers::DatesOr(NumberUnit::Seconds))),
    ("arrival_timestamp", None),
    ("arrived_at", None),
    ("arrival", None),
    ("request_received_at", None),
    ("received_at", None),
    ("request_start_time", None),
    ("request_start", None),
    ("request_started_at", None),
    ("start_time", None),
    ("started_at", None),
    ("start", None),
    ("start_timestamp", None),
    ("start_ts", None),
    ("request_created_at", None),
    ("request_timestamp", None),
    ("requested_at", None),
    ("request_time", None),
    ("inference_time", None),
    ("submitted_at", None),
    ("submit_time", None),
    ("timestamp", None),
    ("event_time", None),
    ("event_timestamp", None),
    ("created_time", None),
    ("created_at", None),
    ("creation_time", None),
    ("creation_timestamp", None),
    ("create_time", None),
    ("created", Some(Numbers::DatesOr(NumberUnit::Seconds))),
    ("ts", None),
    ("time", None),
    ("datetime", None),
    ("time_generated", None),
    ("logging_time", None),
    ("@timestamp", None),
];

/// Those of them that others write for something else, too (nginx's `request_time` is a length): what is no date
/// under one of these is no time.
const OFTEN_OTHERS: [&str; 6] =
    ["arrival", "start", "end", "request_start", "request_time", "inference_time"];

/// Names of when a request was answered.
const ENDS: [&str; 13] = listed(
    "end_time end ended_at end_timestamp end_ts request_end_time request_end finished_at finish_time \
        completed_at completed_time response_sent_at response_timestamp",
);

/// Names of how long a request took, those that say most first, with the unit of those who write it.
const LENGTHS: [(&str, Option<NumberUnit>); 14] = [
    ("e2e_latency", Some(NumberUnit::Seconds)),
    ("request_duration", None),
    ("request_latency", None),
    ("total_latency", None),
    ("total_duration", None),
    ("total_time", None),
    ("duration", None),
    ("latency", None),
    ("elapsed", None),
    ("elapsed_time", None),
    ("execution_time", None),
    ("processing_time", None),
    ("response_time", None),
    ("took", None),
];

/// The usual name of how long a request took, in milliseconds: it is read with what else a row says of its answer.
pub(crate) const DURATION: &str = "duration_ms";

/// Ends of names that say the unit of their numbers.
const UNITS: [(&str, NumberUnit); 16] = [
    ("_unix_nano", NumberUnit::Nanoseconds),
    ("_nanoseconds", NumberUnit::Nanoseconds),
    ("_nanos", NumberUnit::Nanoseconds),
    ("_ns", NumberUnit::Nanoseconds),
    ("_microseconds", NumberUnit::Microseconds),
    ("_micros", NumberUnit::Microseconds),
    ("_us", NumberUnit::Microseconds),
    ("_milliseconds", NumberUnit::Milliseconds),
    ("_millis", NumberUnit::Milliseconds),
    ("_epoch_ms", NumberUnit::Milliseconds),
    ("_unix_ms", NumberUnit::Milliseconds),
    ("_ms", NumberUnit::Milliseconds),
    ("_seconds", NumberUnit::Seconds),
    ("_secs", NumberUnit::Seconds),
    ("_sec", NumberUnit::Seconds),
    ("_s", NumberUnit::Seconds),
];

/// A known name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeName {
    /// The name, as messages have it.
    pub name: &'static str,
    role: TimeRole,
    /// What its numbers are, where the name or those who write it say so.
    numbers: Option<Numbers>,
    /// The unit of a length.
    unit: Option<NumberUnit>,
    is_often_other: bool,
}

/// Names without a unit.
fn without_unit() -> impl Iterator<Item = TimeName> {
    let of = |name, role, numbers, unit| TimeName {
        name,
        role,
        numbers,
        unit,
        is_often_other: OFTEN_OTHERS.contains(&name),
    };
    let arrivals = ARRIVALS.into_iter().enumerate();
    let arrivals =
        arrivals.map(move |(rank, (name, numbers))| of(name, TimeRole::Arrival(rank), numbers, None));
    let ends = ENDS.into_iter().map(move |name| of(name, TimeRole::End, None, None));
    let lengths = LENGTHS.into_iter().enumerate();
    let lengths = lengths.map(move |(rank, (name, unit))| of(name, TimeRole::Length(rank), None, unit));
    arrivals.chain(ends).chain(lengths)
}

/// The same name with a unit behind it.
fn with_unit(known: TimeName, unit: NumberUnit) -> TimeName {
    // A clock in milliseconds may be a log's or a trace's own; finer ones are dates, or a simulator's.
    let numbers = match unit {
        NumberUnit::Seconds | NumberUnit::Milliseconds => Numbers::DatesOr(unit),
        NumberUnit::Microseconds | NumberUnit::Nanoseconds => Numbers::In(unit),
    };
    // `start_ms` is a time; `request_time_ms` may still be a length.
    let is_often_other = known.is_often_other && known.name.ends_with("_time");
    TimeName { numbers: Some(numbers), unit: Some(unit), is_often_other, ..known }
}

/// Every known name.
static NAMES: LazyLock<HashMap<String, TimeName, foldhash::fast::FixedState>> = LazyLock::new(|| {
    let with_units = without_unit().flat_map(|known| {
        UNITS.into_iter().map(move |(end, unit)| (format!("{}{end}", known.name), with_unit(known, unit)))
    });
    let plain = without_unit().map(|known| (known.name.to_owned(), known));
    // Whoever reads an answer reads the usual name of its duration.
    with_units.chain(plain).filter(|(name, _)| name != DURATION).collect()
});

static SPELLINGS: LazyLock<Spellings> = LazyLock::new(|| Spellings::of(NAMES.keys().map(String::as_str)));

/// What a row states of when its request came.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct StatedTime {
    /// The rank of the name, and the time.
    arrival: Option<(usize, Time)>,
    end: Option<Time>,
    /// The rank of the name, and the length.
    length: Option<(usize, Duration)>,
}

impl StatedTime {
    /// Every known name.
    pub fn names() -> impl Iterator<Item = TimeName> {
        NAMES.iter().map(|(name, known)| TimeName { name: name.as_str(), ..*known })
    }

    /// What the field of this name says of it, in any spelling.
    pub fn name(key: &str) -> Option<TimeName> {
        NAMES
            .get_key_value(SPELLINGS.standard(key))
            .map(|(name, known)| TimeName { name: name.as_str(), ..*known })
    }

    /// Reads the field of this name; `numbers` is how the format means numbers that no name gives a unit.
    pub fn read<'de, A: MapAccess<'de>>(
        &mut self,
        known: TimeName,
        map: &mut A,
        numbers: Numbers,
        trouble: &mut ParseTrouble,
    ) -> Result<(), A::Error> {
        trouble.field = known.name;
        if let (TimeRole::Length(rank), Some(unit)) = (known.role, known.unit) {
            let value: &RawValue = map.next_value()?;
            // Percentiles of a length, and flags, are none.
            if value.get().starts_with(['{', '[', 't', 'f', 'n']) {
                return Ok(());
            }
            let length = serde_json::from_str(value.get())
                .ok()
                .and_then(|written: WrittenTime<'_>| written.length(unit));
            self.set_length(rank, length.ok_or_else(|| A::Error::custom("no length of time"))?);
            return Ok(());
        }
        if known.is_often_other || matches!(known.role, TimeRole::Length(_)) {
            let value: &RawValue = map.next_value()?;
            // What is neither date nor length is something else of that name.
            if let Ok(written) = serde_json::from_str::<WrittenTime<'_>>(value.get()) {
                self.take(known, &written, numbers).unwrap_or_default();
            }
            return Ok(());
        }
        if let Some(time) = read_time(map, known.meant(numbers), trouble)? {
            self.set(known, time);
        }
        Ok(())
    }

    /// Takes the value of the field of this name.
    ///
    /// # Errors
    /// It is no time.
    pub fn take(
        &mut self,
        known: TimeName,
        written: &WrittenTime<'_>,
        numbers: Numbers,
    ) -> Result<(), TimeFault> {
        if let TimeRole::Length(rank) = known.role {
            let length = match (written, known.unit) {
                (WrittenTime::Number(_), None) => None,
                (written, unit) => written.length(unit.unwrap_or(NumberUnit::Seconds)),
            };
            length.into_iter().for_each(|length| self.set_length(rank, length));
            return Ok(());
        }
        let numbers = if known.is_often_other { Numbers::Dates } else { known.meant(numbers) };
        match written.time(numbers) {
            Ok(time) => self.set(known, time),
            Err(_) if known.is_often_other => {}
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    fn set_length(&mut self, rank: usize, length: Duration) {
        if self.length.is_none_or(|(best, _)| rank <= best) {
            self.length = Some((rank, length));
        }
    }

    fn set(&mut self, known: TimeName, time: Time) {
        match known.role {
            TimeRole::Arrival(rank) if self.arrival.is_none_or(|(best, _)| rank <= best) => {
                self.arrival = Some((rank, time));
            }
            TimeRole::End => self.end = Some(time),
            TimeRole::Arrival(_) | TimeRole::Length(_) => {}
        }
    }

    /// What the members of a JSON object say, by whatever names they have for it.
    ///
    /// # Errors
    /// None says when, and one is no time: which, and why.
    pub fn of_object(json: &str) -> Result<Self, (&'static str, TimeFault)> {
        Self::of_object_in(json, unit_of)
    }

    /// The same with numbers that count from a start in this unit.
    ///
    /// # Errors
    /// As above.
    pub fn of_object_in(
        json: &str,
        unit_of: impl Fn(&WrittenTime<'_>) -> NumberUnit,
    ) -> Result<Self, (&'static str, TimeFault)> {
        let (mut stated, mut refused) = (Self::default(), None);
        for (name, value) in members(json).unwrap_or_default() {
            let Some(known) = Self::name(&name) else { continue };
            let written = serde_json::from_str::<Option<WrittenTime<'_>>>(value.get());
            let read = match written {
                Ok(Some(written)) if written.says_something() => {
                    stated.take(known, &written, Numbers::DatesOr(unit_of(&written)))
                }
                Ok(_) => Ok(()),
                Err(_) => Err(TimeFault::NoTime),
            };
            refused = refused.or(read.err().map(|fault| (known.name, fault)));
        }
        match refused {
            Some(refused) if stated.arrival.is_none() && stated.end.is_none() => Err(refused),
            _ => Ok(stated),
        }
    }

    /// The same, and of another what this one does not say.
    pub fn or(self, other: Self) -> Self {
        if self.arrival.is_some() || self.end.is_some() {
            return Self { length: self.length.or(other.length), ..self };
        }
        Self { length: self.length.or(other.length), ..other }
    }

    /// When the request came, as stated.
    pub fn start(&self) -> Option<Time> {
        self.arrival.map(|(_, time)| time)
    }

    /// When it was answered.
    pub fn end(&self) -> Option<Time> {
        self.end
    }

    /// How long that took, as stated.
    pub fn length(&self) -> Option<Duration> {
        self.length.map(|(_, length)| length)
    }

    /// When the request came: as stated, or its end less its duration.
    pub fn arrival(&self, duration: Option<Duration>) -> Option<Time> {
        let length = duration.or(self.length.map(|(_, length)| length));
        let ended = || Some(self.end?.before(length.unwrap_or_default()));
        self.arrival.map(|(_, time)| time).or_else(ended)
    }

    /// How long it took: as stated, or from one end to the other where both are stated on one clock.
    pub fn duration(&self) -> Option<Duration> {
        if let Some((_, length)) = self.length {
            return Some(length);
        }
        let ((_, arrival), end) = (self.arrival?, self.end?);
        (arrival.clock == end.clock && arrival.moment <= end.moment).then(|| end.moment.since(arrival.moment))
    }

    /// Whether the row says that the request was answered before it came.
    pub fn is_backward(&self) -> bool {
        let ends = self.arrival.map(|(_, time)| time).zip(self.end);
        ends.is_some_and(|(arrival, end)| arrival.clock == end.clock && end.moment < arrival.moment)
    }

    /// Whether all that is stated is when the request was answered.
    pub fn is_end_alone(&self, duration: Option<Duration>) -> bool {
        self.arrival.is_none() && self.end.is_some() && duration.or(self.duration()).is_none()
    }
}

/// The unit of a number that counts from a start of its own: clocks of programs that print fractions are in seconds.
fn unit_of(written: &WrittenTime<'_>) -> NumberUnit {
    match written {
        WrittenTime::Number(TimeNumber::Fraction(_)) => NumberUnit::Seconds,
        _ => NumberUnit::Milliseconds,
    }
}

impl TimeName {
    /// Whether the field says how long the request took.
    pub fn is_length(self) -> bool {
        matches!(self.role, TimeRole::Length(_))
    }

    /// What the field's numbers are.
    fn meant(self, numbers: Numbers) -> Numbers {
        // What the user says of numbers holds for all.
        self.numbers.filter(|_| !matches!(numbers, Numbers::Told(_))).unwrap_or(numbers)
    }
}
