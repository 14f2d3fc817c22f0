//! The poll loop: hands records to workers, collects what they did, commits it, answers rebalances.

use super::checkpoints::{Checkpoints, Occasion};
use super::clock::Clock;
use super::crew::{Crew, Reply};
use super::homes::PoolHomes;
use super::observe::{Observer, ServiceEvent};
use super::parking::Parking;
use super::parts::Parts;
use super::patience::{Backoff, answered};
use super::plan::ServicePlan;
use super::recovery::{Known, TakenUp, take_up};
use super::service::{ServiceError, Summary};
use super::shutdown::Shutdown;
use crate::kafka::KafkaFailure;
use crate::kafka::member::{Event, Identities, InputRecord, Member};
use crate::pipeline::lanes::{Flow, Lanes};
use crate::pipeline::output::Destination;
use crate::pipeline::position::{Epoch, NextOffset, Partition};
use crate::pipeline::publish::{Family, Outlet, PublishError, publish};
use crate::pipeline::worker::Report;
use std::time::{Duration, Instant};

/// Longest wait for a broker's answer while a rebalance is answered.
const ANSWER: Duration = Duration::from_secs(10);
/// Longest wait for records while nothing is under way.
const IDLE: Duration = Duration::from_millis(100);
/// Longest wait for records while workers are busy or outputs wait.
const BUSY: Duration = Duration::from_millis(5);
/// Pause after a commit that was taken back.
const RETRY: Duration = Duration::from_millis(200);
/// Time between two signs of life, and looks at whether snapshots are due.
const TICK: Duration = Duration::from_millis(100);

/// One process of the service.
pub struct Coordinator<'c, S, O, W> {
    plan: &'c ServicePlan,
    clock: &'c dyn Clock,
    source: &'c S,
    outlet: O,
    workers: W,
    checkpoints: Option<Checkpoints>,
    observer: &'c dyn Observer,
    lanes: Lanes,
    parking: Parking,
    epoch: Epoch,
    /// Whether this member was thrown out of the group and has not been given anything since.
    evicted: bool,
    homes: PoolHomes,
    last_commit: Instant,
    last_tick: Instant,
    records_since_commit: u64,
    /// Since when commits fail, if they do.
    failing_since: Option<Instant>,
    summary: Summary,
}

