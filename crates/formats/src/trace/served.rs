//! Decoders of records that are looked at for what they say of themselves before they are read.

use super::records::{Decode, RecordSink};
use crate::record::brief::without_numbers;
use crate::record::fault::RowFault;
use crate::record::served::read_served;

/// A decoder of such records.
pub(super) struct Served<D> {
    decoder: D,
    brief: Vec<u8>,
}

impl<D: Decode + 'static> Served<D> {
    /// A decoder of records that are looked at first.
    pub fn boxed(decoder: D) -> Box<dyn Decode> {
        Box::new(Self { decoder, brief: Vec::new() })
    }
}

impl<D: Decode> Decode for Served<D> {
    fn decode(&mut self, record: &[u8], sink: &mut RecordSink<'_>) -> Result<(), RowFault> {
        let Self { decoder, brief } = self;
        let brief = without_numbers(record, brief);
        let RecordSink { batch, carried, number } = sink;
        read_served((record, brief), batch, |batch| {
            decoder.decode(record, &mut RecordSink { batch, carried, number: *number })
        })
    }
}
