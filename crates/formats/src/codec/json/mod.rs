//! The request event as JSON: the field names of `schemas/request_event.avsc`, unknown ones ignored.

mod plain;

use super::avro::IdBuffers;
use super::error::{DecodeError, ErrorCode};
use super::limits::{DecodeLimits, invalid_cached_tokens};
use super::message::RequestMessage;
use crate::any_value::{Any, Scalar, TakeValue, pass_items, pass_members, wrong_kind};
use crate::key::Key;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kvset_core::request::labels::{Label, Labels};
use kvset_core::units::pages::PageIds;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::error::Category;
use std::borrow::Cow;
use std::fmt;

/// A known member of the object.
#[derive(Clone, Copy)]
enum KnownMember {
    EventTime,
    PageIds,
    Pool,
    PageSize,
    OutputPageIds,
    InputTokens,
    OutputTokens,
    DurationMs,
    Scope,
    RequestId,
    IdsChained,
    CachedTokens,
    CachedTokensLeftOut,
    CompleteBefore,
    Label(Label),
    Unknown,
}

impl KnownMember {
    fn named(name: &str) -> Self {
        match name {
            "event_time" => Self::EventTime,
            "page_ids" => Self::PageIds,
            "pool" => Self::Pool,
            "page_size" => Self::PageSize,
            "output_page_ids" => Self::OutputPageIds,
            "input_tokens" => Self::InputTokens,
            "output_tokens" => Self::OutputTokens,
            "duration_ms" => Self::DurationMs,
            "scope" => Self::Scope,
            "request_id" => Self::RequestId,
            "ids_chained" => Self::IdsChained,
            "cached_tokens" => Self::CachedTokens,
            "cached_tokens_left_out" => Self::CachedTokensLeftOut,
            "complete_before" => Self::CompleteBefore,
            _ => Label::of_field(name).map_or(Self::Unknown, Self::Label),
        }
    }

    /// Whether this is seen for the first time; what is not read may come again.
    fn is_first(self, seen: &mut u32) -> bool {
        let place = match self {
            Self::EventTime => 0,
            Self::PageIds => 1,
            Self::Pool => 2,
            Self::PageSize => 3,
            Self::OutputPageIds => 4,
            Self::InputTokens => 5,
            Self::OutputTokens => 6,
            Self::DurationMs => 7,
            Self::Scope => 8,
            Self::RequestId => 9,
            Self::IdsChained => 10,
            Self::CachedTokens => 11,
            Self::CachedTokensLeftOut => 12,
            Self::CompleteBefore => 13,
            Self::Label(label) => 14 + label as u32,
            Self::Unknown => return true,
        };
        let before = *seen;
        *seen |= 1 << place;
        *seen != before
    }
}

/// What was found alongside the ids, which go into the buffers.
#[derive(Debug, Default, PartialEq)]
struct ScalarFields<'a> {
    event_time: Option<JsonNumber>,
    page_ids: bool,
    pool: Option<Cow<'a, str>>,
    page_size: Option<JsonNumber>,
    input_tokens: Option<JsonNumber>,
    output_tokens: Option<JsonNumber>,
    duration_ms: Option<JsonNumber>,
    scope: Option<Cow<'a, str>>,
    request_id: Option<Cow<'a, str>>,
    ids_chained: Option<bool>,
    cached_tokens: Option<Lenient>,
    cached_tokens_left_out: Option<bool>,
    complete_before: Option<JsonNumber>,
    labels: Labels<Cow<'a, str>>,
}

/// Where values come from, one after the other.
trait ValueSource<'de> {
    type Error;

    fn next<T: Deserialize<'de>>(&mut self) -> Result<T, Self::Error>;
}

/// The values of a map that is read.
struct MapValues<'m, A>(&'m mut A);

impl<'de, A: MapAccess<'de>> ValueSource<'de> for MapValues<'_, A> {
    type Error = A::Error;

    fn next<T: Deserialize<'de>>(&mut self) -> Result<T, A::Error> {
        self.0.next_value()
    }
}

