//! How long a request is in flight, and the pages that it takes meanwhile.

use crate::units::EventTime;
use crate::units::heap::flat;
use serde::{Deserialize, Serialize};

/// How long a request is in flight, and the pages it takes meanwhile beyond those of its prompt with ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stay {
    /// When it is looked up.
    pub arrival: EventTime,
    /// From then to its end, in milliseconds. One of none ends before anything else happens.
    pub duration_ms: u64,
    /// Whether its prompt ends within a page.
    pub begins_partial: bool,
    /// Pages that its output takes.
    pub growth: Growth,
}

/// Pages that are taken one after another, while tokens come evenly over the duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Growth {
    /// Pages yet to be taken.
    pub pages: u32,
    /// The output token, counted from 1, that takes the next one.
    pub next_token: u64,
    /// Tokens from one to the next.
    pub tokens_per_page: u64,
    /// Output tokens in all; not zero where there are pages.
    pub tokens: u64,
}

impl Growth {
    /// Leaves out the first pages.
    pub fn skip(self, pages: u32) -> Self {
        let pages = pages.min(self.pages);
        let next_token =
            self.next_token.saturating_add(u64::from(pages).saturating_mul(self.tokens_per_page));
        Self { pages: self.pages - pages, next_token, ..self }
    }
}

/// What happens at one moment, in its order. Arrivals come before all of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// A page is taken in this very millisecond.
    Grows,
    Ends,
    /// A page is taken before the next millisecond.
    GrowsLater,
}

/// The next thing that happens to a request in flight, which lies `at` a place of its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NextEvent<At> {
    pub(crate) time: EventTime,
    pub(crate) phase: Phase,
    /// Makes the order that of look-ups where the rest is equal.
    pub(crate) number: u64,
    pub(crate) at: At,
}

flat!(NextEvent<u32>, NextEvent<usize>);

impl Stay {
    /// The moment so many milliseconds after the arrival.
    fn after(&self, ms: u64) -> EventTime {
        EventTime(self.arrival.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)))
    }

    /// When it ends.
    pub(super) fn end(&self) -> EventTime {
        self.after(self.duration_ms)
    }

    /// Whether it is over before a request that arrives at this moment.
    pub(super) fn ends_before(&self, now: EventTime) -> bool {
        self.duration_ms == 0 || self.end() < now
    }

    /// When it takes its next page, or ends.
    pub(crate) fn next(&self) -> (EventTime, Phase) {
        let Self { duration_ms, growth, .. } = *self;
        if growth.pages == 0 {
            return (self.end(), Phase::Ends);
        }
        let all = u128::from(growth.tokens.max(1));
        let product = u128::from(duration_ms) * u128::from(growth.next_token).min(all);
        let phase = if product.is_multiple_of(all) { Phase::Grows } else { Phase::GrowsLater };
        // At most the duration, for no more tokens than all of them.
        (self.after(u64::try_from(product / all).unwrap_or(duration_ms)), phase)
    }
}
