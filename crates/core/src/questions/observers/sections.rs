//! Sections of a pool's state: what each question keeps by itself.
//!
//! A section is written only where its question is enabled, under a byte that says whose it is. So a further question
//! is one more entry of the list in [`questions`](crate::questions), and changes neither the format nor what was kept
//! of the others.

use super::{Observation, ObservationShape, ObservationTally};
use crate::questions::question::{Question, ShareOf};
use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::vec::IntoIter;

/// What one question keeps of a pool.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SnapshotSection<F, T, S> {
    /// What is followed; nothing where the configuration says all of it.
    pub(super) followed: F,
    /// Counts of windows that requests only come into, in order of windows and panes.
    pub(super) tallies: Vec<T>,
    /// Requests of windows that they leave again, in order of windows.
    pub(super) shares: Vec<S>,
}

impl<F, T, S> SnapshotSection<F, T, S> {
    /// A section without any window's part yet.
    pub(super) fn of(followed: F) -> Self {
        Self { followed, tallies: Vec::new(), shares: Vec::new() }
    }
}

/// The counts and the requests of a section that windows have not taken back yet.
pub(super) type Unread<T, S> = (IntoIter<T>, IntoIter<S>);

/// The section of a question.
type SectionOf<Q> = SnapshotSection<<Q as Question>::Kept, <Q as Question>::Tally, ShareOf<Q>>;

/// The same of a pool that goes on.
type SectionOfPool<'a, Q> =
    SnapshotSection<&'a <Q as Question>::Kept, &'a <Q as Question>::Tally, &'a ShareOf<Q>>;

/// Declares the sections of all questions that have one.
macro_rules! sections {
    ($($(#[$doc:meta])+ $mark:literal $question:ident $(as $field:ident)? $(($how:ident))?: $Observer:ty;)+) => {
        /// The sections of one pool.
        #[derive(Debug, Default)]
        pub struct PoolSections<'a> {
            $(pub(super) $question: Option<SectionOfPool<'a, $Observer>>,)+
        }

        impl<'a> PoolSections<'a> {
            /// Adds a window's, or a pane's, counts.
            pub fn push_tally(&mut self, tally: Option<&'a ObservationTally>) {
                let Some(tally) = tally else { return };
                $(self.$question.iter_mut().for_each(|own| own.tallies.extend(tally.$question.as_deref()));)+
            }

            /// Adds the requests that a window holds.
            pub fn push_shares(&mut self, shares: impl Iterator<Item = &'a Observation>) {
                for share in shares {
                    $(self.$question.iter_mut().for_each(|own| own.shares.extend(share.$question.as_deref()));)+
                }
            }
        }

        /// The sections of one pool, read back.
        #[derive(Debug, Default)]
        pub struct RestoredSections {
            $(pub(super) $question: Option<SectionOf<$Observer>>,)+
        }

        impl Serialize for PoolSections<'_> {
            fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
                let written = [$(self.$question.is_some()),+];
                let count = written.iter().filter(|is_written| **is_written).count();
                let mut sections = serializer.serialize_map(Some(count))?;
                $(if let Some(own) = &self.$question {
                    sections.serialize_entry(&($mark as u8), own)?;
                })+
                sections.end()
            }
        }

        /// Fills itself: reads the byte of each section, and the section.
        impl<'de> Visitor<'de> for RestoredSections {
            type Value = Self;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("sections of questions")
            }

            fn visit_map<A: MapAccess<'de>>(mut self, mut sections: A) -> Result<Self, A::Error> {
                while let Some(mark) = sections.next_key::<u8>()? {
                    let is_first = match mark {
                        $($mark => self.$question.replace(sections.next_value()?).is_none(),)+
                        _ => return Err(A::Error::custom("a section is of no question")),
                    };
                    if !is_first {
                        return Err(A::Error::custom("a question has two sections"));
                    }
                }
                Ok(self)
            }
        }

        /// What windows take back, in the order they gave it.
        #[derive(Debug, Default)]
        pub struct UnreadSections {
            $(pub(super) $question: Unread<<$Observer as Question>::Tally, ShareOf<$Observer>>,)+
        }

        impl UnreadSections {
            /// The next window's, or pane's, counts of this shape.
            pub fn tally(&mut self, shape: ObservationShape) -> Option<Box<ObservationTally>> {
                shape.is_something().then(|| Box::new(ObservationTally {
                    $($question: shape.$question.and_then(|_| self.$question.0.next()).map(Box::new),)+
                }))
            }

            /// The next requests, of this shape, of a window that holds so many.
            pub fn shares(
                &mut self,
                requests: usize,
                shape: ObservationShape,
            ) -> impl Iterator<Item = Observation> + '_ {
                (0..requests).map(move |_| Observation {
                    $($question: shape.$question.and_then(|_| self.$question.1.next()).map(Box::new),)+
                })
            }

            /// Whether all was taken back.
            pub fn is_empty(&self) -> bool {
                $(self.$question.0.len() + self.$question.1.len() == 0)&&+
            }
        }
    };
}

with_questions!(sections);

impl<'de> Deserialize<'de> for RestoredSections {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self::default())
    }
}
