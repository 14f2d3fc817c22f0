//! Threads that hold partitions' tasks. A partition is always on one of them.
//!
//! Queues have no bound of their own: what is in them is bounded by the partitions, which pause a
//! partition before more is fetched. A bound here as well could only block the poll loop, and with
//! it the membership in the group.

use super::ahead::WaitingBatches;
use super::batch::Batch;
use super::pool::{Reply, WorkerGone, WorkerOrder, WorkerPool, carry_out};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, select, unbounded};
use kvset_formats::codec::{DecodeLimits, Encoding, Repacker};
use kvset_formats::position::{Epoch, NextOffset, Partition};
use kvset_kafka::kafka::member::InputRecord;
use kvset_pipeline::task::PartitionTask;
use kvset_pipeline::worker::Worker;
use kvset_snapshot::capture::CaptureMemory;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread::{Builder, Scope};
use std::time::Duration;

/// Orders carried out between two reports of a worker, if as many wait: more records a report, fewer
/// reports, and no longer wait for one than it takes the worker anyway.
const ORDERS: usize = 4;

/// The worker threads and who is where.
pub(crate) struct Workers<R> {
    queues: Vec<Sender<WorkerOrder<R>>>,
    replies: Receiver<Reply>,
    placed: BTreeMap<Partition, usize>,
    ahead: WaitingBatches<R>,
    repacker: Repacker,
}

impl<R: InputRecord + Send + Sync> Workers<R> {
    /// Starts them, for records in this encoding within these limits. They end when this is dropped.
    pub(crate) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        threads: usize,
        encoding: Encoding,
        limits: DecodeLimits,
    ) -> io::Result<Self>
    where
        R: 'scope,
    {
        let (ahead, repacker) = (WaitingBatches::default(), || Repacker::new(encoding, limits));
        let (reply, replies) = unbounded();
        let mut queues = Vec::with_capacity(threads);
        for index in 0..threads.max(1) {
            let (queue, orders) = unbounded();
            let (reply, ahead, repacker) = (reply.clone(), ahead.clone(), repacker());
            let builder = Builder::new().name(format!("kvset-worker-{index}"));
            builder.spawn_scoped(scope, move || work(&orders, &reply, &ahead, repacker))?;
            queues.push(queue);
        }
        Ok(Self { queues, replies, placed: BTreeMap::new(), ahead, repacker: repacker() })
    }

    /// Hands records to a worker, and shows them to the others where it is busy.
    fn hand_out(&self, index: usize, records: Vec<R>) -> Result<(), WorkerGone> {
        let batch = Arc::new(Batch::new(records));
        let is_busy = self.queues.len() > 1 && self.queues.get(index).is_some_and(|queue| !queue.is_empty());
        if is_busy && batch.takes_long(&self.repacker) {
            self.ahead.offer(&batch);
        }
        self.order(index, WorkerOrder::Process(batch))
    }

    fn order(&self, index: usize, order: WorkerOrder<R>) -> Result<(), WorkerGone> {
        self.queues.get(index).and_then(|queue| queue.send(order).ok()).ok_or(WorkerGone)
    }
}

impl<R: InputRecord + Send + Sync> WorkerPool<R> for Workers<R> {
    /// Gives a partition to the worker that has the fewest.
    fn take(&mut self, epoch: Epoch, task: PartitionTask) -> Result<(), WorkerGone> {
        let load = |index: &usize| self.placed.values().filter(|placed| *placed == index).count();
        let index = (0..self.queues.len()).min_by_key(load).unwrap_or_default();
        self.placed.insert(task.partition(), index);
        self.order(index, WorkerOrder::Take(epoch, Box::new(task)))
    }

    fn submit(&self, records: Vec<R>) -> Result<(), WorkerGone> {
        let mut batches: Vec<Vec<R>> = self.queues.iter().map(|_| Vec::new()).collect();
        for record in records {
            if let Some(index) = self.placed.get(&record.partition()) {
                batches[*index].push(record);
            }
        }
        let mut batches = batches.into_iter().enumerate().filter(|(_, batch)| !batch.is_empty());
        batches.try_for_each(|(index, batch)| self.hand_out(index, batch))
    }

    fn finish(&self, partition: Partition, end: NextOffset) -> Result<bool, WorkerGone> {
        match self.placed.get(&partition) {
            Some(index) => self.order(*index, WorkerOrder::Finish(partition, end)).map(|()| true),
            None => Ok(false),
        }
    }

