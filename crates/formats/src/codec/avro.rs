//! The request event as an Avro datum, read where it lies and written.
//!
//! A general Avro decoder builds a tree of values and copies every byte string; this one knows one
//! schema, and borrows. `tests/codec_request` holds it equal to apache-avro on the same bytes.

use super::limits::DecodeLimits;
use super::message::{FieldSlot, FieldVisitor, PAGE_IDS, RequestMessage};
use super::schema;
use super::wire::{Cursor, put_bytes, put_long};
use kvset_core::request::labels::Labels;
use kvset_core::request::refusal::{DecodeError, ErrorCode};
use kvset_core::units::pages::PageIds;
use std::borrow::Cow;
use std::convert::Infallible;

/// Buffers for what does not lie in the record as it is read, ids above all; they keep their memory from record to
/// record.
#[derive(Debug, Default)]
pub(super) struct IdBuffers {
    pub(super) prompt: Vec<u64>,
    pub(super) output: Vec<u64>,
    /// Labels that are written with escapes.
    pub(super) labels: Labels<String>,
}

impl IdBuffers {
    /// The buffer for the ids of this field.
    pub(super) fn of(&mut self, field: &str) -> &mut Vec<u64> {
        if field == PAGE_IDS { &mut self.prompt } else { &mut self.output }
    }
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
    read_fields(Cursor::new(record, begin), Some((limits, [Some(prompt), Some(output)])))
}

/// Reads a record in single-object encoding whose ids travel packed, which takes no buffers; `None` where it
/// is anything else.
pub(super) fn read_packed(record: &[u8]) -> Option<RequestMessage<'_>> {
    schema::single_object_fingerprint(record).filter(|fingerprint| schema::is_of_request(*fingerprint))?;
    read_fields(Cursor::new(record, schema::SINGLE_OBJECT_HEADER), None).ok()
}

/// Whether a record in single-object encoding has its prompt's ids as a list of longs.
pub(super) fn lists_ids(record: &[u8]) -> bool {
    let mut cursor = Cursor::new(record, schema::SINGLE_OBJECT_HEADER);
    cursor.long().and_then(|_event_time| cursor.second_branch()).unwrap_or(false)
}

/// Where ids go that are listed, within these limits: the prompt's and the output's.
type ListedIds<'l, 'a> = (&'l DecodeLimits, [Option<&'a mut Vec<u64>>; 2]);

/// Reads the fields of a datum, which follow each other in the schema's order.
struct DatumReader<'l, 'a> {
    cursor: Cursor<'a>,
    /// Nothing where ids must be packed.
    lists: Option<ListedIds<'l, 'a>>,
}

/// Reads the fields, and ids that are listed into these buffers.
fn read_fields<'a>(
    cursor: Cursor<'a>,
    lists: Option<ListedIds<'_, 'a>>,
) -> Result<RequestMessage<'a>, DecodeError> {
    let (mut message, mut reader) = (RequestMessage::default(), DatumReader { cursor, lists });
    message.each_field(&mut reader)?;
    match reader.cursor.remaining() {
        0 => Ok(message),
        _ => Err(reader.cursor.undecodable("bytes behind the end of the record")),
    }
}

impl<'a> FieldVisitor<'a> for DatumReader<'_, 'a> {
    type Error = DecodeError;

    #[inline(always)]
    fn field(&mut self, name: &'static str, slot: FieldSlot<'_, 'a>) -> Result<(), DecodeError> {
        let cursor = &mut self.cursor;
        match slot {
            FieldSlot::Time(time) => *time = cursor.long()?,
            FieldSlot::Ids(ids) => *ids = self.ids(usize::from(name != PAGE_IDS))?,
            FieldSlot::Flag(flag) => *flag = cursor.boolean()?,
            FieldSlot::Long(long) => *long = cursor.nullable(Cursor::long)?,
            FieldSlot::Int(int) => *int = cursor.nullable(Cursor::int)?,
            FieldSlot::Text(text) => *text = cursor.nullable(Cursor::string)?.map(Cow::Borrowed),
            FieldSlot::Label(_, label) => *label = cursor.nullable(Cursor::string)?,
        }
        Ok(())
    }
}

impl<'a> DatumReader<'_, 'a> {
    /// The ids of the prompt, or of the output.
    fn ids(&mut self, place: usize) -> Result<PageIds<'a>, DecodeError> {
        if !self.cursor.second_branch()? {
            return packed_ids(&mut self.cursor);
        }
        let list = self.lists.as_mut().and_then(|(limits, buffers)| Some((*limits, buffers[place].take()?)));
        let (limits, buffer) = list.ok_or_else(|| self.cursor.undecodable("ids that are not packed"))?;
        read_id_blocks(&mut self.cursor, limits, buffer)?;
        Ok(PageIds::from_slice(buffer))
    }
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
    let Ok(()) = message.borrowed().each_field(&mut DatumWriter { form, out });
}

/// Appends the fields of a datum one after another.
struct DatumWriter<'o> {
    form: IdForm,
    out: &'o mut Vec<u8>,
}

impl<'a> FieldVisitor<'a> for DatumWriter<'_> {
    type Error = Infallible;

    #[inline(always)]
    fn field(&mut self, _: &'static str, slot: FieldSlot<'_, 'a>) -> Result<(), Infallible> {
        let out = &mut *self.out;
        match slot {
            FieldSlot::Time(time) => put_long(out, *time),
            FieldSlot::Ids(ids) => put_ids(out, *ids, self.form),
            FieldSlot::Flag(flag) => out.push(u8::from(*flag)),
            FieldSlot::Long(long) => put_nullable(out, *long, put_long),
            FieldSlot::Int(int) => put_nullable(out, int.map(i64::from), put_long),
            FieldSlot::Text(text) => put_nullable(out, text.as_deref(), put_text),
            FieldSlot::Label(_, label) => put_nullable(out, *label, put_text),
        }
        Ok(())
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
