//! The poll loop: hands records to a stage, collects what it did, commits it, answers rebalances.

use super::checkpoints::Occasion;
use super::observe::{Observer, ServiceEvent};
use super::patience::{Backoff, answer};
use super::plan::StreamPlan;
use super::service::{ServiceError, Summary};
use super::shutdown::Shutdown;
use super::stage::{Done, Known, Stage};
use crate::kafka::outlet::KafkaOutlet;
use crate::kafka::source::{Event, Record, Source};
use crate::pipeline::lanes::{Flow, Lanes, Progress};
use crate::pipeline::output::Destination;
use crate::pipeline::position::{Epoch, NextOffset, Partition};
use crate::pipeline::publish::{Family, PublishError, publish};
use std::time::{Duration, Instant};

/// Longest wait for a broker's answer while a rebalance is answered.
pub(super) const ANSWER: Duration = Duration::from_secs(10);
/// Longest wait for records while nothing is under way.
const IDLE: Duration = Duration::from_millis(100);
/// Longest wait for records while workers are busy or outputs wait.
const BUSY: Duration = Duration::from_millis(5);
/// Pause after a commit that was taken back.
const RETRY: Duration = Duration::from_millis(200);
/// Time between two signs of life, and looks at whether snapshots are due.
const TICK: Duration = Duration::from_millis(100);

pub(super) struct Coordinator<'c, S> {
    plan: &'c StreamPlan,
    source: &'c Source,
    outlet: KafkaOutlet,
    stage: S,
    observer: &'c dyn Observer,
    lanes: Lanes,
    epoch: Epoch,
    last_commit: Instant,
    last_tick: Instant,
    records_since_commit: u64,
    /// Since when commits fail, if they do.
    failing_since: Option<Instant>,
    summary: Summary,
}

