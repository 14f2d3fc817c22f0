//! A set of numbers below a bound, with the largest at hand.

/// Bits in levels: each word of a level says which 64 words below it are not empty.
#[derive(Debug)]
pub(super) struct Bits {
    levels: Vec<Vec<u64>>,
}

impl Bits {
    /// An empty set of numbers below `bound`.
    pub(super) fn below(bound: usize) -> Self {
        let mut levels = Vec::new();
        let mut words = bound.div_ceil(64).max(1);
        loop {
            levels.push(vec![0; words]);
            if words == 1 {
                return Self { levels };
            }
            words = words.div_ceil(64);
        }
    }

    /// Puts a number in.
    pub(super) fn insert(&mut self, mut number: usize) {
        for level in &mut self.levels {
            let word = &mut level[number / 64];
            let was_empty = *word == 0;
            *word |= 1 << (number % 64);
            if !was_empty {
                return;
            }
            number /= 64;
        }
    }

    /// Takes a number out.
    pub(super) fn remove(&mut self, mut number: usize) {
        for level in &mut self.levels {
            let word = &mut level[number / 64];
            *word &= !(1 << (number % 64));
            if *word != 0 {
                return;
            }
            number /= 64;
        }
    }

    /// The largest number in it.
    pub(super) fn largest(&self) -> Option<usize> {
        let mut at = 0;
        for level in self.levels.iter().rev() {
            at = at * 64 + level[at].checked_ilog2()? as usize;
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn equals_an_ordered_set(changes in prop::collection::vec((0usize..9000, any::<bool>()), 0..300)) {
            let (mut bits, mut set) = (Bits::below(9000), BTreeSet::new());
            for (number, is_in) in changes {
                if is_in {
                    bits.insert(number);
                    set.insert(number);
                } else {
                    bits.remove(number);
                    set.remove(&number);
                }
                prop_assert_eq!(bits.largest(), set.last().copied());
            }
        }
    }
}
