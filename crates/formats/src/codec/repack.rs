//! Records written again in the form that is read where it lies: the long part of reading them, for a thread that has
//! nothing else to do.

use super::avro;
use super::frame::Payload;
use super::limits::DecodeLimits;
use super::request::{Encoding, RecordForm, RequestDecoder, RequestEncoding, encode_request};

/// Writes records again as Avro in single-object encoding with packed ids, for
/// [`RequestDecoder::decode_repacked`].
#[derive(Debug)]
pub struct Repacker {
    encoding: Encoding,
    decoder: RequestDecoder,
}

impl Repacker {
    /// For records in this encoding, within these limits.
    pub fn new(encoding: Encoding, limits: DecodeLimits) -> Self {
        Self { encoding, decoder: RequestDecoder::new(encoding, limits) }
    }

    /// Whether a record is in a form that takes long to read: JSON, or Avro in single-object encoding with a list of
    /// ids. What names a schema in a registry could have to wait for it, and is left alone.
    pub fn takes_long<'p>(&self, payload: impl Into<Payload<'p>>) -> bool {
        let payload = payload.into();
        match self.encoding.form(payload) {
            Ok(RecordForm::Json) => true,
            Ok(RecordForm::SingleObject) => avro::lists_ids(payload.bytes),
            Ok(RecordForm::Registered { .. }) | Err(_) => false,
        }
    }

    /// Appends what a record says; says whether it did. Nothing is appended for a record that is read fast, is refused,
    /// or would become longer.
    pub fn repack<'p>(&mut self, payload: impl Into<Payload<'p>>, out: &mut Vec<u8>) -> bool {
        let payload = payload.into();
        if !self.takes_long(payload) {
            return false;
        }
        let begin = out.len();
        let Ok(message) = self.decoder.read(payload) else { return false };
        let is_written = encode_request(&message, RequestEncoding::Avro, out).is_ok();
        let is_kept = is_written && out.len() - begin <= payload.bytes.len();
        if !is_kept {
            out.truncate(begin);
        }
        is_kept
    }
}
