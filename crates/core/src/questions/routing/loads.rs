//! How much work replicas were sent of late: the balance rule of routers that follow prefixes.

use crate::units::heap::heap_bytes;
use crate::units::is_countable;
use serde::{Deserialize, Serialize};

/// Requests between two halvings of the loads.
const HALVING: u64 = 256;

/// Pages sent to each replica that it had to compute, halved every 256 requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Loads {
    pages: Vec<u64>,
    requests: u64,
}

heap_bytes!(Loads { pages; requests });

impl Loads {
    /// Nothing sent yet.
    pub(super) fn new(replicas: usize) -> Self {
        Self { pages: vec![0; replicas], requests: 0 }
    }

    /// Replicas.
    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    /// The least loaded of some replicas, of equal ones the first; the first where there are none.
    pub(super) fn least(&self, is_one: impl Fn(usize) -> bool) -> usize {
        let some = self.pages.iter().enumerate().filter(|(index, _)| is_one(*index));
        some.min_by_key(|(index, load)| (**load, *index)).map_or(0, |(index, _)| index)
    }

    /// Whether a replica has more than `per_mille` thousandths of the mean, and one request of `pages` more.
    pub(super) fn is_overloaded(&self, replica: usize, per_mille: u32, pages: usize) -> bool {
        let total: u128 = self.pages.iter().map(|load| u128::from(*load)).sum();
        let share = u128::from(self.pages[replica]) * self.pages.len() as u128;
        // A lone request is no imbalance.
        let slack = pages as u128 * self.pages.len() as u128;
        share * 1000 > total * u128::from(per_mille) + slack * 1000
    }

    /// Sends a request of which `pages` must be computed.
    pub(super) fn send(&mut self, replica: usize, pages: u64) {
        self.pages[replica] += pages;
        self.requests += 1;
        if self.requests.is_multiple_of(HALVING) {
            self.pages.iter_mut().for_each(|load| *load /= 2);
        }
    }

    /// Whether these, read back from a snapshot, are of so many replicas and can go on.
    pub(super) fn is_sound(&self, replicas: usize) -> bool {
        self.pages.len() == replicas
            && is_countable(self.requests)
            && self.pages.iter().all(|load| is_countable(*load))
    }
}
