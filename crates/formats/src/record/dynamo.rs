//! Dynamo request traces: a record is written when its request ends.

use super::extras::RowExtras;
use super::fault::RowFault;
use super::id_scope::IdScope;
use super::json::{Fields, Ids, Name, Object, ParseTrouble, ignore, read_length, read_line, read_time};
use super::row::{Draft, RowBatch};
use crate::any_value::Any;
use crate::identity::NamedParts;
use crate::stated::{PromptForm, StatedPrompts};
use crate::time::{NumberUnit, Numbers, Time, ms_of};
use kvset_core::request::event::CachedTokens;
use kvset_core::request::labels::Label;
use kvset_core::units::PageSize;
use kvset_core::units::names::listed;
use serde::de::{Error as _, MapAccess};
use std::ops::Range;
use std::time::Duration;

const KNOWN: [&str; 20] = listed(
    "event event_type event_time_unix_ms agent_context session_id request request_received_ms total_time_ms \
        input_tokens output_tokens replay trace_block_size input_length input_sequence_hashes cached_tokens \
        worker prefill_worker_id prefill_dp_rank decode_worker_id decode_dp_rank",
);

/// Why other events of a trace are passed over.
pub(crate) const OTHER_EVENT: &str = "an event of another kind than request_end; bodies of request_payload are read \
    at payload.request, where prepare.request or --request names that";
/// The record, its `event` envelope and its inner objects, read as one flat object.
struct DynamoRecord<'s> {
    batch: &'s mut RowBatch,
    scope_field: Option<&'s str>,
    trouble: ParseTrouble,
    found: DynamoFields,
}

/// What was found in it.
#[derive(Default)]
struct DynamoFields {
    /// The record tells of something else than a finished request.
    is_other_event: bool,
    ended: Option<Time>,
    received: Option<Time>,
    total: Option<Duration>,
    input_tokens: Option<u64>,
    input_length: Option<u64>,
    page_size: Option<PageSize>,
    ids: Option<Range<usize>>,
    output_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    /// Its session, its labels, and what keeps its pages apart.
    extras: RowExtras,
    /// Who computed the prompt, in whose cache its prefix is, and who the answer: a worker and its data-parallel
    /// rank, which has a cache of its own.
    prefill: (Option<Range<usize>>, Option<Range<usize>>),
    decode: (Option<Range<usize>>, Option<Range<usize>>),
}

impl DynamoRecord<'_> {
    /// When the request came: as stated, or its end less its duration.
    fn received(&self) -> Option<Time> {
        self.found.received.or_else(|| Some(self.found.ended?.before(self.found.total?)))
    }

    /// The cache that the prompt was looked up in: that of the worker that computed it and of its rank.
    fn replica(&mut self) -> Option<Range<usize>> {
        let decode = std::mem::take(&mut self.found.decode);
        let (id, rank) = match std::mem::take(&mut self.found.prefill) {
            (None, _) => decode,
            prefill => prefill,
        };
        let (Some(id), Some(rank)) = (id.clone(), rank) else { return id };
        let text = &mut self.batch.text;
        let name = format!("{}/{}", &text[id], &text[rank]);
        let start = text.len();
        text.push_str(&name);
        Some(start..text.len())
    }

    fn draft(&mut self) -> Result<Draft, RowFault> {
        if let (Some(stated), Some(found)) = (self.found.input_tokens, self.found.input_length) {
            StatedPrompts::default().compare((Some(stated), 0), found, PromptForm::PageIds, &[""; 0])?;
        }
        if self.found.extras.labels.get(Label::Replica).is_none() {
            let replica = self.replica();
            self.found.extras.labels.set(Label::Replica, replica);
        }
        let kept = self.batch.kept_apart(&self.found.extras.parts);
        let received = self.received().ok_or_else(|| RowFault::missing("request_received_ms"))?;
        let mut draft = Draft {
            page_size: self.found.page_size,
            ids: self.found.ids.clone().ok_or_else(|| RowFault::missing("input_sequence_hashes"))?,
            input_tokens: self.found.input_length.or(self.found.input_tokens),
            output_tokens: self.found.output_tokens,
            duration_ms: self.found.total.map(ms_of),
            session: self.found.extras.session.clone(),
            scope_name: self.found.extras.scope_name.clone(),
            // A row that counts tokens leaves those out that its engine does not report.
            cached_tokens: CachedTokens::of_usage(
                self.found.cached_tokens,
                self.found.input_tokens.is_some(),
            ),
            labels: self.found.extras.labels.clone(),
            ..kept
        };
        draft.at(Some(received));
        Ok(draft)
    }

    fn name<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<Option<Range<usize>>, A::Error> {
        map.next_value_seed(Any(Name(&mut self.batch.text)))
    }

    fn event_type<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        let start = self.batch.text.len();
        let kind = self.name(map)?.map(|name| &self.batch.text[name]);
        self.found.is_other_event = kind.is_some_and(|kind| kind != "request_end");
        self.batch.text.truncate(start);
        Ok(())
    }

    fn hashes<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        if self.found.ids.is_some() {
            return Err(self.trouble.stop(RowFault::Repeated { field: "input_sequence_hashes" }));
        }
        let read = map.next_value_seed(Any(Ids(&mut self.batch.ids)))?;
        self.found.ids = Some(self.trouble.number("page ids", read)?);
        Ok(())
    }
}

