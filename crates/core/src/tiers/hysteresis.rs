//! When a recommendation may change.
//!
//! Rules, window by window, `current` being what is recommended and `required` what the window asks for:
//! 1. The first requirement known is recommended.
//! 2. If `required` differs from `current` by more than `min_change` of `current`, it is recommended at
//!    once.
//! 3. If it differs by less, but has been on the same side of `current` for `hold` windows in a row, the
//!    largest of those windows' requirements is recommended: none of them would have lacked capacity.
//! 4. A window that is warming up under-counts: where it asks for less than `current`, it changes
//!    nothing, so it never lowers a recommendation nor helps to.
//! 5. A requirement beyond the tracked bound has no number: the recommendation stays and says that it
//!    is too small, and a row of smaller requirements is broken.

use crate::ratio::Ratio;
use crate::units::PageCount;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Holds one recommendation against small changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hysteresis {
    min_change: Ratio,
    hold: u32,
    current: Option<PageCount>,
    /// The windows in a row whose requirement lies on one side of the current one.
    row: Option<Row>,
}

/// Windows in a row that ask for the same direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    larger: bool,
    windows: u32,
    /// The largest of their requirements.
    largest: PageCount,
}

/// What is recommended after a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Recommendation {
    /// The capacity; absent as long as no requirement was known.
    pub pages: Option<PageCount>,
    /// This window changed it.
    pub changed: bool,
    /// The window's requirement lies beyond the tracked bound, so the capacity is too small.
    pub beyond_bound: bool,
}

impl Hysteresis {
    /// Changes above `min_change` of the current recommendation count at once, smaller ones after
    /// `hold` windows (at least 1).
    pub fn new(min_change: Ratio, hold: u32) -> Self {
        Self { min_change, hold: hold.max(1), current: None, row: None }
    }

    /// Whether this one, read back from a snapshot, goes by the rules of the `fresh` one.
    pub fn is_like(&self, fresh: &Self) -> bool {
        (self.min_change, self.hold) == (fresh.min_change, fresh.hold)
            && self.row.is_none_or(|row| row.windows < self.hold)
    }

    /// What is recommended beside a window that is still open, which changes nothing.
    pub fn beside(&self, required: Option<PageCount>) -> Recommendation {
        Recommendation { pages: self.current, changed: false, beyond_bound: required.is_none() }
    }

    /// Takes a closed window's requirement (`None` beyond the bound).
    pub fn observe(&mut self, required: Option<PageCount>, warm_up: bool) -> Recommendation {
        let before = self.current;
        match (required, self.current) {
            (None, _) => self.row = self.row.filter(|row| row.larger),
            (Some(required), None) => self.current = Some(required),
            (Some(required), Some(current)) => self.weigh(required, current, warm_up),
        }
        Recommendation {
            pages: self.current,
            changed: self.current != before,
            beyond_bound: required.is_none(),
        }
    }

    fn weigh(&mut self, required: PageCount, current: PageCount, warm_up: bool) {
        let larger = match required.cmp(&current) {
            Ordering::Less if warm_up => return,
            Ordering::Equal => return self.row = None,
            Ordering::Less => false,
            Ordering::Greater => true,
        };
        if required.0.abs_diff(current.0) > self.min_change.share_of(current.0) {
            return self.recommend(required);
        }
        let row = match self.row.filter(|row| row.larger == larger) {
            Some(row) => Row { windows: row.windows + 1, largest: row.largest.max(required), larger },
            None => Row { windows: 1, largest: required, larger },
        };
        if row.windows >= self.hold { self.recommend(row.largest) } else { self.row = Some(row) }
    }

    fn recommend(&mut self, pages: PageCount) {
        self.current = Some(pages);
        self.row = None;
    }
}
