//! What a record says of its requests wherever in it that stands: that no engine computed the prompt, and the request's name.

use super::records::{Carried, Decode};
use crate::record::brief::without_numbers;
use crate::record::fault::RowFault;
use crate::record::outcome::served_elsewhere;
use crate::record::repeats::request_name;
use crate::record::row::RowBatch;

/// Reads a record, unless it says that no engine computed its prompt; a single request of it has the name that it gives.
/// `brief` is the record without what holds no words.
pub(super) fn read_served(
    (record, brief): (&[u8], &[u8]),
    batch: &mut RowBatch,
    read: impl FnOnce(&mut RowBatch) -> Result<(), RowFault>,
) -> Result<(), RowFault> {
    if let Some(why) = served_elsewhere(record, brief) {
        batch.passed_over.push(why);
        return Ok(());
    }
    let first = batch.drafts.len();
    read(batch)?;
    if let [draft] = &mut batch.drafts[first..]
        && draft.request_id.is_none()
    {
        draft.request_id = request_name(brief);
    }
    Ok(())
}

/// A decoder of records that are looked at first.
pub(super) struct Served<D> {
    decoder: D,
    brief: Vec<u8>,
}

impl<D> Served<D> {
    pub fn new(decoder: D) -> Self {
        Self { decoder, brief: Vec::new() }
    }
}

impl<D: Decode> Decode for Served<D> {
    fn decode(
        &mut self,
        record: &[u8],
        number: u64,
        batch: &mut RowBatch,
        carried: &mut Carried,
    ) -> Result<(), RowFault> {
        let Self { decoder, brief } = self;
        let brief = without_numbers(record, brief);
        read_served((record, brief), batch, |batch| decoder.decode(record, number, batch, carried))
    }
}
