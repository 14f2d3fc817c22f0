//! The poll loop: hands records to a stage, collects what it did, commits it, answers rebalances.

use crate::backoff::{Backoff, GLANCE, answered};
use crate::clock::Clock;
use crate::error::ServiceError;
use crate::events::{Observer, ServiceEvent};
use crate::plan::StreamPlan;
use crate::poll_loop::conditions::Conditions;
use crate::poll_loop::same_topic::SameTopic;
use crate::poll_loop::stage::Stage;
use crate::poll_loop::standing::MemberStanding;
use crate::poll_loop::summary::Summary;
use crate::shutdown::Shutdown;
use crate::snapshots::checkpoints::Occasion;
use kvset_formats::output::Destination;
use kvset_formats::position::{Epoch, NextOffset, Partition};
use kvset_kafka::kafka::KafkaFailure;
use kvset_kafka::kafka::member::{Event, InputRecord, LogEnd, Member, UnreadableRecords};
use kvset_pipeline::assignment::{Assignment, RangeProgress};
use kvset_pipeline::gaps::OffsetGaps;
use kvset_pipeline::publish::{FailureKind, PublishError, Sink, publish};
use kvset_pipeline::worker::Report;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

mod rebalances;

/// Longest wait for records while nothing is under way.
const IDLE: Duration = Duration::from_millis(100);
/// Longest wait for records while workers are busy or outputs wait.
const BUSY: Duration = Duration::from_millis(5);
/// Most records submitted to the stage at once.
const BATCH: usize = 256;
/// How long nothing is taken in because a partition is full, before that partition is paused. Pausing
/// makes the client throw away, and fetch again, what it has fetched ahead: it is for partitions that stand
/// still, not for workers that are slower than the network.
const HOLD: Duration = Duration::from_millis(500);
/// Pause after a commit that was taken back.
const RETRY: Duration = Duration::from_millis(200);
/// Least time between two lines about commits that fail one after another.
const FAILED_EVERY: Duration = Duration::from_secs(10);
/// Time between two signs of life, and looks at whether snapshots are due.
const TICK: Duration = Duration::from_millis(100);

/// One process: a stage between two topics.
pub struct Coordinator<'c, M: Member + 'c, O, S> {
    plan: &'c StreamPlan,
    clock: &'c dyn Clock,
    source: &'c M,
    sink: O,
    stage: S,
    observer: &'c dyn Observer,
    assignment: Assignment,
    /// Counted in the partitions, and still to be submitted within this turn.
    records: Vec<M::Record<'c>>,
    epoch: Epoch,
    standing: MemberStanding,
    last_commit: Instant,
    last_tick: Instant,
    same_topic: SameTopic<'c>,
    conditions: Conditions<'c>,
    records_since_commit: u64,
    /// Whether more records wait than were taken in last.
    is_behind: bool,
    /// When a partition became full, and nothing was taken in any more.
    full_since: Option<Instant>,
    /// Since when commits fail, if they do.
    failing_since: Option<Instant>,
    /// When a failed commit was reported last, and how many failed since.
    failed: Option<(Instant, u64)>,
    /// Of each partition, offsets that cannot be read and are to be passed.
    gaps: BTreeMap<Partition, OffsetGaps>,
    /// Partitions that cannot go on.
    held: BTreeSet<Partition>,
    summary: Summary,
}

