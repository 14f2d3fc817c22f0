//! Threads that hold partitions' tasks. A partition is always on one of them.
//!
//! Queues have no bound of their own: what is in them is bounded by the partitions, which pause a
//! partition before more is fetched. A bound here as well could only block the poll loop, and with
//! it the membership in the group.

use super::pool::{Order, Reply, WorkerGone, WorkerPool, carry_out};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use kvset_formats::position::{Epoch, Partition};
use kvset_kafka::kafka::member::InputRecord;
use kvset_pipeline::task::PartitionTask;
use kvset_pipeline::worker::Worker;
use kvset_snapshot::capture::CaptureMemory;
use std::collections::BTreeMap;
use std::io;
use std::thread::{Builder, Scope};
use std::time::Duration;

/// Orders carried out between two reports of a worker, if as many wait: more records a report, fewer
/// reports, and no longer wait for one than it takes the worker anyway.
const ORDERS: usize = 4;

/// The worker threads and who is where.
pub(crate) struct Workers<R> {
    queues: Vec<Sender<Order<R>>>,
    replies: Receiver<Reply>,
    placed: BTreeMap<Partition, usize>,
}

impl<R: InputRecord + Send> Workers<R> {
    /// Starts them. They end when this is dropped.
    pub(crate) fn start<'scope>(scope: &'scope Scope<'scope, '_>, threads: usize) -> io::Result<Self>
    where
        R: 'scope,
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

    fn order(&self, index: usize, order: Order<R>) -> Result<(), WorkerGone> {
        self.queues.get(index).and_then(|queue| queue.send(order).ok()).ok_or(WorkerGone)
    }
}

impl<R: InputRecord + Send> WorkerPool<R> for Workers<R> {
    /// Gives a partition to the worker that has the fewest.
    fn take(&mut self, epoch: Epoch, task: PartitionTask) -> Result<(), WorkerGone> {
        let load = |index: &usize| self.placed.values().filter(|placed| *placed == index).count();
        let index = (0..self.queues.len()).min_by_key(load).unwrap_or_default();
        self.placed.insert(task.partition(), index);
        self.order(index, Order::Take(epoch, Box::new(task)))
    }

    fn submit(&self, records: Vec<R>) -> Result<(), WorkerGone> {
        let mut batches: Vec<Vec<R>> = self.queues.iter().map(|_| Vec::new()).collect();
        for record in records {
            if let Some(index) = self.placed.get(&record.partition()) {
                batches[*index].push(record);
            }
        }
        let mut batches = batches.into_iter().enumerate().filter(|(_, batch)| !batch.is_empty());
        batches.try_for_each(|(index, batch)| self.order(index, Order::Process(batch)))
    }

    fn capture(&self, partition: Partition, memory: CaptureMemory) -> Result<bool, WorkerGone> {
        match self.placed.get(&partition) {
            Some(index) => self.order(*index, Order::Capture(partition, memory)).map(|()| true),
            None => Ok(false),
        }
    }

    fn release(&mut self, partition: Partition) -> Result<bool, WorkerGone> {
        match self.placed.remove(&partition) {
            Some(index) => self.order(index, Order::Release(partition)).map(|()| true),
            None => Ok(false),
        }
    }

    fn try_reply(&self) -> Option<Reply> {
        self.replies.try_recv().ok()
    }

    fn reply(&self, timeout: Duration) -> Result<Option<Reply>, WorkerGone> {
        match self.replies.recv_timeout(timeout) {
            Ok(reply) => Ok(Some(reply)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(WorkerGone),
        }
    }
}

/// A worker's life: until its queue is closed or nobody listens any more.
fn work<R: InputRecord>(orders: &Receiver<Order<R>>, replies: &Sender<Reply>) {
    let mut worker = Worker::default();
    while let Ok(first) = orders.recv() {
        let batch = std::iter::once(first).chain(orders.try_iter().take(ORDERS - 1));
        if !carry_out(&mut worker, batch, |reply| replies.send(reply).is_ok()) {
            return;
        }
    }
}
