//! Brokers as the protocol sees them: the log, transactions, committed offsets. Every commit is
//! compared with what an undisturbed run publishes.

use crate::chance::Chance;
use crate::group::Group;
use crate::input::{Fetched, Input, PartitionInput, partition_of};
use kvset::output::OutputRecord;
use kvset::pipeline::publish::FailureKind;
use kvset::position::LogRange;
use kvset::position::NextOffset;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How long the brokers wait for the end of a transaction.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(10);
/// How long they wait for a member that says nothing.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(6);

/// What the group is promised about the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    ExactlyOnce,
    /// Repeats are allowed, of the same bytes.
    AtLeastOnce,
}

/// One partition of the input topic, and what was published of it.
#[derive(Debug)]
pub struct Log {
    pub start: i64,
    /// Records written so far.
    pub visible: usize,
    pub committed: Option<i64>,
    /// State was rebuilt from a log whose beginning is gone: its estimates are marked and may differ.
    pub warm_up: bool,
    /// Where repeats are allowed: the outputs that are out, by their number.
    published: BTreeSet<usize>,
}

#[derive(Debug, Default)]
struct Producer {
    epoch: u64,
    open: Option<Transaction>,
}

#[derive(Debug)]
struct Transaction {
    began: Duration,
    outputs: Vec<OutputRecord>,
    offsets: Vec<(i32, i64)>,
    /// The wish to commit is on its way.
    in_flight: bool,
}

#[derive(Debug)]
pub struct Broker {
    pub input: Arc<Input>,
    pub promise: Promise,
    pub group: Group,
    pub logs: Vec<Log>,
    producers: BTreeMap<String, Producer>,
}

impl Broker {
    pub fn new(input: Arc<Input>, promise: Promise, eager: bool) -> Self {
        let log =
            || Log { start: 0, visible: 0, committed: None, warm_up: false, published: BTreeSet::new() };
        let logs: Vec<Log> = input.partitions.iter().map(|_| log()).collect();
        let group = Group::new(logs.len(), eager);
        Self { input, promise, group, logs, producers: BTreeMap::new() }
    }

    pub fn end(&self, partition: i32) -> i64 {
        let (log, input) = (&self.logs[partition as usize], &self.input.partitions[partition as usize]);
        match input.records.get(log.visible) {
            None => input.end,
            Some(_) => log.visible.checked_sub(1).map_or(0, |last| input.records[last].0.offset + 1),
        }
    }

    pub fn range(&self, partition: i32) -> LogRange {
        let start = self.logs[partition as usize].start;
        LogRange { start: NextOffset(start), end: NextOffset(self.end(partition).max(start)) }
    }

    /// The first record at or after an offset.
    pub fn record_from(&self, partition: i32, offset: i64) -> Option<&Fetched> {
        let records = &self.input.partitions[partition as usize].records;
        let written = &records[..self.logs[partition as usize].visible];
        written.get(written.partition_point(|record| record.0.offset < offset))
    }

    /// Whether every record was written and committed; what follows the last one is no record.
    pub fn is_done(&self) -> bool {
        let last = |partition: &PartitionInput| partition.records.last().map(|record| record.0.offset);
        let pairs = self.logs.iter().zip(&self.input.partitions);
        pairs.into_iter().all(|(log, input)| log.committed > last(input))
    }

    /// A producer of this name takes over from the one before.
    pub fn init_producer(&mut self, id: &str, chance: &mut Chance) -> Result<u64, String> {
        self.end_transaction(id, chance)?;
        let producer = self.producers.entry(id.to_owned()).or_default();
        producer.epoch += 1;
        Ok(producer.epoch)
    }

    /// What an unfinished transaction comes to that its producer can no longer end.
    fn end_transaction(&mut self, id: &str, chance: &mut Chance) -> Result<(), String> {
        let open = self.producers.get_mut(id).and_then(|producer| producer.open.take());
        match open {
            Some(transaction) if transaction.in_flight && chance.one_in(2) => self.apply(transaction),
            _ => Ok(()),
        }
    }

    /// Ends what took too long.
    pub fn expire(&mut self, now: Duration, chance: &mut Chance) -> Result<(), String> {
        let late = |producer: &Producer| {
            producer.open.as_ref().is_some_and(|open| open.began + TRANSACTION_TIMEOUT <= now)
        };
        let expired: Vec<String> =
            self.producers.iter().filter(|(_, producer)| late(producer)).map(|(id, _)| id.clone()).collect();
        for id in expired {
            self.end_transaction(&id, chance)?;
            self.producers.entry(id).or_default().epoch += 1;
        }
        let dead = |died: Option<Duration>| died.is_some_and(|died| died + SESSION_TIMEOUT <= now);
        let members = self.group.members.iter();
        let gone: Vec<usize> =
            members.filter(|(_, state)| dead(state.died)).map(|(member, _)| *member).collect();
        gone.into_iter().for_each(|member| self.group.remove(member, chance));
        Ok(())
    }

    fn producer(&mut self, id: &str, epoch: u64) -> Result<&mut Producer, FailureKind> {
        self.producers.get_mut(id).filter(|producer| producer.epoch == epoch).ok_or(FailureKind::Migrated)
    }

