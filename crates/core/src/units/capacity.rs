//! Capacities as operators write them: `10GiB`, `1.5TB`, `5000p`.

use crate::units::clash::Clash;
use crate::units::text::TextError;
use crate::units::{Bytes, PageBytes, PageCount};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// How large a cache is, in the unit it was given in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapacitySize {
    /// Bytes of KV state; a number of pages once a page's bytes are known.
    Bytes(Bytes),
    /// Pages.
    Pages(PageCount),
}

/// A cache size to report hits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacitySpec {
    /// As the operator wrote it, where it was written.
    pub label: Option<String>,
    /// What it says.
    pub size: CapacitySize,
}

/// Units of bytes, compared without regard to case, with what one is worth.
const BYTE_UNITS: [(&str, u64); 13] = [
    ("b", 1),
    ("kb", 1000),
    ("mb", 1000_u64.pow(2)),
    ("gb", 1000_u64.pow(3)),
    ("tb", 1000_u64.pow(4)),
    ("pb", 1000_u64.pow(5)),
    ("eb", 1000_u64.pow(6)),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("pib", 1 << 50),
    ("eib", 1 << 60),
];

/// Most digits before or after the decimal point: keeps the arithmetic within 128 bits.
const MAX_DIGITS: usize = 18;

impl CapacitySize {
    /// The whole pages it holds; `None` for bytes where a page's bytes are unknown.
    pub fn pages(self, page_bytes: Option<PageBytes>) -> Option<PageCount> {
        match self {
            Self::Pages(pages) => Some(pages),
            Self::Bytes(bytes) => page_bytes.map(|page| bytes.whole_pages(page)),
        }
    }
}

/// A size in bytes, where nobody says how many pages that is.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("`{key}` is {size}, {}: {}", Clash::SIZE_IN_BYTES.why, Clash::SIZE_IN_BYTES.key)]
pub struct BytesWithoutCost {
    /// The setting.
    pub key: &'static str,
    /// Its value.
    pub size: CapacitySpec,
}

impl CapacitySpec {
    /// Whether it is a size in bytes.
    pub fn is_in_bytes(&self) -> bool {
        matches!(self.size, CapacitySize::Bytes(_))
    }

    /// Whether it is known in pages, as the value of a setting.
    ///
    /// # Errors
    /// It is a size in bytes, and no cost per token is known.
    pub fn check(&self, key: &'static str, has_cost: bool) -> Result<(), BytesWithoutCost> {
        match self.is_in_bytes() && !has_cost {
            true => Err(BytesWithoutCost { key, size: self.clone() }),
            false => Ok(()),
        }
    }

    /// A capacity nobody wrote, of this many pages.
    pub fn of_pages(pages: u64) -> Self {
        Self { label: None, size: CapacitySize::Pages(PageCount(pages)) }
    }

    /// The whole pages it holds; `None` for bytes where a page's bytes are unknown.
    pub fn pages(&self, page_bytes: Option<PageBytes>) -> Option<PageCount> {
        self.size.pages(page_bytes)
    }

    /// The bytes it takes; `None` for pages where a page's bytes are unknown.
    pub fn bytes(&self, page_bytes: Option<PageBytes>) -> Option<Bytes> {
        match self.size {
            CapacitySize::Bytes(bytes) => Some(bytes),
            CapacitySize::Pages(pages) => page_bytes.map(|page| pages.bytes(page)),
        }
    }
}

impl FromStr for CapacitySpec {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let text = text.trim();
        let fail = |reason: &str| {
            TextError(format!(
                "`{text:.40}` is no capacity: {reason} (expected a size such as 10GiB or 1.5TB, or pages such as 5000p)"
            ))
        };
        let unit_start = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(|| fail("the unit is missing"))?;
        let (number, unit) = text.split_at(unit_start);
        let unit = unit.trim_start().to_ascii_lowercase();
        let (in_pages, worth) = match BYTE_UNITS.iter().find(|(name, _)| *name == unit) {
            Some((_, worth)) => (false, *worth),
            None if matches!(unit.as_str(), "p" | "page" | "pages") => (true, 1),
            None => return Err(fail("the unit is unknown")),
        };
        let (amount, whole) =
            scaled(number, worth).ok_or_else(|| fail("the number is missing, malformed or too large"))?;
        let size = match (in_pages, amount) {
            (_, 0) => return Err(fail("it is zero")),
            (true, _) if !whole => return Err(fail("pages are whole")),
            (true, pages) => CapacitySize::Pages(PageCount(pages)),
            (false, bytes) => CapacitySize::Bytes(Bytes(bytes)),
        };
        Ok(Self { label: Some(text.to_owned()), size })
    }
}

/// `floor(number * worth)` of a decimal number, exactly, and whether nothing was cut off.
fn scaled(number: &str, worth: u64) -> Option<(u64, bool)> {
    let (whole, places) = number.split_once('.').unwrap_or((number, ""));
    let digits = |part: &str| part.len() <= MAX_DIGITS && part.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && places.is_empty()) || !digits(whole) || !digits(places) {
        return None;
    }
    let parse = |part: &str| if part.is_empty() { Some(0) } else { part.parse::<u128>().ok() };
    let denominator = 10_u128.pow(places.len() as u32);
    let fraction = parse(places)? * u128::from(worth);
    let amount = parse(whole)? * u128::from(worth) + fraction / denominator;
    Some((u64::try_from(amount).ok()?, fraction.is_multiple_of(denominator)))
}