impl<'de> Fields<'de> for DynamoRecord<'_> {
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        if self.scope_field == Some(key) {
            let text = &mut self.batch.text;
            return self.found.extras.read_scope(key, map, text, &mut self.trouble);
        }
        const MS: Numbers = Numbers::DatesOr(NumberUnit::Milliseconds);
        self.trouble.field = KNOWN
            .into_iter()
            .find(|name| *name == key)
            .or_else(|| NamedParts::name(key))
            .or_else(|| Label::of_field(key).map(Label::name))
            .unwrap_or_default();
        match self.trouble.field {
            "event" | "request" | "replay" | "agent_context" | "worker" => {
                map.next_value_seed(Object(self))?
            }
            "event_type" => self.event_type(map)?,
            "event_time_unix_ms" => self.found.ended = read_time(map, MS, &mut self.trouble)?,
            "request_received_ms" => self.found.received = read_time(map, MS, &mut self.trouble)?,
            "total_time_ms" => self.found.total = read_length(map, NumberUnit::Milliseconds)?,
            "input_tokens" => self.found.input_tokens = self.trouble.count(map)?,
            "input_length" => self.found.input_length = self.trouble.count(map)?,
            "output_tokens" => self.found.output_tokens = self.trouble.count(map)?,
            "session_id" => self.found.extras.session = self.name(map)?,
            "cached_tokens" => self.found.cached_tokens = self.trouble.count(map)?,
            "trace_block_size" => {
                let tokens = self.trouble.count(map)?.and_then(|tokens| u32::try_from(tokens).ok());
                let page_size = tokens.and_then(PageSize::new);
                self.found.page_size = Some(page_size.ok_or_else(|| A::Error::custom("no page size"))?);
            }
            "input_sequence_hashes" => self.hashes(map)?,
            "prefill_worker_id" => self.found.prefill.0 = self.name(map)?,
            "prefill_dp_rank" => self.found.prefill.1 = self.name(map)?,
            "decode_worker_id" => self.found.decode.0 = self.name(map)?,
            "decode_dp_rank" => self.found.decode.1 = self.name(map)?,
            name if NamedParts::takes(name) => {
                self.found.extras.parts.read(name, map, &mut self.batch.text)?
            }
            field => match Label::of_field(field) {
                Some(label) => {
                    let name = self.name(map)?;
                    self.found.extras.labels.set(label, name);
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
    batch: &mut RowBatch,
    id_scope: &IdScope,
) -> Result<Option<Draft>, RowFault> {
    let (trouble, found) = (ParseTrouble::default(), DynamoFields::default());
    let mut record = DynamoRecord { batch, scope_field: id_scope.field(), trouble, found };
    if let Err(error) = read_line(line, Object(&mut record)) {
        return Err(record.trouble.fault(&error));
    }
    if record.found.is_other_event {
        batch.clear();
        return Ok(None);
    }
    record.draft().map(Some)
}
