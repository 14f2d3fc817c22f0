//! The request event as an Avro datum, read where it lies and written.
//!
//! A general Avro decoder builds a tree of values and copies every byte string; this one knows one
//! schema and its versions, and borrows. `tests/codec_request` holds it equal to apache-avro on the same bytes.

use super::error::{DecodeError, ErrorCode};
use super::limits::DecodeLimits;
use super::message::RequestMessage;
use super::schema::{self, EventVersion};
use super::wire::{Cursor, put_bytes, put_long};
use kvset_core::request::labels::{Label, Labels};
use kvset_core::units::pages::PageIds;
use std::borrow::Cow;

/// Buffers for what does not lie in the record as it is read, ids above all; they keep their memory from record to record.
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
    let Some(version) = EventVersion::of(fingerprint) else {
        let other = u64::from_le_bytes(fingerprint);
        let detail = format!("no reader for the avro schema with fingerprint {other:016x}");
        return Err(DecodeError::new(ErrorCode::UnknownSchema, detail));
    };
    read_datum(version, record, schema::SINGLE_OBJECT_HEADER, limits, buffers)
}

/// Reads a datum of this version that begins at `begin` and ends with the record.
pub(super) fn read_datum<'a>(
    version: EventVersion,
    record: &'a [u8],
    begin: usize,
    limits: &DecodeLimits,
    buffers: &'a mut IdBuffers,
) -> Result<RequestMessage<'a>, DecodeError> {
    let IdBuffers { prompt, output, .. } = buffers;
    let cursor = Cursor::new(record, begin);
    read_fields(
        version,
        cursor,
        |cursor| read_ids(cursor, limits, prompt),
        |cursor| read_ids(cursor, limits, output),
    )
}

/// Reads a record in single-object encoding whose ids travel packed, which takes no buffers; `None` where it
/// is anything else.
pub(super) fn read_packed(record: &[u8]) -> Option<RequestMessage<'_>> {
    let version = EventVersion::of(schema::single_object_fingerprint(record)?)?;
    let cursor = Cursor::new(record, schema::SINGLE_OBJECT_HEADER);
    read_fields(version, cursor, read_packed_ids, read_packed_ids).ok()
}

/// Whether a record in single-object encoding has its prompt's ids as a list of longs.
pub(super) fn lists_ids(record: &[u8]) -> bool {
    let mut cursor = Cursor::new(record, schema::SINGLE_OBJECT_HEADER);
    cursor.long().and_then(|_event_time| cursor.second_branch()).unwrap_or(false)
}

/// Reads the fields of a version, with the prompt's and the output's ids as they are requested.
fn read_fields<'a>(
    version: EventVersion,
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
        ids_chained: match version {
            EventVersion::V1 => false,
            _ => cursor.boolean()?,
        },
        cached_tokens: since_v3(version, &mut cursor, Cursor::long)?,
        labels: labels(version, &mut cursor)?,
        names_prefix: names_prefix(version, &mut cursor)?,
        cached_tokens_left_out: version >= EventVersion::V5 && cursor.boolean()?,
    };
    let message = with_later_labels(message, version, &mut cursor)?;
    match cursor.remaining() {
        0 => Ok(message),
        _ => Err(cursor.undecodable("bytes behind the end of the record")),
    }
}

/// The labels that version 3 added, in their order.
const OF_V3: [Label; 2] = [Label::Replica, Label::Tenant];

fn labels<'a>(version: EventVersion, cursor: &mut Cursor<'a>) -> Result<Labels<&'a str>, DecodeError> {
    let mut labels = Labels::default();
    for label in OF_V3 {
        labels.set(label, since_v3(version, cursor, Cursor::string)?);
    }
    Ok(labels)
}

/// The labels that later versions added, each with its version.
const ADDED: [(Label, EventVersion); 2] =
    [(Label::IdScheme, EventVersion::V6), (Label::RetentionClass, EventVersion::V7)];

/// The same with the labels that later versions added.
fn with_later_labels<'a>(
    mut message: RequestMessage<'a>,
    version: EventVersion,
    cursor: &mut Cursor<'a>,
) -> Result<RequestMessage<'a>, DecodeError> {
    for (label, _) in ADDED.into_iter().filter(|(_, since)| version >= *since) {
        message.labels.set(label, cursor.nullable(Cursor::string)?);
    }
    Ok(message)
}

/// A nullable field that version 3 added.
fn since_v3<'a, T>(
    version: EventVersion,
    cursor: &mut Cursor<'a>,
    read: impl FnOnce(&mut Cursor<'a>) -> Result<T, DecodeError>,
) -> Result<Option<T>, DecodeError> {
    if version >= EventVersion::V3 { cursor.nullable(read) } else { Ok(None) }
}

/// Whether one of the two fields that version 4 added and that are reserved now is not null.
fn names_prefix(version: EventVersion, cursor: &mut Cursor<'_>) -> Result<bool, DecodeError> {
    if version < EventVersion::V4 {
        return Ok(false);
    }
    let (last_id, pages) = (cursor.nullable(Cursor::long)?, cursor.nullable(Cursor::long)?);
    Ok(last_id.is_some() || pages.is_some())
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

/// Appends a message in single-object encoding: of version 3, which the most readers know, where that has all it says.
pub(super) fn write_single_object(message: &RequestMessage<'_>, form: IdForm, out: &mut Vec<u8>) {
    let version = oldest_version(message);
    out.extend_from_slice(&schema::SINGLE_OBJECT_MARKER);
    out.extend_from_slice(&version.fingerprint());
    write_fields(version, message, form, out);
}

/// The oldest version from 3 on that has all that a message says.
fn oldest_version(message: &RequestMessage<'_>) -> EventVersion {
    let named = ADDED.into_iter().filter(|(label, _)| message.labels.get(*label).is_some());
    let left_out = message.cached_tokens_left_out.then_some(EventVersion::V5);
    named.map(|(_, since)| since).chain(left_out).fold(EventVersion::V3, EventVersion::max)
}

/// Appends a message as a bare datum of the newest version.
pub(super) fn write_datum(message: &RequestMessage<'_>, form: IdForm, out: &mut Vec<u8>) {
    write_fields(EventVersion::V7, message, form, out);
}

/// Appends the fields of version 3, or of 5 or a later one.
fn write_fields(version: EventVersion, message: &RequestMessage<'_>, form: IdForm, out: &mut Vec<u8>) {
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
    for label in OF_V3 {
        put_nullable(out, message.labels.get(label).copied(), put_text);
    }
    if version >= EventVersion::V5 {
        // The two reserved fields.
        (0..2).for_each(|_| put_nullable(out, None, put_long));
        out.push(u8::from(message.cached_tokens_left_out));
    }
    for (label, _) in ADDED.into_iter().filter(|(_, since)| version >= *since) {
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
