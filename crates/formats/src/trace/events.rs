//! Request events as requests of a trace: the lines of a recorded topic, or of a file that a producer wrote.
//!
//! Events of several pools are requests of several pools; `--id-scope field:pool` makes scopes of one pool of them,
//! `--id-scope global` one pool.

use super::options::ReadOptions;
use super::records::{Decode, RecordSink};
use crate::codec::{DecodeLimits, Decoded, Encoding, RequestDecoder};
use crate::record::fault::RowFault;
use crate::record::id_scope::IdScope;
use crate::record::row::{Draft, RowBatch};
use crate::time::Time;
use kvset_core::request::event::RequestEvent;
use kvset_core::units::PageSize;
use kvset_core::units::pages::{PageIds, Scope};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// The pool of events that name none.
pub(super) const UNNAMED_POOL: &str = "trace";

/// Decodes lines that are each a request event in JSON.
pub(super) struct EventLines {
    decoder: RequestDecoder,
    limits: DecodeLimits,
    filer: EventFiler,
}

impl EventLines {
    pub fn new(options: &ReadOptions) -> Self {
        // The reader of lines bounds their length.
        let limits = DecodeLimits { max_record_bytes: options.max_line_bytes, ..DecodeLimits::default() };
        let decoder = RequestDecoder::new(Encoding::Json, limits);
        Self { decoder, limits, filer: EventFiler::new(options) }
    }
}

impl Decode for EventLines {
    fn decode(&mut self, record: &[u8], sink: &mut RecordSink<'_>) -> Result<(), RowFault> {
        let RecordSink { batch, number, .. } = sink;
        let message = self.decoder.read(record)?.or_pool(UNNAMED_POOL);
        let request_id = message.request_id.as_ref().filter(|id| !id.is_empty());
        let request_id = request_id.map(|id| xxh3_64(id.as_bytes()));
        self.filer.file(&self.limits.admit(None, message)?, *number, batch)?;
        batch.drafts.iter_mut().for_each(|draft| draft.request_id = request_id);
        Ok(())
    }
}

/// Files decoded events.
pub(super) struct EventFiler {
    page_size: PageSize,
    id_scope: IdScope,
}

impl EventFiler {
    /// Events that state no page size have that of the options.
    pub fn new(options: &ReadOptions) -> Self {
        Self { page_size: options.page_tokens(), id_scope: options.id_scope.clone() }
    }

    /// Appends the request of an event to `batch`; it stands in line (or is event) `line`.
    pub fn file(&self, decoded: &Decoded<'_>, line: u64, batch: &mut RowBatch) -> Result<(), RowFault> {
        let scope = scope(decoded, &self.id_scope)?;
        let mut draft = draft(decoded, scope, self.page_size, line, batch);
        draft.pool = draft.pool.filter(|_| self.id_scope.keeps_pools_apart());
        batch.drafts.push(draft);
        Ok(())
    }
}

/// Ids that are chained within a scope need not be outside of it.
fn is_chained_within(event: &RequestEvent<'_>, scope: Scope) -> bool {
    event.ids_chained && [Scope::GLOBAL, scope].contains(&event.scope)
}

/// What the event's ids are unique within.
fn scope(decoded: &Decoded<'_>, wanted: &IdScope) -> Result<Scope, RowFault> {
    match wanted {
        IdScope::Auto => Ok(decoded.event.scope),
        IdScope::Global => Ok(Scope::GLOBAL),
        IdScope::Field(field) if field == "scope" && decoded.event.scope != Scope::GLOBAL => {
            Ok(decoded.event.scope)
        }
        IdScope::Field(field) if field == "pool" => Ok(Scope::named(decoded.pool.as_bytes())),
        IdScope::Field(field) => Err(RowFault::missing(field)),
        IdScope::Session => Err(RowFault::missing("session_id")),
    }
}

fn draft(decoded: &Decoded<'_>, scope: Scope, page_size: PageSize, line: u64, batch: &mut RowBatch) -> Draft {
    let event = &decoded.event;
    let RowBatch { ids, text, .. } = batch;
    let mut name = |name: &str| {
        let start = text.len();
        text.push_str(name);
        start..text.len()
    };
    let mut file = |page_ids: PageIds<'_>| -> Range<usize> {
        let start = ids.len();
        ids.extend(page_ids.iter());
        start..ids.len()
    };
    let mut draft = Draft {
        page_size: Some(event.page_size.unwrap_or(page_size)),
        ids: file(event.page_ids),
        ids_chained: is_chained_within(event, scope),
        output_ids: file(event.output_page_ids),
        input_tokens: event.input_tokens,
        output_tokens: event.output_tokens,
        duration_ms: event.duration_ms,
        cached_tokens: event.cached_tokens,
        labels: event.labels.map(&mut name),
        pool: (decoded.pool != UNNAMED_POOL).then(|| name(&decoded.pool)),
        scope,
        line,
        ..Draft::default()
    };
    draft.at(Some(Time::of_ms(event.event_time.0)));
    draft
}