    fn capture(&self, partition: Partition, memory: CaptureMemory) -> Result<bool, WorkerGone> {
        match self.placed.get(&partition) {
            Some(index) => self.order(*index, WorkerOrder::Capture(partition, memory)).map(|()| true),
            None => Ok(false),
        }
    }

    fn release(&mut self, partition: Partition) -> Result<bool, WorkerGone> {
        match self.placed.remove(&partition) {
            Some(index) => self.order(index, WorkerOrder::Release(partition)).map(|()| true),
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

/// Reads a batch ahead that waits for another worker; false where none does.
fn help<R: InputRecord>(ahead: &WaitingBatches<R>, repacker: &mut Repacker) -> bool {
    let next = ahead.next();
    let is_there = next.is_some();
    read_ahead(next, repacker);
    is_there
}

fn read_ahead<R: InputRecord>(batch: Option<Arc<Batch<R>>>, repacker: &mut Repacker) {
    if let Some(batch) = batch {
        batch.repack(repacker);
    }
}

/// A worker's life: until its queue is closed or nobody listens any more.
fn work<R: InputRecord>(
    orders: &Receiver<WorkerOrder<R>>,
    replies: &Sender<Reply>,
    ahead: &WaitingBatches<R>,
    mut repacker: Repacker,
) {
    let mut worker = Worker::default();
    while let Some(first) = next_order(orders, ahead, &mut repacker) {
        let orders = std::iter::once(first).chain(orders.try_iter().take(ORDERS - 1));
        if !carry_out(&mut worker, orders, || help(ahead, &mut repacker), |reply| replies.send(reply).is_ok())
        {
            return;
        }
    }
}

/// Waits for an order, and helps others meanwhile; `None` once the queue is closed.
fn next_order<R: InputRecord>(
    orders: &Receiver<WorkerOrder<R>>,
    ahead: &WaitingBatches<R>,
    repacker: &mut Repacker,
) -> Option<WorkerOrder<R>> {
    loop {
        match orders.try_recv() {
            Ok(order) => return Some(order),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) if help(ahead, repacker) => {}
            Err(TryRecvError::Empty) => select! {
                recv(orders) -> order => return order.ok(),
                recv(ahead.waiting) -> batch => {
                    read_ahead(batch.ok().and_then(|batch| batch.upgrade()), repacker);
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fresh_task::fresh_task;
    use kvset_formats::codec::SourceRecord;
    use kvset_formats::output::OutputRecord;
    use std::fmt::Write;

    const RECORDS: i64 = 3000;

    struct Line(i64, String);

    impl InputRecord for Line {
        fn as_source(&self) -> SourceRecord<'_> {
            let value = Some(self.1.as_bytes());
            SourceRecord {
                schema_header: None,
                topic: "t",
                partition: 0,
                offset: self.0,
                timestamp_ms: None,
                key: Some(b"pool"),
                value,
            }
        }
    }

    /// A request a minute, in JSON; one in a hundred is broken.
    fn line(offset: i64) -> Line {
        let time = 1_700_000_000_000 + offset * 60_000;
        let mut text = format!(r#"{{"event_time": {time}, "page_size": 64, "page_ids": [7"#);
        (0..200).for_each(|id| write!(text, ",{}", id + offset % 10 * 1000).expect("memory"));
        let end = if offset % 100 == 99 { "" } else { "]}" };
        Line(offset, text + end)
    }

    /// What so many threads give out of the records of one partition, in batches of a few.
    fn outputs(threads: usize) -> Vec<OutputRecord> {
        std::thread::scope(|scope| {
            let started = Workers::start(scope, threads, Encoding::Auto, DecodeLimits::default());
            let mut workers = started.expect("threads");
            workers.take(Epoch(1), fresh_task(Partition(0))).expect("a worker");
            for begin in (0..RECORDS).step_by(20) {
                workers.submit((begin..begin + 20).map(line).collect()).expect("a worker");
            }
            let (mut outputs, mut records) = (Vec::new(), 0);
            while records < RECORDS as usize {
                let reply = workers.reply(Duration::from_secs(60)).expect("workers");
                let Some(Reply::Report(report)) = reply else { panic!("a report in time") };
                assert!(report.failure.is_none(), "{:?}", report.failure);
                records += report.progress.records;
                outputs.extend(report.progress.outputs);
            }
            outputs
        })
    }

    #[test]
    fn whoever_reads_a_partitions_records_ahead_what_comes_out_is_the_same() {
        let alone = outputs(1);
        assert!(alone.len() > 100, "{} outputs", alone.len());
        assert_eq!(outputs(2), alone);
        assert_eq!(outputs(5), alone);
    }
}
