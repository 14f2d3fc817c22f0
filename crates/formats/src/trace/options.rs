//! How a trace is to be read.

use crate::logs::{Places, Preset};
use crate::record::id_scope::IdScope;
use crate::time::{NumberUnit, Numbers};
use kvset_core::engines::chat_engine::ChatEngine;
use kvset_core::units::PageSize;
use kvset_core::units::text::named;
#[cfg(feature = "tokenize")]
use kvset_tokenize::Model;
use std::fmt;
use std::str::FromStr;
#[cfg(feature = "tokenize")]
use std::sync::Arc;

/// A trace format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Format {
    /// Told from the first row.
    #[default]
    Auto,
    /// Mooncake: a request a line, times in milliseconds, 512-token pages.
    Mooncake,
    /// The same of which each request lists only what it adds to its session's prompt.
    MooncakeDelta,
    /// WEKA: a session a line, or its flat form with a request a line.
    Weka,
    /// Qwen-Bailian: a request a line, times in seconds, 16-token pages.
    Qwen,
    /// Dynamo request traces (`dynamo.request.trace.v1`).
    Dynamo,
    /// Prompts as token ids, hashed into pages here.
    TokenIds,
    /// Chat and completion requests, tokenised here; needs a model.
    Openai,
    /// A log known by name; needs a model where it holds text.
    Log(Preset),
    /// Avro object container files of request events.
    Avro,
    /// Request events in JSON, one per line.
    Events,
}

impl Format {
    /// Formats that are none of a log's, with the names users write.
    const OWN: [(&'static str, Self); 10] = [
        ("auto", Format::Auto),
        ("mooncake", Format::Mooncake),
        ("mooncake-delta", Format::MooncakeDelta),
        ("weka", Format::Weka),
        ("qwen", Format::Qwen),
        ("dynamo", Format::Dynamo),
        ("token-ids", Format::TokenIds),
        ("openai", Format::Openai),
        ("avro", Format::Avro),
        ("events", Format::Events),
    ];

    /// Every format with the name users write: of a log that of its preset.
    pub const NAMES: [(&'static str, Self); Self::OWN.len() + Preset::NAMES.len() - 1] = {
        let mut names = [Self::OWN[0]; Self::OWN.len() + Preset::NAMES.len() - 1];
        let (mut at, mut filled) = (0, 0);
        while at < Self::OWN.len() + Preset::NAMES.len() {
            let (name, format) = match at.checked_sub(Self::OWN.len()) {
                None => Self::OWN[at],
                Some(log) => (Preset::NAMES[log].0, Self::of_preset(Preset::NAMES[log].1)),
            };
            // Dynamo's is a format of traces, too.
            if at < Self::OWN.len() || matches!(format, Self::Log(_)) {
                names[filled] = (name, format);
                filled += 1;
            }
            at += 1;
        }
        names
    };
}

impl Format {
    /// The format of this log.
    pub const fn of_preset(preset: Preset) -> Self {
        match preset {
            Preset::Dynamo => Self::Dynamo,
            log => Self::Log(log),
        }
    }

    /// Whether requests may be read at places that the operator names.
    pub const fn has_places(self) -> bool {
        matches!(self, Self::Auto | Self::Openai | Self::TokenIds | Self::Dynamo | Self::Log(_))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Self::NAMES.iter().find(|(_, format)| format == self);
        f.pad(known.map_or("auto", |(name, _)| name))
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        named(&Self::NAMES, "trace format", text)
    }
}

/// Tokens per page, where neither the row, its format nor the user says.
pub const DEFAULT_PAGE_SIZE: PageSize = PageSize::new(64).unwrap();

/// Options of a [`TraceReader`](super::TraceReader).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOptions {
    /// The format of every file; `Auto` tells it file by file.
    pub format: Format,
    /// Where in each record the request and its answer are, where the operator says: of a log, or in place of a format.
    pub places: Places,
    /// What page ids are unique within.
    pub id_scope: IdScope,
    /// Whether each model of a WEKA file is a pool of its own, as in every other format. Its publisher numbers the
    /// pages of all models together, and published figures are of one cache.
    pub weka_models_apart: bool,
    /// Tokens per page where a row does not say. Absent: 512 for mooncake, 16 for qwen, else 64.
    pub page_size: Option<PageSize>,
    /// Whether prompts of tokens come as pages of one token, whose ids are the tokens; such pages are not chained.
    pub keeps_tokens: bool,
    /// Whether the token behind each page is kept, where prompts are tokens that pages are made of.
    pub keeps_tokens_behind: bool,
    /// The longest line that is read, in bytes. A line of one-digit ids takes five times its length in
    /// memory, so this bounds what a session takes too.
    pub max_line_bytes: usize,
    /// The model that tokenises openai requests.
    #[cfg(feature = "tokenize")]
    pub model: Option<Arc<Model>>,
    /// The engine that served them, whose prompts are made of their bodies.
    pub chat_engine: ChatEngine,
    /// The unit of times that are numbers; told from what they can be where left out.
    pub time_unit: Option<NumberUnit>,
    /// The unit of those that count from a start of their own in formats that mean milliseconds, where the first rows
    /// of a file show another: for the reader to set.
    pub start_unit: Option<NumberUnit>,
    /// The order that requests are handed out in.
    pub order: RowOrder,
    /// Whether fields that nobody reads are looked for.
    pub looks_at_fields: bool,
    /// Memory for putting requests into the order of their arrival, in bytes.
    pub reorder_bytes: usize,
}

/// The order that requests are handed out in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RowOrder {
    /// That of the trace, whatever it is.
    #[default]
    Written,
    /// That of the trace, which is expected to be that of their arrival:
    /// [`TraceError::ReadAgain`](super::TraceError::ReadAgain) where it is not. Holds nothing back.
    Expected,
    /// That of their arrival: requests are held back as far as the memory for that reaches.
    Arrival,
}

impl ReadOptions {
    /// Tokens per page where a row does not say, in formats that have no page size of their own.
    pub(super) fn page_tokens(&self) -> PageSize {
        self.page_size.unwrap_or(DEFAULT_PAGE_SIZE)
    }

    /// How numbers that are times are meant in a format that means them so.
    pub(super) fn numbers(&self, format: Numbers) -> Numbers {
        match (self.time_unit, self.start_unit, format) {
            (Some(told), ..) => Numbers::Told(told),
            (None, Some(shown), Numbers::DatesOr(NumberUnit::Milliseconds)) => Numbers::DatesOr(shown),
            _ => format,
        }
    }
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            format: Format::Auto,
            places: Places::default(),
            id_scope: IdScope::Auto,
            weka_models_apart: false,
            page_size: None,
            keeps_tokens: false,
            keeps_tokens_behind: false,
            max_line_bytes: 256 << 20,
            #[cfg(feature = "tokenize")]
            model: None,
            time_unit: None,
            start_unit: None,
            order: RowOrder::Written,
            chat_engine: ChatEngine::default(),
            looks_at_fields: true,
            reorder_bytes: 256 << 20,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_written() {
        for (name, format) in Format::NAMES {
            assert_eq!(name.parse(), Ok(format));
            assert_eq!(format.to_string(), name);
        }
        for text in ["auto", "global", "session", "field:tenant", "field:a:b"] {
            assert_eq!(text.parse::<IdScope>().expect(text).to_string(), text);
        }
        for text in ["", "field:", "Session", "tenant"] {
            assert!(text.parse::<IdScope>().is_err(), "{text} should be refused");
        }
        assert!("csv".parse::<Format>().is_err());
    }
}
