//! Line formats: what a line becomes, and the source that hands lines to a decoder.

use super::entry::{Entry, Found, Sink};
use super::error::{RowError, RowFault, TraceError};
use super::json::{Object, TimeUnit, Trouble, read_line};
use super::options::{IdScope, ReadOptions};
use super::row::{Batch, Declared, Draft};
use super::rows::Rows;
use kvset_core::pool::PoolRange;
use kvset_core::units::PageSize;
use std::sync::Arc;

/// What one step through a file gave.
pub(super) enum Filled {
    /// The batch holds at least one request.
    Requests,
    /// One row was refused.
    Refused(RowError),
    /// What the requests up to the next such, or to the file's end, come to in each of the pools that take ranges.
    Ranges(Vec<Option<PoolRange>>),
    /// The file is at its end.
    End,
}

/// What goes on from file to file.
#[derive(Debug, Default)]
pub(super) struct Carried {
    /// Where the last session without a common clock ended, in milliseconds.
    pub session_end_ms: i64,
    /// Sessions that were placed one after another.
    pub placed_sessions: u64,
    /// The pool of the first event that names one.
    first_pool: Option<Box<str>>,
    /// Whether a later event names another.
    pub several_pools: bool,
    /// Prompts whose tokens the log states, and those of them that were tokenised to another number.
    pub stated_prompts: u64,
    pub differing_prompts: u64,
}

impl Carried {
    /// Notes the pool that an event belongs to.
    pub fn note_pool(&mut self, pool: &str) {
        match &self.first_pool {
            None => self.first_pool = Some(pool.into()),
            Some(first) => self.several_pools |= **first != *pool,
        }
    }

    /// Holds the number of a prompt's tokens that the log states against the number found.
    pub fn note_prompt_tokens(&mut self, stated: u64, found: u64) {
        self.stated_prompts += 1;
        self.differing_prompts += u64::from(stated != found);
    }
}

/// A trace file, whatever its format.
pub(super) trait Source: Send {
    /// Puts the next requests into `batch`, which is empty.
    fn fill(&mut self, batch: &mut Batch, carried: &mut Carried) -> Result<Filled, TraceError>;
}

/// Turns lines into requests.
pub(super) trait Decode: Send {
    /// Appends the requests of a line to `batch`; none is allowed.
    fn decode(
        &mut self,
        line: &[u8],
        number: u64,
        batch: &mut Batch,
        carried: &mut Carried,
    ) -> Result<(), RowFault>;

    /// Gives back what was held, some at a time, once the lines are at their end.
    fn drain(&mut self, _batch: &mut Batch) {}
}

/// A file of rows.
pub(super) struct LineSource<D> {
    pub rows: Rows,
    pub file: Arc<str>,
    pub decoder: D,
}

impl<D: Decode> Source for LineSource<D> {
    fn fill(&mut self, batch: &mut Batch, carried: &mut Carried) -> Result<Filled, TraceError> {
        loop {
            let step = self.rows.step();
            let number = self.rows.number();
            let step = step.map_err(|source| TraceError::Read {
                file: Arc::clone(&self.file),
                line: number,
                source,
            })?;
            let Some(read) = step else {
                self.decoder.drain(batch);
                return Ok(if batch.is_drained() { Filled::End } else { Filled::Requests });
            };
            match read.and_then(|()| self.decoder.decode(self.rows.row(), number, batch, carried)) {
                Err(fault) => {
                    batch.clear();
                    let file = Arc::clone(&self.file);
                    return Ok(Filled::Refused(RowError { file, line: number, fault }));
                }
                Ok(()) if !batch.is_drained() => return Ok(Filled::Requests),
                Ok(()) => {}
            }
        }
    }
}

/// Mooncake, qwen and weka lines.
#[derive(Clone)]
pub(super) struct Records {
    /// Unit of `timestamp`.
    pub unit: TimeUnit,
    /// Tokens a page where the row does not say.
    pub page_size: PageSize,
    /// Whether a line may be a whole session.
    pub sessions: bool,
    pub id_scope: IdScope,
}

