//! Threads that hold partitions' tasks. A partition is always on one of them.
//!
//! Queues have no bound of their own: what is in them is bounded by the lanes, which pause a
//! partition before more is fetched. A bound here as well could only block the poll loop, and with
//! it the membership in the group.

use crate::kafka::source::Record;
use crate::pipeline::facts::RecordIdentity;
use crate::pipeline::position::{Epoch, NextOffset, Partition};
use crate::pipeline::task::PartitionTask;
use crate::pipeline::worker::{Report, Worker};
use crate::snapshot::capture::{BodyError, capture};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use std::collections::BTreeMap;
use std::io;
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

/// Records processed between two reports of a worker.
const BATCH: usize = 256;

enum Order<'c> {
    Take(Epoch, Box<PartitionTask>),
    Feed(Record<'c>),
    Capture(Partition, Vec<u8>),
    Release(Partition),
}

/// What comes back.
pub(super) enum Reply {
    /// Records were processed.
    Report(Box<Report>),
    /// A partition's state as bytes, or that there is none to be had.
    Captured(Partition, Option<Captured>),
    /// A partition's state was handed back; everything before was reported.
    Released(Box<PartitionTask>),
}

/// A partition's state between two records.
pub(super) struct Captured {
    /// The assignment the work was done for.
    pub(super) epoch: Epoch,
    /// Every record before it is in the state.
    pub(super) next_offset: NextOffset,
    /// The last record in the state.
    pub(super) last_record: Option<RecordIdentity>,
    /// The state.
    pub(super) body: Result<Vec<u8>, BodyError>,
    /// How long the partition stood still for it.
    pub(super) pause: Duration,
}

/// A worker is gone, which it never is while its queue is open.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("a worker thread ended before it was told to; see the log for its panic")]
pub(super) struct WorkerGone;

/// The worker threads and who is where.
pub(super) struct Workers<'c> {
    queues: Vec<Sender<Order<'c>>>,
    replies: Receiver<Reply>,
    placed: BTreeMap<Partition, usize>,
}

impl<'c> Workers<'c> {
    /// Starts them. They end when this is dropped.
    pub(super) fn start<'scope>(scope: &'scope Scope<'scope, '_>, threads: usize) -> io::Result<Self>
    where
        'c: 'scope,
    {
        let (reply, replies) = unbounded();
        let mut queues = Vec::with_capacity(threads);
        for index in 0..threads.max(1) {
            let (queue, orders) = unbounded();
            let reply = reply.clone();
            let builder = Builder::new().name(format!("kvset-worker-{index}"));
            builder.spawn_scoped(scope, move || work(&orders, &reply))?;
            queues.push(queue);
        }
        Ok(Self { queues, replies, placed: BTreeMap::new() })
    }

    /// Gives a partition to the worker that has the fewest.
    pub(super) fn take(&mut self, epoch: Epoch, task: PartitionTask) -> Result<(), WorkerGone> {
        let load = |index: &usize| self.placed.values().filter(|placed| *placed == index).count();
        let index = (0..self.queues.len()).min_by_key(load).unwrap_or_default();
        self.placed.insert(task.partition(), index);
        self.order(index, Order::Take(epoch, Box::new(task)))
    }

    /// Queues a record of a partition that was taken.
    pub(super) fn feed(&self, record: Record<'c>) -> Result<(), WorkerGone> {
        match self.placed.get(&record.partition()) {
            Some(index) => self.order(*index, Order::Feed(record)),
            None => Ok(()),
        }
    }

    /// Asks for a partition's state as bytes, in this memory; false when no worker holds it.
    pub(super) fn capture(&self, partition: Partition, memory: Vec<u8>) -> Result<bool, WorkerGone> {
        match self.placed.get(&partition) {
            Some(index) => self.order(*index, Order::Capture(partition, memory)).map(|()| true),
            None => Ok(false),
        }
    }

    /// Asks for a partition's state back; true when it is held by a worker.
    pub(super) fn release(&mut self, partition: Partition) -> Result<bool, WorkerGone> {
        match self.placed.remove(&partition) {
            Some(index) => self.order(index, Order::Release(partition)).map(|()| true),
            None => Ok(false),
        }
    }

    /// A reply, waited for; `None` when none came in time.
    pub(super) fn reply(&self, timeout: Duration) -> Result<Option<Reply>, WorkerGone> {
        match self.replies.recv_timeout(timeout) {
            Ok(reply) => Ok(Some(reply)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(WorkerGone),
        }
    }

    fn order(&self, index: usize, order: Order<'c>) -> Result<(), WorkerGone> {
        self.queues.get(index).and_then(|queue| queue.send(order).ok()).ok_or(WorkerGone)
    }
}

/// A worker's life: until its queue is closed or nobody listens any more.
fn work(orders: &Receiver<Order<'_>>, replies: &Sender<Reply>) {
    let mut worker = Worker::default();
    while let Ok(first) = orders.recv() {
        let batch = std::iter::once(first).chain(orders.try_iter().take(BATCH - 1));
        for order in batch {
            match order {
                Order::Take(epoch, task) => worker.take(epoch, *task),
                Order::Feed(record) => worker.feed(&record.as_source(), record.bytes()),
                Order::Capture(partition, memory) => {
                    let reply = Reply::Captured(partition, captured(&worker, partition, memory));
                    if replies.send(reply).is_err() {
                        return;
                    }
                }
                Order::Release(partition) => {
                    if let Some((report, task)) = worker.release(partition) {
                        let last = report.map(|report| Reply::Report(Box::new(report)));
                        let released = Reply::Released(Box::new(task));
                        if last.into_iter().chain([released]).any(|reply| replies.send(reply).is_err()) {
                            return;
                        }
                    }
                }
            }
        }
        if worker.reports().any(|report| replies.send(Reply::Report(Box::new(report))).is_err()) {
            return;
        }
    }
}

fn captured(worker: &Worker, partition: Partition, memory: Vec<u8>) -> Option<Captured> {
    let (epoch, task) = worker.sound_task(partition)?;
    let begin = Instant::now();
    let body = capture(&task.image(), memory);
    let (next_offset, last_record) = (task.next_offset(), task.last_record());
    Some(Captured { epoch, next_offset, last_record, body, pause: begin.elapsed() })
}
