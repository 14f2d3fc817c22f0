//! What automation follows: a capacity that changes only for a reason.
//!
//! Rules, step by step ([`steps`](super::steps)), `current` being the steady capacity and `required` what the step's
//! window asks for:
//! 1. The first requirement known is taken.
//! 2. A requirement that exceeds `current` by more than `min_change` of it is taken at once.
//! 3. Any other one is taken once `hold` steps in a row lie on its side of `current`: the largest requirement of those
//!    steps, so that none of them would have lacked capacity. Too much is only money; too little loses hits.
//! 4. A window that is warming up under-counts: where it asks for less than `current`, it changes nothing, so it never
//!    lowers the capacity nor helps to.
//! 5. A requirement beyond the tracked bound has no number: the capacity stays, and a row of smaller requirements is
//!    broken.

use crate::units::PageCount;
use crate::units::heap::flat;
use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Holds one capacity against changes that do not last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hysteresis {
    min_change: Ratio,
    hold: u32,
    current: Option<PageCount>,
    /// The steps in a row whose requirement lies on one side of the current one: whether that is the larger side, how
    /// many they are, and the largest of their requirements.
    row: Option<(bool, u32, PageCount)>,
}

flat!(Hysteresis);

impl Hysteresis {
    /// Requirements that exceed the current capacity by more than `min_change` of it count at once, others after
    /// `hold` steps (at least 1).
    pub fn new(min_change: Ratio, hold: u32) -> Self {
        Self { min_change, hold: hold.max(1), current: None, row: None }
    }

    /// Whether this one, read back from a snapshot, goes by the rules of the `fresh` one.
    pub fn is_like(&self, fresh: &Self) -> bool {
        (self.min_change, self.hold) == (fresh.min_change, fresh.hold)
            && self.row.is_none_or(|(_, steps, _)| steps < self.hold)
    }

    /// The capacity as it stands; absent as long as no requirement was known.
    pub fn current(&self) -> Option<PageCount> {
        self.current
    }

    /// Takes the requirement of a step (`None` beyond the bound). Returns the capacity, and whether the step changed
    /// it.
    pub fn observe(&mut self, required: Option<PageCount>, warm_up: bool) -> (Option<PageCount>, bool) {
        let before = self.current;
        match (required, self.current) {
            (None, _) => self.row = self.row.filter(|(larger, ..)| *larger),
            (Some(required), None) => self.current = Some(required),
            (Some(required), Some(current)) => self.weigh(required, current, warm_up),
        }
        (self.current, self.current != before)
    }

    /// Takes the requirement of a window that is no step: a larger one at once, and no row of smaller ones ends below
    /// it.
    pub fn raise(&mut self, required: Option<PageCount>) {
        let Some(required) = required else { return };
        match &mut self.row {
            _ if Some(required) > self.current => self.take(required),
            Some((false, _, largest)) => *largest = required.max(*largest),
            _ => {}
        }
    }

    fn weigh(&mut self, required: PageCount, current: PageCount, warm_up: bool) {
        let larger = match required.cmp(&current) {
            Ordering::Less if warm_up => return,
            Ordering::Equal => return self.row = None,
            Ordering::Less => false,
            Ordering::Greater => true,
        };
        if larger && required.0 - current.0 > self.min_change.share_of(current.0) {
            return self.take(required);
        }
        let row = self.row.filter(|(side, ..)| *side == larger);
        let (steps, largest) =
            row.map_or((1, required), |(_, steps, largest)| (steps + 1, largest.max(required)));
        if steps >= self.hold { self.take(largest) } else { self.row = Some((larger, steps, largest)) }
    }

    fn take(&mut self, pages: PageCount) {
        self.current = Some(pages);
        self.row = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOLD: usize = 4;

    proptest! {
        /// What the example consumer resized by swung from 54 to 284 GB within a day.
        #[test]
        fn what_is_held_is_no_less_than_any_window_of_the_last_steps_and_soon_no_more(
            windows in prop::collection::vec((any::<bool>(), 1u64..100), 1..200),
        ) {
            let mut held = Hysteresis::new(Ratio::per_mille(0), HOLD as u32);
            // What the windows asked for, by the number of steps before.
            let mut asked = vec![Vec::new()];
            for (is_step, pages) in windows {
                let required = Some(PageCount(pages));
                if is_step {
                    asked.push(Vec::new());
                    held.observe(required, false);
                } else {
                    held.raise(required);
                }
                asked.last_mut().expect("one").push(pages);
                let most_of = |steps: usize| asked.iter().rev().take(steps).flatten().copied().max();
                let now = held.current().map(|pages| pages.0);
                prop_assert!(now >= most_of(HOLD - 1), "{:?} of {:?}", now, asked);
                prop_assert!(now <= most_of(2 * HOLD + 1), "{:?} of {:?}", now, asked);
            }
        }
    }
}