impl<'de> ScalarFields<'de> {
    /// Takes the next value, which is that of this member. Ids are read in other ways.
    fn take<V: ValueSource<'de>>(&mut self, member: KnownMember, values: &mut V) -> Result<(), V::Error> {
        match member {
            KnownMember::EventTime => self.event_time = values.next()?,
            KnownMember::Pool => self.pool = values.next()?,
            KnownMember::PageSize => self.page_size = values.next()?,
            KnownMember::InputTokens => self.input_tokens = values.next()?,
            KnownMember::OutputTokens => self.output_tokens = values.next()?,
            KnownMember::DurationMs => self.duration_ms = values.next()?,
            KnownMember::Scope => self.scope = values.next()?,
            KnownMember::RequestId => self.request_id = values.next()?,
            KnownMember::IdsChained => self.ids_chained = values.next()?,
            KnownMember::CachedTokens => self.cached_tokens = values.next()?,
            KnownMember::CachedTokensLeftOut => self.cached_tokens_left_out = values.next()?,
            KnownMember::CompleteBefore => self.complete_before = values.next()?,
            KnownMember::Label(label) => self.labels.set(label, values.next()?),
            KnownMember::PageIds | KnownMember::OutputPageIds | KnownMember::Unknown => {
                values.next::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// A JSON number, distinguished from other types so that a wrong number gets its own error code.
#[derive(Debug, Clone, Copy, PartialEq)]
enum JsonNumber {
    /// Not negative.
    Unsigned(u64),
    /// Negative.
    Signed(i64),
    /// Fractional, in exponent notation, or wider than 64 bits.
    Other,
}

impl JsonNumber {
    fn whole(self, field: &'static str) -> Result<i64, DecodeError> {
        let whole = match self {
            Self::Unsigned(value) => i64::try_from(value).ok(),
            Self::Signed(value) => Some(value),
            Self::Other => None,
        };
        whole.ok_or_else(|| {
            DecodeError::new(ErrorCode::InvalidNumber, format!("{field} is no integer of 64 bits signed"))
        })
    }

    /// An id is unsigned, or the two's complement that a signed producer writes.
    fn page_id(self) -> Option<u64> {
        match self {
            Self::Unsigned(id) => Some(id),
            Self::Signed(id) => Some(id as u64),
            Self::Other => None,
        }
    }
}

impl<'de> Deserialize<'de> for JsonNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Any(TakeNumber { is_lenient: false }).deserialize(deserializer)
    }
}

/// A number, or anything else, which is then no integer: so that what is no number gets the field's own code.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Lenient(JsonNumber);

impl<'de> Deserialize<'de> for Lenient {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Any(TakeNumber { is_lenient: true }).deserialize(deserializer).map(Self)
    }
}

struct TakeNumber {
    /// Whether what is no number is passed over.
    is_lenient: bool,
}

impl TakeNumber {
    fn other<E: Error>(self) -> Result<JsonNumber, E> {
        if self.is_lenient { Ok(JsonNumber::Other) } else { Err(wrong_kind()) }
    }
}

impl<'de> TakeValue<'de> for TakeNumber {
    type Taken = JsonNumber;

    fn scalar<E: Error>(self, scalar: Scalar<'_>) -> Result<JsonNumber, E> {
        match scalar {
            Scalar::Signed(value) => Ok(JsonNumber::Signed(value)),
            Scalar::Unsigned(value) => Ok(JsonNumber::Unsigned(value)),
            Scalar::Float(_) => Ok(JsonNumber::Other),
            // Null is what is not there, which is asked before.
            Scalar::Null => Err(wrong_kind()),
            Scalar::Flag(_) | Scalar::Text(_) => self.other(),
        }
    }

    fn list<A: SeqAccess<'de>>(self, mut list: A) -> Result<JsonNumber, A::Error> {
        if self.is_lenient {
            pass_items(&mut list)?;
        }
        self.other()
    }

    fn object<A: MapAccess<'de>>(self, mut object: A) -> Result<JsonNumber, A::Error> {
        if self.is_lenient {
            pass_members(&mut object)?;
        }
        self.other()
    }
}

