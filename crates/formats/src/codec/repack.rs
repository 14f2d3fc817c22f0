//! Records written again in the form that is read where it lies: the long part of reading them, for a thread that has
//! nothing else to do.

use super::avro;
use super::limits::DecodeLimits;
use super::request::{Encoding, RequestDecoder, RequestEncoding, encode_request};

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
    /// ids. What is in Confluent's wire format could have to wait for its schema, and is left alone.
    pub fn takes_long(&self, payload: &[u8]) -> bool {
        match self.encoding.of(payload) {
            Some(Encoding::Json) => true,
            Some(Encoding::Avro) => avro::lists_ids(payload),
            Some(Encoding::Auto | Encoding::ConfluentAvro) | None => false,
        }
    }

    /// Appends what a record says; says whether it did. Nothing is appended for a record that is read fast, is refused,
    /// or would become longer.
    pub fn repack(&mut self, payload: &[u8], out: &mut Vec<u8>) -> bool {
        if !self.takes_long(payload) {
            return false;
        }
        let begin = out.len();
        let Ok(message) = self.decoder.read(payload) else { return false };
        let is_written = encode_request(&message, RequestEncoding::Avro, out).is_ok();
        let is_kept = is_written && out.len() - begin <= payload.len();
        if !is_kept {
            out.truncate(begin);
        }
        is_kept
    }
}
