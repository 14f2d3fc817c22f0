//! What a stage does with the records of its partitions, between the source and the partitions.

use crate::error::ServiceError;
use crate::snapshots::checkpoints::Occasion;
use kvset_formats::position::{Epoch, LogRange, NextOffset, Partition};
use kvset_kafka::kafka::member::Member;
use kvset_pipeline::assignment::Assignment;
use kvset_pipeline::gaps::OffsetGaps;
use kvset_pipeline::resume::Resume;
use kvset_pipeline::worker::Report;
use std::time::Duration;

/// What the brokers say of a partition.
#[derive(Debug, Clone)]
pub struct BrokerFacts {
    /// Which.
    pub partition: Partition,
    /// The group's stable committed offset.
    pub committed: Option<NextOffset>,
    /// What the log holds.
    pub log: LogRange,
    /// Offsets that cannot be read and are to be passed.
    pub gaps: OffsetGaps,
}

/// The work between the source and the partitions. Calls come from the poll loop, so none may wait for
/// records to be processed.
pub trait Stage<'c, M: Member> {
    /// What a report says alongside the progress itself.
    type Summary;

    /// Gets ready for a partition; decides where to take it up.
    ///
    /// # Errors
    /// Why it cannot be; for the other methods, why the stage cannot go on.
    fn take_up(&mut self, source: &'c M, known: BrokerFacts, epoch: Epoch) -> Result<Resume, ServiceError>;

    /// Whoever watches was told that the partition was taken up: tells what its state knows already.
    fn tell_restored(&mut self, _partition: Partition) {}

    /// Takes records in, each partition's in order.
    fn submit(&mut self, records: Vec<M::Record<'c>>) -> Result<(), ServiceError>;

    /// Nothing follows of a partition before `end`, where its run ends. Whether something may wait for more there: it
    /// is done then, and reported like a record.
    fn finish_partition(&mut self, _partition: Partition, _end: NextOffset) -> Result<bool, ServiceError> {
        Ok(false)
    }

    /// A report, waited for up to `timeout`; `None` also where something else came meanwhile.
    fn report(&mut self, timeout: Duration) -> Result<Option<Report<Self::Summary>>, ServiceError>;

    /// This progress counts: tells whoever watches. Gives the records that count.
    fn tell(&mut self, partition: Partition, next: NextOffset, summary: Self::Summary) -> u64;

    /// Forgets a partition. With `may_return` it was given up in order and may come back soon, so that its
    /// state may be kept for a while.
    fn give_up(&mut self, partition: Partition, may_return: bool) -> Result<(), ServiceError>;

    /// Whether states that are to be kept are still to come.
    fn is_parking(&self) -> bool {
        false
    }

    /// Said a few times a second.
    fn tick(&mut self) {}

    /// Asks for the states that are to be written, and has those written that are committed.
    fn checkpoint(
        &mut self,
        _assignment: &Assignment,
        _partitions: &[Partition],
        _occasion: Occasion,
    ) -> Result<(), ServiceError> {
        Ok(())
    }

    /// Whether a state that was requested is still to come.
    fn is_checkpointing(&self) -> bool {
        false
    }

    /// Has the states written that are committed.
    fn keep(&mut self, _assignment: &Assignment) {}

    /// The process stops: what waits for others waits no longer.
    fn stop_waiting(&mut self) {}

    /// Finishes what goes on alongside the records.
    fn finish(&mut self, _deadline: Duration) {}
}
