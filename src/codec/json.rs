//! The request event as JSON: the field names of `schemas/request_event.avsc`, unknown ones ignored.

use super::avro::IdBuffers;
use super::error::{DecodeError, ErrorCode};
use super::limits::DecodeLimits;
use super::message::RequestMessage;
use crate::core::pages::PageIds;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, Visitor};
use serde::{Deserialize as DeriveDeserialize, Serialize};
use serde_json::error::Category;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The fields as serde sees them; page ids stay text until the limits are known.
#[derive(DeriveDeserialize)]
struct Fields<'a> {
    event_time: Option<Number>,
    #[serde(borrow)]
    page_ids: Option<&'a RawValue>,
    pool: Option<Cow<'a, str>>,
    page_size: Option<Number>,
    #[serde(borrow)]
    output_page_ids: Option<&'a RawValue>,
    input_tokens: Option<Number>,
    output_tokens: Option<Number>,
    duration_ms: Option<Number>,
    scope: Option<Cow<'a, str>>,
    request_id: Option<Cow<'a, str>>,
}

/// A JSON number, told apart from other types so that a wrong number gets its own error code.
#[derive(Clone, Copy)]
enum Number {
    Whole(i64),
    /// Fractional, in exponent notation, or wider than 64 bits signed.
    Other,
}

impl Number {
    fn whole(self, field: &'static str) -> Result<i64, DecodeError> {
        match self {
            Self::Whole(value) => Ok(value),
            Self::Other => {
                let detail = format!("{field} is no integer of 64 bits");
                Err(DecodeError::new(ErrorCode::InvalidNumber, detail))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberVisitor;
        impl Visitor<'_> for NumberVisitor {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_i64<E>(self, value: i64) -> Result<Number, E> {
                Ok(Number::Whole(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Number, E> {
                Ok(i64::try_from(value).map_or(Number::Other, Number::Whole))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Number, E> {
                Ok(Number::Other)
            }
        }
        deserializer.deserialize_any(NumberVisitor)
    }
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
    let fields: Fields<'a> = serde_json::from_str(text).map_err(|error| undecodable(&error))?;
    let event_time = required("event_time", fields.event_time)?.whole("event_time")?;
    let page_ids = required("page_ids", fields.page_ids)?;
    let whole = |field, number: Option<Number>| number.map(|n| n.whole(field)).transpose();
    let page_size = whole("page_size", fields.page_size)?
        .map(i32::try_from)
        .transpose()
        .map_err(|_| DecodeError::new(ErrorCode::InvalidPageSize, "page_size does not fit 32 bits signed"))?;
    Ok(RequestMessage {
        event_time,
        page_ids: read_ids("page_ids", page_ids, limits, &mut buffers.prompt)?,
        pool: fields.pool,
        page_size,
        output_page_ids: match fields.output_page_ids {
            Some(ids) => read_ids("output_page_ids", ids, limits, &mut buffers.output)?,
            None => PageIds::EMPTY,
        },
        input_tokens: whole("input_tokens", fields.input_tokens)?,
        output_tokens: whole("output_tokens", fields.output_tokens)?,
        duration_ms: whole("duration_ms", fields.duration_ms)?,
        scope: fields.scope,
        request_id: fields.request_id,
    })
}

fn required<T>(field: &'static str, value: Option<T>) -> Result<T, DecodeError> {
    value.ok_or_else(|| DecodeError::new(ErrorCode::MissingField, format!("{field} is missing or null")))
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

fn read_ids<'a>(
    field: &'static str,
    raw: &RawValue,
    limits: &DecodeLimits,
    buffer: &'a mut Vec<u64>,
) -> Result<PageIds<'a>, DecodeError> {
    buffer.clear();
    let text = raw.get().trim_ascii();
    if let Some(items) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        read_integers(field, items.trim_ascii(), limits, buffer)?;
    } else if let Some(quoted) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        // Some encoders escape the slash of the base64 alphabet.
        read_base64(field, &quoted.replace("\\/", "/"), limits, buffer)?;
    } else {
        let detail = format!("json: {field} is neither an array of integers nor a base64 string");
        return Err(DecodeError::new(ErrorCode::Undecodable, detail));
    }
    Ok(PageIds::from_slice(buffer))
}

/// Reads the inside of an array that serde_json already found to be well-formed, so whatever is
/// between two commas and parses as an integer is one.
fn read_integers(
    field: &'static str,
    items: &str,
    limits: &DecodeLimits,
    buffer: &mut Vec<u64>,
) -> Result<(), DecodeError> {
    if items.is_empty() {
        return Ok(());
    }
    let count = items.bytes().filter(|byte| *byte == b',').count() + 1;
    limits.check_pages(count)?;
    buffer.reserve(count);
    for (index, item) in items.split(',').enumerate() {
        let id = page_id(item.trim_ascii()).ok_or_else(|| {
            let detail = format!("{field} holds no integer of 64 bits at index {index}");
            DecodeError::new(ErrorCode::InvalidNumber, detail)
        })?;
        buffer.push(id);
    }
    Ok(())
}

/// An id as an unsigned integer, or as the two's complement that a signed producer writes.
fn page_id(text: &str) -> Option<u64> {
    match text.strip_prefix('-') {
        None => text.parse().ok(),
        Some(_) => text.parse::<i64>().ok().map(|id| id as u64),
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

/// The fields as they are written: absent ones left out.
#[derive(Serialize)]
struct Written<'a> {
    event_time: i64,
    #[serde(serialize_with = "write_ids")]
    page_ids: PageIds<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_size: Option<i32>,
    #[serde(skip_serializing_if = "no_ids", serialize_with = "write_ids")]
    output_page_ids: PageIds<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

fn write_ids<S: serde::Serializer>(ids: &PageIds<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(ids.iter())
}

fn no_ids(ids: &PageIds<'_>) -> bool {
    ids.is_empty()
}

/// Appends a message as one line of JSON, without the line's end.
pub(super) fn write(message: &RequestMessage<'_>, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    let written = Written {
        event_time: message.event_time,
        page_ids: message.page_ids,
        pool: message.pool.as_deref(),
        page_size: message.page_size,
        output_page_ids: message.output_page_ids,
        input_tokens: message.input_tokens,
        output_tokens: message.output_tokens,
        duration_ms: message.duration_ms,
        scope: message.scope.as_deref(),
        request_id: message.request_id.as_deref(),
    };
    serde_json::to_writer(out, &written)
}
