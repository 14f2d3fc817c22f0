//! Traces of Dynamo's requests, as a trace reader decodes them.

use crate::record::dynamo::{OTHER_EVENT, read_record};
use crate::record::fault::RowFault;
use crate::record::id_scope::IdScope;
use crate::record::row::DeclaredScope;
use crate::trace::options::ReadOptions;
use crate::trace::records::{Decode, RecordSink};
use kvset_core::units::PageSize;

/// Decodes records.
pub(super) struct Dynamo {
    page_size: PageSize,
    id_scope: IdScope,
}

impl Dynamo {
    pub fn new(options: &ReadOptions) -> Self {
        Self { page_size: options.page_tokens(), id_scope: options.id_scope.clone() }
    }
}

impl Decode for Dynamo {
    fn decode(&mut self, record: &[u8], sink: &mut RecordSink<'_>) -> Result<(), RowFault> {
        let RecordSink { batch, number, .. } = sink;
        let Some(mut draft) = read_record(record, batch, &self.id_scope)? else {
            batch.passed_over.push(OTHER_EVENT);
            return Ok(());
        };
        (draft.line, draft.page_size) = (*number, draft.page_size.or(Some(self.page_size)));
        batch.drafts.push(draft);
        batch.set_scopes(0, &self.id_scope, DeclaredScope::Global)
    }
}
