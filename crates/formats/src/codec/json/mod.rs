//! The request event as JSON: the field names of `schemas/request_event.avsc`, unknown ones ignored.

mod plain;

use super::avro::IdBuffers;
use super::json_number::{CACHED_TOKENS, JsonNumber, Lenient, ValueSource};
use super::limits::DecodeLimits;
use super::message::{EVENT_TIME, FieldSlot, FieldVisitor, PAGE_IDS, RequestMessage};
use crate::any_value::{Any, Scalar, TakeValue, wrong_kind};
use crate::key::Key;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kvset_core::request::labels::{Label, Labels};
use kvset_core::request::refusal::{DecodeError, ErrorCode};
use kvset_core::units::pages::PageIds;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess};
use serde_json::error::Category;
use std::borrow::Cow;

/// What was read so far of an object, whose ids go into the buffers.
#[derive(Debug, Default, PartialEq)]
struct ReadFields<'a> {
    /// All but ids and labels.
    message: RequestMessage<'a>,
    labels: Labels<Cow<'a, str>>,
    /// The fields that are there, by their places, and those of them that are not null; what is not read may come again.
    seen: u32,
    given: u32,
    /// Of what is refused, the first in the schema's order: where that is, and why.
    refused: Option<(u32, DecodeError)>,
}

impl<'de> ReadFields<'de> {
    /// Takes the next value, which is that of the member of this name.
    fn take<V: ValueSource<'de>>(&mut self, name: &str, values: &mut V) -> Result<(), V::Error> {
        let Self { message, labels, seen, given, refused } = self;
        let mut member =
            FieldMember { name, values, labels, seen, given, refused, place: 0, is_known: false };
        message.each_field(&mut member)?;
        match member.is_known {
            true => Ok(()),
            false => member.values.next::<IgnoredAny>().map(|_| ()),
        }
    }

    /// The message, once all members were taken.
    fn finish(self, buffers: &'de mut IdBuffers) -> Result<RequestMessage<'de>, DecodeError> {
        let required = [(1, PAGE_IDS), (0, EVENT_TIME)];
        if let Some((_, name)) = required.into_iter().find(|(place, _)| self.given >> place & 1 == 0) {
            return Err(DecodeError::new(ErrorCode::MissingField, format!("{name} is missing or null")));
        }
        if let Some((_, refusal)) = self.refused {
            return Err(refusal);
        }
        let IdBuffers { prompt, output, labels } = buffers;
        Ok(RequestMessage {
            page_ids: PageIds::from_slice(prompt),
            output_page_ids: PageIds::from_slice(output),
            labels: kept(self.labels, labels),
            ..self.message
        })
    }
}

/// A member on its way into the field of its name.
struct FieldMember<'m, 'de, V> {
    name: &'m str,
    values: &'m mut V,
    labels: &'m mut Labels<Cow<'de, str>>,
    seen: &'m mut u32,
    given: &'m mut u32,
    refused: &'m mut Option<(u32, DecodeError)>,
    /// The place of the field that comes next.
    place: u32,
    is_known: bool,
}

impl<'de, V: ValueSource<'de>> FieldMember<'_, 'de, V> {
    /// Whether the member is the value of a field, which is the next one.
    fn is(&mut self, field: &str) -> Result<bool, V::Error> {
        let bit = 1 << self.place;
        if self.name != field {
            return Ok(false);
        }
        if *self.seen & bit != 0 {
            return Err(V::twice());
        }
        *self.seen |= bit;
        self.is_known = true;
        Ok(true)
    }

    /// The number of a field; nothing where it is null or refused.
    fn number<T: TryFrom<i64>>(&mut self, field: &'static str) -> Result<Option<T>, V::Error> {
        let number: Option<JsonNumber> = match field {
            CACHED_TOKENS => self.values.next::<Option<Lenient>>()?.map(|Lenient(number)| number),
            _ => self.values.next()?,
        };
        let Some(number) = number else { return Ok(None) };
        *self.given |= 1 << self.place;
        let unfit = |_| {
            let detail = format!("{field} does not fit 32 bits signed");
            DecodeError::new(ErrorCode::InvalidPageSize, detail)
        };
        match number.whole(field).and_then(|number| T::try_from(number).map_err(unfit)) {
            Ok(number) => return Ok(Some(number)),
            Err(_) if self.refused.as_ref().is_some_and(|(first, _)| *first < self.place) => {}
            Err(refusal) => *self.refused = Some((self.place, refusal)),
        }
        Ok(None)
    }
}

impl<'de, V: ValueSource<'de>> FieldVisitor<'de> for FieldMember<'_, 'de, V> {
    type Error = V::Error;

    fn field(&mut self, name: &'static str, slot: FieldSlot<'_, 'de>) -> Result<(), V::Error> {
        if self.is(name)? {
            match slot {
                FieldSlot::Ids(_) => *self.given |= u32::from(self.values.ids(name)?) << self.place,
                FieldSlot::Time(time) => *time = self.number(name)?.unwrap_or_default(),
                FieldSlot::Long(long) => *long = self.number(name)?,
                FieldSlot::Int(int) => *int = self.number(name)?,
                FieldSlot::Flag(flag) => *flag = self.values.next::<Option<bool>>()?.unwrap_or(false),
                FieldSlot::Text(text) => *text = self.values.next()?,
                FieldSlot::Label(label, _) => self.labels.set(label, self.values.next()?),
            }
        }
        self.place += 1;
        Ok(())
    }
}

/// Reads the object in one pass.
struct ObjectReader<'b> {
    limits: &'b DecodeLimits,
    buffers: &'b mut IdBuffers,
    /// A refusal with a code of its own; serde can carry no more than a text.
    refusal: &'b mut Option<DecodeError>,
}

impl<'de> TakeValue<'de> for ObjectReader<'_> {
    type Taken = ReadFields<'de>;

    fn scalar<E: Error>(self, _: Scalar<'_>) -> Result<ReadFields<'de>, E> {
        Err(wrong_kind())
    }

    fn object<A: MapAccess<'de>>(mut self, mut map: A) -> Result<ReadFields<'de>, A::Error> {
        let mut found = ReadFields::default();
        while let Some(Key(name)) = map.next_key()? {
            found.take(&name, &mut MapValues { map: &mut map, reader: &mut self })?;
        }
        Ok(found)
    }
}

/// The values of a map that is read.
struct MapValues<'m, 'b, A> {
    map: &'m mut A,
    reader: &'m mut ObjectReader<'b>,
}

impl<'de, A: MapAccess<'de>> ValueSource<'de> for MapValues<'_, '_, A> {
    type Error = A::Error;

    fn next<T: Deserialize<'de>>(&mut self) -> Result<T, A::Error> {
        self.map.next_value()
    }

    fn ids(&mut self, field: &'static str) -> Result<bool, A::Error> {
        let ObjectReader { limits, buffers, refusal } = &mut *self.reader;
        let buffer = buffers.of(field);
        self.map.next_value_seed(Any(IdReader { field, limits, buffer, refusal }))
    }

    fn twice() -> A::Error {
        A::Error::custom("a field is given twice")
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
    found.finish(buffers)
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
) -> Result<ReadFields<'a>, DecodeError> {
    buffers.prompt.clear();
    buffers.output.clear();
    let mut refusal = None;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let reader = Any(ObjectReader { limits, buffers, refusal: &mut refusal });
    let found = deserializer.deserialize_map(reader);
    let found = found.and_then(|found| deserializer.end().map(|()| found));
    found.map_err(|error| refusal.unwrap_or_else(|| undecodable(&error)))
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
