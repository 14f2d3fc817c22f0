//! A task's next few records, read before the first of them is processed.
//!
//! A record comes from another thread, and what it will ask of its pool's stack lies far from the
//! processor: each would wait for memory several times over. Read together, and shown to the stack
//! together, they wait once.

use super::PartitionTask;
use kvset_core::stack::{LOOK_AHEAD, look_ahead};
use kvset_formats::codec::{Decoded, SourceRecord};
use std::hint::black_box;

/// A record with its event, where reading it takes none of the decoder's buffers.
#[derive(Debug)]
pub(super) struct ReadRecord<'r> {
    pub(super) record: SourceRecord<'r>,
    pub(super) decoded: Option<Decoded<'r>>,
}

impl PartitionTask {
    /// Reads the next records and has what they will need brought near; says whether there were as many as there is
    /// room for. Changes nothing else, so a record that is never processed after all does no harm.
    pub(super) fn read_ahead<'r>(
        &self,
        records: &mut impl Iterator<Item = SourceRecord<'r>>,
        read: &mut Vec<ReadRecord<'r>>,
    ) -> bool {
        read.clear();
        read.extend(records.take(LOOK_AHEAD).map(|record| ReadRecord { record, decoded: None }));
        for value in read.iter().filter_map(|read| read.record.value) {
            black_box(value.first().copied().zip(value.last().copied()));
        }
        for ReadRecord { record, decoded } in &mut *read {
            *decoded = self.decoder.decode_in_place(record.key, record.value.unwrap_or_default());
        }
        let events = read.iter().filter_map(|read| read.decoded.as_ref());
        look_ahead(events.filter_map(|decoded| self.pools.upcoming(&decoded.pool, &decoded.event)));
        read.len() == LOOK_AHEAD
    }
}
