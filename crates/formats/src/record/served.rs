//! What a record says of its requests wherever in it that stands: that no engine computed the prompt, and the
//! request's name and that of its sample.

use super::fault::RowFault;
use super::outcome::served_elsewhere;
use super::request_names::request_names;
use super::row::RowBatch;

/// Reads a record, unless it says that no engine computed its prompt; a single request of it has the name that it
/// gives. `brief` is the record without what holds no words.
pub(crate) fn read_served(
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
    if let [draft] = &mut batch.drafts[first..] {
        let (name, sample) = request_names(brief);
        draft.request_id = draft.request_id.or(name);
        draft.sample = sample;
    }
    Ok(())
}
