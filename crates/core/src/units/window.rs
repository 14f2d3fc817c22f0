//! Which requests an estimate covers.

use crate::units::text::TextError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A kind of window, written `tumbling:5m`, `hopping:5m/1m`, `last:3000` or `all`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum WindowKind {
    /// Consecutive spans of event time, `size_ms` each, aligned to the epoch.
    Tumbling { size_ms: u64 },
    /// Spans of `size_ms` that begin every `advance_ms`; the size is a multiple of the advance.
    Hopping { size_ms: u64, advance_ms: u64 },
    /// The last `requests` requests, in offset order.
    Last { requests: u32 },
    /// Everything since the start.
    #[default]
    All,
}

impl FromStr for WindowKind {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let fail = |reason: &str| {
            TextError(format!(
                "`{text:.60}` is no window: {reason} (expected tumbling:5m, hopping:5m/1m, last:3000 or all)"
            ))
        };
        let duration = |part: &str| {
            parse_duration_ms(part)
                .ok_or_else(|| fail("a duration is a whole number and ms, s, m, h or d, and not zero"))
        };
        match text.split_once(':') {
            None if text == "all" => Ok(Self::All),
            Some(("tumbling", size)) => Ok(Self::Tumbling { size_ms: duration(size)? }),
            Some(("hopping", spec)) => {
                let (size, advance) =
                    spec.split_once('/').ok_or_else(|| fail("hopping takes size/advance"))?;
                let (size_ms, advance_ms) = (duration(size)?, duration(advance)?);
                if size_ms % advance_ms != 0 || size_ms / advance_ms > MAX_PANES {
                    return Err(fail("the size must be 1 to 1440 times the advance"));
                }
                Ok(Self::Hopping { size_ms, advance_ms })
            }
            Some(("last", count)) => {
                let requests = count.parse().ok().filter(|n| (1..=MAX_LAST).contains(n));
                Ok(Self::Last {
                    requests: requests.ok_or_else(|| fail("last takes 1 to 10000000 requests"))?,
                })
            }
            _ => Err(fail("unknown kind")),
        }
    }
}

/// Most panes one hopping window may consist of.
const MAX_PANES: u64 = 1440;
/// Most requests a `last:N` window may hold.
const MAX_LAST: u32 = 10_000_000;

/// The units a duration may be written in, largest first, with their milliseconds.
const DURATION_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Parses `250ms`, `30s`, `5m`, `1h`, `1d`; at most 366 days; `None` for anything else and for zero.
pub fn parse_duration_ms(text: &str) -> Option<u64> {
    let unit_start = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(unit_start);
    let (_, scale) = DURATION_UNITS.iter().find(|(name, _)| *name == unit)?;
    let ms = digits.parse::<u64>().ok()?.checked_mul(*scale)?;
    (1..=366 * 86_400_000).contains(&ms).then_some(ms)
}

/// Writes a duration in the largest unit that divides it (`90s`, `5m`).
pub fn format_duration_ms(ms: u64) -> String {
    let whole = DURATION_UNITS.iter().find(|(_, scale)| ms.is_multiple_of(*scale)).unwrap_or(&("ms", 1));
    format!("{}{}", ms / whole.1, whole.0)
}

impl WindowKind {
    /// The window to act on where nobody names one: the largest `last:N` that can hold `min_requests`, which forgets
    /// users who left and has a sample of known size; else `all`; else the longest over event time.
    pub fn to_act_on(kinds: &[Self], min_requests: u64) -> Option<Self> {
        let rank = |kind: &&Self| match **kind {
            Self::Last { requests } if u64::from(requests) >= min_requests => (3, u64::from(requests), 0),
            Self::All => (2, 0, 0),
            Self::Tumbling { size_ms } => (1, size_ms, size_ms),
            Self::Hopping { size_ms, advance_ms } => (1, size_ms, advance_ms),
            Self::Last { requests } => (0, u64::from(requests), 0),
        };
        kinds.iter().max_by_key(rank).copied()
    }
}

impl fmt::Display for WindowKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match *self {
            Self::Tumbling { size_ms } => format!("tumbling:{}", format_duration_ms(size_ms)),
            Self::Hopping { size_ms, advance_ms } => {
                format!("hopping:{}/{}", format_duration_ms(size_ms), format_duration_ms(advance_ms))
            }
            Self::Last { requests } => format!("last:{requests}"),
            Self::All => "all".to_owned(),
        };
        f.pad(&text)
    }
}

impl Serialize for WindowKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WindowKind {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Which windows a pool has and when they close.
#[derive(Debug, Clone, Copy)]
pub struct WindowRules<'a> {
    /// The kinds, in the order their estimates are published in.
    pub kinds: &'a [WindowKind],
    /// How long after its end a window waits for late records, in milliseconds of the watermark.
    pub grace_ms: u64,
    /// How far the watermark stays behind the largest event time at least.
    pub allowed_lateness_ms: u64,
    /// Interval at which `last:N` and `all` are published; 0 for never but at the end.
    pub publish_every_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_back_as_written() {
        for text in [
            "tumbling:5m",
            "tumbling:90s",
            "hopping:5m/1m",
            "hopping:1h/250ms",
            "last:3000",
            "all",
            "tumbling:1d",
        ] {
            let parsed = text.parse::<WindowKind>();
            if text == "hopping:1h/250ms" {
                assert!(parsed.is_err(), "14400 panes are too many");
                continue;
            }
            assert_eq!(parsed.expect(text).to_string(), text);
        }
    }

    #[test]
    fn the_window_to_act_on_has_requests_enough_and_forgets_where_one_does() {
        for (kinds, chosen) in [
            (&["tumbling:5m", "last:3000", "all"][..], Some("last:3000")),
            (&["last:3000", "last:5000", "last:10", "all"], Some("last:5000")),
            (&["last:10", "tumbling:1d", "all"], Some("all")),
            (&["last:10", "tumbling:1h", "hopping:1d/1h", "hopping:1d/12h"], Some("hopping:1d/12h")),
            (&["last:10", "last:20"], Some("last:20")),
            (&[], None),
        ] {
            let kinds: Vec<WindowKind> = kinds.iter().map(|text| text.parse().expect("a window")).collect();
            let found = WindowKind::to_act_on(&kinds, 1000).map(|kind| kind.to_string());
            assert_eq!(found.as_deref(), chosen, "{kinds:?}");
        }
    }

    #[test]
    fn refuses_with_a_reason() {
        for text in
            ["tumbling:0s", "tumbling:5", "hopping:5m", "hopping:5m/2m", "last:0", "sliding:3", "last:-1", ""]
        {
            assert!(text.parse::<WindowKind>().is_err(), "{text} should be refused");
        }
    }
}
