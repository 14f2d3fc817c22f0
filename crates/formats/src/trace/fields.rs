//! Which fields of a file's first rows could matter and are not read.

use super::detect::Detected;
use super::lines::LineReader;
use super::options::{Format, ReadOptions, RowOrder};
use super::reader::{TraceItem, TraceReader};
use super::text::{LineWalk, TextLine};
use crate::census::{FieldCensus, RowReading};
use kvset_core::request::event::CachedTokens;
use kvset_core::request::labels::Label;
use std::fmt::Write as _;
use std::io::Cursor;
use std::ops::ControlFlow;
use xxhash_rust::xxh3::Xxh3;

/// Looks at the first rows of a file that is read so; they are still to come then.
pub(super) fn unread_fields(
    lines: &mut LineReader,
    detected: &Detected,
    options: &ReadOptions,
    budget: usize,
) -> FieldCensus {
    // Requests at a place that nobody named are looked for there in each row.
    let format = if detected.places.request.is_some() { Format::Auto } else { detected.format };
    let options = ReadOptions {
        format: if options.places.request.is_some() { options.format } else { format },
        order: RowOrder::Written,
        looks_at_fields: false,
        ..options.clone()
    };
    let (mut head, limit) = (Vec::new(), lines.limit());
    lines.look_ahead(budget, |text| {
        head.extend_from_slice(text);
        ControlFlow::Continue(())
    });
    let (mut walk, text) = (LineWalk::default(), head.as_slice());
    let rows = std::iter::from_fn(|| {
        loop {
            match walk.step(text, limit)? {
                TextLine::Whole(line) => return Some(&text[line]),
                TextLine::TooLong => {}
            }
        }
    });
    let mut may_be_text = None;
    FieldCensus::take(rows, budget, &mut |row| {
        let reading = reading(row, &options)?;
        let may_be_text = *may_be_text.get_or_insert_with(|| needs_model(row, &options));
        Some(RowReading { may_be_text, ..reading })
    })
}

/// Whether a row that can be read cannot without a model: its prompt is a text.
#[cfg(feature = "tokenize")]
fn needs_model(row: &[u8], options: &ReadOptions) -> bool {
    options.model.is_some() && reading(row, &ReadOptions { model: None, ..options.clone() }).is_none()
}

#[cfg(not(feature = "tokenize"))]
fn needs_model(_: &[u8], _: &ReadOptions) -> bool {
    false
}

/// What a row by itself is read as; nothing where it cannot be, or holds no request.
fn reading(row: &[u8], options: &ReadOptions) -> Option<RowReading> {
    let mut reader = TraceReader::from_reader("", Box::new(Cursor::new(row.to_vec())), options).ok()?;
    let (mut digest, mut reading) = (Digest(Xxh3::new()), None);
    while let Some(item) = reader.next_item().ok()? {
        let TraceItem::Request(row) = item else { continue };
        let known = reading.get_or_insert(RowReading::default());
        known.has_cached |= matches!(row.event.cached_tokens, CachedTokens::Stated(_));
        known.has_replica |= row.event.labels.get(Label::Replica).is_some();
        write!(digest, "{row:?}").ok()?;
    }
    reading.map(|reading| RowReading { digest: digest.0.digest(), ..reading })
}

/// A digest of what is written.
struct Digest(Xxh3);

impl std::fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}
