//! How long a page is kept.

use crate::units::EventTime;
use crate::units::text::TextError;
use crate::units::window::{format_duration_ms, parse_duration_ms};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// A time to live, written `5m` or `1h`; a page that old to the millisecond is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(NonZeroU64);

impl Ttl {
    /// The milliseconds.
    pub fn ms(self) -> u64 {
        self.0.get()
    }

    /// The last moment of what was touched then; none where time has no such moment.
    pub(super) fn end_of(self, touched: EventTime) -> Option<EventTime> {
        touched.0.checked_add_unsigned(self.ms()).map(EventTime)
    }
}

impl FromStr for Ttl {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let ms = parse_duration_ms(text.trim()).and_then(NonZeroU64::new);
        ms.map(Self).ok_or_else(|| {
            TextError(format!(
                "`{text:.40}` is no time to live: expected a whole number and ms, s, m, h or d, such as 5m, at most 366d"
            ))
        })
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format_duration_ms(self.ms()))
    }
}

impl Serialize for Ttl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ttl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
