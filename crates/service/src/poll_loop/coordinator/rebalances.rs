//! Rebalances: partitions are taken up where the group left them, and given up or dropped.

use super::{Coordinator, list};
use crate::backoff::ANSWER;
use crate::error::ServiceError;
use crate::events::ServiceEvent;
use crate::poll_loop::stage::{BrokerFacts, Stage};
use crate::snapshots::checkpoints::Occasion;
use kvset_formats::position::{NextOffset, Partition};
use kvset_kafka::kafka::KafkaFailure;
use kvset_kafka::kafka::member::{Committed, Member};
use kvset_pipeline::publish::{FailureKind, PublishError, Sink};

impl<'c, M, O, S> Coordinator<'c, M, O, S>
where
    M: Member,
    O: Sink<Member = M>,
    S: Stage<'c, M>,
{
    /// Takes partitions up where the group left them.
    pub(super) fn assign(&mut self, partitions: &[Partition]) -> Result<(), ServiceError> {
        self.check_membership()?;
        let committed = if partitions.is_empty() {
            Vec::new()
        } else {
            // First of all: what is known of the partitions from here on is of this topic, or of a later one.
            self.same_topic.compare(self.source, self.plan.retry_for)?;
            self.answer(|source| source.committed(partitions, ANSWER))?
        };
        let mut starts = Vec::with_capacity(committed.len());
        for (partition, Committed { next, gaps }) in committed {
            if !gaps.is_empty() {
                self.gaps.insert(partition, gaps);
            }
            starts.push((partition, self.take_up(partition, next)?));
        }
        self.source.assign(&starts)?;
        self.standing.assigned();
        self.tell_rebalanced();
        Ok(())
    }

    fn tell_rebalanced(&self) {
        self.observer.on(&ServiceEvent::Rebalanced { partitions: self.assignment.partitions().len() });
    }

    fn take_up(
        &mut self,
        partition: Partition,
        committed: Option<NextOffset>,
    ) -> Result<NextOffset, ServiceError> {
        let log = self.answer(|source| source.log_range(partition, ANSWER))?;
        self.epoch = self.epoch.next();
        let gaps = self.gaps.get(&partition).cloned().unwrap_or_default();
        let known = BrokerFacts { partition, committed, log, gaps };
        let resume = self.stage.take_up(self.source, known, self.epoch)?;
        tracing::info!(
            partition = partition.0,
            offset = resume.replay_from.0,
            "partition {partition}: {}",
            resume.explanation
        );
        self.observer.on(&ServiceEvent::Assigned { partition, resume: &resume, log_end: log.end });
        self.stage.tell_restored(partition);
        let end = self.plan.offset_range(partition).map(|offset_range| offset_range.end);
        self.assignment.open(partition, self.epoch, &resume, committed, end);
        Ok(resume.replay_from)
    }

    /// Goes on under a new place in the group with nothing of what was held under the former one.
    ///
    /// # Errors
    /// Something is held still: a new client begins where the group is.
    fn check_membership(&self) -> Result<(), ServiceError> {
        if !self.source.is_evicted() {
            return Ok(());
        }
        let message =
            "the group forgot this member, which joined again: what it holds may be another's by now";
        Err(KafkaFailure { kind: FailureKind::Spent, message: message.to_owned() }.into())
    }

    /// Gives partitions up in order: what was begun is finished and committed first. Where the group did not know
    /// this member meanwhile, others may have done that work: a client that joins again may say of such partitions,
    /// too, that they are moving.
    pub(super) fn revoke(&mut self, partitions: &[Partition]) -> Result<(), ServiceError> {
        if self.source.is_evicted() {
            self.lose(partitions)?;
            return self.check_membership();
        }
        tracing::info!("partitions {} are moving to other members", list(partitions));
        self.drain(partitions, self.plan.shutdown_deadline)?;
        match self.commit(self.plan.shutdown_deadline) {
            // The next owner does this work again from the committed offsets.
            Ok(()) | Err(ServiceError::Publish(PublishError::Aborted(_))) => {}
            Err(error) => return Err(error),
        }
        self.checkpoint_last(partitions, Occasion::Revocation, ANSWER)?;
        let begin = self.clock.now();
        self.give_up(partitions, true)?;
        self.wait_while(begin, ANSWER, S::is_parking)?;
        partitions.iter().for_each(|partition| self.observer.on(&ServiceEvent::Revoked(*partition)));
        self.tell_rebalanced();
        Ok(self.source.unassign(partitions)?)
    }

    /// Drops partitions that others have already.
    pub(super) fn lose(&mut self, partitions: &[Partition]) -> Result<(), ServiceError> {
        tracing::warn!("partitions {} were lost to other members: dropping their work", list(partitions));
        self.give_up(partitions, false)?;
        partitions.iter().for_each(|partition| self.observer.on(&ServiceEvent::Lost(*partition)));
        self.tell_rebalanced();
        Ok(self.source.unassign(partitions)?)
    }

    /// Drops these partitions; with `may_return` the stage may keep their states for a while.
    pub(super) fn give_up(&mut self, partitions: &[Partition], may_return: bool) -> Result<(), ServiceError> {
        for partition in partitions {
            self.assignment.close(*partition);
            self.gaps.remove(partition);
            self.held.remove(partition);
            self.stage.give_up(*partition, may_return)?;
        }
        Ok(())
    }
}
