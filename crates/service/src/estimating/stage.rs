//! The service's stage: partitions on workers, snapshots of their states, and which pool is where.

use super::parking::Parking;
use super::pool_partitions::PoolPartitions;
use super::recovery::{TakenUp, take_up};
use crate::backoff::{ANSWER, answered};
use crate::clock::{Clock, alive};
use crate::error::ServiceError;
use crate::events::{Observer, ServiceEvent};
use crate::plan::ServicePlan;
use crate::poll_loop::refusals::{RefusalLog, refusals};
use crate::poll_loop::stage::{BrokerFacts, Stage};
use crate::snapshots::checkpoints::{Checkpoints, Occasion};
use crate::workers::pool::{Reply, WorkerPool};
use kvset_core::estimate::Estimate;
use kvset_formats::position::{Epoch, NextOffset, Partition};
use kvset_kafka::kafka::member::{Identities, Member};
use kvset_pipeline::assignment::Assignment;
use kvset_pipeline::resume::Resume;
use kvset_pipeline::task::{PartitionTask, PoolTime, TaskRestoreError};
use kvset_pipeline::worker::{Report, TaskSummary};
use std::time::Duration;

/// What estimates records.
pub struct Estimating<'c, M: Member, W> {
    plan: &'c ServicePlan,
    clock: &'c dyn Clock,
    workers: W,
    checkpoints: Option<Checkpoints>,
    observer: &'c dyn Observer,
    parking: Parking,
    /// Looks records up; connects only once there is a snapshot to compare with the log.
    lookup: Option<M::Lookup>,
    pool_partitions: PoolPartitions,
    /// What the state of the partition taken up last knows, to be reported.
    restored: Option<Restored>,
    refusals: RefusalLog,
}

/// What a state knows that was not built in this life.
struct Restored {
    partition: Partition,
    next: NextOffset,
    time: Option<PoolTime>,
    times: Vec<(String, PoolTime)>,
    pools: usize,
    latest: Vec<Estimate>,
}

impl Restored {
    /// What this task knows; `None` where it has seen nothing. An estimate past `publish_from` was not
    /// committed, as far as is known, and is reported once it is.
    fn of(task: &PartitionTask, publish_from: NextOffset) -> Result<Option<Self>, TaskRestoreError> {
        if task.pools().is_empty() {
            return Ok(None);
        }
        let mut latest = task.latest()?;
        latest.retain(|estimate| estimate.next_offset <= publish_from.0);
        Ok(Some(Self {
            partition: task.partition(),
            next: task.next_offset(),
            time: task.time(),
            times: task.times().map(|(name, time)| (name.to_owned(), time)).collect(),
            pools: task.pools().len(),
            latest,
        }))
    }
}

impl<'c, M: Member, W> Estimating<'c, M, W> {
    /// A stage that has no partitions yet.
    pub fn new(
        plan: &'c ServicePlan,
        clock: &'c dyn Clock,
        workers: W,
        checkpoints: Option<Checkpoints>,
        observer: &'c dyn Observer,
    ) -> Self {
        let parking = Parking::new(plan.parking);
        Self {
            plan,
            clock,
            workers,
            checkpoints,
            observer,
            parking,
            lookup: None,
            pool_partitions: PoolPartitions::default(),
            restored: None,
            refusals: RefusalLog::new(&plan.stream.topic, &plan.stream.outputs.dead_letters.name),
        }
    }

    /// Gives a report on; everything else is done here.
    fn apply_reply(&mut self, reply: Reply) -> Option<Report<TaskSummary>> {
        match reply {
            Reply::Report(report) => return Some(*report),
            Reply::Captured(partition, captured) => {
                if let Some(checkpoints) = &mut self.checkpoints {
                    checkpoints.captured(partition, captured, self.observer);
                }
            }
            Reply::Released(partition, task) => self.parking.released(partition, task, self.clock.now()),
        }
        None
    }
}