    /// The producer's transaction, opened by the first thing that goes into it.
    fn transaction(&mut self, id: &str, epoch: u64, now: Duration) -> Result<&mut Transaction, FailureKind> {
        let (outputs, offsets, in_flight) = (Vec::new(), Vec::new(), false);
        let new = Transaction { began: now, outputs, offsets, in_flight };
        Ok(self.producer(id, epoch)?.open.get_or_insert(new))
    }

    pub fn add_output(
        &mut self,
        id: &str,
        epoch: u64,
        output: &OutputRecord,
        now: Duration,
    ) -> Result<(), FailureKind> {
        self.transaction(id, epoch, now)?.outputs.push(output.clone());
        Ok(())
    }

    pub fn add_offsets(
        &mut self,
        id: &str,
        epoch: u64,
        next: &[(i32, i64)],
        now: Duration,
    ) -> Result<(), FailureKind> {
        self.transaction(id, epoch, now)?.offsets = next.to_vec();
        Ok(())
    }

    /// The wish to commit arrives, and may be carried out later.
    pub fn announce_commit(&mut self, id: &str, epoch: u64) -> Result<(), FailureKind> {
        if let Some(open) = &mut self.producer(id, epoch)?.open {
            open.in_flight = true;
        }
        Ok(())
    }

    pub fn commit(&mut self, id: &str, epoch: u64) -> Result<Result<(), String>, FailureKind> {
        let open = self.producer(id, epoch)?.open.take();
        Ok(open.map_or(Ok(()), |transaction| self.apply(transaction)))
    }

    pub fn abort(&mut self, id: &str, epoch: u64) -> Result<(), FailureKind> {
        self.producer(id, epoch)?.open = None;
        Ok(())
    }

    /// Whether an undecided transaction holds offsets of the partition.
    pub fn is_unstable(&self, partition: i32) -> bool {
        let open = self.producers.values().filter_map(|producer| producer.open.as_ref());
        open.flat_map(|open| &open.offsets).any(|(held, _)| *held == partition)
    }

    /// A transaction becomes visible: it must hold exactly what the records between the committed
    /// offsets and the new ones give.
    fn apply(&mut self, transaction: Transaction) -> Result<(), String> {
        let mut outputs: BTreeMap<usize, Vec<OutputRecord>> = BTreeMap::new();
        for output in transaction.outputs {
            let partition = partition_of(&output).ok_or("an output of no known partition")?;
            outputs.entry(partition).or_default().push(output);
        }
        for (partition, next) in transaction.offsets {
            let found = outputs.remove(&(partition as usize)).unwrap_or_default();
            self.check(partition as usize, &found, next)?;
            self.logs[partition as usize].committed = Some(next);
        }
        match outputs.first_key_value() {
            Some((partition, found)) => Err(format!(
                "{} outputs of partition {partition} were committed without an offset of it",
                found.len()
            )),
            None => Ok(()),
        }
    }

    fn check(&self, partition: usize, found: &[OutputRecord], next: i64) -> Result<(), String> {
        let log = &self.logs[partition];
        let from = log.committed.unwrap_or(0);
        if next < from {
            return Err(format!("partition {partition}: committed {next} after {from}"));
        }
        if log.warm_up {
            return Ok(());
        }
        let expected: Vec<_> = self.input.partitions[partition].outputs_between(from, next).collect();
        if found.iter().eq(expected.iter().copied()) {
            return Ok(());
        }
        Err(format!(
            "partition {partition}: records {from} to {next} give {} outputs and {} were committed with \
             them, or others",
            expected.len(),
            found.len()
        ))
    }

    /// Outside of transactions an output is out at once.
    pub fn publish(&mut self, output: &OutputRecord) -> Result<(), String> {
        let partition = partition_of(output).ok_or("an output of no known partition")?;
        let log = &mut self.logs[partition];
        let known = &self.input.partitions[partition].outputs;
        match known.iter().position(|(_, expected)| expected == output) {
            Some(number) => drop(log.published.insert(number)),
            None if log.warm_up => {}
            None => return Err(format!("partition {partition}: an output no undisturbed run gives")),
        }
        Ok(())
    }

    /// Outside of transactions offsets follow outputs that are out.
    pub fn commit_offsets(&mut self, next: &[(i32, i64)]) -> Result<(), String> {
        for (partition, next) in next {
            let (log, input) =
                (&mut self.logs[*partition as usize], &self.input.partitions[*partition as usize]);
            let missing = input
                .outputs
                .iter()
                .enumerate()
                .find(|(number, (at, _))| at < next && !log.published.contains(number));
            if let Some((_, (at, _))) = missing.filter(|_| !log.warm_up) {
                return Err(format!(
                    "partition {partition}: {next} was committed before what record {at} gives was out"
                ));
            }
            if Some(*next) < log.committed {
                return Err(format!("partition {partition}: committed {next} after {:?}", log.committed));
            }
            log.committed = Some(*next);
        }
        Ok(())
    }
}
