//! Dynamo request traces, put into the order in which the requests were received.
//!
//! A record is written when its request ends, so a long request comes after short ones that arrived
//! later. A buffer of bounded size holds records back and lets go of the earliest received one when it
//! is full: exact for any file that fits, and for any larger one whose disorder fits. A record that
//! comes after a later one was let go is refused, never passed on out of order.

use super::error::RowFault;
use super::json::{Fields, Ids, Name, Object, Time, TimeUnit, Trouble, ignore, read_line};
use super::options::{IdScope, ReadOptions};
use super::records::{Carried, Decode};
use super::row::{Batch, Declared, Draft};
use kvset_core::event::CachedTokens;
use kvset_core::labels::{Label, Labels};
use kvset_core::units::PageSize;
use serde::de::{Error as _, MapAccess};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

const KNOWN: [&str; 15] = [
    "event",
    "event_type",
    "event_time_unix_ms",
    "agent_context",
    "session_id",
    "request",
    "request_received_ms",
    "total_time_ms",
    "input_tokens",
    "output_tokens",
    "replay",
    "trace_block_size",
    "input_length",
    "input_sequence_hashes",
    "cached_tokens",
];

/// The record, its `event` envelope and its inner objects, read as one flat object.
struct Record<'s> {
    batch: &'s mut Batch,
    trouble: Trouble,
    scope_field: Option<&'s str>,
    /// The record tells of something else than a finished request.
    is_other_event: bool,
    ended_ms: Option<i64>,
    received_ms: Option<i64>,
    total_ms: Option<i64>,
    input_tokens: Option<u64>,
    input_length: Option<u64>,
    page_size: Option<PageSize>,
    ids: Option<Range<usize>>,
    output_tokens: Option<u64>,
    session: Option<Range<usize>>,
    scope_name: Option<Range<usize>>,
    cached_tokens: Option<u64>,
    labels: Labels<Range<usize>>,
}

impl<'s> Record<'s> {
    fn new(batch: &'s mut Batch, scope_field: Option<&'s str>) -> Self {
        Self {
            batch,
            trouble: Trouble::default(),
            scope_field,
            is_other_event: false,
            ended_ms: None,
            received_ms: None,
            total_ms: None,
            input_tokens: None,
            input_length: None,
            page_size: None,
            ids: None,
            output_tokens: None,
            session: None,
            scope_name: None,
            cached_tokens: None,
            labels: Labels::default(),
        }
    }

    /// When the request came: as stated, or its end less its duration.
    fn received_ms(&self) -> Option<i64> {
        self.received_ms.or_else(|| self.ended_ms?.checked_sub(self.total_ms?))
    }

    fn draft(&self) -> Result<Draft, RowFault> {
        Ok(Draft {
            time_ms: self.received_ms().ok_or_else(|| RowFault::missing("request_received_ms"))?,
            page_size: self.page_size,
            ids: self.ids.clone().ok_or_else(|| RowFault::missing("input_sequence_hashes"))?,
            input_tokens: self.input_length.or(self.input_tokens),
            output_tokens: self.output_tokens,
            duration_ms: self.total_ms.and_then(|ms| u64::try_from(ms).ok()),
            session: self.session.clone(),
            scope_name: self.scope_name.clone(),
            // A row that counts tokens leaves those out that its engine does not report.
            cached_tokens: CachedTokens::of_usage(self.cached_tokens, self.input_tokens.is_some()),
            labels: self.labels.clone(),
            ..Draft::default()
        })
    }

    fn name<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<Option<Range<usize>>, A::Error> {
        map.next_value_seed(Name(&mut self.batch.text))
    }

    fn event_type<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        let start = self.batch.text.len();
        let kind = self.name(map)?.map(|name| &self.batch.text[name]);
        self.is_other_event = kind.is_some_and(|kind| kind != "request_end");
        self.batch.text.truncate(start);
        Ok(())
    }

    fn hashes<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        if self.ids.is_some() {
            return Err(self.trouble.stop(RowFault::Repeated { field: "input_sequence_hashes" }));
        }
        let read = map.next_value_seed(Ids(&mut self.batch.ids))?;
        self.ids = Some(self.trouble.number("page ids", read)?);
        Ok(())
    }
}

