//! Batches whose workers are busy, for workers that are not: they do the long part of reading them ahead.

use super::batch::Batch;
use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use kvset_kafka::kafka::member::InputRecord;
use std::sync::{Arc, Weak};

/// Batches remembered at most, more than one worker has waiting.
const BATCHES: usize = 64;

/// Batches that wait, oldest first.
pub(super) struct WaitingBatches<R> {
    offer: Sender<Weak<Batch<R>>>,
    /// Those that were processed meanwhile are gone.
    pub(super) waiting: Receiver<Weak<Batch<R>>>,
}

impl<R> Clone for WaitingBatches<R> {
    fn clone(&self) -> Self {
        Self { offer: self.offer.clone(), waiting: self.waiting.clone() }
    }
}

impl<R> Default for WaitingBatches<R> {
    fn default() -> Self {
        let (offer, waiting) = bounded(BATCHES);
        Self { offer, waiting }
    }
}

impl<R: InputRecord> WaitingBatches<R> {
    /// Remembers a batch, in place of the oldest where there are too many: that is the next its worker comes to anyway.
    pub(super) fn offer(&self, batch: &Arc<Batch<R>>) {
        let mut offered = self.offer.try_send(Arc::downgrade(batch));
        while let Err(TrySendError::Full(batch)) = offered {
            drop(self.waiting.try_recv());
            offered = self.offer.try_send(batch);
        }
    }

    /// The oldest batch that still waits.
    pub(super) fn next(&self) -> Option<Arc<Batch<R>>> {
        self.waiting.try_iter().find_map(|batch| batch.upgrade())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvset_formats::codec::SourceRecord;
    use kvset_formats::position::Partition;

    struct Numbered(i32);

    impl InputRecord for Numbered {
        fn as_source(&self) -> SourceRecord<'_> {
            SourceRecord {
                schema_header: None,
                topic: "t",
                partition: self.0,
                offset: 0,
                timestamp_ms: None,
                key: None,
                value: None,
            }
        }
    }

    #[test]
    fn batches_come_oldest_first_without_those_that_were_processed() {
        let ahead = WaitingBatches::default();
        let mut batches: Vec<_> = (0..3).map(|n| Arc::new(Batch::new(vec![Numbered(n)]))).collect();
        batches.iter().for_each(|batch| ahead.offer(batch));
        batches.remove(0);
        let number = |batch: Arc<Batch<Numbered>>| batch.runs(None).next().expect("one").0.partition();
        assert_eq!(
            [(); 3].map(|()| ahead.next().map(number)),
            [Some(Partition(1)), Some(Partition(2)), None]
        );
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let ahead = WaitingBatches::default();
        let batches: Vec<_> = (0..200).map(|n| Arc::new(Batch::new(vec![Numbered(n)]))).collect();
        batches.iter().for_each(|batch| ahead.offer(batch));
        let left = std::iter::from_fn(|| ahead.next()).count();
        assert_eq!(left, BATCHES);
        assert!(batches.iter().all(|batch| Arc::strong_count(batch) == 1), "nothing is kept alive");
    }
}
