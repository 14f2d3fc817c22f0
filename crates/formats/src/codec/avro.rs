//! The request event as an Avro datum, read where it lies and written.
//!
//! A general Avro decoder builds a tree of values and copies every byte string; this one knows one
//! schema, and borrows. `tests/codec_request` holds it equal to apache-avro on the same bytes.

use super::error::{DecodeError, ErrorCode};
use super::limits::DecodeLimits;
use super::message::RequestMessage;
use super::schema;
use super::wire::{Cursor, put_bytes, put_long};
use kvset_core::request::labels::{Label, Labels};
use kvset_core::units::pages::PageIds;
use std::borrow::Cow;

/// Buffers for what does not lie in the record as it is read, ids above all; they keep their memory from record to
/// record.
#[derive(Debug, Default)]
pub(super) struct IdBuffers {
    pub(super) prompt: Vec<u64>,
    pub(super) output: Vec<u64>,
    /// Labels that are written with escapes.
    pub(super) labels: Labels<String>,
}

/// Reads a record in single-object encoding, header included.
pub(super) fn read_single_object<'a>(
    record: &'a [u8],
    limits: &DecodeLimits,
    buffers: &'a mut IdBuffers,
) -> Result<RequestMessage<'a>, DecodeError> {
    let Some(fingerprint) = schema::single_object_fingerprint(record) else {
        return Err(DecodeError::new(ErrorCode::Undecodable, "avro: cut off inside the header"));
    };
    if !schema::is_of_request(fingerprint) {
        let other = u64::from_le_bytes(fingerprint);
        let detail = format!(
            "no reader for the avro schema with fingerprint {other:016x}: write version 1 of \
             schemas/request_event.avsc, or name the schema in a registry"
        );
        return Err(DecodeError::new(ErrorCode::UnknownSchema, detail));
    }
    read_datum(record, schema::SINGLE_OBJECT_HEADER, limits, buffers)
}

/// Reads a datum that begins at `begin` and ends with the record.
pub(super) fn read_datum<'a>(
    record: &'a [u8],
    begin: usize,
    limits: &DecodeLimits,
    buffers: &'a mut IdBuffers,
) -> Result<RequestMessage<'a>, DecodeError> {
    let IdBuffers { prompt, output, .. } = buffers;
    let cursor = Cursor::new(record, begin);
    read_fields(cursor, |cursor| read_ids(cursor, limits, prompt), |cursor| read_ids(cursor, limits, output))
}

/// Reads a record in single-object encoding whose ids travel packed, which takes no buffers; `None` where it
/// is anything else.
pub(super) fn read_packed(record: &[u8]) -> Option<RequestMessage<'_>> {
    schema::single_object_fingerprint(record).filter(|fingerprint| schema::is_of_request(*fingerprint))?;
    let cursor = Cursor::new(record, schema::SINGLE_OBJECT_HEADER);
    read_fields(cursor, read_packed_ids, read_packed_ids).ok()
}

/// Whether a record in single-object encoding has its prompt's ids as a list of longs.
pub(super) fn lists_ids(record: &[u8]) -> bool {
    let mut cursor = Cursor::new(record, schema::SINGLE_OBJECT_HEADER);
    cursor.long().and_then(|_event_time| cursor.second_branch()).unwrap_or(false)
}

/// Reads the fields, with the prompt's and the output's ids as they are requested.
fn read_fields<'a>(
    mut cursor: Cursor<'a>,
    prompt_ids: impl FnOnce(&mut Cursor<'a>) -> Result<PageIds<'a>, DecodeError>,
    output_ids: impl FnOnce(&mut Cursor<'a>) -> Result<PageIds<'a>, DecodeError>,
) -> Result<RequestMessage<'a>, DecodeError> {
    // Fields of a record follow each other in the schema's order; so do these initialisers.
    let message = RequestMessage {
        event_time: cursor.long()?,
        page_ids: prompt_ids(&mut cursor)?,
        pool: cursor.nullable(Cursor::string)?.map(Cow::Borrowed),
        page_size: cursor.nullable(Cursor::int)?,
        output_page_ids: output_ids(&mut cursor)?,
        input_tokens: cursor.nullable(Cursor::long)?,
        output_tokens: cursor.nullable(Cursor::long)?,
        duration_ms: cursor.nullable(Cursor::long)?,
        scope: cursor.nullable(Cursor::string)?.map(Cow::Borrowed),
        request_id: cursor.nullable(Cursor::string)?.map(Cow::Borrowed),
        ids_chained: cursor.boolean()?,
        cached_tokens: cursor.nullable(Cursor::long)?,
        cached_tokens_left_out: cursor.boolean()?,
        complete_before: cursor.nullable(Cursor::long)?,
        labels: labels(&mut cursor)?,
    };
    match cursor.remaining() {
        0 => Ok(message),
        _ => Err(cursor.undecodable("bytes behind the end of the record")),
    }
}

