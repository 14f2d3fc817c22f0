//! What a worker does between its queues: runs the tasks it holds and reports what came of it.

use super::assignment::RangeProgress;
use super::incoming::Incoming;
use super::task::{PartitionTask, PoolTime, TaskCounts, TaskError};
use kvset_formats::codec::LookupError;
use kvset_formats::output::OutputRecord;
use kvset_formats::position::{Epoch, NextOffset, Partition};
use std::collections::BTreeMap;

/// What a worker tells the poll loop of one partition's records: the one message from where records are worked
/// on to where they are committed. `S` is what the kind of work says of itself, for metrics.
#[derive(Debug)]
pub struct Report<S> {
    /// How far it has got, with its outputs.
    pub progress: RangeProgress,
    /// What was done, for metrics.
    pub summary: S,
    /// Why the partition cannot go on; the record that caused it was not processed, what came before is sound.
    pub failure: Option<TaskError>,
}

/// What a task says of its records.
#[derive(Debug)]
pub struct TaskSummary {
    /// What was done.
    pub counts: TaskCounts,
    /// Pools seen for the first time.
    pub new_pools: Vec<String>,
    /// How far event time has got in the pools that these records are of.
    pub time: Option<PoolTime>,
    /// Pools with state.
    pub pools: usize,
}

/// The tasks of one worker. A partition belongs to one worker at a time.
#[derive(Debug, Default)]
pub struct Worker {
    held: BTreeMap<Partition, PartitionWork>,
}

#[derive(Debug)]
struct PartitionWork {
    epoch: Epoch,
    task: PartitionTask,
    records: usize,
    bytes: usize,
    outputs: Vec<OutputRecord>,
    failure: Option<TaskError>,
}

impl Worker {
    /// Takes a partition over.
    pub fn take(&mut self, epoch: Epoch, task: PartitionTask) {
        let (records, bytes, outputs, failure) = (0, 0, Vec::new(), None);
        self.held.insert(task.partition(), PartitionWork { epoch, task, records, bytes, outputs, failure });
    }

    /// Processes records of one partition, each told with its bytes; those of a partition that is not
    /// held, and those from one on that it fails at, are passed over.
    pub fn process<'r>(
        &mut self,
        partition: Partition,
        records: impl Iterator<Item = (Incoming<'r>, usize)>,
    ) {
        if let Some(held) = self.held.get_mut(&partition) {
            held.process(records);
        }
    }

    /// Does what still waits of a partition of which nothing follows before `end`; reported like a record.
    pub fn finish(&mut self, partition: Partition, end: NextOffset) {
        if let Some(held) = self.held.get_mut(&partition) {
            held.finish(end);
        }
    }

    /// What was done since the last report, partition by partition.
    pub fn reports(&mut self) -> impl Iterator<Item = Report<TaskSummary>> + '_ {
        self.held.values_mut().filter(|held| held.records > 0).map(PartitionWork::report)
    }

    /// Gives a partition up: its last report, if anything was done, and its state, unless it failed: a
    /// failed task may hold half of a record.
    pub fn release(
        &mut self,
        partition: Partition,
    ) -> Option<(Option<Report<TaskSummary>>, Option<PartitionTask>)> {
        let mut held = self.held.remove(&partition)?;
        let report = (held.records > 0).then(|| held.report());
        Some((report, held.failure.is_none().then_some(held.task)))
    }

    /// The task of a partition and the assignment it works for, to be looked at between two records.
    /// `None` when it is not held, or failed: a failed task may hold half of a record.
    pub fn sound_task(&self, partition: Partition) -> Option<(Epoch, &PartitionTask)> {
        let held = self.held.get(&partition).filter(|held| held.failure.as_ref().is_none_or(is_stop))?;
        Some((held.epoch, &held.task))
    }

    /// The tasks held, in order of partition.
    pub fn tasks(&self) -> impl Iterator<Item = &PartitionTask> + '_ {
        self.held.values().map(|held| &held.task)
    }
}

/// Whether the task was told to stop, before it touched the record.
fn is_stop(failure: &TaskError) -> bool {
    matches!(failure, TaskError::Schema(LookupError::Stopped))
}

impl PartitionWork {
    fn process<'r>(&mut self, records: impl Iterator<Item = (Incoming<'r>, usize)>) {
        let mut counted = records.map(|(record, bytes)| {
            self.records += 1;
            self.bytes += bytes;
            record
        });
        if self.failure.is_none() {
            self.failure = self.task.process_records(counted.by_ref(), &mut self.outputs).err();
        }
        counted.for_each(drop);
    }

    fn finish(&mut self, end: NextOffset) {
        self.records += 1;
        if self.failure.is_none() {
            self.failure = self.task.finish(end, &mut self.outputs).err();
        }
    }

    fn report(&mut self) -> Report<TaskSummary> {
        let next: NextOffset = self.task.next_offset();
        let counts = self.task.take_counts();
        Report {
            progress: RangeProgress {
                partition: self.task.partition(),
                epoch: self.epoch,
                next,
                records: std::mem::take(&mut self.records),
                bytes: std::mem::take(&mut self.bytes),
                outputs: std::mem::take(&mut self.outputs),
            },
            summary: TaskSummary {
                time: counts.time(),
                counts,
                new_pools: self.task.take_new_pools(),
                pools: self.task.pools().len(),
            },
            // Being told to stop is no failure; the record is read again after a restart.
            failure: self.failure.clone().filter(|failure| !is_stop(failure)),
        }
    }
}
