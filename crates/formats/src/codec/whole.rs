//! Avro data read to their last byte, and none beyond it.
//!
//! apache-avro takes a union or a text that is missing at the end of its input for null, so that a record that was cut
//! off would be read with fewer fields than were written.

use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;
use std::io::{self, Read};

/// Why bytes are not one datum of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotWhole {
    /// apache-avro's own text may quote the value, so it is not told.
    #[error("the record does not resolve from its writer's schema to the one it is read with")]
    Unfit,
    #[error("the record ends before its last field")]
    CutOff,
    #[error("bytes behind the end of the record")]
    Behind,
}

/// Reads the one datum that the bytes are, from the schema it was written with to the one it is read with.
///
/// # Errors
/// They are not such a datum, or not just one.
pub(super) fn read_whole(writer: &Schema, ours: &Schema, datum: &[u8]) -> Result<Value, NotWhole> {
    let mut rest = Rest { datum, was_short: false };
    let reader = GenericDatumReader::builder(writer).reader_schema(ours).build();
    let value = reader.and_then(|reader| reader.read_value(&mut rest));
    match value {
        _ if rest.was_short => Err(NotWhole::CutOff),
        Err(_) => Err(NotWhole::Unfit),
        Ok(_) if !rest.datum.is_empty() => Err(NotWhole::Behind),
        Ok(value) => Ok(value),
    }
}

/// What of a datum is not read yet, and whether more was asked for.
struct Rest<'a> {
    datum: &'a [u8],
    was_short: bool,
}

impl Read for Rest<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.was_short |= buffer.len() > self.datum.len();
        self.datum.read(buffer)
    }
}