fn labels<'a>(cursor: &mut Cursor<'a>) -> Result<Labels<&'a str>, DecodeError> {
    let mut labels = Labels::default();
    for label in Label::ALL {
        labels.set(label, cursor.nullable(Cursor::string)?);
    }
    Ok(labels)
}

fn read_ids<'a>(
    cursor: &mut Cursor<'a>,
    limits: &DecodeLimits,
    buffer: &'a mut Vec<u64>,
) -> Result<PageIds<'a>, DecodeError> {
    if cursor.second_branch()? {
        read_id_blocks(cursor, limits, buffer)?;
        return Ok(PageIds::from_slice(buffer));
    }
    packed_ids(cursor)
}

fn read_packed_ids<'a>(cursor: &mut Cursor<'a>) -> Result<PageIds<'a>, DecodeError> {
    if cursor.second_branch()? {
        return Err(cursor.undecodable("ids that are not packed"));
    }
    packed_ids(cursor)
}

fn packed_ids<'a>(cursor: &mut Cursor<'a>) -> Result<PageIds<'a>, DecodeError> {
    PageIds::from_packed(cursor.bytes()?)
        .ok_or_else(|| cursor.undecodable("packed ids of no multiple of eight bytes before"))
}

fn read_id_blocks(
    cursor: &mut Cursor<'_>,
    limits: &DecodeLimits,
    buffer: &mut Vec<u64>,
) -> Result<(), DecodeError> {
    buffer.clear();
    cursor.blocks(|cursor, ids| {
        let above = buffer.len();
        limits.check_pages(above + ids)?;
        buffer.resize(above + ids, 0);
        cursor.longs(&mut buffer[above..])
    })
}

/// How page ids are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdForm {
    Packed,
    Longs,
}

/// Appends a message in single-object encoding.
pub(super) fn write_single_object(message: &RequestMessage<'_>, form: IdForm, out: &mut Vec<u8>) {
    out.extend_from_slice(&schema::SINGLE_OBJECT_MARKER);
    out.extend_from_slice(&schema::REQUEST_EVENT_V1);
    write_datum(message, form, out);
}

/// Appends a message as a bare datum.
pub(super) fn write_datum(message: &RequestMessage<'_>, form: IdForm, out: &mut Vec<u8>) {
    put_long(out, message.event_time);
    put_ids(out, message.page_ids, form);
    put_nullable(out, message.pool.as_deref(), put_text);
    put_nullable(out, message.page_size.map(i64::from), put_long);
    put_ids(out, message.output_page_ids, form);
    put_nullable(out, message.input_tokens, put_long);
    put_nullable(out, message.output_tokens, put_long);
    put_nullable(out, message.duration_ms, put_long);
    put_nullable(out, message.scope.as_deref(), put_text);
    put_nullable(out, message.request_id.as_deref(), put_text);
    out.push(u8::from(message.ids_chained));
    put_nullable(out, message.cached_tokens, put_long);
    out.push(u8::from(message.cached_tokens_left_out));
    put_nullable(out, message.complete_before, put_long);
    for label in Label::ALL {
        put_nullable(out, message.labels.get(label).copied(), put_text);
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

fn put_nullable<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    put_long(out, i64::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

fn put_ids(out: &mut Vec<u8>, ids: PageIds<'_>, form: IdForm) {
    put_long(out, i64::from(form == IdForm::Longs));
    if form == IdForm::Packed {
        return put_bytes(out, ids.as_packed());
    }
    if !ids.is_empty() {
        put_long(out, ids.len() as i64);
        ids.iter().for_each(|id| put_long(out, id as i64));
    }
    put_long(out, 0);
}