impl Records {
    /// A decoder for rows of `page_tokens` tokens a page unless the row or the user says otherwise.
    pub fn new(unit: TimeUnit, page_size: PageSize, sessions: bool, options: &ReadOptions) -> Self {
        Self {
            unit,
            page_size: options.page_size.unwrap_or(page_size),
            sessions,
            id_scope: options.id_scope.clone(),
        }
    }

    /// Files a line that is one request.
    fn file_request(&self, entry: Entry<'_, '_>) -> Result<Declared, RowFault> {
        if entry.found.time_ms.is_none() {
            return Err(RowFault::missing("timestamp"));
        }
        let draft = entry.draft().ok_or_else(|| RowFault::missing("hash_ids"))?;
        entry.sink.batch.drafts.push(draft);
        Ok(entry.found.declared)
    }

    /// Files a line that is a session: its requests in the order of their times.
    fn file_session(&self, batch: &mut Batch, found: &Found) {
        let session = found.session.as_ref().or(found.id.as_ref());
        batch.drafts.sort_by_key(|draft| draft.time_ms);
        for draft in &mut batch.drafts {
            draft.page_size = draft.page_size.or(found.page_size);
            draft.session = session.cloned();
            draft.scope_name = draft.scope_name.take().or_else(|| found.scope_name.clone());
            draft.labels = std::mem::take(&mut draft.labels).or(&found.labels);
        }
        batch.is_session = true;
    }

    /// Places a session that was [read](Self::read) after the one before it; nothing else has to be placed.
    pub(super) fn place(batch: &mut Batch, carried: &mut Carried) {
        if !std::mem::take(&mut batch.is_session) {
            return;
        }
        let first_ms = batch.drafts.first().map_or(0, |draft| draft.time_ms);
        let shift_ms = carried.session_end_ms.saturating_sub(first_ms.min(0));
        for draft in &mut batch.drafts {
            draft.time_ms = draft.time_ms.saturating_add(shift_ms);
        }
        let end_ms = |draft: &Draft| {
            let duration_ms = i64::try_from(draft.duration_ms.unwrap_or(0)).unwrap_or(i64::MAX);
            draft.time_ms.saturating_add(duration_ms)
        };
        if let Some(end_ms) = batch.drafts.iter().map(end_ms).max() {
            carried.session_end_ms = end_ms;
        }
        carried.placed_sessions += 1;
    }

    /// Appends the requests of a line to `batch`; those of a session are still to be placed.
    pub(super) fn read(&self, line: &[u8], number: u64, batch: &mut Batch) -> Result<(), RowFault> {
        let scope_field = match &self.id_scope {
            IdScope::Field(name) => Some(name.as_str()),
            _ => None,
        };
        let trouble = Trouble::default();
        let mut sink = Sink { batch, trouble, unit: self.unit, scope_field, line: number };
        let mut entry = Entry::new(&mut sink);
        if let Err(error) = read_line(line, Object(&mut entry)) {
            return Err(sink.trouble.fault(&error));
        }
        let declared = if self.sessions && entry.found.nested.is_some() {
            let Entry { sink, found } = entry;
            self.file_session(sink.batch, &found);
            found.declared
        } else {
            self.file_request(entry)?
        };
        for index in 0..batch.drafts.len() {
            batch.set_scope(index, &self.id_scope, declared)?;
            batch.drafts[index].page_size.get_or_insert(self.page_size);
        }
        Ok(())
    }
}

impl Decode for Records {
    fn decode(
        &mut self,
        line: &[u8],
        number: u64,
        batch: &mut Batch,
        carried: &mut Carried,
    ) -> Result<(), RowFault> {
        let read = self.read(line, number, batch);
        Self::place(batch, carried);
        read
    }
}
