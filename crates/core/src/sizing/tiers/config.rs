//! Tiers as operators declare them, and the rules of trends.

use super::plan::{CapacityUnit, Inclusion, TierConfig};
use crate::units::capacity::CapacitySize;
use crate::units::ratio::Ratio;
use crate::units::text::TextError;
use crate::units::{PageBytes, PageCount};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

impl TierConfig {
    /// The tier where a page takes so many bytes; `None` where the unit is in bytes and they are unknown.
    pub fn sized(&self, page_bytes: Option<PageBytes>) -> Option<TierConfig<CapacityUnit>> {
        let unit = match self.unit.size {
            CapacitySize::Pages(pages) => CapacityUnit::new(pages.0, 1),
            CapacitySize::Bytes(bytes) => CapacityUnit::new(bytes.0, page_bytes?.0),
        };
        Some(TierConfig {
            name: self.name.clone(),
            coverage: self.coverage,
            inclusion: self.inclusion,
            unit: unit?,
            unit_price: self.unit_price,
        })
    }

    /// Bytes of so many units; `None` where they are pages of unknown bytes.
    pub fn bytes(&self, units: u64, page_bytes: Option<PageBytes>) -> Option<u64> {
        match self.unit.size {
            CapacitySize::Bytes(bytes) => Some(bytes.0.saturating_mul(units)),
            CapacitySize::Pages(pages) => {
                page_bytes.map(|page| PageCount(pages.0.saturating_mul(units)).bytes(page).0)
            }
        }
    }
}

/// Whether a number can be a price.
pub fn is_price(price: f64) -> bool {
    (0.0..=1e15).contains(&price)
}

/// Whether a text can name a tier.
pub fn is_tier_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(legal)
}

/// Most characters of a tier's name: it labels metrics.
const MAX_NAME: usize = 40;

fn no_tier(reason: impl fmt::Display) -> TextError {
    TextError(format!(
        "{reason} (expected NAME:COVERAGE:UNIT[:PRICE][:inclusive], such as hbm:0.95:80GiB:25000)"
    ))
}

impl FromStr for TierConfig {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let mut parts = text.split(':');
        let mut next = |what| parts.next().ok_or_else(|| no_tier(format!("the {what} is missing")));
        let (name, coverage, unit) = (next("name")?, next("coverage")?, next("unit")?);
        if !is_tier_name(name) {
            return Err(no_tier("a name is 1 to 40 letters, digits, `.`, `_` or `-`"));
        }
        let mut tier = Self {
            name: name.to_owned(),
            coverage: coverage.parse().map_err(no_tier)?,
            inclusion: Inclusion::Exclusive,
            unit: unit.parse().map_err(no_tier)?,
            unit_price: None,
        };
        for part in parts {
            match (part, part.parse::<f64>()) {
                ("inclusive", _) => tier.inclusion = Inclusion::Inclusive,
                ("exclusive", _) => tier.inclusion = Inclusion::Exclusive,
                (_, Ok(price)) if is_price(price) && tier.unit_price.is_none() => {
                    tier.unit_price = Some(price);
                }
                _ => return Err(no_tier("what follows the unit is a price or `inclusive`")),
            }
        }
        Ok(tier)
    }
}

/// When a requirement counts as converged, and when a recommendation may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrendRules {
    /// Event time between two steps, in milliseconds: windows that end closer to the last step are none.
    pub step_ms: u64,
    /// Steps that are looked back over, 2 to [`TrendRules::MAX_STEPS`].
    pub converged_over: u32,
    /// How much of the smallest requirement the largest may exceed it by.
    pub tolerance: Ratio,
    /// What automation follows rises at once where the requirement exceeds it by more than this share of it.
    pub min_change: Ratio,
    /// Steps in a row after which any other difference counts, 1 to [`TrendRules::MAX_STEPS`].
    pub hold: u32,
}

impl TrendRules {
    /// Most steps that are looked back over or held for: bounds what a pool remembers.
    pub const MAX_STEPS: u32 = 100;
}

impl Default for TrendRules {
    fn default() -> Self {
        let tenth = Ratio::per_mille(100);
        // A day of steps of an hour: what it takes to see that less is enough.
        Self { step_ms: 3_600_000, converged_over: 12, tolerance: tenth, min_change: tenth, hold: 24 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_written_in_one_word() {
        let tier: TierConfig = "hbm:0.95:80GiB:25000".parse().expect("a tier");
        assert_eq!((tier.name.as_str(), tier.coverage), ("hbm", Ratio::per_mille(950)));
        assert_eq!((tier.inclusion, tier.unit_price), (Inclusion::Exclusive, Some(25_000.0)));
        let tier: TierConfig = "dram:0.99:5000p:inclusive".parse().expect("a tier");
        assert_eq!((tier.inclusion, tier.unit_price), (Inclusion::Inclusive, None));
        for (text, part) in [
            ("hbm", "coverage is missing"),
            ("hbm:0.9", "unit is missing"),
            (":0.9:1p", "a name is"),
            ("a b:0.9:1p", "a name is"),
            ("a:1.5:1p", "between 0 and 1"),
            ("a:0.9:80", "unit is missing"),
            ("a:0.9:1p:-1", "a price"),
            ("a:0.9:1p:1:2", "a price"),
            ("a:0.9:1p:nan", "a price"),
        ] {
            let error = text.parse::<TierConfig>().expect_err(text).to_string();
            assert!(error.contains(part) && error.contains("expected NAME:"), "{text}: {error}");
        }
    }

    #[test]
    fn units_in_bytes_need_the_bytes_of_a_page() {
        let bytes: TierConfig = "a:1:1KiB".parse().expect("a tier");
        let pages: TierConfig = "a:1:7p".parse().expect("a tier");
        assert!(bytes.sized(None).is_none() && pages.sized(None).is_some());
        let page = Some(PageBytes(100));
        assert_eq!((bytes.bytes(3, None), pages.bytes(3, None)), (Some(3072), None));
        assert_eq!(pages.bytes(3, page), Some(2100));
        let needed = bytes.sized(page).map(|spec| spec.unit.needed_for(PageCount(11)));
        assert_eq!(needed, Some(2), "1100 bytes");
    }
}
