//! Work that is done in any order, given back in the order of the log.

use kvset_formats::position::{Epoch, Partition};
use std::collections::{BTreeMap, VecDeque};

/// What was done with a record, when its turn has come.
#[derive(Debug, PartialEq, Eq)]
pub struct InTurn<T> {
    /// The record's offset.
    pub offset: i64,
    /// Bytes of its key and value.
    pub bytes: usize,
    /// What was done.
    pub done: T,
}

/// Records in offset order, each with what was done once it is.
type UnderWay<T> = VecDeque<InTurn<Option<T>>>;

/// The records under way, partition by partition.
#[derive(Debug)]
pub struct Ordered<T> {
    partitions: BTreeMap<Partition, (Epoch, UnderWay<T>)>,
}

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self { partitions: BTreeMap::new() }
    }
}

impl<T> Ordered<T> {
    /// Records of this partition are about to come, under this assignment.
    pub fn open(&mut self, partition: Partition, epoch: Epoch) {
        self.partitions.insert(partition, (epoch, VecDeque::new()));
    }

    /// Forgets a partition; what is still under way is dropped when it is done.
    pub fn close(&mut self, partition: Partition) {
        self.partitions.remove(&partition);
    }

    /// Notes a record that is handed out, with a larger offset than those before it; gives the
    /// assignment to do it for. `None` where the partition is not open.
    pub fn begin(&mut self, partition: Partition, offset: i64, bytes: usize) -> Option<Epoch> {
        let (epoch, records) = self.partitions.get_mut(&partition)?;
        debug_assert!(records.back().is_none_or(|last| last.offset < offset));
        records.push_back(InTurn { offset, bytes, done: None });
        Some(*epoch)
    }

    /// Takes what was done with a record; gives every record whose turn has come, in offset order.
    /// Work for another assignment is dropped.
    pub fn done(&mut self, partition: Partition, epoch: Epoch, offset: i64, done: T) -> Vec<InTurn<T>> {
        let queue = self.partitions.get_mut(&partition).filter(|(assigned, _)| *assigned == epoch);
        let Some((_, records)) = queue else { return Vec::new() };
        if let Ok(index) = records.binary_search_by_key(&offset, |record| record.offset) {
            records[index].done = Some(done);
        }
        let mut ready = Vec::new();
        while let Some(InTurn { offset, bytes, done }) = records.pop_front() {
            let Some(done) = done else {
                records.push_front(InTurn { offset, bytes, done: None });
                break;
            };
            ready.push(InTurn { offset, bytes, done });
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const P: Partition = Partition(1);

    proptest! {
        #[test]
        fn any_order_of_work_gives_the_order_of_the_log(
            steps in prop::collection::vec((1i64..4, any::<u32>()), 0..60),
        ) {
            // Records with gaps between their offsets, done in the order of their random numbers.
            let mut ordered = Ordered::default();
            ordered.open(P, Epoch(1));
            let mut offset = 0;
            let mut work = Vec::new();
            for (gap, rank) in &steps {
                offset += gap;
                prop_assert_eq!(ordered.begin(P, offset, 1), Some(Epoch(1)));
                work.push((*rank, offset));
            }
            let offsets: Vec<i64> = work.iter().map(|(_, offset)| *offset).collect();
            work.sort_unstable();
            let mut given = Vec::new();
            for (number, (_, offset)) in work.iter().enumerate() {
                let ready = ordered.done(P, Epoch(1), *offset, *offset);
                given.extend(ready.into_iter().map(|ready| ready.done));
                // Never more than is done, and all that is done up to the first gap.
                let done: Vec<i64> = work[..=number].iter().map(|(_, offset)| *offset).collect();
                let expected: Vec<i64> = offsets.iter().copied().take_while(|o| done.contains(o)).collect();
                prop_assert_eq!(&given, &expected);
            }
            prop_assert_eq!(given, offsets);
        }
    }

    #[test]
    fn work_of_an_ended_assignment_is_dropped() {
        let mut ordered = Ordered::default();
        assert_eq!(ordered.begin(P, 0, 1), None, "not open");
        ordered.open(P, Epoch(1));
        ordered.begin(P, 0, 1);
        ordered.close(P);
        ordered.open(P, Epoch(2));
        ordered.begin(P, 0, 5);
        assert_eq!(ordered.done(P, Epoch(1), 0, "old"), []);
        assert_eq!(ordered.done(P, Epoch(2), 0, "new"), [InTurn { offset: 0, bytes: 5, done: "new" }]);
    }
}
