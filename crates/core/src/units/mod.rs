//! Newtypes for the quantities of the field, so that a page is never added to a byte.
pub mod capacity;
pub mod clash;
pub mod features;
pub mod hashing;
pub mod heap;
pub mod keyed;
pub mod names;
pub mod packed;
pub mod pages;
pub mod ratio;
pub mod text;
pub mod window;

use crate::units::heap::flat;
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
    /// Writes the size in binary units with three significant digits, rounded up (`2.10 TiB`): what is
    /// bought by the text is never too small. Everything people read writes sizes by this function.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return f.pad(&format!("{} B", self.0));
        }
        // The unit in which the rounded size is below 1024, and the decimal places three digits leave.
        let sizes = UNITS.iter().enumerate().skip(1);
        let fitting = sizes.flat_map(|(power, unit)| {
            [(2, 1_000), (1, 1_000), (0, 1_024)].map(|(places, below)| (power, *unit, places, below))
        });
        for (power, unit, places, below) in fitting {
            let scale = 10_u128.pow(places);
            let rounded = (u128::from(self.0) * scale).div_ceil(1 << (10 * power));
            if rounded < below {
                let (whole, rest) = (rounded / scale, rounded % scale);
                return match places {
                    0 => f.pad(&format!("{whole} {unit}")),
                    _ => f.pad(&format!("{whole}.{rest:0width$} {unit}", width = places as usize)),
                };
            }
        }
        f.pad(&format!("{} B", self.0))
    }
}

/// Tokens a page holds; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PageSize(std::num::NonZeroU32);

impl PageSize {
    /// A page a token.
    pub const ONE: Self = Self(std::num::NonZeroU32::MIN);

    /// `None` for zero: a page holds at least one token.
    pub const fn new(tokens: u32) -> Option<Self> {
        match std::num::NonZeroU32::new(tokens) {
            Some(tokens) => Some(Self(tokens)),
            None => None,
        }
    }

    /// Tokens per page.
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
    /// Computes the page's bytes from a cost per token, which may be fractional.
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

flat!(EventTime);

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
    fn sizes_have_three_digits_and_are_rounded_up() {
        let gib = |value: f64| Bytes((value * 1024.0 * 1024.0 * 1024.0) as u64).to_string();
        assert_eq!(
            [gib(9.99), gib(9.991), gib(99.85), gib(99.91), gib(1023.1)],
            ["9.99 GiB", "10.0 GiB", "99.9 GiB", "100 GiB", "1.00 TiB"]
        );
        let text = |bytes: u64| Bytes(bytes).to_string();
        assert_eq!([text(0), text(1023), text(1024), text(1025)], ["0 B", "1023 B", "1.00 KiB", "1.01 KiB"]);
        assert_eq!(text((1 << 40) - 1), "1.00 TiB", "a carry reaches the next unit");
        assert_eq!([text(2_308_974_418_329), text(u64::MAX)], ["2.10 TiB", "16.0 EiB"]);
    }
}