impl<'c, S: Stage<'c>> Coordinator<'c, S> {
    pub(super) fn new(
        plan: &'c StreamPlan,
        source: &'c Source,
        outlet: KafkaOutlet,
        stage: S,
        observer: &'c dyn Observer,
    ) -> Self {
        Self {
            plan,
            source,
            outlet,
            stage,
            observer,
            lanes: Lanes::new(plan.flow),
            epoch: Epoch::default(),
            last_commit: Instant::now(),
            last_tick: Instant::now(),
            records_since_commit: 0,
            failing_since: None,
            summary: Summary::default(),
        }
    }

    /// Until asked to stop, or until something cannot be mended.
    pub(super) fn run(mut self, shutdown: &Shutdown) -> Result<Summary, ServiceError> {
        let ended = self.turn_until(shutdown);
        let stopped = self.stop(ended.is_ok());
        ended.and(stopped).map(|()| self.summary)
    }

    fn turn_until(&mut self, shutdown: &Shutdown) -> Result<(), ServiceError> {
        while !shutdown.is_requested() {
            self.take_replies()?;
            self.commit_if_due()?;
            if let Some(event) = self.source.poll(self.patience_of_poll()) {
                self.handle(event)?;
            }
            self.tick()?;
        }
        Ok(())
    }

    /// What is done now and then: saying that the loop turns, seeing to snapshots.
    fn tick(&mut self) -> Result<(), ServiceError> {
        if self.last_tick.elapsed() < TICK {
            return Ok(());
        }
        self.last_tick = Instant::now();
        let ends = self.source.known_ends();
        let behind = |(partition, next): (Partition, NextOffset)| {
            let end = ends.get(&partition)?;
            Some((partition, u64::try_from(end.0.saturating_sub(next.0)).unwrap_or(0)))
        };
        let lag: Vec<_> = self.lanes.positions().filter_map(behind).collect();
        let restoring = self.lanes.restoring();
        self.observer.on(&ServiceEvent::Polled { restoring, lag: &lag });
        self.stage.checkpoint(&self.lanes, &self.lanes.partitions(), Occasion::Clock)
    }

    fn patience_of_poll(&self) -> Duration {
        if self.lanes.in_flight() > 0 || self.lanes.waiting().0 > 0 { BUSY } else { IDLE }
    }

    fn handle(&mut self, event: Event<'c>) -> Result<(), ServiceError> {
        match event {
            Event::Record(record) => self.dispatch(record),
            Event::End(partition) => {
                self.lanes.reached_end(partition);
                Ok(())
            }
            Event::Assigned(partitions) => self.assign(&partitions),
            Event::Revoked(partitions) => self.revoke(&partitions),
            Event::Lost(partitions) => self.lose(&partitions),
            // The client has warned already, and mends it by itself.
            Event::Trouble(failure) if failure.family == Family::Transient => {
                tracing::debug!("{failure}");
                Ok(())
            }
            Event::Trouble(failure) => Err(failure.into()),
        }
    }

    fn dispatch(&mut self, record: Record<'c>) -> Result<(), ServiceError> {
        let partition = record.partition();
        let (_, flow) = self.lanes.dispatch(partition, record.offset(), record.bytes())?;
        if flow == Flow::Pause {
            self.source.pause(partition)?;
        }
        self.stage.feed(record)
    }

    /// Takes everything the stage has to say.
    fn take_replies(&mut self) -> Result<(), ServiceError> {
        while let Some(done) = self.stage.reply(Duration::ZERO)? {
            self.take_in(done)?;
        }
        Ok(())
    }

    fn take_in(&mut self, done: Done<S::Note>) -> Result<(), ServiceError> {
        let Done::Progress { progress, note, failure } = done else { return Ok(()) };
        let Progress { partition, next, .. } = progress;
        match self.lanes.report(progress) {
            None => return Ok(()),
            Some(Flow::Resume) => self.source.resume(partition)?,
            Some(Flow::Pause | Flow::Keep) => {}
        }
        let records = self.stage.note(partition, next, note);
        self.summary.records += records;
        self.records_since_commit += records;
        failure.map_or(Ok(()), Err)
    }

    fn commit_if_due(&mut self) -> Result<(), ServiceError> {
        let pace = self.plan.commit;
        let since = self.last_commit.elapsed();
        let (outputs, bytes) = self.lanes.waiting();
        let full = self.records_since_commit >= pace.records || bytes >= pace.bytes;
        let due = match self.failing_since {
            Some(_) => since >= RETRY,
            None => full || since >= pace.every || (outputs > 0 && since >= pace.linger),
        };
        if !due {
            return Ok(());
        }
        match self.commit(self.plan.retry_for) {
            Err(PublishError::Aborted(error)) => {
                // The outputs are kept and go out with the next transaction, unless polling, which
                // comes first, learns that the partition has gone.
                let since = *self.failing_since.get_or_insert_with(Instant::now);
                if since.elapsed() < self.plan.retry_for {
                    return Ok(());
                }
                Err(PublishError::Aborted(error).into())
            }
            outcome => Ok(outcome?),
        }
    }

    /// Publishes what can be published.
    fn commit(&mut self, deadline: Duration) -> Result<(), PublishError> {
        self.last_commit = Instant::now();
        let burst = self.lanes.burst();
        if burst.next_offsets.is_empty() {
            return Ok(());
        }
        let published = publish(&mut self.outlet, &burst, self.source, &mut Backoff::lasting(deadline));
        if let Err(error) = published {
            let (PublishError::Aborted(cause) | PublishError::Migrated(cause) | PublishError::Fatal(cause)) =
                &error;
            tracing::warn!("{error}");
            self.observer.on(&ServiceEvent::CommitFailed { family: cause.family });
            return Err(error);
        }
        let results = burst.outputs.iter().filter(|output| output.destination == Destination::Results);
        let (outputs, results) = (burst.outputs.len() as u64, results.count() as u64);
        self.summary.results += results;
        self.summary.dead_letters += outputs - results;
        self.summary.commits += 1;
        self.summary.next_offsets.extend(burst.next_offsets.iter().copied());
        let event = ServiceEvent::Committed {
            outputs: burst.outputs.len(),
            partitions: burst.next_offsets.len(),
            took: self.last_commit.elapsed(),
        };
        self.observer.on(&event);
        self.lanes.settle();
        self.records_since_commit = 0;
        self.failing_since = None;
        Ok(())
    }

    /// Takes partitions up where the group left them.
    fn assign(&mut self, partitions: &[Partition]) -> Result<(), ServiceError> {
        let committed = if partitions.is_empty() {
            Vec::new()
        } else {
            answer(self.plan.retry_for, || self.source.committed(partitions, ANSWER))?
        };
        let mut starts = Vec::with_capacity(committed.len());
        for (partition, committed) in committed {
            starts.push((partition, self.take_up(partition, committed)?));
        }
        self.source.assign(&starts)?;
        self.settled();
        Ok(())
    }

    fn settled(&self) {
        self.observer.on(&ServiceEvent::Settled { partitions: self.lanes.partitions().len() });
    }

    fn take_up(
        &mut self,
        partition: Partition,
        committed: Option<NextOffset>,
    ) -> Result<NextOffset, ServiceError> {
        let log = answer(self.plan.retry_for, || self.source.log_range(partition, ANSWER))?;
        self.epoch = self.epoch.next();
        let resume = self.stage.take_up(Known { partition, committed, log }, self.epoch)?;
        tracing::info!("partition {partition}: {}", resume.explanation);
        self.observer.on(&ServiceEvent::Assigned { partition, resume: &resume, log_end: log.end });
        self.lanes.open(partition, self.epoch, &resume, committed);
        Ok(resume.replay_from)
    }

    /// Asks for states, and waits for them: the last chance before these partitions are given up.
    fn checkpoint_last(
        &mut self,
        partitions: &[Partition],
        occasion: Occasion,
        deadline: Duration,
    ) -> Result<(), ServiceError> {
        let begin = Instant::now();
        self.stage.checkpoint(&self.lanes, partitions, occasion)?;
        while self.stage.is_checkpointing() {
            let Some(left) = deadline.checked_sub(begin.elapsed()) else { break };
            if let Some(done) = self.stage.reply(left.min(IDLE))? {
                self.take_in(done)?;
            }
        }
        self.stage.keep(&self.lanes);
        Ok(())
    }

    /// Gives partitions up in order: what was begun is finished and committed first.
    fn revoke(&mut self, partitions: &[Partition]) -> Result<(), ServiceError> {
        tracing::info!("partitions {} are moving to other members", list(partitions));
        self.drain(partitions, self.plan.shutdown_deadline)?;
        match self.commit(self.plan.shutdown_deadline) {
            // The next owner does this work again from the committed offsets.
            Ok(()) | Err(PublishError::Aborted(_)) => {}
            Err(error) => return Err(error.into()),
        }
        self.checkpoint_last(partitions, Occasion::Revocation, ANSWER)?;
        self.give_up(partitions)?;
        partitions.iter().for_each(|partition| self.observer.on(&ServiceEvent::Revoked(*partition)));
        self.settled();
        Ok(self.source.unassign(partitions)?)
    }

    /// Drops partitions that others have already.
    fn lose(&mut self, partitions: &[Partition]) -> Result<(), ServiceError> {
        tracing::warn!("partitions {} were lost to other members: dropping their work", list(partitions));
        self.give_up(partitions)?;
        partitions.iter().for_each(|partition| self.observer.on(&ServiceEvent::Lost(*partition)));
        self.settled();
        Ok(self.source.unassign(partitions)?)
    }

    fn give_up(&mut self, partitions: &[Partition]) -> Result<(), ServiceError> {
        for partition in partitions {
            self.lanes.close(*partition);
            self.stage.give_up(*partition)?;
        }
        Ok(())
    }

    /// Waits until the stage has done what it was given of these partitions.
    fn drain(&mut self, partitions: &[Partition], deadline: Duration) -> Result<(), ServiceError> {
        let begin = Instant::now();
        self.lanes.drain(partitions);
        while !self.lanes.drained(partitions) {
            let Some(left) = deadline.checked_sub(begin.elapsed()) else {
                tracing::warn!("workers did not finish partitions {} within {deadline:?}", list(partitions));
                return Ok(());
            };
            if let Some(done) = self.stage.reply(left.min(IDLE))? {
                self.take_in(done)?;
            }
        }
        Ok(())
    }

    /// Stops intake, and when the run went well, finishes what was begun. Either way what is done is
    /// committed: a restart then begins no earlier than it must.
    fn stop(&mut self, in_order: bool) -> Result<(), ServiceError> {
        self.observer.on(&ServiceEvent::Stopping);
        let begin = Instant::now();
        let deadline = self.plan.shutdown_deadline;
        let partitions = self.lanes.partitions();
        if in_order {
            tracing::info!("stopping: finishing and committing partitions {}", list(&partitions));
            self.drain(&partitions, deadline)?;
        }
        let committed = self.commit(if in_order { deadline } else { RETRY });
        let left = |begin: Instant| deadline.saturating_sub(begin.elapsed()).max(RETRY);
        if in_order {
            self.checkpoint_last(&partitions, Occasion::Shutdown, left(begin))?;
        }
        self.give_up(&partitions)?;
        self.source.leave();
        self.stage.finish(left(begin));
        if in_order { Ok(committed?) } else { Ok(()) }
    }
}

fn list(partitions: &[Partition]) -> String {
    let numbers: Vec<_> = partitions.iter().map(Partition::to_string).collect();
    if numbers.is_empty() { "(none)".to_owned() } else { numbers.join(", ") }
}
