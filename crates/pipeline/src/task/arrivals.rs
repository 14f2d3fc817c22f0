//! Records that wait in a task for earlier arrivals.
//!
//! A record is read, and refused if it cannot be, as it comes. One that waits is kept as it came, for the dead letter
//! that its pool may make of it yet, and in the form that is read where it lies, so that its turn takes no registry
//! and cannot fail. What its turn gives out belongs to the record that let it come.

use super::ahead::AheadRecord;
use super::bytes::PackedBytes;
use super::refusals::RefusedRecord;
use super::{PartitionTask, TaskConfig, TaskError};
use kvset_core::pool::set::{
    ArrivalLimits, ArrivalPlace, ArrivalQueue, ArrivalsImage, PoolClock, PoolConfigs, PoolRecord, RecordTurn,
    WriterWord,
};
use kvset_core::request::labels::Label;
use kvset_core::units::Offset;
use kvset_core::units::heap::HeapBytes;
use kvset_formats::codec::{
    DecodeError, Decoded, ErrorCode, RequestDecoder, RequestEncoding, SourceRecord, encode_request,
};
use kvset_formats::output::OutputRecord;
use kvset_formats::position::{NextOffset, Partition};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What became of a record.
#[derive(Debug)]
pub(super) enum Receipt {
    /// It waits.
    Waits,
    /// Its pool took it, or it was refused.
    Taken(Result<(), RefusedRecord>),
}

impl Receipt {
    /// Of a record that could not be read.
    fn unread(error: DecodeError, pool: Option<&str>) -> Self {
        Self::Taken(Err(RefusedRecord::unread(error, pool)))
    }
}

/// A record that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DelayedRecord {
    offset: i64,
    timestamp_ms: Option<i64>,
    key: Option<PackedBytes>,
    value: PackedBytes,
    schema_header: Option<PackedBytes>,
    /// The value in the form that is read where it lies; absent where it came in that form.
    packed: Option<PackedBytes>,
}

impl DelayedRecord {
    fn of(record: &SourceRecord<'_>, packed: Option<&[u8]>) -> Self {
        Self {
            offset: record.offset,
            timestamp_ms: record.timestamp_ms,
            key: record.key.map(PackedBytes::from),
            value: record.value.unwrap_or_default().into(),
            schema_header: record.schema_header.map(PackedBytes::from),
            packed: packed.map(PackedBytes::from),
        }
    }

    fn source<'a>(&'a self, topic: &'a str, partition: Partition) -> SourceRecord<'a> {
        SourceRecord {
            topic,
            partition: partition.0,
            offset: self.offset,
            timestamp_ms: self.timestamp_ms,
            key: self.key.as_ref().map(|PackedBytes(key)| &key[..]),
            value: Some(&self.value.0),
            schema_header: self.schema_header.as_ref().map(|PackedBytes(header)| &header[..]),
        }
    }
}

impl HeapBytes for DelayedRecord {
    /// Without spare room, which a restart does not keep: a bound of the queue goes by this.
    fn heap_bytes(&self) -> usize {
        let parts = [&self.key, &self.schema_header, &self.packed];
        parts.into_iter().flatten().chain([&self.value]).map(|PackedBytes(part)| part.len()).sum()
    }
}

/// The records of a task that wait.
#[derive(Debug)]
pub(super) struct Arrivals {
    queue: ArrivalQueue<DelayedRecord>,
    /// Reads what waits where it lies.
    decoder: RequestDecoder,
    /// The last record in the form that is read where it lies; kept to reuse its memory.
    packed: Vec<u8>,
}

impl HeapBytes for Arrivals {
    fn heap_bytes(&self) -> usize {
        self.queue.heap_bytes()
    }
}

/// Records that wait, as a snapshot keeps them.
pub(super) type WrittenArrivals<'a> = ArrivalsImage<&'a DelayedRecord, &'a str, &'a PoolClock>;

/// The same, read back.
pub(super) type RestoredArrivals = ArrivalsImage<DelayedRecord>;

