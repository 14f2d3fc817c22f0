//! The object that mooncake, qwen and weka rows share: a request, or a holder of nested requests.

use super::id_arrays::ArrayPlaceholder;
use crate::any_value::{Any, Scalar, TakeValue, wrong_kind};
use crate::record::extras::{KnownField, RowExtras};
use crate::record::fault::RowFault;
use crate::record::json::{Fields, Ids, Name, Object, ParseTrouble, ignore, read_length, read_time};
use crate::record::row::{DeclaredScope, Draft, RowBatch, StatedTimes};
use crate::record::subagents::SubagentTimes;
use crate::time::{Moment, NumberUnit, Numbers, Time, ms_of};
use kvset_core::request::event::CachedTokens;
use kvset_core::units::PageSize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess};
use serde_json::value::RawValue;
use std::ops::Range;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// Where the requests of one line go.
pub(super) struct DraftSink<'s> {
    pub batch: &'s mut RowBatch,
    pub trouble: ParseTrouble,
    /// How numbers of `timestamp` are meant.
    pub numbers: Numbers,
    /// The field that scopes ids, where one is named.
    pub scope_field: Option<&'s str>,
    pub line: u64,
    /// From where the requests of sub-agents count their times.
    pub subagents: SubagentTimes,
    /// The arrays of ids that were taken out of the line, if they were.
    pub taken: Option<&'s [Range<usize>]>,
}

/// What an object held.
#[derive(Debug, Default)]
pub(super) struct EntryFields {
    /// When it came, by `t`.
    pub session_time: Option<Time>,
    /// The same by any other name, and what else rows say alongside a prompt.
    pub extras: RowExtras,
    /// From the answer before it of its session to the request.
    pub delay: Option<Duration>,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub duration: Option<Duration>,
    /// The same without what a client took for it.
    pub api_time: Option<Duration>,
    pub cached_tokens: Option<u64>,
    pub page_size: Option<PageSize>,
    pub ids: Option<Range<usize>>,
    /// Whether the row declares them chained, as what `kvset generate` writes does.
    pub ids_chained: bool,
    /// The drafts of nested requests, timed from the object's own start.
    pub nested: Option<Range<usize>>,
    pub id: Option<Range<usize>>,
    /// A digest of the request's own name.
    pub request_id: Option<u64>,
    pub declared: DeclaredScope,
}

impl EntryFields {
    /// When the object's request came.
    pub fn time(&self) -> Option<Time> {
        self.session_time.or_else(|| self.extras.time.arrival(self.duration))
    }
}

/// Reads one object.
pub(super) struct EntryReader<'a, 's> {
    pub sink: &'a mut DraftSink<'s>,
    pub found: EntryFields,
}

impl<'a, 's> EntryReader<'a, 's> {
    pub fn new(sink: &'a mut DraftSink<'s>) -> Self {
        Self { sink, found: EntryFields::default() }
    }

    /// The object's own request, if it has page ids.
    pub fn draft(&mut self) -> Option<Draft> {
        let kept = self.sink.batch.kept_apart(&self.found.extras.parts);
        let (found, extras, answer) = (&self.found, &self.found.extras, self.found.extras.answer());
        let mut draft = Draft {
            when: found.delay.map_or(StatedTimes::Unstated, StatedTimes::AfterAnswer),
            page_size: found.page_size,
            ids: found.ids.clone()?,
            ids_chained: found.ids_chained,
            input_tokens: found.input_tokens.or_else(|| answer.prompt_ids()),
            output_tokens: found.output_tokens.or_else(|| answer.output_tokens(1)),
            is_end: found.session_time.is_none() && extras.time.is_end_alone(found.duration),
            is_backward: extras.time.is_backward(),
            duration_ms: found.api_time.or(found.duration).or_else(|| extras.time.duration()).map(ms_of),
            cached_tokens: found.cached_tokens.map_or_else(|| answer.cached_tokens(1), CachedTokens::Stated),
            labels: extras.labels.clone(),
            request_id: found.request_id,
            session: extras.session.clone(),
            scope_name: extras.scope_name.clone(),
            line: self.sink.line,
            ..kept
        };
        draft.at(found.time());
        Some(draft)
    }

    /// Files a nested object: its own request, and those of a sub-agent whose `t` is its end.
    fn file_nested(mut self) -> Result<(), RowFault> {
        let time = self.found.time().ok_or_else(|| RowFault::missing("t"))?;
        let own = self.draft();
        if own.is_none() && self.found.nested.is_none() {
            return Err(RowFault::missing("hash_ids"));
        }
        if let Some(nested) = self.found.nested.clone() {
            self.time_nested(time, nested);
        }
        self.sink.batch.drafts.extend(own);
        Ok(())
    }

    /// Gives the requests of a sub-agent that ended at `time` their times on the session's clock.
    fn time_nested(&mut self, time: Time, nested: Range<usize>) {
        let kept = self.sink.batch.kept_apart(&self.found.extras.parts);
        let duration = self.found.duration.unwrap_or_default();
        let start = match self.sink.subagents {
            SubagentTimes::Relative => time.before(duration).moment,
            SubagentTimes::Absolute => Moment::default(),
        };
        let moments = self.sink.batch.drafts[nested.clone()].iter().map(|draft| draft.moment);
        if let Some((first, last)) = moments.clone().min().zip(moments.max()) {
            self.sink.batch.subagents.note(time.moment, duration, first, last);
        }
        for draft in &mut self.sink.batch.drafts[nested] {
            draft.moment = draft.moment.moved(Moment::default(), start);
            draft.scope_name = draft.scope_name.take().or_else(|| self.found.extras.scope_name.clone());
            draft.labels = std::mem::take(&mut draft.labels).or(&self.found.extras.labels);
            draft.inherit_identity(&kept);
        }
    }

