//! What a pool answers alongside its estimates where it is asked to; it costs nothing until then.
//!
//! This is the one place for such questions, whether the service or a replay asks them. A question is an entry of the
//! list in [`questions`](crate::questions). From the entry follow its setting, what is followed, what one request adds
//! and windows count ([`observation`]), its section of a snapshot ([`sections`]), and what an
//! [`Estimate`](crate::estimate::Estimate) says.

mod observation;
mod sections;
#[cfg(test)]
mod tests;

pub use observation::{Observation, ObservationShape, ObservationTally};
pub use sections::{PoolSections, RestoredSections, UnreadSections};

use crate::engines::one_pass::Engine;
use crate::questions::enabled::{ObservedPool, is_default};
use crate::questions::question::{Accepted, Question, QuestionError, QuestionFigures, QuestionPool};
use crate::questions::routing::RoutingShare;
use crate::units::PageSize;
use crate::units::heap::heap_bytes;
use sections::SnapshotSection;
use serde::Serialize;
use std::sync::Arc;

/// Declares what is followed and answered of all questions.
macro_rules! observers {
    ($($(#[$doc:meta])+ $mark:literal $question:ident $(as $field:ident)? $(($how:ident))?: $Observer:ty;)+) => {
        /// What is followed alongside the pool's own cache; nothing of questions that are not enabled.
        #[derive(Debug, Default)]
        pub struct Observers {
            $($question: Option<Box<$Observer>>,)+
            /// What requests add that say nothing.
            nothing: Arc<Observation>,
            /// What the latest request added: its room is taken again where no window holds on to it.
            latest: Option<Arc<Observation>>,
        }

        /// What a window says, question by question; nothing of those that are not enabled.
        #[derive(Debug, Clone, PartialEq, Default, Serialize)]
        pub struct QuestionAnswers {
            $(
                $(#[$doc])+
                #[serde(skip_serializing_if = "is_default")]
                pub $question: <$Observer as Question>::Answer,
            )+
        }

        heap_bytes!(Observers { $($question,)+ nothing, latest });

        impl Observers {
            /// What the configuration asks for, at capacities that can be known, in followed pages and ascending; `None`
            /// where that is nothing.
            pub fn new(config: ObservedPool<'_>, capacities: &[u64], page_size: PageSize) -> Option<Box<Self>> {
                let pool = config.followed(capacities, page_size);
                let mut observers = Self {
                    $($question: Question::new(&config.questions.$question, pool).map(Box::new),)+
                    ..Self::default()
                };
                let nothing = Observation { $($question: observers.$question.as_ref().map(|_| Box::default()),)+ };
                observers.nothing = Arc::new(nothing);
                (!config.questions.is_nothing()).then(|| Box::new(observers))
            }

            /// What windows count.
            pub fn shape(&self) -> ObservationShape {
                ObservationShape { $($question: self.$question.as_ref().map(|own| own.shape()),)+ }
            }

            /// Follows a request; gives what it adds to windows. Why it could not be followed everywhere is
            /// [`Observers::refusal`].
            pub fn observe(&mut self, request: &Accepted<'_>) -> Arc<Observation> {
                let latest = self.latest.take().filter(|latest| Arc::strong_count(latest) == 1);
                let mut share = latest.unwrap_or_default();
                let room = Arc::make_mut(&mut share);
                $(if let Some(observer) = &mut self.$question {
                    observer.follow(request, room.$question.get_or_insert_default());
                })+
                // Windows hold on to one of those that say nothing, however many there are.
                let says_nothing = share == self.nothing;
                let given = Arc::clone(if says_nothing { &self.nothing } else { &share });
                self.latest = Some(share);
                given
            }

            /// Why the latest request could not be followed everywhere, where it could not: what it would have found is
            /// left out.
            pub fn refusal(&self) -> Option<&QuestionError> {
                None$(.or_else(|| self.$question.as_ref()?.refusal()))+
            }

            /// What a window says.
            pub fn answers(&self, tally: &ObservationTally, figures: &QuestionFigures<'_>) -> QuestionAnswers {
                let mut answers = QuestionAnswers::default();
                $(if let Some((observer, tally)) = self.$question.as_ref().zip(tally.$question.as_ref()) {
                    answers.$question = observer.answer(tally, figures);
                })+
                answers
            }

            /// What a snapshot keeps, without any window's part yet.
            pub fn sections(&self) -> PoolSections<'_> {
                PoolSections { $($question: self.$question.as_ref().map(|own| SnapshotSection::of(own.kept())),)+ }
            }

            /// Goes on from what a snapshot kept, with what windows take back of it; `None` where that is not what the
            /// configuration asks for.
            pub fn resumed(
                mut self: Box<Self>,
                sections: RestoredSections,
                pool: QuestionPool<'_>,
                engine: &Engine,
            ) -> Option<(Box<Self>, UnreadSections)> {
                let mut unread = UnreadSections::default();
                $(self.$question = match (self.$question, sections.$question) {
                    (None, None) => None,
                    (Some(fresh), Some(SnapshotSection { followed, tallies, shares })) => {
                        unread.$question = (tallies.into_iter(), shares.into_iter());
                        Some(Box::new(fresh.resumed(followed, pool, engine)?))
                    }
                    _ => return None,
                };)+
                Some((self, unread))
            }
        }
    };
}

with_questions!(observers);

impl Observers {
    /// What the latest request found behind each router requested, in their order.
    pub fn last_routed(&self) -> &[Option<RoutingShare>] {
        self.latest.as_ref().and_then(|latest| latest.routers.as_deref()).map_or(&[], Vec::as_slice)
    }

    /// What the latest request finds at most without limit and at each capacity, where a draft head leaves that open.
    pub fn last_draft_range(&self) -> Option<(u64, &[u64])> {
        let share = self.latest.as_ref()?.draft_range.as_deref()?;
        (share.open > 0).then_some((share.unlimited, share.hits.as_slice()))
    }

    /// The fewest pages with which perfect foresight would have so many hits over a log that ends, in followed pages.
    pub fn least_optimal_capacity(&self, hits: u64) -> Option<u64> {
        self.reuse.as_ref()?.least_capacity(hits)
    }
}