impl Arrivals {
    /// None where no pool holds records back.
    pub(super) fn of(config: &TaskConfig) -> Option<Self> {
        config.pools.hold_back().then(|| Self::over(config, ArrivalQueue::new(limits(config))))
    }

    fn over(config: &TaskConfig, queue: ArrivalQueue<DelayedRecord>) -> Self {
        Self { queue, decoder: config.decoder(), packed: Vec::new() }
    }

    /// What a record that waits, or waited, says; `None` only where its bytes have changed.
    pub(super) fn decoded<'r>(&self, record: &'r DelayedRecord) -> Option<Decoded<'r>> {
        let key = record.key.as_ref().map(|PackedBytes(key)| &key[..]);
        match &record.packed {
            Some(PackedBytes(packed)) => self.decoder.decode_repacked(key, packed),
            None => self.decoder.decode_in_place(key, &record.value.0),
        }
    }

    /// Forgets a pool that the task does not have.
    pub(super) fn forget(&mut self, pool: &str) {
        self.queue.forget(pool);
    }

    /// Records that wait.
    pub(super) fn records(&self) -> usize {
        self.queue.len()
    }

    /// The state as it stands.
    pub(super) fn image(&self) -> WrittenArrivals<'_> {
        self.queue.image()
    }

    /// What goes on from what a snapshot kept, which is there exactly where some pool holds records back. `None`
    /// where that is not so, or it contradicts itself.
    pub(super) fn restore(config: &TaskConfig, kept: Option<RestoredArrivals>) -> Option<Option<Self>> {
        if kept.is_some() != config.pools.hold_back() {
            return None;
        }
        let Some(arrivals) = kept else { return Some(None) };
        let hold_back_ms = |pool: &str| hold_back_ms(&config.pools, pool);
        let queue = ArrivalQueue::restore(limits(config), hold_back_ms, arrivals)?;
        let restored = Self::over(config, queue);
        let is_read = restored.queue.records().all(|record| restored.decoded(record).is_some());
        is_read.then_some(Some(restored))
    }
}

fn limits(config: &TaskConfig) -> ArrivalLimits {
    ArrivalLimits { bytes: config.hold_back_bytes, idle_timeout_ms: config.idle_timeout_ms }
}

fn hold_back_ms(pools: &PoolConfigs, pool: &str) -> Option<u64> {
    pools.kind_of(pool).hold_back_ms()
}

impl PartitionTask {
    /// Reads a record, if that was not done yet, and gives it to its pool, or lets it wait.
    pub(super) fn receive(&mut self, read: &AheadRecord<'_>) -> Result<Receipt, TaskError> {
        let AheadRecord { record, repacked, decoded } = read;
        if let Some(decoded) = decoded {
            return self.take_turn(record, decoded, *repacked);
        }
        // Decoded events lie in the decoder, or in the buffer, while the rest of the task changes.
        let mut decoder = std::mem::take(&mut self.decoder);
        let mut packed = self.arrivals.as_mut().map(|arrivals| std::mem::take(&mut arrivals.packed));
        let receipt = self.read_and_take(record, &mut decoder, packed.as_mut());
        self.decoder = decoder;
        if let Some((arrivals, packed)) = self.arrivals.as_mut().zip(packed) {
            arrivals.packed = packed;
        }
        receipt
    }

    fn read_and_take(
        &mut self,
        record: &SourceRecord<'_>,
        decoder: &mut RequestDecoder,
        packed: Option<&mut Vec<u8>>,
    ) -> Result<Receipt, TaskError> {
        decoder.look_up(record.payload())?;
        let message = match decoder.read(record.payload()) {
            Ok(message) => message,
            Err(error) => return Ok(Receipt::unread(error, None)),
        };
        let packed = match packed {
            Some(packed) => {
                packed.clear();
                if let Err(error) = encode_request(&message, RequestEncoding::Avro, packed) {
                    let detail = format!("the request cannot be held back: {error}");
                    return Ok(Receipt::unread(DecodeError::new(ErrorCode::InvalidField, detail), None));
                }
                Some(&packed[..])
            }
            None => None,
        };
        // Without a key only the value says whose it is.
        let named = if record.key.is_none_or(<[u8]>::is_empty) { message.pool.clone() } else { None };
        match self.config.limits.admit(record.key, message) {
            Ok(decoded) => self.take_turn(record, &decoded, packed),
            Err(error) => Ok(Receipt::unread(error, named.as_deref())),
        }
    }

