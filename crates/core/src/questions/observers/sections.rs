//! Sections of a snapshot: what each question keeps by itself, behind the state of all pools.
//!
//! A section is written only where its question is enabled, behind a byte that says whose it is. So a further question is
//! one more entry of the list in [`questions`](crate::questions), and changes neither the format nor what was kept of the others.

use super::{Observation, ObservationShape, ObservationTally};
use crate::questions::question::{Question, ShareOf};
use serde::de::{Error, SeqAccess};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
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
    ($($(#[$doc:meta])+ $mark:literal $question:ident: $Observer:ty;)+) => {
        /// The sections of one pool.
        #[derive(Debug, Default)]
        pub struct PoolSections<'a> {
            $(pub(super) $question: Option<SectionOfPool<'a, $Observer>>,)+
        }

        impl<'a> PoolSections<'a> {
            /// Adds a window's, or a pane's, counts.
            pub(super) fn push_tally(&mut self, tally: &'a ObservationTally) {
                $(self.$question.iter_mut().for_each(|own| own.tallies.extend(tally.$question.as_deref()));)+
            }

            /// Adds a request that a window holds.
            pub(super) fn push_share(&mut self, share: &'a Observation) {
                $(self.$question.iter_mut().for_each(|own| own.shares.extend(share.$question.as_deref()));)+
            }
        }

        /// The sections of one pool, read back.
        #[derive(Debug, Default)]
        pub struct RestoredSections {
            $(pub(super) $question: Option<SectionOf<$Observer>>,)+
        }

        impl RestoredSections {
            /// How many questions have a section.
            pub const QUESTIONS: usize = [$($mark as u8),+].len();

            /// Reads the section behind a byte, and gives each pool its own part; whether the byte is that of one.
            ///
            /// # Errors
            /// What follows is no such section, or names a pool twice.
            pub fn read<'de, A: SeqAccess<'de>>(
                pools: &mut BTreeMap<Box<str>, Self>,
                mark: u8,
                parts: &mut A,
            ) -> Result<bool, A::Error> {
                match mark {
                    $($mark => {
                        let section: Option<Vec<(Box<str>, SectionOf<$Observer>)>> = parts.next_element()?;
                        for (pool, own) in section.unwrap_or_default() {
                            if pools.entry(pool).or_default().$question.replace(own).is_some() {
                                return Err(A::Error::custom("a section names a pool twice"));
                            }
                        }
                    })+
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }

        /// What windows take back of these.
        #[derive(Debug, Default)]
        pub(super) struct UnreadSections {
            $(pub(super) $question: Unread<<$Observer as Question>::Tally, ShareOf<$Observer>>,)+
        }

        impl UnreadSections {
            /// Gives the next window's, or pane's, counts what is kept of them.
            pub(super) fn complete_tally(&mut self, shape: ObservationShape, tally: &mut ObservationTally) {
                $(if shape.$question.is_some() {
                    tally.$question = self.$question.0.next().map(Box::new);
                })+
            }

            /// Gives the next request what is kept of it.
            pub(super) fn complete_share(&mut self, shape: ObservationShape, share: &mut Observation) {
                $(if shape.$question.is_some() {
                    share.$question = self.$question.1.next().map(Box::new);
                })+
            }

            /// Whether all was taken back.
            pub(super) fn is_empty(&self) -> bool {
                $(self.$question.0.len() + self.$question.1.len() == 0)&&+
            }
        }

        /// The sections of all pools, each with its pools in order of name.
        #[derive(Debug, Default)]
        pub struct SectionsImage<'a> {
            $($question: Vec<(&'a str, SectionOfPool<'a, $Observer>)>,)+
        }

        impl<'a> FromIterator<(&'a str, PoolSections<'a>)> for SectionsImage<'a> {
            fn from_iter<I: IntoIterator<Item = (&'a str, PoolSections<'a>)>>(pools: I) -> Self {
                let mut image = Self::default();
                for (pool, sections) in pools {
                    $(image.$question.extend(sections.$question.map(|own| (pool, own)));)+
                }
                image
            }
        }

        impl SectionsImage<'_> {
            /// Whether no pool has any.
            pub fn is_empty(&self) -> bool {
                $(self.$question.is_empty())&&+
            }
        }

        impl Serialize for SectionsImage<'_> {
            fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
                let written = [$(!self.$question.is_empty()),+];
                let fields = written.iter().filter(|is_written| **is_written).count() * 2;
                let mut sections = serializer.serialize_struct("Sections", fields)?;
                $(if !self.$question.is_empty() {
                    sections.serialize_field("mark", &($mark as u8))?;
                    sections.serialize_field(stringify!($question), &self.$question)?;
                })+
                sections.end()
            }
        }
    };
}

with_questions!(sections);