impl fmt::Display for CapacitySpec {
    /// Writes it as the operator did, else in its unit; either reads back as the same size.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.label, self.size) {
            (Some(label), _) => f.pad(label),
            (None, CapacitySize::Pages(pages)) => f.pad(&format!("{}p", pages.0)),
            (None, CapacitySize::Bytes(bytes)) => f.pad(&format!("{}B", bytes.0)),
        }
    }
}

impl Serialize for CapacitySpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CapacitySpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// `2^(k/4)` for k = 0..4, in units of `2^-62`: the grid needs no floating point.
const QUARTER_POWERS: [u64; 4] =
    [1 << 62, 5_484_249_825_272_419_512, 6_521_908_912_666_391_106, 7_755_900_482_342_532_474];

/// The capacities reported where none are configured: four a doubling, `2^(k/4)` pages rounded and
/// deduplicated, from 1 page up to `bound`, which is the last. Depends on nothing but the bound.
pub fn default_grid(bound: PageCount) -> Vec<CapacitySpec> {
    let power = |k: u32| {
        let scaled = u128::from(QUARTER_POWERS[k as usize % 4]) << (k / 4);
        ((scaled + (1 << 61)) >> 62) as u64
    };
    let mut pages: Vec<u64> = (0..252).map(power).take_while(|pages| *pages < bound.0).collect();
    pages.push(bound.0);
    pages.dedup();
    pages.into_iter().map(CapacitySpec::of_pages).collect()
}

/// The capacities reported where none are configured and each costs more than a count: one a doubling
/// from 64 pages to 2^20, and none above `bound` but the smallest.
pub fn coarse_grid(bound: PageCount) -> Vec<CapacitySpec> {
    let fits = |exponent: &u32| *exponent == 6 || 1_u64 << exponent <= bound.0;
    (6..=20).filter(fits).map(|exponent| CapacitySpec::of_pages(1 << exponent)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: &str) -> CapacitySize {
        text.parse::<CapacitySpec>().expect(text).size
    }

    #[test]
    fn sizes_are_exact_in_every_unit() {
        for (text, bytes) in [
            ("10GiB", 10 << 30),
            ("1.5TB", 1_500_000_000_000),
            ("1.5 tib", 1_649_267_441_664),
            ("0.1GB", 100_000_000),
            ("0.3GiB", 322_122_547),
            (".5KiB", 512),
            ("7b", 7),
            ("15EiB", 15 << 60),
        ] {
            assert_eq!(size(text), CapacitySize::Bytes(Bytes(bytes)), "{text}");
        }
        assert_eq!(size("5000p"), CapacitySize::Pages(PageCount(5000)));
        assert_eq!(size("1.0 pages"), CapacitySize::Pages(PageCount(1)));
    }

    #[test]
    fn refuses_with_a_reason() {
        for (text, reason) in [
            ("10", "unit is missing"),
            ("10GX", "unit is unknown"),
            ("-1GB", "unit is unknown"),
            ("GiB", "number is missing"),
            ("1..5GB", "number is missing"),
            ("16EiB", "too large"),
            ("9999999999999999999999GB", "too large"),
            ("0p", "zero"),
            ("0.5B", "zero"),
            ("2.5p", "pages are whole"),
            ("", "unit is missing"),
        ] {
            let error = text.parse::<CapacitySpec>().expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn a_spec_reads_back_as_it_was_written() {
        for text in ["10GiB", "1.5TB", "5000p"] {
            let spec: CapacitySpec = text.parse().expect(text);
            assert_eq!(serde_json::to_string(&spec).expect("json"), format!("\"{text}\""));
        }
        let unlabelled = CapacitySpec::of_pages(9);
        assert_eq!(unlabelled.to_string().parse::<CapacitySpec>().expect("9p").size, unlabelled.size);
    }

    #[test]
    fn the_grid_is_the_rounded_quarter_powers_up_to_the_bound() {
        let grid = |bound| -> Vec<u64> {
            default_grid(PageCount(bound)).iter().map(|spec| spec.pages(None).expect("pages").0).collect()
        };
        assert_eq!(grid(1), [1]);
        assert_eq!(grid(20), [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 16, 19, 20]);
        let mut expected: Vec<u64> =
            (0..=124).map(|k| 2_f64.powf(f64::from(k) / 4.0).round() as u64).collect();
        expected.dedup();
        assert_eq!(grid(1 << 31), expected);
        assert_eq!(grid(u64::MAX).last(), Some(&u64::MAX));
    }

    #[test]
    fn the_coarse_grid_doubles_and_stays_within_the_bound() {
        let pages = |bound| coarse_grid(PageCount(bound)).iter().map(|spec| spec.size).collect::<Vec<_>>();
        let of = |sizes: &[u64]| sizes.iter().map(|&p| CapacitySize::Pages(PageCount(p))).collect::<Vec<_>>();
        assert_eq!(pages(300), of(&[64, 128, 256]));
        assert_eq!(pages(1), of(&[64]), "beyond the bound, and shown as such");
        let all = pages(u64::MAX);
        assert_eq!((all.len(), all.last().copied()), (15, Some(CapacitySize::Pages(PageCount(1 << 20)))));
    }
}