impl<'c, S, O, W> Coordinator<'c, S, O, W>
where
    S: Member,
    O: Outlet<Member = S>,
    W: Crew<S::Record<'c>>,
{
    /// A process that has done nothing yet.
    pub fn new(plan: &'c ServicePlan, parts: Parts<'c, S, O, W>) -> Self {
        let Parts { clock, source, outlet, workers, checkpoints, observer } = parts;
        let now = clock.now();
        Self {
            plan,
            clock,
            source,
            outlet,
            workers,
            checkpoints,
            observer,
            lanes: Lanes::new(plan.flow),
            parking: Parking::new(plan.parking),
            epoch: Epoch::default(),
            evicted: false,
            homes: PoolHomes::default(),
            last_commit: now,
            last_tick: now,
            records_since_commit: 0,
            failing_since: None,
            summary: Summary::default(),
        }
    }

    /// Until asked to stop, until the end of its bounds, or until something cannot be mended. What it came
    /// to counts either way.
    pub fn run(mut self, shutdown: &Shutdown) -> (Summary, Result<(), ServiceError>) {
        while !shutdown.is_requested() && !self.lanes.are_complete() {
            if let Err(error) = self.turn() {
                let (summary, error) = self.fail(error);
                return (summary, Err(error));
            }
        }
        self.stop()
    }

    /// One turn of the loop: answers, a commit if one is due, one event.
    ///
    /// # Errors
    /// What cannot be mended: hand it to [`Coordinator::fail`].
    pub fn turn(&mut self) -> Result<(), ServiceError> {
        self.take_replies()?;
        self.commit_if_due()?;
        if let Some(event) = self.source.poll(self.patience_of_poll()) {
            self.handle(event)?;
        }
        self.tick()
    }

    /// Stops in order: what was begun is finished, committed and kept in snapshots. If it did not come to
    /// that, says why.
    pub fn stop(mut self) -> (Summary, Result<(), ServiceError>) {
        self.observer.on(&ServiceEvent::Stopping);
        let stopped = self.wind_up(true);
        (self.summary, stopped)
    }

    /// Stops after an error, which is given back. What is done is committed all the same: a restart
    /// then begins no earlier than it must.
    pub fn fail(mut self, error: ServiceError) -> (Summary, ServiceError) {
        if !error.wants_a_new_client() {
            self.observer.on(&ServiceEvent::Stopping);
        }
        // The error that ended the run says more than one that followed from it.
        if let Err(next) = self.wind_up(false) {
            tracing::warn!("while stopping: {next}");
        }
        (self.summary, error)
    }

    /// What is done now and then: saying that the loop turns, seeing to snapshots.
    fn tick(&mut self) -> Result<(), ServiceError> {
        if self.clock.since(self.last_tick) < TICK {
            return Ok(());
        }
        self.last_tick = self.clock.now();
        self.parking.expire(self.last_tick);
        let ends = self.source.known_ends();
        let behind = |(partition, next): (Partition, NextOffset)| {
            let end = ends.get(&partition)?;
            Some((partition, u64::try_from(end.0.saturating_sub(next.0)).unwrap_or(0)))
        };
        let lag: Vec<_> = self.lanes.positions().filter_map(behind).collect();
        let restoring = self.lanes.restoring();
        self.observer.on(&ServiceEvent::Polled { restoring, lag: &lag });
        if let Some(registry) = &self.plan.registry {
            self.observer.on(&ServiceEvent::SchemaRegistry { waiting: registry.is_waiting() });
        }
        self.checkpoint(&self.lanes.partitions(), Occasion::Clock)
    }

    fn patience_of_poll(&self) -> Duration {
        if self.lanes.in_flight() > 0 || self.lanes.waiting().0 > 0 { BUSY } else { IDLE }
    }

    fn handle(&mut self, event: Event<S::Record<'c>>) -> Result<(), ServiceError> {
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
            // librdkafka asks for the place of a stable name under a member id that it dropped when the
            // session ended, and takes the refusal for a proof that another process has the name. If
            // one has, a new client of ours is told so.
            Event::Trouble(failure) if failure.family == Family::Migrated && self.evicted => {
                Err(KafkaFailure { family: Family::Spent, ..failure }.into())
            }
            Event::Trouble(failure) => Err(failure.into()),
        }
    }

    fn dispatch(&mut self, record: S::Record<'c>) -> Result<(), ServiceError> {
        let partition = record.partition();
        if self.lanes.is_past_end(partition, record.offset()) {
            return Ok(self.source.pause(partition)?);
        }
        let (_, flow) = self.lanes.dispatch(partition, record.offset(), record.bytes())?;
        if flow == Flow::Pause {
            self.source.pause(partition)?;
        }
        Ok(self.workers.feed(record)?)
    }

    /// Takes everything workers have to say.
    fn take_replies(&mut self) -> Result<(), ServiceError> {
        while let Some(reply) = self.workers.try_reply() {
            self.take_reply(reply)?;
        }
        Ok(())
    }

    fn take_reply(&mut self, reply: Reply) -> Result<(), ServiceError> {
        match reply {
            Reply::Report(report) => self.take_report(*report),
            Reply::Captured(partition, captured) => {
                if let Some(checkpoints) = &mut self.checkpoints {
                    checkpoints.captured(partition, captured, self.observer);
                }
                Ok(())
            }
            Reply::Released(partition, task) => {
                self.parking.released(partition, task, self.clock.now());
                Ok(())
            }
        }
    }

    fn take_report(&mut self, report: Report) -> Result<(), ServiceError> {
        let Report { progress, counts, new_pools, watermark, pools, failure } = report;
        let (partition, next) = (progress.partition, progress.next);
        match self.lanes.report(progress) {
            None => return Ok(()),
            Some(Flow::Resume) => self.source.resume(partition)?,
            Some(Flow::Pause | Flow::Keep) => {}
        }
        self.homes.note(partition, &new_pools, self.observer);
        self.summary.records += counts.records;
        self.records_since_commit += counts.records;
        self.observer.on(&ServiceEvent::Progress { partition, next, counts: &counts, watermark, pools });
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    fn commit_if_due(&mut self) -> Result<(), ServiceError> {
        let pace = self.plan.commit;
        let since = self.clock.since(self.last_commit);
        let (outputs, bytes) = self.lanes.waiting();
        let full = self.records_since_commit >= pace.records || bytes >= pace.bytes;
        let full = full || self.lanes.are_processed();
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
                let since = *self.failing_since.get_or_insert_with(|| self.clock.now());
                if self.clock.since(since) < self.plan.retry_for {
                    return Ok(());
                }
                Err(PublishError::Aborted(error).into())
            }
            outcome => Ok(outcome?),
        }
    }

    /// Publishes what can be published.
    fn commit(&mut self, deadline: Duration) -> Result<(), PublishError> {
        self.last_commit = self.clock.now();
        let burst = self.lanes.burst();
        if burst.next_offsets.is_empty() {
            return Ok(());
        }
        let mut patience = Backoff::lasting(self.clock, deadline);
        let published = publish(&mut self.outlet, &burst, self.source, &mut patience);
        if let Err(error) = published {
            let (PublishError::Aborted(cause) | PublishError::Migrated(cause) | PublishError::Fatal(cause)) =
                &error;
            tracing::warn!("{error}");
            self.observer.on(&ServiceEvent::CommitFailed { family: cause.family });
            return Err(error);
        }
        let estimates = burst.outputs.iter().filter(|output| output.destination == Destination::Estimates);
        let (outputs, estimates) = (burst.outputs.len() as u64, estimates.count() as u64);
        self.summary.estimates += estimates;
        self.summary.dead_letters += outputs - estimates;
        self.summary.commits += 1;
        self.summary.next_offsets.extend(burst.next_offsets.iter().copied());
        let event = ServiceEvent::Committed {
            outputs: &burst.outputs,
            partitions: burst.next_offsets.len(),
            took: self.clock.since(self.last_commit),
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
            self.answer(|source| source.committed(partitions, ANSWER))?
        };
        let mut starts = Vec::with_capacity(committed.len());
        let mut lookup = None;
        for (partition, committed) in committed {
            starts.push((partition, self.take_up(partition, committed, &mut lookup)?));
        }
        self.source.assign(&starts)?;
        self.evicted = false;
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
        lookup: &mut Option<S::Lookup>,
    ) -> Result<NextOffset, ServiceError> {
        let log = self.answer(|source| source.log_range(partition, ANSWER))?;
        let known = Known { partition, committed, log };
        let parked = self.parking.take(partition);
        let id = self.checkpoints.as_ref().map(|checkpoints| checkpoints.id(partition)).transpose()?;
        // Connects only where there is a snapshot to compare with the log.
        let mut look_up = |offset| {
            let lookup = match lookup {
                Some(lookup) => lookup,
                None => lookup.insert(self.source.lookup()?),
            };
            self.answer(|_| lookup.identity(partition, offset, ANSWER))
        };
        let checkpoints = self.checkpoints.as_ref().zip(id.as_ref());
        let taken = take_up(self.plan, known, parked, checkpoints, &mut look_up)?;
        let TakenUp { resume, task, restored, failures } = taken;
        tracing::info!("partition {partition}: {}", resume.explanation);
        let log_end = log.end;
        self.observer.on(&ServiceEvent::Assigned { partition, resume: &resume, log_end });
        (0..failures).for_each(|_| self.observer.on(&ServiceEvent::SnapshotFailed { partition }));
        self.epoch = self.epoch.next();
        let end = self.plan.stretch(partition).map(|stretch| stretch.end);
        self.lanes.open(partition, self.epoch, &resume, committed, end);
        if let (Some(checkpoints), Some(id)) = (&mut self.checkpoints, id) {
            checkpoints.take_up(id, self.epoch, restored, self.clock.now());
        }
        self.workers.take(self.epoch, task)?;
        Ok(resume.replay_from)
    }

    /// Asks for the states that snapshots are called for, and has those written that are committed.
    fn checkpoint(&mut self, partitions: &[Partition], occasion: Occasion) -> Result<(), ServiceError> {
        let Some(checkpoints) = &mut self.checkpoints else { return Ok(()) };
        checkpoints.tell(self.observer);
        for (partition, position) in self.lanes.positions() {
            if !partitions.contains(&partition) {
                continue;
            }
            if let Some(memory) = checkpoints.ask(partition, position, occasion, self.clock.now()) {
                self.workers.capture(partition, memory)?;
            }
        }
        checkpoints.release(|partition, epoch| self.lanes.committed(partition, epoch));
        Ok(())
    }

    /// The same, and waits for the states: the last chance before these partitions are given up.
    fn checkpoint_last(
        &mut self,
        partitions: &[Partition],
        occasion: Occasion,
        deadline: Duration,
    ) -> Result<(), ServiceError> {
        let begin = self.clock.now();
        self.checkpoint(partitions, occasion)?;
        while self.checkpoints.as_ref().is_some_and(Checkpoints::is_waiting) {
            let Some(left) = deadline.checked_sub(self.clock.since(begin)) else { break };
            if let Some(reply) = self.workers.reply(left.min(IDLE))? {
                self.take_reply(reply)?;
            }
        }
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.release(|partition, epoch| self.lanes.committed(partition, epoch));
        }
        Ok(())
    }

    /// Asks the brokers until they answer, for as long as passing troubles are waited out.
    fn answer<T>(&self, ask: impl Fn(&S) -> Result<T, KafkaFailure>) -> Result<T, KafkaFailure> {
        answered(self.clock, self.plan.retry_for, || ask(self.source))
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
        let released = self.give_up(partitions)?;
        self.park(&released)?;
        partitions.iter().for_each(|partition| self.observer.on(&ServiceEvent::Revoked(*partition)));
        self.settled();
        Ok(self.source.unassign(partitions)?)
    }

    /// Keeps the states of partitions that were just given up in order, for a quick return.
    fn park(&mut self, partitions: &[Partition]) -> Result<(), ServiceError> {
        let begin = self.clock.now();
        self.parking.expect(partitions);
        while self.parking.is_waiting() {
            let Some(left) = ANSWER.checked_sub(self.clock.since(begin)) else { break };
            if let Some(reply) = self.workers.reply(left.min(IDLE))? {
                self.take_reply(reply)?;
            }
        }
        Ok(())
    }

    /// Drops partitions that others have already.
    fn lose(&mut self, partitions: &[Partition]) -> Result<(), ServiceError> {
        tracing::warn!("partitions {} were lost to other members: dropping their work", list(partitions));
        self.evicted = true;
        self.give_up(partitions)?;
        partitions.iter().for_each(|partition| self.observer.on(&ServiceEvent::Lost(*partition)));
        self.settled();
        Ok(self.source.unassign(partitions)?)
    }

    /// Drops everything about these partitions; gives those whose states workers hand back.
    fn give_up(&mut self, partitions: &[Partition]) -> Result<Vec<Partition>, ServiceError> {
        let mut released = Vec::with_capacity(partitions.len());
        for partition in partitions {
            self.lanes.close(*partition);
            if self.workers.release(*partition)? {
                released.push(*partition);
            }
            if let Some(checkpoints) = &mut self.checkpoints {
                checkpoints.forget(*partition);
            }
            self.homes.forget(*partition);
        }
        Ok(released)
    }

    /// Waits until workers have done what they were given of these partitions.
    fn drain(&mut self, partitions: &[Partition], deadline: Duration) -> Result<(), ServiceError> {
        let begin = self.clock.now();
        self.lanes.drain(partitions);
        while !self.lanes.drained(partitions) {
            let Some(left) = deadline.checked_sub(self.clock.since(begin)) else {
                tracing::warn!("workers did not finish partitions {} within {deadline:?}", list(partitions));
                return Ok(());
            };
            if let Some(reply) = self.workers.reply(left.min(IDLE))? {
                self.take_reply(reply)?;
            }
        }
        Ok(())
    }

    /// Stops intake, and when the run went well, finishes what was begun. Either way what is done is
    /// committed: a restart then begins no earlier than it must.
    fn wind_up(&mut self, in_order: bool) -> Result<(), ServiceError> {
        if let Some(registry) = &self.plan.registry {
            // Workers that wait for it could not finish.
            registry.stop();
        }
        let (clock, begin) = (self.clock, self.clock.now());
        // The rest of the deadline is for closing the clients.
        let deadline = self.plan.shutdown_deadline.mul_f64(0.8);
        let left = |begin: Instant| deadline.saturating_sub(clock.since(begin)).max(RETRY);
        let partitions = self.lanes.partitions();
        if in_order {
            tracing::info!("stopping: finishing and committing partitions {}", list(&partitions));
            self.drain(&partitions, deadline)?;
        }
        let committed = match self.commit(if in_order { left(begin) } else { RETRY }) {
            // Lost meanwhile, say: whoever has the partitions does again what was not committed.
            Err(PublishError::Aborted(error)) if error.family == Family::Abortable => Ok(()),
            outcome => outcome,
        };
        if in_order {
            self.checkpoint_last(&partitions, Occasion::Shutdown, left(begin))?;
        }
        self.give_up(&partitions)?;
        self.source.leave();
        if let Some(checkpoints) = self.checkpoints.take() {
            checkpoints.finish(left(begin), self.observer);
        }
        if in_order { Ok(committed?) } else { Ok(()) }
    }
}

fn list(partitions: &[Partition]) -> String {
    let numbers: Vec<_> = partitions.iter().map(Partition::to_string).collect();
    if numbers.is_empty() { "(none)".to_owned() } else { numbers.join(", ") }
}
