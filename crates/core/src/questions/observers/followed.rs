//! What is followed for the questions that have a section of their own, and what they answer.

use super::sections::{PoolSections, RestoredSections, SnapshotSection, UnreadSections};
use super::{Observation, ObservationTally};
use crate::engines::bank::CacheBank;
use crate::engines::one_pass::Engine;
use crate::questions::accepted::Accepted;
use crate::questions::enabled::ObservedPool;
use crate::questions::question::{Question, QuestionFigures};
use crate::units::PageSize;
use crate::units::heap::heap_bytes;
use serde::Serialize;

/// Declares what is followed and answered of all questions that have a section.
macro_rules! followed {
    ($($(#[$doc:meta])+ $mark:literal $question:ident: $Observer:ty;)+) => {
        /// What is followed; nothing of questions that are not enabled.
        #[derive(Debug, Default)]
        pub(super) struct FollowedQuestions {
            $($question: Option<Box<$Observer>>,)+
        }

        /// What a window says, where it is enabled.
        #[derive(Debug, Clone, PartialEq, Default, Serialize)]
        pub struct QuestionAnswers {
            $(
                $(#[$doc])+
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $question: Option<<$Observer as Question>::Estimate>,
            )+
        }

        heap_bytes!(FollowedQuestions { $($question),+ });

        impl FollowedQuestions {
            /// What the configuration asks for, at capacities that can be known.
            pub(super) fn new(config: ObservedPool<'_>, capacities: &[u64], page_size: PageSize) -> Self {
                let pool = config.followed(capacities, page_size);
                Self { $($question: Question::new(&config.questions.$question, pool).map(Box::new),)+ }
            }

            /// Whether anything is followed.
            pub(super) fn is_something(&self) -> bool {
                $(self.$question.is_some())||+
            }

            /// Follows a request; gives what it adds to windows.
            pub(super) fn follow(
                &mut self,
                request: &Accepted<'_>,
                config: ObservedPool<'_>,
                own: &CacheBank,
                room: &mut Observation,
            ) {
                let cache = config.provisioned();
                $(room.$question =
                    self.$question.as_mut().map(|observer| Box::new(observer.follow(request, cache, own)));)+
            }

            /// What a window says.
            pub(super) fn answers(
                &self,
                tally: &ObservationTally,
                figures: &QuestionFigures<'_>,
            ) -> QuestionAnswers {
                QuestionAnswers { $($question: self
                    .$question
                    .as_deref()
                    .zip(tally.$question.as_deref())
                    .and_then(|(observer, tally)| observer.estimate(tally, figures)),)+ }
            }

            /// What a snapshot keeps, without any window's part yet.
            pub(super) fn sections(&self) -> PoolSections<'_> {
                PoolSections { $($question: self.$question.as_ref().map(|own| SnapshotSection::of(own.kept())),)+ }
            }

            /// Goes on from what a snapshot kept, with what windows take back of it; `None` where that is not what the
            /// configuration asks for.
            pub(super) fn resumed(
                self,
                sections: RestoredSections,
                engine: &Engine,
            ) -> Option<(Self, UnreadSections)> {
                let mut unread = UnreadSections::default();
                let followed = Self { $($question: match (self.$question, sections.$question) {
                    (None, None) => None,
                    (Some(fresh), Some(SnapshotSection { followed, tallies, shares })) => {
                        unread.$question = (tallies.into_iter(), shares.into_iter());
                        Some(Box::new(fresh.resumed(followed, engine)?))
                    }
                    _ => return None,
                },)+ };
                Some((followed, unread))
            }
        }
    };
}

with_questions!(followed);
