//! Avro object container files of request events: a recorded topic as a trace.
//!
//! Events of several pools are requests of several pools; `--id-scope field:pool` makes scopes of one pool of them,
//! `--id-scope global` one pool.

use super::error::{RowError, RowFault, TraceError};
use super::options::{IdScope, ReadOptions};
use super::records::{Carried, Filled, Source};
use super::row::{Batch, Draft};
use crate::codec::{ContainerReader, DecodeError, DecodeLimits, Decoded, ErrorCode};
use crate::time::Time;
use kvset_core::request::event::RequestEvent;
use kvset_core::units::PageSize;
use kvset_core::units::pages::{PageIds, Scope};
use std::io::BufRead;
use std::ops::Range;
use std::sync::Arc;

/// First bytes of a container.
pub(super) const MAGIC: &[u8] = b"Obj\x01";

/// The pool of events that name none.
const UNNAMED_POOL: &str = "trace";

/// A container file.
pub(super) struct Events {
    reader: ContainerReader<Box<dyn BufRead + Send>>,
    file: Arc<str>,
    page_size: PageSize,
    id_scope: IdScope,
}

impl Events {
    /// Reads the container's head. Events that state no page size have the one asked for, else
    /// `page_size`.
    pub fn open(
        bytes: Box<dyn BufRead + Send>,
        file: &Arc<str>,
        page_size: PageSize,
        options: &ReadOptions,
    ) -> Result<Self, TraceError> {
        let reader = ContainerReader::open(bytes, DecodeLimits::default(), UNNAMED_POOL);
        let reader = reader.map_err(|source| TraceError::Container { file: Arc::clone(file), source })?;
        Ok(Self {
            reader,
            file: Arc::clone(file),
            page_size: options.page_size.unwrap_or(page_size),
            id_scope: options.id_scope.clone(),
        })
    }
}

impl Source for Events {
    fn fill(&mut self, batch: &mut Batch, carried: &mut Carried) -> Result<Filled, TraceError> {
        let number = self.reader.events() + 1;
        let event = self.reader.next_event();
        let event = event.map_err(|source| TraceError::Container { file: Arc::clone(&self.file), source })?;
        let Some(event) = event else { return Ok(Filled::End) };
        let filed = event.map_err(RowFault::from).and_then(|decoded| {
            let scope = scope(&decoded, &self.id_scope)?;
            check_prefix(&decoded, scope)?;
            let mut draft = draft(&decoded, scope, self.page_size, number, batch);
            draft.pool = draft.pool.filter(|_| self.id_scope.keeps_pools_apart());
            batch.drafts.push(draft);
            Ok(())
        });
        carried.timeline.place(batch);
        Ok(match filed {
            Ok(()) => Filled::Requests,
            Err(fault) => Filled::Refused(RowError { file: Arc::clone(&self.file), line: number, fault }),
        })
    }
}

/// Refuses a compact event whose prefix would be looked for among ids that need not be chained with it.
fn check_prefix(decoded: &Decoded<'_>, scope: Scope) -> Result<(), RowFault> {
    let Decoded { event, .. } = decoded;
    if event.known_prefix.is_none() || is_chained_within(event, scope) {
        return Ok(());
    }
    let detail = "prefix_last_id stands for pages of the event's own scope: read the file without --id-scope";
    Err(DecodeError::new(ErrorCode::InvalidField, detail).into())
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

fn draft(decoded: &Decoded<'_>, scope: Scope, page_size: PageSize, line: u64, batch: &mut Batch) -> Draft {
    let event = &decoded.event;
    let Batch { ids, text, .. } = batch;
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
        known_prefix: event.known_prefix,
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
