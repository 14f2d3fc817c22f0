//! What workers receive and what they answer, apart from the threads they run on.

use super::batch::Batch;
use kvset_formats::position::{Epoch, NextOffset, Partition};
use kvset_kafka::kafka::member::InputRecord;
use kvset_pipeline::facts::RecordIdentity;
use kvset_pipeline::task::PartitionTask;
use kvset_pipeline::worker::{Report, TaskSummary, Worker};
use kvset_snapshot::capture::{BodyError, CaptureMemory, capture_body};
use kvset_snapshot::format::StateBody;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a worker receives.
pub enum WorkerOrder<R> {
    /// Take a partition over.
    Take(Epoch, Box<PartitionTask>),
    /// Process records.
    Process(Arc<Batch<R>>),
    /// Nothing follows of a partition before this offset.
    Finish(Partition, NextOffset),
    /// Write a partition's state into this memory.
    Capture(Partition, CaptureMemory),
    /// Give a partition up.
    Release(Partition),
}

/// What comes back.
pub enum Reply {
    /// Records were processed.
    Report(Box<Report<TaskSummary>>),
    /// A partition's state as bytes, or that there is none to be had.
    Captured(Partition, Option<Box<Captured>>),
    /// A partition was handed back, with its state if that is sound; everything before was reported.
    Released(Partition, Option<Box<PartitionTask>>),
}

/// A partition's state between two records.
pub struct Captured {
    /// The assignment the work was done for.
    pub epoch: Epoch,
    /// Every record before it is in the state.
    pub next_offset: NextOffset,
    /// The last record in the state.
    pub last_record: Option<RecordIdentity>,
    /// The state.
    pub body: Result<StateBody, BodyError>,
    /// For the next capture.
    pub memory: CaptureMemory,
    /// How long the partition stood still for it.
    pub pause: Duration,
}

/// A worker is gone, which it never is while its queue is open.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("a worker thread ended without being stopped; see the log for its panic")]
pub struct WorkerGone;

/// Those who work on partitions; a partition is always with one of them.
pub trait WorkerPool<R> {
    /// Gives a partition to one of them.
    ///
    /// # Errors
    /// [`WorkerGone`]; so for all methods.
    fn take(&mut self, epoch: Epoch, task: PartitionTask) -> Result<(), WorkerGone>;

    /// Queues records of partitions that were taken, each partition's in order.
    fn submit(&self, records: Vec<R>) -> Result<(), WorkerGone>;

    /// Says that nothing follows of a partition before `end`; false when nobody holds it.
    fn finish(&self, partition: Partition, end: NextOffset) -> Result<bool, WorkerGone>;

    /// Asks for a partition's state as bytes, in this memory; false when nobody holds it.
    fn capture(&self, partition: Partition, memory: CaptureMemory) -> Result<bool, WorkerGone>;

    /// Asks for a partition's state back; true when it is held by a worker.
    fn release(&mut self, partition: Partition) -> Result<bool, WorkerGone>;

    /// A reply that is there already.
    fn try_reply(&self) -> Option<Reply>;

    /// A reply, waited for; `None` when none came in time.
    fn reply(&self, timeout: Duration) -> Result<Option<Reply>, WorkerGone>;
}

/// What a worker does with some orders: carries them out and answers; false as soon as nobody listens to `reply` any
/// more. While it waits for another worker it calls `help`, which says whether there was anything to do.
pub fn carry_out<R: InputRecord>(
    worker: &mut Worker,
    orders: impl Iterator<Item = WorkerOrder<R>>,
    mut help: impl FnMut() -> bool,
    mut reply: impl FnMut(Reply) -> bool,
) -> bool {
    for order in orders {
        let heard = match order {
            WorkerOrder::Take(epoch, task) => {
                worker.take(epoch, *task);
                true
            }
            WorkerOrder::Process(batch) => {
                let repacked = batch.begin(&mut help);
                for (first, run) in batch.runs(repacked.as_ref()) {
                    worker.process(first.partition(), run);
                }
                true
            }
            WorkerOrder::Finish(partition, end) => {
                worker.finish(partition, end);
                true
            }
            WorkerOrder::Capture(partition, memory) => {
                reply(Reply::Captured(partition, captured(worker, partition, memory).map(Box::new)))
            }
            WorkerOrder::Release(partition) => worker.release(partition).is_none_or(|(report, task)| {
                let last = report.map(|report| Reply::Report(Box::new(report)));
                let released = Reply::Released(partition, task.map(Box::new));
                last.into_iter().chain([released]).all(&mut reply)
            }),
        };
        if !heard {
            return false;
        }
    }
    worker.reports().all(|report| reply(Reply::Report(Box::new(report))))
}

fn captured(worker: &Worker, partition: Partition, mut memory: CaptureMemory) -> Option<Captured> {
    let (epoch, task) = worker.sound_task(partition)?;
    let begin = Instant::now();
    let (next_offset, last_record) = (task.next_offset(), task.last_record());
    let body = capture_body(&task.image(), next_offset, &mut memory);
    Some(Captured { epoch, next_offset, last_record, body, memory, pause: begin.elapsed() })
}