impl<'c, M: Member + 'c, W: WorkerPool<M::Record<'c>>> Stage<'c, M> for Estimating<'c, M, W> {
    type Summary = TaskSummary;

    fn take_up(&mut self, source: &'c M, known: BrokerFacts, epoch: Epoch) -> Result<Resume, ServiceError> {
        let partition = known.partition;
        let parked = self.parking.take(partition);
        let id = self.checkpoints.as_ref().map(|checkpoints| checkpoints.id(partition)).transpose()?;
        let (lookup, clock, retry_for) = (&mut self.lookup, self.clock, self.plan.stream.retry_for);
        let mut look_up = |offset| {
            let lookup = match lookup {
                Some(lookup) => lookup,
                None => lookup.insert(source.lookup()?),
            };
            answered(clock, retry_for, || lookup.identity(partition, offset, ANSWER))
        };
        let checkpoints = self.checkpoints.as_ref().zip(id.as_ref());
        let taken = alive(self.observer, || take_up(self.plan, known, parked, checkpoints, &mut look_up))?;
        let TakenUp { resume, mut task, restored, failures } = taken;
        if let Some(offset_range) = self.plan.stream.offset_range(partition) {
            task.end_at(offset_range.end);
        }
        (0..failures).for_each(|_| self.observer.on(&ServiceEvent::SnapshotFailed { partition }));
        if let (Some(checkpoints), Some(id)) = (&mut self.checkpoints, id) {
            checkpoints.take_up(id, epoch, restored, self.clock.now());
        }
        self.restored = Restored::of(&task, resume.publish_from).unwrap_or_else(|error| {
            // What is shown suffers, results do not.
            tracing::warn!(partition = partition.0, "partition {partition}: {error}");
            None
        });
        self.workers.take(epoch, task)?;
        Ok(resume)
    }

    fn tell_restored(&mut self, partition: Partition) {
        let Some(restored) = self.restored.take().filter(|restored| restored.partition == partition) else {
            return;
        };
        let Restored { partition, next, time, times, pools, latest } = &restored;
        self.observer.on(&ServiceEvent::Restored {
            partition: *partition,
            next: *next,
            time: *time,
            times,
            pools: *pools,
            latest,
        });
    }

    fn submit(&mut self, records: Vec<M::Record<'c>>) -> Result<(), ServiceError> {
        Ok(self.workers.submit(records)?)
    }

    fn finish_partition(&mut self, partition: Partition, end: NextOffset) -> Result<bool, ServiceError> {
        Ok(self.workers.finish(partition, end)?)
    }

    fn report(&mut self, timeout: Duration) -> Result<Option<Report<TaskSummary>>, ServiceError> {
        let mut reply = match timeout.is_zero() {
            true => self.workers.try_reply(),
            false => self.workers.reply(timeout)?,
        };
        while let Some(other) = reply {
            if let Some(report) = self.apply_reply(other) {
                return Ok(Some(report));
            }
            reply = self.workers.try_reply();
        }
        Ok(None)
    }

    fn tell(&mut self, partition: Partition, next: NextOffset, summary: TaskSummary) -> u64 {
        let TaskSummary { counts, new_pools, time, pools } = summary;
        self.refusals.note(partition, refusals(&counts.refused, &counts.refused_at), self.clock.now());
        if let Some((records, offsets)) = counts.thin_rebuild {
            tracing::warn!(
                partition = partition.0,
                "partition {partition}: the state was rebuilt of {records} records in {offsets} offsets: the rest was \
                 compacted away or never committed, so estimates are marked warm_up until they reach back to none of it; \
                 see that cleanup.policy of topic {} is delete",
                self.plan.stream.topic
            );
        }
        self.pool_partitions.forget_pools(partition, &counts.forgotten);
        self.pool_partitions.note(partition, &new_pools, self.observer);
        self.observer.on(&ServiceEvent::Progress { partition, next, counts: &counts, time, pools });
        counts.records
    }

    fn give_up(&mut self, partition: Partition, may_return: bool) -> Result<(), ServiceError> {
        if self.workers.release(partition)? && may_return {
            self.parking.expect(&[partition]);
        }
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.forget(partition);
        }
        self.pool_partitions.forget(partition);
        Ok(())
    }

    fn is_parking(&self) -> bool {
        self.parking.is_waiting()
    }

    fn tick(&mut self) {
        self.parking.expire(self.clock.now());
        self.refusals.tell(self.clock.now());
        if let Some(registry) = &self.plan.registry {
            self.observer.on(&ServiceEvent::SchemaRegistry { waiting: registry.is_waiting() });
        }
    }

    fn checkpoint(
        &mut self,
        assignment: &Assignment,
        partitions: &[Partition],
        occasion: Occasion,
    ) -> Result<(), ServiceError> {
        // Needed while partitions are taken up, which is over.
        self.lookup = None;
        let Some(checkpoints) = &mut self.checkpoints else { return Ok(()) };
        checkpoints.tell(self.observer);
        for (partition, position) in assignment.positions() {
            if !partitions.contains(&partition) {
                continue;
            }
            if let Some(memory) = checkpoints.ask(partition, position, occasion, self.clock.now()) {
                self.workers.capture(partition, memory)?;
            }
        }
        self.keep(assignment);
        Ok(())
    }

    fn is_checkpointing(&self) -> bool {
        self.checkpoints.as_ref().is_some_and(Checkpoints::is_waiting)
    }

    fn keep(&mut self, assignment: &Assignment) {
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.release(|partition, epoch| assignment.committed(partition, epoch));
        }
    }

    fn stop_waiting(&mut self) {
        if let Some(registry) = &self.plan.registry {
            registry.stop();
        }
    }

    fn finish(&mut self, deadline: Duration) {
        if let Some(checkpoints) = self.checkpoints.take() {
            checkpoints.finish(deadline, self.observer);
        }
    }
}
