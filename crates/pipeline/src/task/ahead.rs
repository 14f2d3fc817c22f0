//! A task's next few records, read before the first of them is processed.
//!
//! A record comes from another thread, and what it will ask of its pool's stack lies far from the
//! processor: each would wait for memory several times over. Read together, and shown to the stack
//! together, they wait once.

use super::PartitionTask;
use crate::incoming::Incoming;
use kvset_core::stack::{LOOK_AHEAD, look_ahead};
use kvset_formats::codec::{Decoded, SourceRecord};
use std::hint::black_box;

/// A record with its event, where reading it takes none of the decoder's buffers.
#[derive(Debug)]
pub(super) struct AheadRecord<'r> {
    pub(super) record: SourceRecord<'r>,
    pub(super) repacked: Option<&'r [u8]>,
    pub(super) decoded: Option<Decoded<'r>>,
}

impl PartitionTask {
    /// Reads the next records and has what they will need brought near; says whether there were as many as there is
    /// room for. Changes nothing else, so a record that is never processed after all does no harm.
    pub(super) fn read_ahead<'r>(
        &self,
        records: &mut impl Iterator<Item = Incoming<'r>>,
        read: &mut Vec<AheadRecord<'r>>,
    ) -> bool {
        read.clear();
        let unread = |Incoming { record, repacked }| AheadRecord { record, repacked, decoded: None };
        read.extend(records.take(LOOK_AHEAD).map(unread));
        for bytes in read.iter().filter_map(|read| read.repacked.or(read.record.value)) {
            black_box(bytes.first().copied().zip(bytes.last().copied()));
        }
        for AheadRecord { record, repacked, decoded } in &mut *read {
            *decoded = match repacked {
                Some(repacked) => self.decoder.decode_repacked(record.key, repacked),
                None => self.decoder.decode_in_place(record.key, record.payload()),
            };
        }
        let events = read.iter().filter_map(|read| read.decoded.as_ref());
        look_ahead(events.filter_map(|decoded| self.pools.upcoming(&decoded.pool, &decoded.event)));
        read.len() == LOOK_AHEAD
    }
}
