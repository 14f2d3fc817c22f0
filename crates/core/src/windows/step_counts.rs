//! Counts by step of the curve, as long as there is something to count.
//!
//! The curve has a hundred steps, and a pool of a hundred pages reaches a quarter of them.

use crate::units::heap::{flat, heap_bytes};
use serde::{Deserialize, Serialize, Serializer};

/// Pages that are hits at one threshold and at no smaller one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepHits {
    /// Index of the threshold.
    pub step: u32,
    /// Pages, never zero.
    pub pages: u32,
}

flat!(StepHits);

/// Pages by step. A snapshot keeps every step.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "Vec<u64>")]
pub struct StepCounts {
    /// Steps of the curve.
    steps: usize,
    /// Up to the last step counted at least; those behind have none.
    pages: Vec<u64>,
}

heap_bytes!(StepCounts { pages; steps });

/// Steps that room is made for at once.
const ROOM: usize = 8;

impl StepCounts {
    /// Nothing counted in so many steps.
    pub fn new(steps: usize) -> Self {
        Self { steps, pages: Vec::new() }
    }

    /// Steps of the curve.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Counts pages.
    #[inline]
    pub fn add(&mut self, hits: &StepHits) {
        let step = hits.step as usize;
        if step >= self.pages.len() {
            self.lengthen(step + 1);
        }
        self.pages[step] += u64::from(hits.pages);
    }

    /// Takes pages out that were counted before.
    #[inline]
    pub fn remove(&mut self, hits: &StepHits) {
        self.pages[hits.step as usize] -= u64::from(hits.pages);
    }

    /// Adds what another one has counted.
    pub fn merge(&mut self, other: &Self) {
        self.steps = self.steps.max(other.steps);
        if other.pages.len() > self.pages.len() {
            self.lengthen(other.pages.len());
        }
        self.pages.iter_mut().zip(&other.pages).for_each(|(sum, pages)| *sum += pages);
    }

    /// The pages by step, up to the last one counted at least.
    pub fn as_slice(&self) -> &[u64] {
        &self.pages
    }

    #[cold]
    fn lengthen(&mut self, steps: usize) {
        self.pages.reserve_exact(steps.next_multiple_of(ROOM) - self.pages.len());
        self.pages.resize(steps, 0);
    }

    /// The same without the steps at the end that have no pages.
    fn counted(&self) -> &[u64] {
        let end = self.pages.iter().rposition(|pages| *pages > 0).map_or(0, |last| last + 1);
        &self.pages[..end]
    }
}

impl FromIterator<u64> for StepCounts {
    fn from_iter<I: IntoIterator<Item = u64>>(pages: I) -> Self {
        Self::from(pages.into_iter().collect::<Vec<_>>())
    }
}

impl From<Vec<u64>> for StepCounts {
    fn from(pages: Vec<u64>) -> Self {
        let all = Self { steps: pages.len(), pages };
        Self { pages: all.counted().to_vec(), ..all }
    }
}

impl Serialize for StepCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let further = std::iter::repeat_n(&0, self.steps.saturating_sub(self.pages.len()));
        // Not chained before they are collected: how many there are is written first.
        serializer.collect_seq(self.pages.iter().chain(further).collect::<Vec<_>>())
    }
}

impl PartialEq for StepCounts {
    /// Whether they count the same, however many steps they have room for.
    fn eq(&self, other: &Self) -> bool {
        self.counted() == other.counted()
    }
}

impl Eq for StepCounts {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn counts_equal_an_array(steps in prop::collection::vec((0u32..40, 1u32..9, any::<bool>()), 0..60)) {
            let (mut counts, mut model) = (StepCounts::new(40), [0; 40]);
            for (step, pages, takes_out) in steps {
                let held = &mut model[step as usize];
                if !takes_out {
                    counts.add(&StepHits { step, pages });
                    *held += u64::from(pages);
                } else if *held >= u64::from(pages) {
                    counts.remove(&StepHits { step, pages });
                    *held -= u64::from(pages);
                }
            }
            prop_assert_eq!(&counts, &model.into_iter().collect());
            let bytes = postcard::to_allocvec(&counts).expect("memory");
            prop_assert_eq!(&bytes, &postcard::to_allocvec(&model.to_vec()).expect("memory"), "every step is kept");
            let read: StepCounts = postcard::from_bytes(&bytes).expect("what was written");
            prop_assert_eq!((read.steps(), &read), (40, &counts));
            let mut twice = StepCounts::default();
            twice.merge(&counts);
            twice.merge(&counts);
            prop_assert_eq!(twice, model.iter().map(|pages| 2 * pages).collect());
        }
    }
}
