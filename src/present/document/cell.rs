//! A cell of a table: a figure with its unit, or words.

use crate::present::words;
use kvset_core::estimate::CapacityPoint;
use kvset_core::sizing::recommendation::{Recommendation, RecommendationStatus};
use kvset_core::units::ratio::Ratio;

/// What stands for a figure that is not known.
const UNKNOWN: &str = "–";

/// A figure or words, worded where they are shown. A terminal puts words to the left and figures to the right.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A figure whose words only its section knows (`1.5 h`).
    Figure(String),
    /// A count: `4,836,915`.
    Count(u64),
    /// A rate between 0 and 1: `93.66 %`.
    Rate(f64),
    /// A share as it was configured: `99.9 %`.
    Share(Ratio),
    /// A number with two places.
    Decimal(f64),
    /// A capacity in pages, shown in bytes where it is known how many a page has.
    Pages(u64, Option<u64>),
    /// A capacity in parentheses, since too few requests ask for it.
    PagesSoFar(u64, Option<u64>),
    /// A size in bytes.
    Bytes(u64),
    /// Not known.
    Unknown,
    /// Larger than what was tracked.
    BeyondBound,
}

impl Cell {
    /// The cell of a value that may not be known.
    pub fn known<T>(value: Option<T>, cell: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Unknown, cell)
    }

    /// The cell of a value that is not known only where it lies beyond the tracked bound.
    pub fn within_bound<T>(value: Option<T>, cell: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::BeyondBound, cell)
    }

    /// A capacity of a curve, as it was named.
    pub fn named(point: &CapacityPoint, page_bytes: Option<u64>) -> Self {
        point.label.clone().map_or(Self::Pages(point.pages, page_bytes), Self::Text)
    }

    /// What is known of a capacity of a curve, which may lie beyond the tracked bound.
    pub fn of_point<T>(point: &CapacityPoint, value: Option<T>, cell: impl FnOnce(T) -> Self) -> Self {
        if point.beyond_bound { Self::within_bound(value, cell) } else { Self::known(value, cell) }
    }

    /// An amount worded so, where it is known.
    pub fn figure<T>(amount: Option<T>, say: impl FnOnce(T) -> String) -> Self {
        Self::known(amount, |amount| Self::Figure(say(amount)))
    }

    /// A recommended capacity; in parentheses what too few requests ask for so far.
    pub fn recommended(entry: &Recommendation, page_bytes: Option<u64>) -> Self {
        match (entry.status, entry.so_far()) {
            (RecommendationStatus::Ready, Some(pages)) => Self::Pages(pages, page_bytes),
            (RecommendationStatus::TooFew, Some(pages)) => Self::PagesSoFar(pages, page_bytes),
            (RecommendationStatus::BeyondBound, _) => Self::BeyondBound,
            (_, None) => Self::Unknown,
        }
    }

    /// The cell in words.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) | Self::Figure(text) => text.clone(),
            Self::Count(count) => words::integer(*count),
            Self::Rate(rate) => words::rate(*rate),
            Self::Share(share) => words::share(*share),
            Self::Decimal(value) => format!("{value:.2}"),
            Self::Pages(pages, page_bytes) => words::capacity(*pages, *page_bytes),
            Self::PagesSoFar(pages, page_bytes) => format!("({})", words::capacity(*pages, *page_bytes)),
            Self::Bytes(bytes) => words::bytes_up(*bytes),
            Self::Unknown => UNKNOWN.to_owned(),
            Self::BeyondBound => "beyond bound".to_owned(),
        }
    }

    /// The figure to the last digit, where the words round it.
    pub fn exact(&self) -> Option<String> {
        match self {
            Self::Pages(pages, page_bytes) | Self::PagesSoFar(pages, page_bytes) => {
                Some(words::exact(*pages, *page_bytes))
            }
            _ => None,
        }
    }

    /// Whether it leans to the right; `None` where it leans as the others of its column do.
    pub(crate) fn is_figure(&self) -> Option<bool> {
        match self {
            Self::Unknown | Self::BeyondBound => None,
            Self::Text(text) if text.is_empty() => None,
            Self::Text(_) => Some(false),
            _ => Some(true),
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_for_the_eye_and_keep_their_exact_figure() {
        let size = Cell::Pages(3, Some(1 << 30));
        assert_eq!(size.text(), "3.00 GiB");
        assert_eq!(size.exact().as_deref(), Some("3 pages, 3,221,225,472 bytes"));
        assert_eq!(Cell::PagesSoFar(3, None).text(), "(3 pages)");
        assert_eq!(Cell::Bytes(2_308_974_418_329).text(), "2.10 TiB");
    }

    #[test]
    fn what_is_not_known_says_whether_it_lies_beyond_the_bound() {
        assert_eq!(Cell::known(None, Cell::Count).text(), "–");
        assert_eq!(Cell::within_bound(None, Cell::Count).text(), "beyond bound");
        assert_eq!(Cell::known(Some(1000), Cell::Count).text(), "1,000");
    }
}
