//! What one request adds to windows alongside its own counts, and what windows make of it: one entry a question.

use crate::questions::counters::{Counter, Share, counted};
use crate::questions::question::Question;
use crate::questions::reuse::ReuseShape;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The counts of a question.
type TallyOf<Q> = <Q as Question>::Tally;

/// Declares what is counted of all questions.
macro_rules! observation {
    ($($(#[$doc:meta])+ $mark:literal $question:ident $(as $field:ident)? $(($how:ident))?: $Observer:ty;)+) => {
        counted! {
            Observation, ObservationShape, ObservationTally {
                $($(#[$doc])+ $question: Option<Box<TallyOf<$Observer>>>,)+
            }
        }

        impl ObservationShape {
            /// The same of those questions alone that such a window counts as requests come and go, or of the others.
            fn of_those(self, takes_out: bool) -> Self {
                Self {
                    $($question: self.$question.filter(|shape| TallyOf::<$Observer>::takes_out(*shape) == takes_out),)+
                }
            }
        }

        impl ObservationTally {
            /// Takes in what is counted when a window is shown ([`ObservationShape::when_shown`]).
            pub fn take_shown(&mut self, counts: Self) {
                $(self.$question = counts.$question.or(self.$question.take());)+
            }
        }
    };
}

with_questions!(observation);

impl ObservationShape {
    /// The same in a window that never ends.
    pub fn without_end(self) -> Self {
        Self { reuse: self.reuse.map(ReuseShape::without_end), ..self }
    }

    /// The same in a window that requests leave again, which counts [`ObservationShape::when_shown`] later.
    pub fn of_latest(self) -> Self {
        self.of_those(true)
    }

    /// What such a window counts when it is shown: what could not be taken out again, or costs more to take in and
    /// out than to count now and then.
    pub fn when_shown(self) -> Self {
        self.of_those(false)
    }

    /// Whether anything is counted.
    pub fn is_something(self) -> bool {
        self != Self::default()
    }

    /// Counts that hold nothing yet; `None` where nothing is counted.
    pub fn tally(self) -> Option<Box<ObservationTally>> {
        self.is_something().then(|| Box::new(ObservationTally::new(self)))
    }
}

impl ObservationTally {
    /// The same with nothing pending, to be read often; copies only where something is.
    pub fn consolidated(&self) -> Cow<'_, Self> {
        if self.is_consolidated() {
            return Cow::Borrowed(self);
        }
        let mut copy = self.clone();
        copy.consolidate();
        Cow::Owned(copy)
    }
}
