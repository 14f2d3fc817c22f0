//! Prepare's stage: records to any thread, what they become back in the order of the log.

use super::PreparePlan;
use super::threads::{Finished, Threads};
use crate::error::ServiceError;
use crate::events::{Observer, PrepareCounts, ServiceEvent};
use crate::poll_loop::refusals::{RefusalLog, refusals};
use crate::poll_loop::stage::{BrokerFacts, Stage};
use kvset_formats::codec::{LookupError, Provenance, SourceRecord};
use kvset_formats::position::{Epoch, NextOffset, Partition};
use kvset_kafka::kafka::member::InputRecord;
use kvset_kafka::kafka::source::{Record, Source};
use kvset_pipeline::assignment::RangeProgress;
use kvset_pipeline::dead_letter_policy::DeadLetterPolicy;
use kvset_pipeline::gaps::{OffsetGaps, gap_letter};
use kvset_pipeline::ordered::{InTurn, Ordered};
use kvset_pipeline::resume::{Resume, ResumeFacts, decide_stateless};
use kvset_pipeline::task::TaskError;
use kvset_pipeline::worker::Report;
use kvset_prepare::PreparedRecord;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

pub(super) struct Preparing<'c> {
    plan: &'c PreparePlan,
    threads: Threads<'c>,
    observer: &'c dyn Observer,
    ordered: Ordered<Attempt>,
    held: BTreeMap<Partition, StageProgress>,
    refusals: RefusalLog,
}

/// What became of a record, and how long it took.
type Attempt = (Result<PreparedRecord, LookupError>, Duration);

/// What is known of a partition between two records.
struct StageProgress {
    epoch: Epoch,
    policy: DeadLetterPolicy,
    next: NextOffset,
    /// Offsets that cannot be read and are to be passed.
    gaps: OffsetGaps,
    /// Too many records were refused, or the schema of one cannot be known: nothing further of it may go out.
    failed: bool,
}

impl<'c> Preparing<'c> {
    pub(super) fn new(plan: &'c PreparePlan, threads: Threads<'c>, observer: &'c dyn Observer) -> Self {
        let refusals = RefusalLog::new(&plan.stream.topic, &plan.stream.outputs.dead_letters.name);
        Self { plan, threads, observer, ordered: Ordered::default(), held: BTreeMap::new(), refusals }
    }

    fn apply_finished(&mut self, finished: Finished) -> Option<Report<PrepareCounts>> {
        let Finished { partition, epoch, offset, prepared, took } = finished;
        let ready = self.ordered.done(partition, epoch, offset, (prepared, took));
        match self.held.get_mut(&partition) {
            Some(held) if !ready.is_empty() => Some(held.add_up(self.plan, partition, ready)),
            _ => None,
        }
    }
}

impl StageProgress {
    /// Adds up records in order, up to one that is refused too many.
    fn add_up(
        &mut self,
        plan: &PreparePlan,
        partition: Partition,
        ready: Vec<InTurn<Attempt>>,
    ) -> Report<PrepareCounts> {
        let topic = plan.stream.topic.as_str();
        let (mut counts, mut failure) = (PrepareCounts::default(), None);
        let (mut outputs, records) = (Vec::new(), ready.len());
        let bytes = ready.iter().map(|ready| ready.bytes).sum();
        for InTurn { offset, bytes, done: (prepared, took) } in ready {
            if self.failed {
                break;
            }
            let prepared = match self.judge(topic, partition, offset, prepared) {
                Ok(prepared) => prepared,
                Err(error) => {
                    (self.failed, failure) = (true, error);
                    break;
                }
            };
            for gap in self.gaps.passed(self.next.0, offset) {
                let by = Provenance { version: &plan.recipe.version, fingerprint: &plan.recipe.fingerprint };
                outputs.push(gap_letter(topic, partition, gap, by));
                counts.pass(gap);
            }
            counts.add(&prepared, offset, bytes, took);
            outputs.extend(prepared.outputs);
            self.next = NextOffset::after(offset);
        }
        let progress =
            RangeProgress { partition, epoch: self.epoch, next: self.next, records, bytes, outputs };
        Report { progress, summary: counts, failure }
    }

    /// Gives the record back if its partition may go on, else why not: being told to stop is no failure, the
    /// record is read again after a restart.
    fn judge(
        &mut self,
        topic: &str,
        partition: Partition,
        offset: i64,
        prepared: Result<PreparedRecord, LookupError>,
    ) -> Result<PreparedRecord, Option<TaskError>> {
        let prepared = prepared
            .map_err(|unknown| (unknown != LookupError::Stopped).then(|| TaskError::from(unknown)))?;
        // Where most requests of a record are good, its mapping is.
        let Some(code) = prepared.refused.filter(|_| prepared.is_mostly_refused()) else {
            self.policy.accept();
            return Ok(prepared);
        };
        let (timestamp_ms, key, value) = (None, None, None);
        let record = SourceRecord {
            schema_header: None,
            topic,
            partition: partition.0,
            offset,
            timestamp_ms,
            key,
            value,
        };
        let within = self.policy.refuse(&record, code).map_err(TaskError::from);
        within.map_err(Some).map(|()| prepared)
    }
}

impl<'c> Stage<'c, Source> for Preparing<'c> {
    type Summary = PrepareCounts;

    fn take_up(&mut self, _: &'c Source, known: BrokerFacts, epoch: Epoch) -> Result<Resume, ServiceError> {
        let BrokerFacts { partition, committed, log, gaps } = known;
        let (start, lost_history) = (self.plan.stream.start, self.plan.stream.lost_history);
        let facts = ResumeFacts { committed, log, snapshots: &[], parked: None, start, lost_history };
        let resume =
            decide_stateless(&facts).map_err(|refusal| ServiceError::Resume { partition, refusal })?;
        let policy = DeadLetterPolicy::new(self.plan.dead_letters);
        let next = resume.replay_from;
        self.held.insert(partition, StageProgress { epoch, policy, next, gaps, failed: false });
        self.ordered.open(partition, epoch);
        Ok(resume)
    }

    fn submit(&mut self, records: Vec<Record<'c>>) -> Result<(), ServiceError> {
        for record in records {
            if let Some(epoch) = self.ordered.begin(record.partition(), record.offset(), record.bytes()) {
                self.threads.submit(epoch, record)?;
            }
        }
        Ok(())
    }

    fn report(&mut self, timeout: Duration) -> Result<Option<Report<PrepareCounts>>, ServiceError> {
        let mut timeout = timeout;
        while let Some(finished) = self.threads.finished(timeout)? {
            if let Some(report) = self.apply_finished(finished) {
                return Ok(Some(report));
            }
            timeout = Duration::ZERO;
        }
        Ok(None)
    }

    fn tell(&mut self, partition: Partition, next: NextOffset, counts: PrepareCounts) -> u64 {
        self.refusals.note(partition, refusals(&counts.refused, &counts.refused_at), Instant::now());
        self.observer.on(&ServiceEvent::Prepared { partition, next, counts: &counts });
        counts.records
    }

    fn tick(&mut self) {
        self.refusals.tell(Instant::now());
        if let Some(registry) = &self.plan.registry {
            self.observer.on(&ServiceEvent::SchemaRegistry { waiting: registry.is_waiting() });
        }
    }

    fn stop_waiting(&mut self) {
        if let Some(registry) = &self.plan.registry {
            registry.stop();
        }
    }

    fn give_up(&mut self, partition: Partition, _: bool) -> Result<(), ServiceError> {
        self.ordered.close(partition);
        self.held.remove(&partition);
        Ok(())
    }
}