    /// Gives a record to its pool, or lets it wait; `packed` is its value in the form that is read where it lies.
    fn take_turn(
        &mut self,
        record: &SourceRecord<'_>,
        decoded: &Decoded<'_>,
        packed: Option<&[u8]>,
    ) -> Result<Receipt, TaskError> {
        let (event, pool) = (&decoded.event, &*decoded.pool);
        if let Err(error) = self.config.limits.check_ahead(event.event_time, record.timestamp_ms) {
            return Ok(Receipt::Taken(Err(RefusedRecord::of(pool, error))));
        }
        let mut out_of_order_by_ms = None;
        if let Some(arrivals) = &mut self.arrivals {
            let place = ArrivalPlace { event_time: event.event_time, offset: Offset(record.offset) };
            let bound = hold_back_ms(&self.config.pools, pool);
            let replica = event.labels.get(Label::Replica).copied();
            let word =
                WriterWord { writer: replica.unwrap_or_default(), complete_before: event.complete_before };
            match arrivals.queue.observe(pool, place, (event.duration_ms.is_some(), word), bound) {
                RecordTurn::Later => {
                    arrivals.queue.push(place, DelayedRecord::of(record, packed));
                    return Ok(Receipt::Waits);
                }
                RecordTurn::OutOfOrder { by_ms } => out_of_order_by_ms = Some(by_ms),
                RecordTurn::AsItComes => {}
            }
        }
        let record =
            PoolRecord::in_order(pool, event, Offset(record.offset), self.counts_in_windows(record.offset));
        Ok(Receipt::Taken(self.observe(record, out_of_order_by_ms, false)?))
    }

    /// Gives the records that still wait to their pools: nothing follows before `end`, where the run over the log ends.
    ///
    /// # Errors
    /// The task must not go on; nothing was appended.
    pub fn finish(&mut self, end: NextOffset, out: &mut Vec<OutputRecord>) -> Result<(), TaskError> {
        let begin = out.len();
        self.release_all(end, out).inspect_err(|_| out.truncate(begin))?;
        self.next = self.next.max(end);
        Ok(())
    }

    /// Gives all records that wait to their pools.
    pub(super) fn release_all(
        &mut self,
        at: NextOffset,
        out: &mut Vec<OutputRecord>,
    ) -> Result<(), TaskError> {
        while let Some(record) = self.arrivals.as_mut().and_then(|arrivals| arrivals.queue.pop_first()) {
            self.release(&record, false, at, out)?;
        }
        Ok(())
    }

    /// Gives the records to their pools whose turn has come with the one at hand.
    pub(super) fn release_due(
        &mut self,
        at: NextOffset,
        out: &mut Vec<OutputRecord>,
    ) -> Result<(), TaskError> {
        while let Some((record, is_early)) =
            self.arrivals.as_mut().and_then(|arrivals| arrivals.queue.pop_due())
        {
            self.release(&record, is_early, at, out)?;
        }
        Ok(())
    }

    fn release(
        &mut self,
        delayed: &DelayedRecord,
        is_early: bool,
        at: NextOffset,
        out: &mut Vec<OutputRecord>,
    ) -> Result<(), TaskError> {
        let (partition, offset) = (self.partition, delayed.offset);
        let decoded = self.arrivals.as_ref().and_then(|arrivals| arrivals.decoded(delayed));
        let decoded = decoded.ok_or(TaskError::Delayed { partition, offset })?;
        let record = PoolRecord {
            pool: &decoded.pool,
            event: &decoded.event,
            offset: Offset(offset),
            next_offset: Offset(at.0),
            counted: self.counts_in_windows(offset),
            session: None,
        };
        let observed = self.observe(record, None, is_early)?;
        let config = Arc::clone(&self.config);
        self.settle(&delayed.source(&config.topic, partition), observed, at, out)
    }
}