impl<'de> Fields<'de> for Record<'_> {
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        if self.scope_field == Some(key) {
            self.trouble.field = "--id-scope field";
            self.scope_name = self.name(map)?;
            match (key, Label::of_field(key)) {
                ("session_id", _) => self.session = self.scope_name.clone(),
                (_, Some(label)) => self.labels.set(label, self.scope_name.clone()),
                _ => {}
            }
            return Ok(());
        }
        const MS: TimeUnit = TimeUnit::Milliseconds;
        self.trouble.field = KNOWN
            .into_iter()
            .find(|name| *name == key)
            .or_else(|| Label::of_field(key).map(Label::name))
            .unwrap_or_default();
        match self.trouble.field {
            "event" | "request" | "replay" | "agent_context" => map.next_value_seed(Object(self))?,
            "event_type" => self.event_type(map)?,
            "event_time_unix_ms" => self.ended_ms = Time::read(map, MS)?,
            "request_received_ms" => self.received_ms = Time::read(map, MS)?,
            "total_time_ms" => self.total_ms = Time::read(map, MS)?,
            "input_tokens" => self.input_tokens = self.trouble.count(map)?,
            "input_length" => self.input_length = self.trouble.count(map)?,
            "output_tokens" => self.output_tokens = self.trouble.count(map)?,
            "session_id" => self.session = self.name(map)?,
            "cached_tokens" => self.cached_tokens = self.trouble.count(map)?,
            "trace_block_size" => {
                let tokens = self.trouble.count(map)?.and_then(|tokens| u32::try_from(tokens).ok());
                let page_size = tokens.and_then(PageSize::new);
                self.page_size = Some(page_size.ok_or_else(|| A::Error::custom("no page size"))?);
            }
            "input_sequence_hashes" => self.hashes(map)?,
            field => match Label::of_field(field) {
                Some(label) => {
                    let name = self.name(map)?;
                    self.labels.set(label, name);
                }
                None => ignore(map)?,
            },
        }
        Ok(())
    }
}

/// Reads a record into `batch`, which is empty, but not among its requests; nothing where the record tells of
/// something else than a finished request.
pub(crate) fn read_record(
    line: &[u8],
    batch: &mut Batch,
    id_scope: &IdScope,
) -> Result<Option<Draft>, RowFault> {
    let scope_field = match id_scope {
        IdScope::Field(name) => Some(name.as_str()),
        _ => None,
    };
    let mut record = Record::new(batch, scope_field);
    if let Err(error) = read_line(line, Object(&mut record)) {
        return Err(record.trouble.fault(&error));
    }
    if record.is_other_event {
        batch.clear();
        return Ok(None);
    }
    record.draft().map(Some)
}

/// A request held back, with its own copy of its ids and names.
struct Held {
    received_ms: i64,
    line: u64,
    draft: Draft,
    ids: Box<[u64]>,
    text: Box<str>,
}

impl Held {
    /// Moves the newest request out of `batch`.
    fn take(batch: &mut Batch) -> Option<Self> {
        let draft = batch.drafts.pop()?;
        let ids = Box::from(&batch.ids[draft.ids.clone()]);
        let text = Box::from(batch.text.as_str());
        let held = Self { received_ms: draft.time_ms, line: draft.line, draft, ids, text };
        batch.clear();
        Some(held)
    }

    /// Puts the request back behind what `batch` holds.
    fn release(self, batch: &mut Batch) {
        let (ids_start, text_start) = (batch.ids.len(), batch.text.len());
        batch.ids.extend_from_slice(&self.ids);
        batch.text.push_str(&self.text);
        let moved = |name: Range<usize>| name.start + text_start..name.end + text_start;
        batch.drafts.push(Draft {
            ids: ids_start..batch.ids.len(),
            session: self.draft.session.map(moved),
            scope_name: self.draft.scope_name.map(moved),
            labels: self.draft.labels.map(moved),
            ..self.draft
        });
    }

    /// Memory the request takes, in bytes.
    fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.ids) + self.text.len()
    }

    fn order(&self) -> (i64, u64) {
        (self.received_ms, self.line)
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

/// Decodes records and puts them in order.
pub(super) struct Dynamo {
    held: BinaryHeap<Reverse<Held>>,
    held_bytes: usize,
    limit: usize,
    /// Received time of the last request let go.
    released_ms: i64,
    page_size: PageSize,
    id_scope: IdScope,
}

impl Dynamo {
    /// A decoder that holds back at most `options.reorder_bytes`.
    pub fn new(page_size: PageSize, options: &ReadOptions) -> Self {
        Self {
            held: BinaryHeap::new(),
            held_bytes: 0,
            limit: options.reorder_bytes,
            released_ms: i64::MIN,
            page_size: options.page_size.unwrap_or(page_size),
            id_scope: options.id_scope.clone(),
        }
    }

    /// Lets go of the request received first.
    fn release(&mut self, batch: &mut Batch) {
        if let Some(Reverse(held)) = self.held.pop() {
            self.held_bytes -= held.bytes();
            self.released_ms = held.received_ms;
            held.release(batch);
        }
    }
}

impl Decode for Dynamo {
    fn decode(
        &mut self,
        line: &[u8],
        number: u64,
        batch: &mut Batch,
        _carried: &mut Carried,
    ) -> Result<(), RowFault> {
        let Some(mut draft) = read_record(line, batch, &self.id_scope)? else { return Ok(()) };
        (draft.line, draft.page_size) = (number, draft.page_size.or(Some(self.page_size)));
        if draft.time_ms < self.released_ms {
            let late_ms = self.released_ms.saturating_sub(draft.time_ms);
            return Err(RowFault::OutOfOrder { late_ms, limit: self.limit });
        }
        batch.drafts.push(draft);
        batch.set_scope(0, &self.id_scope, Declared::Global)?;
        if let Some(held) = Held::take(batch) {
            self.held_bytes += held.bytes();
            self.held.push(Reverse(held));
        }
        while self.held_bytes > self.limit {
            self.release(batch);
        }
        Ok(())
    }

    fn drain(&mut self, batch: &mut Batch) {
        self.release(batch);
    }
}
