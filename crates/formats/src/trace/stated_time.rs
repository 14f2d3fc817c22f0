//! The names that rows have for when a request came, and for when it was answered.

use super::json::{Trouble, read_time};
use crate::time::{Numbers, Time, Unit};
use serde::de::MapAccess;
use std::time::Duration;

/// How many names there are of when a request came.
const COUNT: usize = 20;

/// Names of when a request came, those that say most first, with the unit that their name or their writer has for numbers
/// that are no dates; none: that of the format.
const ARRIVALS: [(&str, Option<Numbers>); COUNT] = [
    ("arrival_time_ns", Some(Numbers::In(Unit::Nanoseconds))),
    ("arrival_time_us", Some(Numbers::In(Unit::Microseconds))),
    ("arrival_time_ms", Some(Numbers::DatesOr(Unit::Milliseconds))),
    ("arrival_time", Some(Numbers::DatesOr(Unit::Seconds))),
    ("arrival_timestamp", None),
    ("arrived_at", None),
    ("start_time", None),
    ("startTime", None),
    ("started_at", None),
    ("request_created_at", None),
    ("timestamp", None),
    ("event_time", None),
    ("timestamp_ms", Some(Numbers::DatesOr(Unit::Milliseconds))),
    ("created_time", None),
    ("created_at", None),
    ("created", Some(Numbers::DatesOr(Unit::Seconds))),
    ("ts", None),
    ("time", None),
    ("logging_time", None),
    ("@timestamp", None),
];

/// The names of [`ARRIVALS`], for logs whose records have the times of plain rows.
pub(crate) const ARRIVAL_NAMES: [&str; COUNT] = {
    let mut names = [""; COUNT];
    let mut place = 0;
    while place < COUNT {
        names[place] = ARRIVALS[place].0;
        place += 1;
    }
    names
};

/// What numbers are that this field has, where its name or its writer says it.
pub(crate) fn stated_numbers(name: &str) -> Option<Numbers> {
    ARRIVALS.iter().find(|(known, _)| *known == name)?.1
}

/// Names of when a request was answered.
pub(crate) const ENDS: [&str; 5] = ["end_time", "endTime", "ended_at", "finished_at", "completed_at"];

/// What a row states of when its request came.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct StatedTime {
    /// The rank of the name, and the time.
    arrival: Option<(usize, Time)>,
    end: Option<Time>,
}

impl StatedTime {
    /// The names of times.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ARRIVALS.into_iter().map(|(name, _)| name).chain(ENDS)
    }

    /// The one of these names that is `key`.
    pub fn name(key: &str) -> Option<&'static str> {
        Self::names().find(|name| *name == key)
    }

    /// Reads the field that `trouble` names, which is one of a time; `numbers` is how the format means them.
    pub fn read<'de, A: MapAccess<'de>>(
        &mut self,
        map: &mut A,
        numbers: Numbers,
        trouble: &mut Trouble,
    ) -> Result<(), A::Error> {
        let rank = ARRIVALS.iter().position(|(name, _)| *name == trouble.field);
        let stated = stated_numbers(trouble.field);
        // What the user says of numbers holds for all.
        let numbers = stated.filter(|_| !matches!(numbers, Numbers::Told(_))).unwrap_or(numbers);
        let Some(time) = read_time(map, numbers, trouble)? else { return Ok(()) };
        match rank {
            None => self.end = Some(time),
            Some(rank) if self.arrival.is_none_or(|(known, _)| rank <= known) => {
                self.arrival = Some((rank, time))
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// When the request came: as stated, or its end less its duration.
    pub fn arrival(&self, duration: Option<Duration>) -> Option<Time> {
        let ended = || Some(self.end?.before(duration.unwrap_or_default()));
        self.arrival.map(|(_, time)| time).or_else(ended)
    }

    /// How long it took, where both ends are stated on one clock.
    pub fn duration(&self) -> Option<Duration> {
        let ((_, arrival), end) = (self.arrival?, self.end?);
        (arrival.clock == end.clock && arrival.moment <= end.moment).then(|| end.moment.since(arrival.moment))
    }
}
