//! The hit-rate curve as a plan reads it.

use crate::units::PageCount;
use serde::{Deserialize, Serialize};

/// Prefix hits by capacity.
pub trait HitCurve {
    /// All page accesses the hits are a share of.
    fn page_accesses(&self) -> u64;

    /// Hits at a capacity; `None` where the tracked bound hides them.
    fn prefix_hits(&self, capacity: PageCount) -> Option<u64>;

    /// Hits as a share of all accesses; `None` where hidden, or where there was no access.
    fn hit_rate(&self, capacity: PageCount) -> Option<f64> {
        let (hits, accesses) = (self.prefix_hits(capacity)?, self.page_accesses());
        (accesses > 0).then(|| hits as f64 / accesses as f64)
    }

    /// The same by tokens; `None` where those of the prompts are not known, too.
    fn token_hit_rate(&self, _capacity: PageCount) -> Option<f64> {
        None
    }
}

/// One known point of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// The capacity.
    pub pages: PageCount,
    /// The hits at it.
    pub prefix_hits: u64,
}

/// A curve known at some capacities only. Between them it is read at the next smaller one: hits
/// never decrease with capacity in the profiles a plan is made for, so that never promises too much.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PointCurve {
    points: Vec<CurvePoint>,
    page_accesses: u64,
    /// Capacities from here on are unknown.
    bound: Option<PageCount>,
}

impl PointCurve {
    /// A curve through these points, in any order; capacities above `bound` are unknown.
    pub fn new(mut points: Vec<CurvePoint>, page_accesses: u64, bound: Option<PageCount>) -> Self {
        points.sort_unstable_by_key(|point| (point.pages, point.prefix_hits));
        Self { points, page_accesses, bound }
    }
}

impl HitCurve for PointCurve {
    fn page_accesses(&self) -> u64 {
        self.page_accesses
    }

    fn prefix_hits(&self, capacity: PageCount) -> Option<u64> {
        if self.bound.is_some_and(|bound| capacity > bound) {
            return None;
        }
        let below = self.points.partition_point(|point| point.pages <= capacity);
        Some(below.checked_sub(1).map_or(0, |last| self.points[last].prefix_hits))
    }
}
