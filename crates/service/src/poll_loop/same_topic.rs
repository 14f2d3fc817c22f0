//! Whether the input topic still is the one whose partitions were taken up.
//!
//! A topic that is deleted and created again keeps its name, and the client reads on in the new log at the offsets of
//! the old one. Its id tells the two apart. It is compared before every commit: what was read before the id was seen
//! to be the same is of the same log, so nothing of another one is ever committed.

use crate::backoff::{ANSWER, GLANCE, answered};
use crate::clock::Clock;
use crate::error::ServiceError;
use kvset_kafka::kafka::member::{Member, TopicId};
use kvset_pipeline::publish::{FailureKind, PublishError};
use kvset_pipeline::resume::check_same_topic;
use std::time::{Duration, Instant};

/// Time between two looks while nothing is committed.
const LOOK: Duration = Duration::from_secs(5);

/// The id that the topic had first, and when it was compared last.
pub(super) struct SameTopic<'c> {
    topic: &'c str,
    clock: &'c dyn Clock,
    id: Option<TopicId>,
    compared: Instant,
}

impl<'c> SameTopic<'c> {
    /// A topic of which nothing is known yet.
    pub fn new(topic: &'c str, clock: &'c dyn Clock) -> Self {
        Self { topic, clock, id: None, compared: clock.now() }
    }

    /// Takes down what the topic is, or compares it with what it was. Waits for brokers for so long.
    ///
    /// # Errors
    /// It is another one; or the brokers do not say.
    pub fn compare(&mut self, source: &impl Member, deadline: Duration) -> Result<(), ServiceError> {
        let now = answered(self.clock, deadline, || source.topic_id(deadline.min(ANSWER)))?;
        self.compared = self.clock.now();
        self.take_down(now)
    }

    fn take_down(&mut self, now: Option<TopicId>) -> Result<(), ServiceError> {
        let topic = || self.topic.to_owned();
        check_same_topic(self.id.as_ref(), now.as_ref())
            .map_err(|refusal| ServiceError::Recreated { topic: topic(), refusal })?;
        self.id = self.id.take().or(now);
        Ok(())
    }

    /// Compares before a commit. Where brokers do not say what the topic is, the commit may come later.
    ///
    /// # Errors
    /// As for [`Self::compare`].
    pub fn compare_to_commit(
        &mut self,
        source: &impl Member,
        deadline: Duration,
    ) -> Result<(), ServiceError> {
        self.compare(source, deadline).map_err(|error| match error {
            ServiceError::Kafka(failure) if failure.kind == FailureKind::Transient => {
                PublishError::Aborted(failure).into()
            }
            error => error,
        })
    }

    /// Compares where nothing was committed for a while.
    ///
    /// # Errors
    /// As for [`Self::look`].
    pub fn look_now_and_then(&mut self, source: &impl Member) -> Result<(), ServiceError> {
        if self.id.is_none() || self.clock.since(self.compared) < LOOK { Ok(()) } else { self.look(source) }
    }

    /// Compares once. An answer that fails to come says nothing.
    ///
    /// # Errors
    /// It is another topic.
    pub fn look(&mut self, source: &impl Member) -> Result<(), ServiceError> {
        self.compared = self.clock.now();
        match source.topic_id(GLANCE) {
            Ok(now) => self.take_down(now),
            Err(failure) => {
                tracing::debug!("{failure}");
                Ok(())
            }
        }
    }
}
