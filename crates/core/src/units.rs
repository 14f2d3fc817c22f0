//! Newtypes for the quantities of the field, so that a page is never added to a byte.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Whether a log can have so many of anything: no count read back from a snapshot that is larger is true, and
/// adding to it could overflow.
pub fn is_countable(count: u64) -> bool {
    count <= 1 << 56
}

/// A number of pages; the unit every capacity is computed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PageCount(pub u64);

impl PageCount {
    /// The bytes these pages occupy, saturating at `u64::MAX`.
    pub fn bytes(self, page: PageBytes) -> Bytes {
        Bytes(self.0.saturating_mul(page.0))
    }

    /// The tokens these pages hold, saturating at `u64::MAX`.
    pub fn tokens(self, page: PageSize) -> u64 {
        self.0.saturating_mul(u64::from(page.get()))
    }
}

impl fmt::Display for PageCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A number of bytes of KV state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// The whole pages that fit into this many bytes.
    pub fn whole_pages(self, page: PageBytes) -> PageCount {
        PageCount(self.0 / page.0)
    }
}

impl fmt::Display for Bytes {
    /// Writes the size in binary units with three significant digits (`2.10 TiB`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1024.0 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let text = match (unit, value) {
            (0, _) => format!("{value:.0} {}", UNITS[unit]),
            (_, v) if v < 9.995 => format!("{v:.2} {}", UNITS[unit]),
            (_, v) if v < 99.95 => format!("{v:.1} {}", UNITS[unit]),
            (_, v) => format!("{v:.0} {}", UNITS[unit]),
        };
        f.pad(&text)
    }
}

/// Tokens a page holds; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PageSize(std::num::NonZeroU32);

impl PageSize {
    /// `None` for zero: a page holds at least one token.
    pub const fn new(tokens: u32) -> Option<Self> {
        match std::num::NonZeroU32::new(tokens) {
            Some(tokens) => Some(Self(tokens)),
            None => None,
        }
    }

    /// Tokens a page.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Bytes one page occupies: `ceil(kv_bytes_per_token * page_size)`; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PageBytes(pub u64);

impl PageBytes {
    /// Computes the page's bytes from a cost a token, which may be fractional.
    ///
    /// `None` when the cost is not a finite positive number.
    pub fn from_token_cost(kv_bytes_per_token: f64, page_size: PageSize) -> Option<Self> {
        let bytes = (kv_bytes_per_token * f64::from(page_size.get())).ceil();
        (kv_bytes_per_token > 0.0 && bytes.is_finite()).then_some(Self(bytes as u64))
    }
}

/// A moment of event time: milliseconds since the Unix epoch (or since a trace's own zero).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventTime(pub i64);

/// The position of a record in its partition. Names say which one is meant: `first_offset` is the
/// record's own, `next_offset` is the one after the last record seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Offset(pub i64);

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_on_both_sides_of_a_power_of_ten() {
        let gib = |value: f64| Bytes((value * 1024.0 * 1024.0 * 1024.0) as u64).to_string();
        assert_eq!(
            [gib(9.99), gib(9.998), gib(99.94), gib(99.97)],
            ["9.99 GiB", "10.0 GiB", "99.9 GiB", "100 GiB"]
        );
        assert_eq!(Bytes(1023).to_string(), "1023 B");
    }
}
