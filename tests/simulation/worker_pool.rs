//! A process's workers, which work when requested answers.

use crate::input::Fetched;
use crate::world::Process;
use kvset::codec::{DecodeLimits, Encoding, Repacker};
use kvset::kafka::member::InputRecord;
use kvset::pipeline::task::PartitionTask;
use kvset::pipeline::worker::Worker;
use kvset::position::{Epoch, NextOffset, Partition};
use kvset::service::workers::batch::Batch;
use kvset::service::workers::pool::{Reply, WorkerGone, WorkerOrder, WorkerPool, carry_out};
use kvset::snapshot::capture::CaptureMemory;
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Two workers, so that partitions come along at different paces.
const WORKERS: usize = 2;

#[derive(Default)]
struct Bench {
    worker: Worker,
    orders: VecDeque<WorkerOrder<Fetched>>,
}

/// The workers of one process.
pub struct SimWorkerPool {
    process: Process,
    benches: RefCell<[Bench; WORKERS]>,
    replies: RefCell<VecDeque<Reply>>,
    held: BTreeSet<Partition>,
    repacker: RefCell<Repacker>,
}

impl SimWorkerPool {
    pub fn new(process: Process) -> Self {
        let repacker = RefCell::new(Repacker::new(Encoding::Auto, DecodeLimits::default()));
        let (benches, replies) = (RefCell::default(), RefCell::default());
        Self { process, benches, replies, held: BTreeSet::new(), repacker }
    }

    fn order(&self, partition: Partition, order: WorkerOrder<Fetched>) -> Result<(), WorkerGone> {
        let index = partition.0 as usize % WORKERS;
        self.benches.borrow_mut()[index].orders.push_back(order);
        if self.process.is_dead() { Err(WorkerGone) } else { Ok(()) }
    }

    /// One worker does some of what it was told.
    fn work(&self) -> Result<(), WorkerGone> {
        let chosen = self.process.step("work", |state| {
            (state.chance.below(WORKERS as u64) as usize, state.chance.between(1, 6) as usize)
        });
        let (index, count) = chosen.map_err(|_| WorkerGone)?;
        let Bench { worker, orders } = &mut self.benches.borrow_mut()[index];
        let batch = orders.drain(..count.min(orders.len()));
        let mut replies = self.replies.borrow_mut();
        let nobody = || false;
        carry_out(worker, batch, nobody, |reply| {
            replies.push_back(reply);
            true
        });
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.benches.borrow().iter().all(|bench| bench.orders.is_empty())
    }
}

impl WorkerPool<Fetched> for SimWorkerPool {
    fn take(&mut self, epoch: Epoch, task: PartitionTask) -> Result<(), WorkerGone> {
        if task.waiting() > 0 {
            self.process.world.state().count("records that wait", "in a state that goes on");
        }
        self.held.insert(task.partition());
        self.order(task.partition(), WorkerOrder::Take(epoch, Box::new(task)))
    }

    fn submit(&self, records: Vec<Fetched>) -> Result<(), WorkerGone> {
        // One by one, so that other orders and deaths come between any two; some were read ahead by another worker.
        records.into_iter().try_for_each(|record| {
            let (partition, batch) = (record.partition(), Batch::new(vec![record]));
            if self.process.world.state().chance.one_in(2) {
                batch.repack(&mut self.repacker.borrow_mut());
            }
            self.order(partition, WorkerOrder::Process(Arc::new(batch)))
        })
    }

    fn finish(&self, partition: Partition, end: NextOffset) -> Result<bool, WorkerGone> {
        let held = self.held.contains(&partition);
        if held {
            self.order(partition, WorkerOrder::Finish(partition, end)).map(|()| true)
        } else {
            Ok(false)
        }
    }

    fn capture(&self, partition: Partition, memory: CaptureMemory) -> Result<bool, WorkerGone> {
        let held = self.held.contains(&partition);
        if held {
            self.order(partition, WorkerOrder::Capture(partition, memory)).map(|()| true)
        } else {
            Ok(false)
        }
    }

    fn release(&mut self, partition: Partition) -> Result<bool, WorkerGone> {
        let held = self.held.remove(&partition);
        if held { self.order(partition, WorkerOrder::Release(partition)).map(|()| true) } else { Ok(false) }
    }

    fn try_reply(&self) -> Option<Reply> {
        let waiting = self.replies.borrow_mut().pop_front();
        if waiting.is_some() || self.is_idle() {
            return waiting;
        }
        // Half of the time the workers are still busy.
        if self.process.world.state().chance.one_in(2) {
            return None;
        }
        self.work().ok()?;
        self.replies.borrow_mut().pop_front()
    }

    fn reply(&self, timeout: Duration) -> Result<Option<Reply>, WorkerGone> {
        if self.replies.borrow().is_empty() {
            self.work()?;
        }
        let reply = self.replies.borrow_mut().pop_front();
        if reply.is_none() {
            self.process.world.state().pass(timeout);
        }
        Ok(reply)
    }
}
