//! The object that mooncake, qwen and weka rows share: a request, or a holder of nested requests.

use super::id_arrays::ArrayPlaceholder;
use crate::any_value::{Any, Scalar, TakeValue, wrong_kind};
use crate::identity::NamedParts;
use crate::record::answer::LoggedAnswer;
use crate::record::fault::RowFault;
use crate::record::json::{Fields, Ids, Name, Object, ParseTrouble, ignore, read_length, read_time};
use crate::record::row::{DeclaredScope, Draft, RowBatch, StatedTimes};
use crate::record::stated_time::{StatedTime, TimeName};
use crate::record::subagents::SubagentTimes;
use crate::spelling::Spellings;
use crate::time::{Moment, NumberUnit, Numbers, Time, ms_of};
use hashbrown::HashMap;
use kvset_core::request::labels::{Label, Labels};
use kvset_core::units::PageSize;
use kvset_core::units::names::listed;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess};
use serde_json::value::RawValue;
use std::ops::Range;
use std::sync::LazyLock;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// The field names of a row, and of the session and sub-agents around it.
const KNOWN: [&str; 23] = listed(
    "t in out hash_ids chunk_hashes block_hashes prefix_hashes chunk_size seq_len ids_chained api_time \
        delay delay_ms input_length output_length duration_ms block_size hash_id_scope requests session_id \
        id cached_tokens request_id",
);

/// What reads the value of a known field.
#[derive(Debug, Clone, Copy)]
enum FieldReader {
    /// The row itself.
    Own,
    Time(TimeName),
    Part,
    Answer,
    Label(Label),
}

/// Every known field. A row has a dozen, so none is looked for in lists.
static READERS: LazyLock<HashMap<&'static str, (&'static str, FieldReader), foldhash::fast::FixedState>> =
    LazyLock::new(|| {
        let labels = Label::ALL.into_iter().map(|label| (label.name(), FieldReader::Label(label)));
        let parts = NamedParts::names().map(|name| (name, FieldReader::Part));
        let answers = LoggedAnswer::names()
            .filter(|name| LoggedAnswer::takes(name))
            .map(|name| (name, FieldReader::Answer));
        let times = StatedTime::names().map(|known| (known.name, FieldReader::Time(known)));
        let own = KNOWN.into_iter().map(|name| (name, FieldReader::Own));
        // Of two readers of one name the last holds.
        let all = labels.chain(parts).chain(answers).chain(times).chain(own);
        all.map(|(name, reader)| (name, (name, reader))).collect()
    });

static SPELLINGS: LazyLock<Spellings> = LazyLock::new(|| Spellings::of(READERS.keys().copied()));

/// What reads the value of a field, by its name in any spelling.
fn reader_of(key: &str) -> Option<(&'static str, FieldReader)> {
    let known = READERS.get(key).or_else(|| {
        let usual = SPELLINGS.standard(key);
        if usual == key { None } else { READERS.get(usual) }
    });
    known.copied()
}

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
    /// The same, by any other name.
    pub stated: StatedTime,
    /// From the answer before it of its session to the request.
    pub delay: Option<Duration>,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub duration: Option<Duration>,
    /// The same without what a client took for it.
    pub api_time: Option<Duration>,
    pub cached_tokens: Option<u64>,
    /// What the row says of the answer by other names than a trace has.
    pub answer: Option<Box<LoggedAnswer>>,
    pub labels: Labels<Range<usize>>,
    /// What keeps its pages apart.
    pub parts: NamedParts,
    pub page_size: Option<PageSize>,
    pub ids: Option<Range<usize>>,
    /// Whether the row declares them chained, as what `kvset generate` writes does.
    pub ids_chained: bool,
    /// The drafts of nested requests, timed from the object's own start.
    pub nested: Option<Range<usize>>,
    pub id: Option<Range<usize>>,
    /// A digest of the request's own name.
    pub request_id: Option<u64>,
    pub session: Option<Range<usize>>,
    pub scope_name: Option<Range<usize>>,
    pub declared: DeclaredScope,
}

impl EntryFields {
    /// When the object's request came.
    pub fn time(&self) -> Option<Time> {
        self.session_time.or_else(|| self.stated.arrival(self.duration))
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
        let kept = self.sink.batch.kept_apart(&self.found.parts);
        let found = &self.found;
        let answer = found.answer.as_deref();
        let cached_tokens = match found.cached_tokens {
            Some(tokens) => Some(tokens).into(),
            None => answer.map(|answer| answer.cached_tokens(1)).unwrap_or_default(),
        };
        let mut draft = Draft {
            when: found.delay.map_or(StatedTimes::Unstated, StatedTimes::AfterAnswer),
            page_size: found.page_size,
            ids: found.ids.clone()?,
            ids_chained: found.ids_chained,
            input_tokens: found.input_tokens.or_else(|| answer?.prompt_ids()),
            output_tokens: found.output_tokens.or_else(|| answer?.output_tokens(1)),
            is_end: self.found.session_time.is_none() && found.stated.is_end_alone(found.duration),
            is_backward: found.stated.is_backward(),
            duration_ms: found.api_time.or(found.duration).or_else(|| found.stated.duration()).map(ms_of),
            cached_tokens,
            labels: found.labels.clone(),
            request_id: found.request_id,
            session: found.session.clone(),
            scope_name: found.scope_name.clone(),
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
        let kept = self.sink.batch.kept_apart(&self.found.parts);
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
            draft.scope_name = draft.scope_name.take().or_else(|| self.found.scope_name.clone());
            draft.labels = std::mem::take(&mut draft.labels).or(&self.found.labels);
            draft.inherit_identity(&kept);
        }
    }

    /// Reads the value of the field that scopes ids; it may be the session's name too.
    fn scope_field<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        self.sink.trouble.field = "--id-scope field";
        let name = map.next_value_seed(Any(Name(&mut self.sink.batch.text)))?;
        self.found.scope_name = name.clone();
        match key {
            "id" => self.found.id = name,
            "session_id" => self.found.session = name,
            _ => {
                if let Some(label) = Label::of_field(key) {
                    self.found.labels.set(label, name);
                }
            }
        }
        Ok(())
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
    /// Reads the value of one of the [known](KNOWN) fields.
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
            "session_id" => self.found.session = map.next_value_seed(Any(Name(&mut self.sink.batch.text)))?,
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
        if self.sink.scope_field == Some(key) {
            return self.scope_field(key, map);
        }
        let numbers = self.sink.numbers;
        let Some((name, reader)) = reader_of(key) else {
            self.sink.trouble.field = "";
            return ignore(map);
        };
        self.sink.trouble.field = name;
        match reader {
            FieldReader::Own => self.own_field(name, map)?,
            FieldReader::Time(known) => {
                self.found.stated.read(known, map, numbers, &mut self.sink.trouble)?
            }
            FieldReader::Answer => {
                self.found.answer.get_or_insert_default().read(name, map, &mut self.sink.trouble)?;
            }
            FieldReader::Part => self.found.parts.read(name, map, &mut self.sink.batch.text)?,
            FieldReader::Label(label) => {
                self.found.labels.set(label, map.next_value_seed(Any(Name(&mut self.sink.batch.text)))?);
            }
        }
        Ok(())
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
