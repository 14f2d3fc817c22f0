//! The formats of lines, a format a row: how a first row shows it, and what decodes its records.

mod delta;
mod dynamo;
#[cfg(feature = "tokenize")]
mod openai;
mod tokens;

use super::events::EventLines;
use super::first_row::FirstRow;
use super::options::{Format, ReadOptions};
use super::records::{Decode, Records, RowForm};
use super::served::Served;
use crate::time::NumberUnit::{Milliseconds, Seconds};
use kvset_core::units::PageSize;

/// What is known of a format.
pub(super) struct LineFormat {
    pub format: Format,
    /// Whether a first row shows it.
    shows: fn(&FirstRow<'_>) -> bool,
    decoder: Decoder,
}

/// What decodes the records of a format.
enum Decoder {
    /// Records are rows of page ids, of which each format's may be read as another's.
    Rows(RowForm),
    /// A decoder of its own; none where that takes a model which is not there.
    Own(fn(&ReadOptions) -> Option<Box<dyn Decode>>),
}

const MOONCAKE: RowForm =
    RowForm { unit: Milliseconds, page_size: PageSize::new(512).unwrap(), sessions: false };
const QWEN: RowForm = RowForm { unit: Seconds, page_size: PageSize::new(16).unwrap(), sessions: false };
const WEKA: RowForm = RowForm { unit: Milliseconds, page_size: PageSize::new(64).unwrap(), sessions: true };

/// The formats; of several that a row shows the first holds.
static FORMATS: &[LineFormat] = &[
    LineFormat {
        format: Format::Dynamo,
        shows: |row| is_of_dynamo(row) || row.any_inner("event", is_of_dynamo),
        decoder: Decoder::Own(|options| Some(Served::boxed(dynamo::Dynamo::new(options)))),
    },
    LineFormat {
        format: Format::Events,
        shows: |row| row.has(&["page_ids"]) && row.has(&["event_time"]),
        decoder: Decoder::Own(|options| Some(Served::boxed(EventLines::new(options)))),
    },
    LineFormat {
        format: Format::TokenIds,
        shows: |row| row.lists_tokens(),
        decoder: Decoder::Own(|options| Some(Served::boxed(tokens::TokenIds::new(options)))),
    },
    LineFormat {
        format: Format::Weka,
        shows: |row| {
            row.is_session()
                || (row.lists_pages() && row.has(&["block_size", "hash_id_scope"]) && !row.has(&["chat_id"]))
        },
        decoder: Decoder::Rows(WEKA),
    },
    LineFormat {
        format: Format::Qwen,
        shows: |row| row.lists_pages() && row.has(&["chat_id"]),
        decoder: Decoder::Rows(QWEN),
    },
    LineFormat { format: Format::Mooncake, shows: |row| row.lists_pages(), decoder: Decoder::Rows(MOONCAKE) },
    LineFormat {
        format: Format::MooncakeDelta,
        // Nothing in a row says what is left out of it.
        shows: |_| false,
        decoder: Decoder::Own(|options| Some(Served::boxed(delta::Delta::new(MOONCAKE, options)))),
    },
    LineFormat {
        format: Format::Openai,
        shows: |row| row.asks() || row.any_inner("body", |body| body.asks()),
        decoder: Decoder::Own(requests),
    },
];

/// A decoder of chats and completions.
#[cfg(feature = "tokenize")]
fn requests(options: &ReadOptions) -> Option<Box<dyn Decode>> {
    let model = options.model.clone()?;
    Some(Served::boxed(openai::Requests::new(model, options)))
}

/// Without a tokenizer there is none.
#[cfg(not(feature = "tokenize"))]
fn requests(_: &ReadOptions) -> Option<Box<dyn Decode>> {
    None
}

fn is_of_dynamo(row: &FirstRow<'_>) -> bool {
    row.any("schema", |schema| schema.starts_with("\"dynamo.request.trace."))
}

impl LineFormat {
    /// The format of a row, as far as its fields tell.
    pub fn shown_by(row: &FirstRow<'_>) -> Option<Format> {
        FORMATS.iter().find(|known| (known.shows)(row)).map(|known| known.format)
    }

    fn of(format: Format) -> Option<&'static Self> {
        FORMATS.iter().find(|known| known.format == format)
    }

    /// What decodes the records of a format; nothing where a model has to that is not there.
    pub fn decoder(format: Format, options: &ReadOptions) -> Option<Box<dyn Decode>> {
        match &Self::of(format)?.decoder {
            Decoder::Rows(form) => Some(Box::new(Records::new(*form, options))),
            Decoder::Own(make) => make(options),
        }
    }

    /// How lines of a format are read, where these are rows of page ids: they need nothing of one another to be parsed.
    pub fn rows(format: Format) -> Option<RowForm> {
        match Self::of(format)?.decoder {
            Decoder::Rows(form) => Some(form),
            Decoder::Own(_) => None,
        }
    }

    /// Whether records that seem to be of one format may be read as those of another.
    pub fn is_read_as(asked: Format, found: Format) -> bool {
        asked == found || (Self::rows(asked).is_some() && Self::rows(found).is_some())
    }
}
