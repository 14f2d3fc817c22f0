//! Which pages a sample follows: those whose hash lies below a share of all hashes (SHARDS, FAST '15).
//!
//! The choice hangs on a page's id and scope alone. So a page dropped by one stage is one that the next
//! would drop too, and a sample taken twice at one rate is the sample.

use super::pages::{PageIds, Scope};
use super::ratio::Ratio;

/// A share of all pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Largest hash that is followed.
    threshold: u64,
}

impl Sample {
    /// The sample that follows this share of the pages.
    pub fn at(rate: Ratio) -> Self {
        Self { threshold: rate.share_of(u64::MAX) }
    }

    /// The ids that are followed.
    pub fn followed(self, scope: Scope, ids: PageIds<'_>) -> impl Iterator<Item = u64> {
        ids.iter().filter(move |&id| scope.key(id) <= self.threshold)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_sample_of_a_larger_sample_is_the_sample(
            ids in prop::collection::vec(any::<u64>(), 0..200),
            first in 1u16..=1000,
            second in 1u16..=1000,
        ) {
            let sample = |rate: u16, ids: &[u64]| -> Vec<u64> {
                let sample = Sample::at(Ratio::per_mille(rate));
                sample.followed(Scope::named(b"s"), PageIds::from_slice(ids)).collect()
            };
            let twice = sample(second, &sample(first, &ids));
            prop_assert_eq!(twice, sample(first.min(second), &ids));
        }
    }
}