/// Reads the object in one pass.
struct ObjectReader<'b> {
    limits: &'b DecodeLimits,
    buffers: &'b mut IdBuffers,
    /// A refusal with a code of its own; serde can carry no more than a text.
    refusal: &'b mut Option<DecodeError>,
}

impl<'de> Visitor<'de> for ObjectReader<'_> {
    type Value = ScalarFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<ScalarFields<'de>, A::Error> {
        let mut found = ScalarFields::default();
        let mut seen = 0u32;
        while let Some(Key(name)) = map.next_key()? {
            let member = KnownMember::named(&name);
            if !member.is_first(&mut seen) {
                return Err(A::Error::custom("a field is given twice"));
            }
            match member {
                KnownMember::PageIds => found.page_ids = map.next_value_seed(Any(self.prompt_ids()))?,
                KnownMember::OutputPageIds => drop(map.next_value_seed(Any(self.output_ids()))?),
                member => found.take(member, &mut MapValues(&mut map))?,
            }
        }
        Ok(found)
    }
}

impl ObjectReader<'_> {
    fn prompt_ids(&mut self) -> IdReader<'_> {
        let buffer = &mut self.buffers.prompt;
        IdReader { field: "page_ids", limits: self.limits, buffer, refusal: self.refusal }
    }

    fn output_ids(&mut self) -> IdReader<'_> {
        let buffer = &mut self.buffers.output;
        IdReader { field: "output_page_ids", limits: self.limits, buffer, refusal: self.refusal }
    }
}

/// Reads page ids into a buffer; says whether there was anything but null.
struct IdReader<'b> {
    field: &'static str,
    limits: &'b DecodeLimits,
    buffer: &'b mut Vec<u64>,
    refusal: &'b mut Option<DecodeError>,
}

impl IdReader<'_> {
    #[cold]
    fn refuse<E: Error>(self, refusal: DecodeError) -> E {
        *self.refusal = Some(refusal);
        E::custom("refused")
    }
}

impl<'de> TakeValue<'de> for IdReader<'_> {
    type Taken = bool;

    fn list<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        while let Some(number) = items.next_element::<JsonNumber>()? {
            let index = self.buffer.len();
            if let Err(refusal) = self.limits.check_pages(index + 1) {
                return Err(self.refuse(refusal));
            }
            let Some(id) = number.page_id() else {
                let detail = format!("{} holds no integer of 64 bits at index {index}", self.field);
                return Err(self.refuse(DecodeError::new(ErrorCode::InvalidNumber, detail)));
            };
            self.buffer.push(id);
        }
        Ok(true)
    }

    fn scalar<E: Error>(self, scalar: Scalar<'_>) -> Result<bool, E> {
        let text = match scalar {
            Scalar::Null => return Ok(false),
            Scalar::Text(text) => text,
            _ => return Err(wrong_kind()),
        };
        match read_base64(self.field, &text, self.limits, self.buffer) {
            Ok(()) => Ok(true),
            Err(refusal) => Err(self.refuse(refusal)),
        }
    }
}

fn read_base64(
    field: &'static str,
    text: &str,
    limits: &DecodeLimits,
    buffer: &mut Vec<u64>,
) -> Result<(), DecodeError> {
    let most_bytes = base64::decoded_len_estimate(text.len());
    limits.check_pages(most_bytes / 8)?;
    buffer.resize(most_bytes.div_ceil(8), 0);
    // Packed ids are little-endian, as this machine's integers are (asserted in `lib.rs`).
    let written = STANDARD.decode_slice(text, bytemuck::cast_slice_mut(buffer));
    let written = written.ok().filter(|bytes| bytes % 8 == 0).ok_or_else(|| {
        let detail = format!("json: {field} is no standard base64 of packed ids, eight bytes each");
        DecodeError::new(ErrorCode::Undecodable, detail)
    })?;
    buffer.truncate(written / 8);
    Ok(())
}