impl<'c, M, O, S> Coordinator<'c, M, O, S>
where
    M: Member,
    O: Sink<Member = M>,
    S: Stage<'c, M>,
{
    /// A process that has done nothing yet, made of the real things or of those of a simulation: its time, its
    /// membership in the group, where outputs and offsets go, what is done with the records, and who is notified.
    pub fn new(
        plan: &'c StreamPlan,
        clock: &'c dyn Clock,
        source: &'c M,
        sink: O,
        stage: S,
        observer: &'c dyn Observer,
    ) -> Self {
        let now = clock.now();
        Self {
            plan,
            clock,
            source,
            sink,
            stage,
            observer,
            assignment: Assignment::new(plan.flow),
            records: Vec::new(),
            epoch: Epoch::default(),
            standing: MemberStanding::default(),
            last_commit: now,
            last_tick: now,
            same_topic: SameTopic::new(&plan.topic, clock),
            conditions: Conditions::new(clock),
            records_since_commit: 0,
            is_behind: false,
            full_since: None,
            failing_since: None,
            failed: None,
            gaps: BTreeMap::new(),
            held: BTreeSet::new(),
            summary: Summary::default(),
        }
    }

    /// Until asked to stop, until the end of its bounds, or until something cannot be mended. What it came
    /// to counts either way.
    pub fn run(mut self, shutdown: &Shutdown) -> (Summary, Result<(), ServiceError>) {
        while !shutdown.is_requested() && !self.assignment.are_complete() {
            if let Err(error) = self.turn() {
                let (summary, error) = self.fail(error);
                return (summary, Err(error));
            }
        }
        self.stop()
    }

    /// One turn of the loop: answers, a commit if one is due, records or another event.
    ///
    /// # Errors
    /// What cannot be mended: hand it to [`Coordinator::fail`].
    pub fn turn(&mut self) -> Result<(), ServiceError> {
        self.take_replies()?;
        self.commit_if_due()?;
        if self.is_held_up()? {
            if let Some(report) = self.stage.report(BUSY)? {
                self.apply_report(report)?;
            }
        } else {
            self.take_events()?;
        }
        self.tick()
    }

    /// Whether a full partition keeps everything back. One that stays full is paused, so that the others
    /// and the group's own business go on.
    fn is_held_up(&mut self) -> Result<bool, ServiceError> {
        let Some(since) = self.full_since else { return Ok(false) };
        if self.assignment.is_full() {
            if self.clock.since(since) < HOLD {
                return Ok(true);
            }
            for partition in self.assignment.pause_full() {
                self.source.pause(partition)?;
            }
        }
        self.full_since = None;
        Ok(false)
    }

    /// Waits for an event. Records that have come already are submitted together: a message to another
    /// thread costs more than most records do.
    fn take_events(&mut self) -> Result<(), ServiceError> {
        let mut timeout = self.poll_timeout();
        while let Some(event) = self.source.poll(timeout) {
            let is_record = matches!(event, Event::Record(_));
            if !is_record {
                self.submit_records()?;
            }
            self.handle(event)?;
            if !is_record || self.records.len() == BATCH || self.full_since.is_some() {
                break;
            }
            timeout = Duration::ZERO;
        }
        self.is_behind = self.records.len() == BATCH || self.full_since.is_some();
        self.submit_records()
    }

    /// Gives the stage what was taken in.
    fn submit_records(&mut self) -> Result<(), ServiceError> {
        if self.records.is_empty() { Ok(()) } else { self.stage.submit(std::mem::take(&mut self.records)) }
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
        let held = self.assignment.partitions();
        // The error that ended the run says more than one that followed from it.
        if let Err(next) = self.wind_up(false) {
            tracing::warn!("while stopping: {next}");
        }
        // Whoever watches goes on watching new clients, which may be given other partitions.
        held.iter().for_each(|partition| self.observer.on(&ServiceEvent::Lost(*partition)));
        (self.summary, error)
    }

    /// What is done now and then: saying that the loop turns, seeing to snapshots.
    fn tick(&mut self) -> Result<(), ServiceError> {
        if self.clock.since(self.last_tick) < TICK {
            return Ok(());
        }
        self.last_tick = self.clock.now();
        let behind = |(partition, LogEnd { end, read_to })| {
            Some((partition, self.assignment.lag(partition, end, read_to)?))
        };
        let lag: Vec<_> = self.source.log_ends().into_iter().filter_map(behind).collect();
        let restoring = self.assignment.restoring();
        let away_for = self.source.away_for();
        if away_for.is_zero() {
            self.same_topic.look_now_and_then(self.source)?;
            if self.conditions.look(|| self.source.unowned(GLANCE)) {
                self.source.share_out_again();
            }
            let waiting = lag.iter().filter(|(_, records)| *records > 0);
            // Why those stand still that are held was told.
            let goes_on = |partition: &Partition| !self.held.contains(partition);
            let next = |partition| {
                Some((partition, self.assignment.processed(partition).filter(|_| goes_on(&partition))?))
            };
            self.conditions.note_waiting(waiting.filter_map(|(partition, _)| next(*partition)));
        } else {
            self.conditions.note_waiting(std::iter::empty());
        }
        let (stalled, unowned) = (self.conditions.stalled(), self.conditions.unowned());
        self.observer.on(&ServiceEvent::Polled { restoring, lag: &lag, stalled, unowned, away_for });
        self.stage.tick();
        self.stage.checkpoint(&self.assignment, &self.assignment.partitions(), Occasion::Clock)
    }

    fn poll_timeout(&self) -> Duration {
        if self.assignment.in_flight() > 0 || self.assignment.waiting().0 > 0 { BUSY } else { IDLE }
    }

    fn handle(&mut self, event: Event<M::Record<'c>>) -> Result<(), ServiceError> {
        match event {
            Event::Record(record) => self.dispatch(record),
            Event::End(partition) => {
                self.assignment.reached_end(partition);
                self.finish(partition)
            }
            Event::Assigned(partitions) => self.assign(&partitions),
            Event::Revoked(partitions) => self.revoke(&partitions),
            Event::Lost(partitions) => {
                self.standing.evicted();
                self.lose(&partitions)
            }
            Event::Unreadable(place) => self.pass(place),
            // The client has warned already, and mends it by itself.
            Event::Trouble(failure) if failure.kind == FailureKind::Transient => {
                self.standing.troubled(self.clock.now());
                tracing::debug!("{failure}");
                Ok(())
            }
            Event::Trouble(failure) if failure.kind == FailureKind::Migrated && self.doubts_fencing() => {
                Err(KafkaFailure { kind: FailureKind::Spent, ..failure }.into())
            }
            Event::Trouble(failure) => {
                // An offset that is gone, say, is no matter of retention where the whole log is another one.
                self.same_topic.look(self.source)?;
                Err(failure.into())
            }
        }
    }

    /// Whether being fenced is no proof of another process with this one's name. Of brokers that fail, a client tells
    /// its log more than those who poll.
    fn doubts_fencing(&self) -> bool {
        let within = self.plan.retry_for;
        self.standing.doubts_fencing(self.clock.now(), within)
            || self.source.last_trouble().is_some_and(|ago| ago <= within)
    }

    /// Goes on behind what cannot be read, where somebody has decided so.
    fn pass(&mut self, place: UnreadableRecords) -> Result<(), ServiceError> {
        let (partition, offset) = (place.partition, place.offset);
        let topic = &self.plan.topic;
        let Some(gap) = self.gaps.get(&partition).and_then(|gaps| gaps.from(offset)) else {
            return self.hold(partition, ServiceError::Unreadable { topic: topic.clone(), place });
        };
        tracing::warn!(
            partition = partition.0,
            offset,
            "{topic}/{partition}: passing offsets {gap}, which cannot be read, as `kvset skip` has recorded"
        );
        Ok(self.source.skip_to(partition, NextOffset(gap.end))?)
    }

    /// Reads a partition no further that cannot go on, and goes on with the others: it is nobody else's trouble. A run
    /// with an end cannot come to it so.
    ///
    /// # Errors
    /// Such a run ends with why.
    fn hold(&mut self, partition: Partition, why: ServiceError) -> Result<(), ServiceError> {
        if self.plan.bounds.is_some() {
            return Err(why);
        }
        if !self.held.insert(partition) {
            return Ok(());
        }
        self.source.hold(partition)?;
        self.assignment.drain(&[partition]);
        let why = why.to_string();
        tracing::error!(
            partition = partition.0,
            "partition {partition} of topic {} is held, and all others go on: {why}",
            self.plan.topic
        );
        self.observer.on(&ServiceEvent::Held { partition, why: &why });
        Ok(())
    }

    /// Whether a record is not to be processed: its partition is held, or an operator has decided to pass it.
    fn is_passed(&self, partition: Partition, offset: i64) -> bool {
        self.held.contains(&partition) || self.gaps.get(&partition).is_some_and(|gaps| gaps.contain(offset))
    }

    fn dispatch(&mut self, record: M::Record<'c>) -> Result<(), ServiceError> {
        let partition = record.partition();
        if self.is_passed(partition, record.offset()) {
            return Ok(());
        }
        if self.assignment.is_past_end(partition, record.offset()) {
            self.source.pause(partition)?;
            return self.finish(partition);
        }
        if self.assignment.dispatch(partition, record.offset(), record.bytes())? {
            self.full_since.get_or_insert(self.clock.now());
        }
        self.records.push(record);
        Ok(())
    }

    /// Has a partition finished of which nothing follows before the end of its run.
    fn finish(&mut self, partition: Partition) -> Result<(), ServiceError> {
        let Some(end) = self.assignment.end_to_tell(partition) else { return Ok(()) };
        self.submit_records()?;
        if self.stage.finish_partition(partition, end)? {
            self.assignment.finishing(partition);
        }
        Ok(())
    }

    /// Takes everything the stage has to say.
    fn take_replies(&mut self) -> Result<(), ServiceError> {
        while let Some(report) = self.stage.report(Duration::ZERO)? {
            self.apply_report(report)?;
        }
        Ok(())
    }

    fn apply_report(&mut self, report: Report<S::Summary>) -> Result<(), ServiceError> {
        let Report { progress, summary, failure } = report;
        let RangeProgress { partition, next, .. } = progress;
        match self.assignment.report(progress) {
            None => return Ok(()),
            Some(true) => self.source.resume(partition)?,
            Some(false) => {}
        }
        let records = self.stage.tell(partition, next, summary);
        self.summary.records += records;
        self.records_since_commit += records;
        match failure.map(ServiceError::from) {
            None => Ok(()),
            Some(why) if why.is_of_the_process() => Err(why),
            Some(why) => self.hold(partition, why),
        }
    }

    fn commit_if_due(&mut self) -> Result<(), ServiceError> {
        let pace = self.plan.commit;
        let since = self.clock.since(self.last_commit);
        let (outputs, bytes) = self.assignment.waiting();
        let full = self.records_since_commit >= pace.records || bytes >= pace.bytes;
        let full = full || self.assignment.are_processed();
        // Whoever reads the estimates of a log that is behind gains nothing by a commit more often, each of
        // which keeps this thread from the records.
        let lingered = outputs > 0 && since >= pace.linger && !self.is_behind;
        let due = match self.failing_since {
            Some(_) => since >= RETRY,
            None => full || since >= pace.every || lingered,
        };
        if !due {
            return Ok(());
        }
        match self.commit(self.plan.retry_for) {
            Err(ServiceError::Publish(PublishError::Aborted(error))) => {
                // The outputs are kept and go out with the next transaction, unless polling, which
                // comes first, learns that the partition has gone.
                let since = *self.failing_since.get_or_insert_with(|| self.clock.now());
                if self.clock.since(since) < self.plan.retry_for {
                    return Ok(());
                }
                Err(PublishError::Aborted(error).into())
            }
            outcome => outcome,
        }
    }

    /// Publishes what can be published.
    fn commit(&mut self, deadline: Duration) -> Result<(), ServiceError> {
        let begin = self.clock.now();
        let committed = self.commit_since(begin, deadline);
        // The pace is that of the time between two commits, however long one takes.
        self.last_commit = self.clock.now();
        committed
    }

    fn commit_since(&mut self, begin: Instant, deadline: Duration) -> Result<(), ServiceError> {
        let batch = self.assignment.batch();
        if batch.next_offsets.is_empty() {
            return Ok(());
        }
        self.observer.on(&ServiceEvent::Committing);
        let published = self.same_topic.compare_to_commit(self.source, deadline).and_then(|()| {
            let mut retry = Backoff::lasting(self.clock, deadline);
            Ok(publish(&mut self.sink, &batch, self.source, &mut || retry.wait())?)
        });
        if let Err(error) = published {
            if let ServiceError::Publish(error) = &error {
                self.observer.on(&ServiceEvent::CommitFailed { kind: error.cause().kind });
                self.report_failure(error);
            }
            return Err(error);
        }
        let results = batch.outputs.iter().filter(|output| output.destination == Destination::Results);
        let (outputs, results) = (batch.outputs.len() as u64, results.count() as u64);
        self.summary.results += results;
        self.summary.dead_letters += outputs - results;
        self.summary.commits += 1;
        self.summary.next_offsets.extend(batch.next_offsets.iter().copied());
        let event = ServiceEvent::Committed {
            outputs: &batch.outputs,
            partitions: batch.next_offsets.len(),
            took: self.clock.since(begin),
        };
        self.observer.on(&event);
        self.assignment.mark_committed();
        self.records_since_commit = 0;
        self.failing_since = None;
        self.failed = None;
        Ok(())
    }

    /// Logs a failed commit, unless another one was logged a moment ago: it is tried again several times a second.
    fn report_failure(&mut self, error: &PublishError) {
        let now = self.clock.now();
        let unsaid = match &mut self.failed {
            Some((said, unsaid)) if now.saturating_duration_since(*said) < FAILED_EVERY => {
                *unsaid += 1;
                return;
            }
            Some((_, unsaid)) => *unsaid,
            None => 0,
        };
        self.failed = Some((now, 0));
        match unsaid {
            0 => tracing::warn!("{error}"),
            _ => tracing::warn!("{error} ({unsaid} more since this was reported last)"),
        }
    }

    /// Asks for states, and waits for them: the last chance before these partitions are given up.
    fn checkpoint_last(
        &mut self,
        partitions: &[Partition],
        occasion: Occasion,
        deadline: Duration,
    ) -> Result<(), ServiceError> {
        let begin = self.clock.now();
        self.stage.checkpoint(&self.assignment, partitions, occasion)?;
        self.wait_while(begin, deadline, S::is_checkpointing)?;
        self.stage.keep(&self.assignment);
        Ok(())
    }

    /// Takes in what the stage has to say for as long as it is so, within a deadline that runs since
    /// `begin`.
    fn wait_while(
        &mut self,
        begin: Instant,
        deadline: Duration,
        is_so: impl Fn(&S) -> bool,
    ) -> Result<(), ServiceError> {
        while is_so(&self.stage) {
            let left = deadline.saturating_sub(self.clock.since(begin));
            if left.is_zero() {
                break;
            }
            if let Some(report) = self.stage.report(left.min(IDLE))? {
                self.apply_report(report)?;
            }
        }
        Ok(())
    }

    /// Asks the brokers until they answer, for as long as passing troubles are waited out.
    fn answer<T>(&self, ask: impl Fn(&M) -> Result<T, KafkaFailure>) -> Result<T, KafkaFailure> {
        answered(self.clock, self.plan.retry_for, || ask(self.source))
    }

    /// Waits until the stage has done what it was given of these partitions.
    fn drain(&mut self, partitions: &[Partition], deadline: Duration) -> Result<(), ServiceError> {
        let begin = self.clock.now();
        self.assignment.drain(partitions);
        while !self.assignment.drained(partitions) {
            let left = deadline.saturating_sub(self.clock.since(begin));
            if left.is_zero() {
                tracing::warn!("workers did not finish partitions {} within {deadline:?}", list(partitions));
                return Ok(());
            }
            if let Some(report) = self.stage.report(left.min(IDLE))? {
                self.apply_report(report)?;
            }
        }
        Ok(())
    }

    /// Stops intake, and when the run went well, finishes what was begun. Either way what is done is
    /// committed: a restart then begins no earlier than it must.
    fn wind_up(&mut self, in_order: bool) -> Result<(), ServiceError> {
        self.stage.stop_waiting();
        let (clock, begin) = (self.clock, self.clock.now());
        // The rest of the deadline is for closing the clients.
        let deadline = self.plan.shutdown_deadline.mul_f64(0.8);
        let left = |begin: Instant| deadline.saturating_sub(clock.since(begin)).max(RETRY);
        let partitions = self.assignment.partitions();
        if in_order {
            tracing::info!("stopping: finishing and committing partitions {}", list(&partitions));
            self.drain(&partitions, deadline)?;
        }
        let committed = match self.commit(if in_order { left(begin) } else { RETRY }) {
            // Lost meanwhile, say: whoever has the partitions does again what was not committed.
            Err(ServiceError::Publish(PublishError::Aborted(error)))
                if error.kind == FailureKind::Abortable =>
            {
                Ok(())
            }
            outcome => outcome,
        };
        if in_order {
            self.checkpoint_last(&partitions, Occasion::Shutdown, left(begin))?;
        }
        self.give_up(&partitions, false)?;
        self.source.leave(in_order);
        self.stage.finish(left(begin));
        if in_order { committed } else { Ok(()) }
    }
}

fn list(partitions: &[Partition]) -> String {
    let numbers: Vec<_> = partitions.iter().map(Partition::to_string).collect();
    if numbers.is_empty() { "(none)".to_owned() } else { numbers.join(", ") }
}
