//! What requests find at most, summed up.

use crate::questions::counters::{Counter, Share};
use crate::units::heap::heap_bytes;
use crate::units::is_countable;
use serde::{Deserialize, Serialize};

/// What one request finds at most, or several together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DraftRangeTally {
    /// Requests of which the log does not say which tokens follow their pages.
    pub open: u64,
    /// Hits with unlimited capacity if no head drafted.
    pub without_head: u64,
    /// Hits with unlimited capacity.
    pub unlimited: u64,
    /// Hits, one entry a capacity.
    pub hits: Vec<u64>,
}

/// What one request finds at most.
pub type DraftRangeShare = DraftRangeTally;

heap_bytes!(DraftRangeTally { hits; open, without_head, unlimited });

impl DraftRangeTally {
    fn counts_mut(&mut self) -> impl Iterator<Item = &mut u64> {
        [&mut self.open, &mut self.without_head, &mut self.unlimited].into_iter().chain(&mut self.hits)
    }

    fn counts(&self) -> impl Iterator<Item = u64> {
        [self.open, self.without_head, self.unlimited].into_iter().chain(self.hits.iter().copied())
    }
}

impl Share for DraftRangeTally {
    /// Capacities.
    type Shape = usize;

    fn is_sound(&self, capacities: usize) -> bool {
        self.hits.len() == capacities && self.counts().all(is_countable)
    }
}

impl Counter for DraftRangeTally {
    type Share = Self;

    fn new(capacities: usize) -> Self {
        Self { hits: vec![0; capacities], ..Self::default() }
    }

    fn add(&mut self, share: &Self) {
        self.counts_mut().zip(share.counts()).for_each(|(sum, count)| *sum += count);
    }

    fn remove(&mut self, share: &Self) {
        self.counts_mut().zip(share.counts()).for_each(|(sum, count)| *sum -= count);
    }

    fn merged<'a>(mut parts: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        let mut sum = parts.next()?.clone();
        parts.for_each(|part| sum.add(part));
        Some(sum)
    }

    fn is_sound(&self, capacities: usize) -> bool {
        <Self as Share>::is_sound(self, capacities)
    }
}