/// Reads one JSON object.
pub(super) fn read<'a>(
    record: &'a [u8],
    limits: &DecodeLimits,
    buffers: &'a mut IdBuffers,
) -> Result<RequestMessage<'a>, DecodeError> {
    let text = std::str::from_utf8(record).map_err(|error| {
        let detail = format!("json: not UTF-8 at byte {}", error.valid_up_to());
        DecodeError::new(ErrorCode::Undecodable, detail)
    })?;
    let found = match plain::read(text, limits, buffers) {
        Some(found) => found,
        None => read_object(text, limits, buffers)?,
    };
    if !found.page_ids {
        return Err(missing("page_ids"));
    }
    let whole = |field, number: Option<JsonNumber>| number.map(|n| n.whole(field)).transpose();
    let page_size = whole("page_size", found.page_size)?
        .map(i32::try_from)
        .transpose()
        .map_err(|_| DecodeError::new(ErrorCode::InvalidPageSize, "page_size does not fit 32 bits signed"))?;
    let cached_tokens = found.cached_tokens.map(|Lenient(number)| {
        number.whole("cached_tokens").map_err(|error| invalid_cached_tokens(error.detail().to_owned()))
    });
    let IdBuffers { prompt, output, labels } = buffers;
    Ok(RequestMessage {
        event_time: whole("event_time", found.event_time)?.ok_or_else(|| missing("event_time"))?,
        page_ids: PageIds::from_slice(prompt),
        pool: found.pool,
        page_size,
        output_page_ids: PageIds::from_slice(output),
        input_tokens: whole("input_tokens", found.input_tokens)?,
        output_tokens: whole("output_tokens", found.output_tokens)?,
        duration_ms: whole("duration_ms", found.duration_ms)?,
        scope: found.scope,
        request_id: found.request_id,
        ids_chained: found.ids_chained.unwrap_or(false),
        cached_tokens: cached_tokens.transpose()?,
        complete_before: whole("complete_before", found.complete_before)?,
        labels: kept(found.labels, labels),
        cached_tokens_left_out: found.cached_tokens_left_out.unwrap_or(false),
    })
}

/// The labels where they lie, or in the buffer where they are written with escapes.
fn kept<'a>(mut found: Labels<Cow<'a, str>>, buffer: &'a mut Labels<String>) -> Labels<&'a str> {
    let mut plain = Labels::default();
    *buffer = Labels::default();
    for label in Label::ALL {
        match found.take(label) {
            Some(Cow::Borrowed(name)) => plain.set(label, Some(name)),
            Some(Cow::Owned(name)) => buffer.set(label, Some(name)),
            None => {}
        }
    }
    plain.or(&buffer.each_ref().map(String::as_str))
}

fn read_object<'a>(
    text: &'a str,
    limits: &DecodeLimits,
    buffers: &mut IdBuffers,
) -> Result<ScalarFields<'a>, DecodeError> {
    buffers.prompt.clear();
    buffers.output.clear();
    let mut refusal = None;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let found = deserializer.deserialize_map(ObjectReader { limits, buffers, refusal: &mut refusal });
    let found = found.and_then(|found| deserializer.end().map(|()| found));
    found.map_err(|error| refusal.unwrap_or_else(|| undecodable(&error)))
}

fn missing(field: &'static str) -> DecodeError {
    DecodeError::new(ErrorCode::MissingField, format!("{field} is missing or null"))
}

/// Says where and of which kind, never what: serde_json's own text may quote the payload.
fn undecodable(error: &serde_json::Error) -> DecodeError {
    let what = match error.classify() {
        Category::Eof => "cut off",
        Category::Data => "a field of the wrong type, or given twice,",
        Category::Syntax | Category::Io => "syntax error",
    };
    let (line, column) = (error.line(), error.column());
    DecodeError::new(ErrorCode::Undecodable, format!("json: {what} at line {line} column {column}"))
}

/// Appends a message as one line of JSON, without the line's end.
pub(super) fn write(message: &RequestMessage<'_>, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    serde_json::to_writer(out, message)
}