    fn page_ids<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        if self.found.ids.is_some() {
            return Err(self.sink.trouble.stop(RowFault::Repeated { field: "hash_ids" }));
        }
        self.found.ids = Some(match self.sink.taken {
            Some(arrays) => map.next_value_seed(ArrayPlaceholder(arrays))?,
            None => {
                let read = map.next_value_seed(Any(Ids(&mut self.sink.batch.ids)))?;
                self.sink.trouble.number("page ids", read)?
            }
        });
        Ok(())
    }

    fn nested<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        if self.found.nested.is_some() {
            return Err(self.sink.trouble.stop(RowFault::Repeated { field: "requests" }));
        }
        let start = self.sink.batch.drafts.len();
        map.next_value_seed(Any(Nested { sink: self.sink }))?;
        self.found.nested = Some(start..self.sink.batch.drafts.len());
        Ok(())
    }

    fn page_size<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        if let Some(tokens) = self.sink.trouble.count(map)? {
            let page_size = u32::try_from(tokens).ok().and_then(PageSize::new);
            self.found.page_size = Some(page_size.ok_or_else(|| A::Error::custom("no page size"))?);
        }
        Ok(())
    }

    fn declared<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        let start = self.sink.batch.text.len();
        let declared = map.next_value_seed(Any(Name(&mut self.sink.batch.text)))?;
        self.found.declared = match declared.map(|name| &self.sink.batch.text[name]) {
            Some("local") => DeclaredScope::Session,
            Some("global") | None => DeclaredScope::Global,
            Some(_) => return Err(A::Error::custom("unknown scope")),
        };
        self.sink.batch.text.truncate(start);
        Ok(())
    }
}

impl EntryReader<'_, '_> {
    /// Reads the value of a field that only such objects have, or have in a meaning of their own.
    fn own_field<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "t" => {
                let seconds = Numbers::DatesOr(NumberUnit::Seconds);
                self.found.session_time = read_time(map, seconds, &mut self.sink.trouble)?;
            }
            "delay" | "delay_ms" => self.found.delay = read_length(map, NumberUnit::Milliseconds)?,
            "in" | "input_length" | "seq_len" => self.found.input_tokens = self.sink.trouble.count(map)?,
            "out" | "output_length" => self.found.output_tokens = self.sink.trouble.count(map)?,
            "api_time" => self.found.api_time = read_length(map, NumberUnit::Seconds)?,
            "duration_ms" => self.found.duration = read_length(map, NumberUnit::Milliseconds)?,
            "block_size" | "chunk_size" => self.page_size(map)?,
            "hash_id_scope" => self.declared(map)?,
            "hash_ids" | "chunk_hashes" | "block_hashes" | "prefix_hashes" => self.page_ids(map)?,
            "ids_chained" => self.found.ids_chained = map.next_value::<Option<bool>>()?.unwrap_or(false),
            "requests" => self.nested(map)?,
            "id" => self.found.id = map.next_value_seed(Any(Name(&mut self.sink.batch.text)))?,
            "cached_tokens" => self.found.cached_tokens = self.sink.trouble.count(map)?,
            "request_id" => self.request_id(map)?,
            _ => ignore(map)?,
        }
        Ok(())
    }

    /// Reads a request's own name, of which a digest is kept; what is no name says nothing.
    fn request_id<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        let name: &RawValue = map.next_value()?;
        let names = matches!(name.get().as_bytes(), [b'"' | b'0'..=b'9', ..]) && name.get() != "\"\"";
        self.found.request_id = names.then(|| xxh3_64(name.get().as_bytes()));
        Ok(())
    }
}

impl<'de> Fields<'de> for EntryReader<'_, '_> {
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let DraftSink { batch, trouble, scope_field, numbers, .. } = &mut *self.sink;
        let (is_scope, numbers, text) = (*scope_field == Some(key), *numbers, &mut batch.text);
        let extras = &mut self.found.extras;
        if is_scope {
            extras.read_scope(key, map, text, trouble)?;
            if key == "id" {
                self.found.id = extras.scope_name.clone();
            }
            return Ok(());
        }
        match KnownField::of(key) {
            Some(known) if known.is_of_pages => {
                trouble.field = known.name;
                self.own_field(known.name, map)
            }
            known => extras.read_known(known, map, numbers, text, trouble),
        }
    }
}

/// An array of nested objects, or `null` for none.
struct Nested<'a, 's> {
    sink: &'a mut DraftSink<'s>,
}

impl<'de> TakeValue<'de> for Nested<'_, '_> {
    type Taken = ();

    fn scalar<E: Error>(self, scalar: Scalar<'_>) -> Result<(), E> {
        if let Scalar::Null = scalar { Ok(()) } else { Err(wrong_kind()) }
    }

    fn list<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(EntryReader::new(self.sink))?.is_some() {}
        Ok(())
    }
}

/// Reads a nested object.
impl<'de> DeserializeSeed<'de> for EntryReader<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(mut self, deserializer: D) -> Result<(), D::Error> {
        Object(&mut self).deserialize(deserializer)?;
        let EntryReader { sink, found } = self;
        let filed = EntryReader { sink: &mut *sink, found }.file_nested();
        filed.map_err(|fault| sink.trouble.stop(fault))
    }
}
