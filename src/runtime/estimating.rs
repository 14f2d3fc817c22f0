//! The service's stage: partitions on workers, snapshots of their states, and which pool is where.

use super::checkpoints::{Checkpoints, Occasion};
use super::coordinator::ANSWER;
use super::observe::{Observer, ServiceEvent};
use super::patience::answer;
use super::plan::ServicePlan;
use super::recovery::{TakenUp, take_up};
use super::service::ServiceError;
use super::stage::{Done, Known, Stage};
use super::workers::{Reply, Workers};
use crate::core::units::EventTime;
use crate::kafka::lookup::Lookup;
use crate::kafka::source::Record;
use crate::pipeline::lanes::Lanes;
use crate::pipeline::position::{Epoch, NextOffset, Partition};
use crate::pipeline::resume::Resume;
use crate::pipeline::task::Counts;
use crate::pipeline::worker::Report;
use std::collections::BTreeMap;
use std::time::Duration;

/// Most pools whose partition is remembered to detect one in two partitions.
const MAX_KNOWN_POOLS: usize = 100_000;

pub(super) struct Estimating<'c> {
    plan: &'c ServicePlan,
    workers: Workers<'c>,
    checkpoints: Option<Checkpoints>,
    observer: &'c dyn Observer,
    /// Looks records up; connects only once there is a snapshot to compare with the log.
    lookup: Option<Lookup>,
    /// Where each pool was first seen.
    pools: BTreeMap<String, Partition>,
}

/// What a worker says of its progress.
pub(super) struct Note {
    counts: Counts,
    new_pools: Vec<String>,
    watermark: Option<EventTime>,
    pools: usize,
}

impl<'c> Estimating<'c> {
    pub(super) fn new(
        plan: &'c ServicePlan,
        workers: Workers<'c>,
        checkpoints: Option<Checkpoints>,
        observer: &'c dyn Observer,
    ) -> Self {
        Self { plan, workers, checkpoints, observer, lookup: None, pools: BTreeMap::new() }
    }

    fn note_pools(&mut self, partition: Partition, names: &[String]) {
        for name in names {
            match self.pools.get(name) {
                Some(first) if *first != partition => {
                    tracing::warn!(
                        "pool `{name}` is in partitions {first} and {partition}: its history is split; key its \
                         records by pool so that they share a partition"
                    );
                    let (first, second) = (*first, partition);
                    self.observer.on(&ServiceEvent::SplitPool { pool: name, first, second });
                }
                Some(_) => {}
                None if self.pools.len() < MAX_KNOWN_POOLS => {
                    self.pools.insert(name.clone(), partition);
                    self.observer.on(&ServiceEvent::NewPool { partition, pool: name });
                }
                None => {}
            }
        }
    }
}

fn done(report: Report) -> Done<Note> {
    let Report { progress, counts, new_pools, watermark, pools, failure } = report;
    let note = Note { counts, new_pools, watermark, pools };
    Done::Progress { progress, note, failure: failure.map(ServiceError::from) }
}

impl<'c> Stage<'c> for Estimating<'c> {
    type Note = Note;

    fn take_up(&mut self, known: Known, epoch: Epoch) -> Result<Resume, ServiceError> {
        let partition = known.partition;
        let (plan, stream) = (self.plan, &self.plan.stream);
        let id = self.checkpoints.as_ref().map(|checkpoints| checkpoints.id(partition)).transpose()?;
        let lookup = &mut self.lookup;
        let mut look_up = |offset| {
            let lookup = match lookup {
                Some(lookup) => lookup,
                None => lookup.insert(Lookup::open(&stream.connection, &stream.topic)?),
            };
            answer(stream.retry_for, || lookup.identity(partition, offset, ANSWER))
        };
        let taken = take_up(plan, known, self.checkpoints.as_ref().zip(id.as_ref()), &mut look_up)?;
        let TakenUp { resume, task, restored, failures } = taken;
        (0..failures).for_each(|_| self.observer.on(&ServiceEvent::SnapshotFailed { partition }));
        if let (Some(checkpoints), Some(id)) = (&mut self.checkpoints, id) {
            checkpoints.take_up(id, epoch, restored);
        }
        self.workers.take(epoch, task)?;
        Ok(resume)
    }

    fn feed(&mut self, record: Record<'c>) -> Result<(), ServiceError> {
        Ok(self.workers.feed(record)?)
    }

    fn reply(&mut self, timeout: Duration) -> Result<Option<Done<Note>>, ServiceError> {
        Ok(self.workers.reply(timeout)?.map(|reply| match reply {
            Reply::Report(report) => done(*report),
            Reply::Captured(partition, captured) => {
                if let Some(checkpoints) = &mut self.checkpoints {
                    checkpoints.captured(partition, captured, self.observer);
                }
                Done::Other
            }
            // The state of a partition that was given up; another member goes on with it.
            Reply::Released(task) => {
                tracing::debug!("partition {}: state released", task.partition());
                Done::Other
            }
        }))
    }

    fn note(&mut self, partition: Partition, next: NextOffset, note: Note) -> u64 {
        let Note { counts, new_pools, watermark, pools } = note;
        self.note_pools(partition, &new_pools);
        self.observer.on(&ServiceEvent::Progress { partition, next, counts: &counts, watermark, pools });
        counts.records
    }

    fn give_up(&mut self, partition: Partition) -> Result<(), ServiceError> {
        self.workers.release(partition)?;
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.forget(partition);
        }
        self.pools.retain(|_, home| *home != partition);
        Ok(())
    }

    fn checkpoint(
        &mut self,
        lanes: &Lanes,
        partitions: &[Partition],
        occasion: Occasion,
    ) -> Result<(), ServiceError> {
        // Needed while partitions are taken up, which is over.
        self.lookup = None;
        let Some(checkpoints) = &mut self.checkpoints else { return Ok(()) };
        checkpoints.tell(self.observer);
        for (partition, position) in lanes.positions() {
            if !partitions.contains(&partition) {
                continue;
            }
            if let Some(memory) = checkpoints.ask(partition, position, occasion) {
                self.workers.capture(partition, memory)?;
            }
        }
        self.keep(lanes);
        Ok(())
    }

    fn is_checkpointing(&self) -> bool {
        self.checkpoints.as_ref().is_some_and(Checkpoints::is_waiting)
    }

    fn keep(&mut self, lanes: &Lanes) {
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.release(|partition, epoch| lanes.committed(partition, epoch));
        }
    }

    fn finish(&mut self, deadline: Duration) {
        if let Some(checkpoints) = self.checkpoints.take() {
            checkpoints.finish(deadline, self.observer);
        }
    }
}
