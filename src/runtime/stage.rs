//! What a stage does with the records of its partitions, between the source and the lanes.

use super::checkpoints::Occasion;
use super::service::ServiceError;
use crate::kafka::source::Record;
use crate::pipeline::lanes::{Lanes, Progress};
use crate::pipeline::position::{Epoch, LogRange, NextOffset, Partition};
use crate::pipeline::resume::Resume;
use std::time::Duration;

/// What the brokers say of a partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) partition: Partition,
    /// The group's stable committed offset.
    pub(super) committed: Option<NextOffset>,
    /// What the log holds.
    pub(super) log: LogRange,
}

/// What comes back from a stage.
pub(super) enum Done<N> {
    /// Records of a partition were processed, in order.
    Progress {
        progress: Progress,
        note: N,
        /// Why the partition cannot go on; what came before is sound.
        failure: Option<ServiceError>,
    },
    /// Something that moves no partition on.
    Other,
}

/// The work between the source and the lanes. Calls come from the poll loop, so none may wait for
/// records to be processed.
pub(super) trait Stage<'c> {
    /// What is known of progress beside the progress itself.
    type Note;

    /// Gets ready for a partition; decides where to take it up.
    fn take_up(&mut self, known: Known, epoch: Epoch) -> Result<Resume, ServiceError>;

    /// Takes a record in.
    fn feed(&mut self, record: Record<'c>) -> Result<(), ServiceError>;

    /// What was done, waited for up to `timeout`.
    fn reply(&mut self, timeout: Duration) -> Result<Option<Done<Self::Note>>, ServiceError>;

    /// The lanes took this progress: tells whoever watches. Gives the records that count.
    fn note(&mut self, partition: Partition, next: NextOffset, note: Self::Note) -> u64;

    /// Forgets a partition.
    fn give_up(&mut self, partition: Partition) -> Result<(), ServiceError>;

    /// Asks for the states that are to be kept, and has those kept that are committed.
    fn checkpoint(
        &mut self,
        _lanes: &Lanes,
        _partitions: &[Partition],
        _occasion: Occasion,
    ) -> Result<(), ServiceError> {
        Ok(())
    }

    /// Whether a state that was asked for is still to come.
    fn is_checkpointing(&self) -> bool {
        false
    }

    /// Has the states kept that are committed.
    fn keep(&mut self, _lanes: &Lanes) {}

    /// Finishes what goes on beside the records.
    fn finish(&mut self, _deadline: Duration) {}
}
