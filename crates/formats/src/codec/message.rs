//! A request event as it travels: the fields of `schemas/request_event.avsc`, borrowed.

use kvset_core::request::event::RequestEvent;
use kvset_core::request::labels::{Label, Labels};
use kvset_core::units::pages::PageIds;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// One request event on the wire, before any limit is checked. Signed as Avro has it.
///
/// JSON leaves out what is absent. `Debug` shows counts in place of ids and names, so that neither reaches a log by
/// accident.
#[derive(Clone, PartialEq, Eq, Default, Serialize)]
pub struct RequestMessage<'a> {
    /// Milliseconds since the Unix epoch, or since the trace's zero.
    pub event_time: i64,
    /// Prompt page ids in prefix order.
    #[serde(serialize_with = "write_ids")]
    pub page_ids: PageIds<'a>,
    /// The pool, where the value names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<Cow<'a, str>>,
    /// Tokens per page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<i32>,
    /// Output page ids, continuing the prompt's chain.
    #[serde(skip_serializing_if = "no_ids", serialize_with = "write_ids")]
    pub output_page_ids: PageIds<'a>,
    /// Tokens of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<i64>,
    /// Tokens generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<i64>,
    /// Milliseconds from arrival to last token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// What the ids are unique within.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Cow<'a, str>>,
    /// The serving system's name for the request; read by nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Cow<'a, str>>,
    /// Whether whoever made the ids declares them chained.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ids_chained: bool,
    /// Prompt tokens that came from the serving engine's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<i64>,
    /// Whether the log has a usage that leaves the cached tokens out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cached_tokens_left_out: bool,
    /// Before this arrival all requests of its replica are in the log, in milliseconds like `event_time`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete_before: Option<i64>,
    /// Which cache served the request, on whose behalf.
    #[serde(flatten, serialize_with = "write_labels")]
    pub labels: Labels<&'a str>,
}

fn write_ids<S: Serializer>(ids: &PageIds<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(ids.iter())
}

fn no_ids(ids: &PageIds<'_>) -> bool {
    ids.is_empty()
}

/// Writes labels as fields of their own.
pub(crate) fn write_labels<S: Serializer>(labels: &Labels<&str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(labels.iter().map(|(label, name)| (label.name(), name)))
}

/// The first two fields, which every event has: when its request came, and the page ids of its prompt.
pub(super) const EVENT_TIME: &str = "event_time";
pub(super) const PAGE_IDS: &str = "page_ids";

/// What a field of a message holds, by its type in Avro; all but the first three may be null there.
pub(super) enum FieldSlot<'m, 'a> {
    Time(&'m mut i64),
    Ids(&'m mut PageIds<'a>),
    Flag(&'m mut bool),
    Long(&'m mut Option<i64>),
    Int(&'m mut Option<i32>),
    Text(&'m mut Option<Cow<'a, str>>),
    /// A text that lies in the record, or in a buffer.
    Label(Label, &'m mut Option<&'a str>),
}

/// Goes through the fields of a message.
pub(super) trait FieldVisitor<'a> {
    type Error;

    fn field(&mut self, name: &'static str, slot: FieldSlot<'_, 'a>) -> Result<(), Self::Error>;
}

impl<'a> RequestMessage<'a> {
    /// Goes through all fields in the order of the schema: the one list that Avro and JSON are read and written by.
    #[inline]
    pub(super) fn each_field<V: FieldVisitor<'a>>(&mut self, fields: &mut V) -> Result<(), V::Error> {
        use FieldSlot::{Flag, Ids, Int, Long, Text, Time};
        fields.field(EVENT_TIME, Time(&mut self.event_time))?;
        fields.field(PAGE_IDS, Ids(&mut self.page_ids))?;
        fields.field("pool", Text(&mut self.pool))?;
        fields.field("page_size", Int(&mut self.page_size))?;
        fields.field("output_page_ids", Ids(&mut self.output_page_ids))?;
        fields.field("input_tokens", Long(&mut self.input_tokens))?;
        fields.field("output_tokens", Long(&mut self.output_tokens))?;
        fields.field("duration_ms", Long(&mut self.duration_ms))?;
        fields.field("scope", Text(&mut self.scope))?;
        fields.field("request_id", Text(&mut self.request_id))?;
        fields.field("ids_chained", Flag(&mut self.ids_chained))?;
        fields.field("cached_tokens", Long(&mut self.cached_tokens))?;
        fields.field("cached_tokens_left_out", Flag(&mut self.cached_tokens_left_out))?;
        fields.field("complete_before", Long(&mut self.complete_before))?;
        Label::ALL.into_iter().try_for_each(|label| {
            fields.field(label.name(), FieldSlot::Label(label, self.labels.place(label)))
        })
    }

    /// The same, with texts that are borrowed.
    pub(super) fn borrowed(&self) -> RequestMessage<'_> {
        let [pool, scope, request_id] =
            [&self.pool, &self.scope, &self.request_id].map(|text| text.as_deref().map(Cow::Borrowed));
        RequestMessage { pool, scope, request_id, ..*self }
    }

    /// The same, in this pool where the value names none.
    pub(crate) fn or_pool(mut self, name: &'a str) -> Self {
        self.pool.get_or_insert(Cow::Borrowed(name));
        self
    }
}

impl fmt::Debug for RequestMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestMessage")
            .field("event_time", &self.event_time)
            .field("pages", &self.page_ids.len())
            .field("output_pages", &self.output_page_ids.len())
            .field("page_size", &self.page_size)
            .field("input_tokens", &self.input_tokens)
            .field("output_tokens", &self.output_tokens)
            .field("duration_ms", &self.duration_ms)
            .field("cached_tokens", &self.cached_tokens)
            .field("cached_tokens_left_out", &self.cached_tokens_left_out)
            .finish_non_exhaustive()
    }
}

/// A request event that passed every check a record can be given by itself.
#[derive(Debug, Clone)]
pub struct Decoded<'a> {
    /// The pool's name, from the record key or the value.
    pub pool: Cow<'a, str>,
    /// What the core consumes; page ids lie in the record's bytes or in the decoder's buffer.
    pub event: RequestEvent<'a>,
}
