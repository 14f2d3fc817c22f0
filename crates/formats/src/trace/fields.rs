//! Which fields of a file's rows could matter and are not read.

use super::detect::Detected;
use super::error::TraceError;
use super::options::{Format, ReadOptions, RowOrder};
use crate::census::{FieldCensus, RowReading, RowSample};
use crate::record::row::TraceRow;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use xxhash_rust::xxh3::Xxh3;

/// Shows the requests of a row that is read by itself.
pub(super) type ReadRow = fn(&[u8], &ReadOptions, &mut dyn FnMut(&TraceRow<'_>)) -> Result<(), TraceError>;

/// A file whose fields are looked at while its lines are read, maybe on other threads.
pub(super) struct FieldWatch {
    pub sample: Arc<Mutex<RowSample>>,
    detected: Detected,
}

impl FieldWatch {
    /// Of a file that is read so, whose lines are still to come.
    pub fn new(detected: &Detected, total_bytes: Option<u64>) -> Self {
        let sample = Arc::new(Mutex::new(RowSample::of_log(total_bytes)));
        Self { sample, detected: detected.clone() }
    }

    /// What of the lines that were read could matter and is not read.
    pub fn unread(&self, options: &ReadOptions, read: ReadRow) -> FieldCensus {
        let detected = &self.detected;
        // Requests at a place that nobody named are looked for there in each row.
        let format = if detected.places.request.is_some() { Format::Auto } else { detected.format };
        let options = ReadOptions {
            format: if options.places.request.is_some() { options.format } else { format },
            order: RowOrder::Written,
            looks_at_fields: false,
            ..options.clone()
        };
        let mut may_be_text = None;
        let sample = self.sample.lock().unwrap_or_else(PoisonError::into_inner);
        FieldCensus::take(&sample, &mut |row| {
            let reading = reading(row, &options, read)?;
            let may_be_text = *may_be_text.get_or_insert_with(|| needs_model(row, &options, read));
            Some(RowReading { may_be_text, ..reading })
        })
    }
}

/// Whether a row that can be read cannot without a model: its prompt is a text.
#[cfg(feature = "tokenize")]
fn needs_model(row: &[u8], options: &ReadOptions, read: ReadRow) -> bool {
    options.model.is_some() && reading(row, &ReadOptions { model: None, ..options.clone() }, read).is_none()
}

#[cfg(not(feature = "tokenize"))]
fn needs_model(_: &[u8], _: &ReadOptions, _: ReadRow) -> bool {
    false
}

/// What a row by itself is read as; nothing where it cannot be, or holds no request.
fn reading(row: &[u8], options: &ReadOptions, read: ReadRow) -> Option<RowReading> {
    let (mut digest, mut reading) = (RowDigest(Xxh3::new()), None::<RowReading>);
    let mut is_written = true;
    read(row, options, &mut |row| {
        reading.get_or_insert_default().note(row.pool.unwrap_or_default(), &row.event);
        is_written &= write!(digest, "{row:?}").is_ok();
    })
    .ok()?;
    reading.filter(|_| is_written).map(|reading| RowReading { digest: digest.0.digest(), ..reading })
}

/// A digest of what is written.
struct RowDigest(Xxh3);

impl std::fmt::Write for RowDigest {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}
