//! Which pages a sample follows: those whose hash lies below a share of all hashes (SHARDS, FAST '15).
//!
//! The choice hangs on a page's id and scope alone. So a page dropped by one stage is one that the next
//! would drop too, and a sample taken twice at one rate is the sample.

use crate::units::pages::{PageIds, Scope};
use crate::units::ratio::Ratio;

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

    /// Whether a page is followed.
    pub fn follows(self, scope: Scope, id: u64) -> bool {
        scope.key(id) <= self.threshold
    }

    /// The ids that are followed.
    pub fn followed(self, scope: Scope, ids: PageIds<'_>) -> impl Iterator<Item = u64> {
        ids.iter().filter(move |&id| self.follows(scope, id))
    }

    /// Appends the ids that are followed: where all are, without a look at any.
    pub fn append_followed(self, scope: Scope, ids: PageIds<'_>, into: &mut Vec<u64>) {
        match self.threshold {
            u64::MAX => into.extend(ids.iter()),
            _ => into.extend(self.followed(scope, ids)),
        }
    }
}

/// Standard error of a capacity found as `followed_pages` pages that hash below the rate `p`, as a share of
/// it: `sqrt((1 - p) / followed_pages)`, and 0 where all pages are followed.
///
/// A stack distance of `D` pages is seen as a binomial count of mean `D * p` and variance `D * p * (1 - p)`;
/// dividing by `p` leaves the relative error `sqrt((1 - p) / (D * p))` (SHARDS, FAST '15). A capacity a
/// hundred times smaller errs ten times more.
pub fn sampling_error(rate: f64, followed_pages: f64) -> f64 {
    if rate >= 1.0 {
        return 0.0;
    }
    ((1.0 - rate) / followed_pages.max(1.0)).sqrt()
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
            prop_assert_eq!(&twice, &sample(first.min(second), &ids));
            let both = Sample::at(Ratio::per_mille(first.min(second)));
            let mut appended = vec![7];
            both.append_followed(Scope::named(b"s"), PageIds::from_slice(&ids), &mut appended);
            prop_assert_eq!(&appended[1..], &twice);
        }
    }

    #[test]
    fn the_sampling_error_falls_with_the_root_of_the_sample() {
        assert_eq!(sampling_error(1.0, 5.0), 0.0);
        assert!((sampling_error(0.1, 9000.0) - 0.01).abs() < 1e-12);
        assert!(sampling_error(0.1, 0.0).is_finite());
    }
}
