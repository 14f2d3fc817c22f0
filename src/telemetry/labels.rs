//! How many pools get metrics of their own.

use std::collections::HashSet;

/// The label that pools without one of their own share.
const OTHER: &str = "other";

/// Hands out pool labels, first come first served, up to a bound, so that a log with millions of pools
/// cannot drown the metrics.
#[derive(Debug, Clone, Default)]
pub struct PoolLabels {
    known: HashSet<Box<str>>,
    most: usize,
}

impl PoolLabels {
    /// At most this many pools get a label (`http.max_pool_labels`).
    pub fn new(most: u32) -> Self {
        Self { known: HashSet::new(), most: most as usize }
    }

    /// The pool's own label, for gauges; `None` when there are no more: what several pools would write
    /// in turn says nothing.
    pub fn own<'a>(&mut self, pool: &'a str) -> Option<&'a str> {
        if self.known.contains(pool) {
            return Some(pool);
        }
        if self.known.len() >= self.most {
            return None;
        }
        self.known.insert(pool.into());
        Some(pool)
    }

    /// Gives the label of a pool that is no more to another one.
    pub fn release(&mut self, pool: &str) {
        self.known.remove(pool);
    }

    /// The pool's label, for counters; pools without their own are counted together as `other`.
    pub fn counted<'a>(&mut self, pool: &'a str) -> &'a str {
        self.own(pool).unwrap_or(OTHER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_run_out_but_are_kept() {
        let mut labels = PoolLabels::new(2);
        assert_eq!(
            ["a", "b", "c", "a"].map(|pool| labels.own(pool)),
            [Some("a"), Some("b"), None, Some("a")]
        );
        assert_eq!(["b", "c", "d"].map(|pool| labels.counted(pool)), ["b", "other", "other"]);
        assert_eq!(PoolLabels::new(0).counted("a"), "other");
    }
}
