//! Random choices in integer arithmetic, the same on every platform.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The workload's only source of randomness.
#[derive(Debug, Clone)]
pub(super) struct Chance(ChaCha8Rng);

impl Chance {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Self(ChaCha8Rng::from_seed(bytes))
    }

    /// A page id never drawn before, but for a chance of one in 2^64 a pair.
    pub fn page_id(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from `low` to `high`, both included; each as likely as the other to one in 2^64 / span.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        let span = u128::from(high.saturating_sub(low)) + 1;
        low + ((u128::from(self.0.next_u64()) * span) >> 64) as u64
    }

    /// True `share` times in a thousand.
    pub fn permille(&mut self, share: u64) -> bool {
        self.between(0, 999) < share
    }

    /// A waiting time with the given mean, nearly exponential: most are short, a few are long.
    ///
    /// It is `-log2(u) * 2/3 * mean` with the logarithm drawn as straight lines between the powers of
    /// two. Over a uniform `u` those lines average exactly 3/2.
    pub fn waiting(&mut self, mean: u64) -> u64 {
        let draw = self.0.next_u64() | 1;
        let zeros = draw.leading_zeros();
        // The 16 bits after the leading one: how far `u` lies on the way to the next power of two.
        let way = ((draw << zeros) << 1) >> 48;
        let minus_log = (u64::from(zeros + 1) << 16) - way;
        (u128::from(minus_log) * u128::from(mean) * 2 / (3 << 16)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_times_have_their_mean_and_a_long_tail() {
        let mut chance = Chance::new(1);
        let draws: Vec<u64> = (0..200_000).map(|_| chance.waiting(30_000)).collect();
        let mean = draws.iter().sum::<u64>() / draws.len() as u64;
        assert!((29_700..30_300).contains(&mean), "mean {mean}");
        let share_above = |limit| draws.iter().filter(|draw| **draw > limit).count() as f64 / 200_000.0;
        // exp(-1) and exp(-4) within what the straight lines cost.
        assert!((0.33..0.41).contains(&share_above(30_000)), "{}", share_above(30_000));
        assert!((0.01..0.03).contains(&share_above(120_000)), "{}", share_above(120_000));
    }

    #[test]
    fn choices_stay_within_their_bounds_and_reach_them() {
        let mut chance = Chance::new(2);
        let draws: Vec<u64> = (0..1000).map(|_| chance.between(3, 6)).collect();
        assert_eq!((draws.iter().min(), draws.iter().max()), (Some(&3), Some(&6)));
        assert_eq!(chance.between(5, 5), 5);
        assert!(!chance.permille(0) && chance.permille(1000));
        let _ = chance.between(0, u64::MAX);
    }
}
