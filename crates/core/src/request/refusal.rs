//! Why a record is refused: a bounded set of codes, and a detail that quotes no payload.

use std::borrow::Cow;
use std::fmt;

/// Declares [`ErrorCode`] with the name of each.
macro_rules! codes {
    ($($(#[$about:meta])+ $Name:ident $name:literal,)+) => {
        /// Why a record was refused. The names are a contract: they are the dead-letter header
        /// `kvset_error_code` and the metric label `code`; new ones may be added, none changes its meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ErrorCode {
            $($(#[$about])+ $Name,)+
        }

        impl ErrorCode {
            /// Every code; the complete set of metric labels.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$Name),+];

            /// The stable name.
            pub const fn name(self) -> &'static str {
                [$($name),+][self as usize]
            }
        }
    };
}

codes! {
    /// The record's value has no bytes. (A record without a value, a tombstone, is passed.)
    EmptyRecord "empty_record",
    /// The first bytes show neither Avro single-object encoding nor JSON, or not the configured one.
    UnknownEncoding "unknown_encoding",
    /// Avro single-object encoding of a schema this program does not know.
    UnknownSchema "unknown_schema",
    /// The bytes are not what their encoding demands: cut off, wrong type, trailing bytes.
    Undecodable "undecodable",
    /// The record is larger than `max_record_bytes`.
    RecordTooLarge "record_too_large",
    /// The request has more pages than `max_pages_per_request`.
    TooManyPages "too_many_pages",
    /// The number of page ids does not fit the number of tokens.
    PageCountMismatch "page_count_mismatch",
    /// The cached tokens are no number, negative, or more than the prompt's tokens.
    InvalidCachedTokens "invalid_cached_tokens",
    /// A number is negative, fractional or too large for its field.
    InvalidNumber "invalid_number",
    /// The page size is zero or above `max_page_size`.
    InvalidPageSize "invalid_page_size",
    /// The event time lies outside the accepted range, often because it is not in milliseconds.
    EventTimeOutOfRange "event_time_out_of_range",
    /// The event time is further ahead of the record's own time stamp than `max_event_time_ahead`.
    EventTimeAhead "event_time_ahead",
    /// A required field is missing or null.
    MissingField "missing_field",
    /// Neither the record key nor the value names a pool.
    MissingPool "missing_pool",
    /// The pool's name is no UTF-8, has control characters or is longer than `max_pool_bytes`.
    InvalidPool "invalid_pool",
    /// The record key and the value name different pools.
    PoolConflict "pool_conflict",
    /// The event's page size is not the one of its pool.
    UnknownPageSize "unknown_page_size",
    /// The pool is new and the number of pools has reached its bound.
    TooManyPools "too_many_pools",
    /// Page ids are known under another prefix and the policy is to refuse that.
    ChainViolation "chain_violation",
    /// A request's body is not JSON, or a known field has the wrong type.
    InvalidBody "invalid_body",
    /// Images, audio, video, files or another content that is not text.
    UnsupportedContent "unsupported_content",
    /// A field changes the prompt in a way this program does not follow.
    UnsupportedField "unsupported_field",
    /// A field that is part of the prompt in the API the body was written for, and that no chat template
    /// renders; the detail names it.
    UnrenderedField "unrendered_field",
    /// The prompt is spread over several records, and this one holds a part of it.
    ScatteredPrompt "scattered_prompt",
    /// The record states another number of prompt tokens than it holds: a part of a prompt.
    PromptMismatch "prompt_mismatch",
    /// Messages, but the model has no chat template.
    NoChatTemplate "no_chat_template",
    /// The chat template called `raise_exception`.
    TemplateRefused "template_refused",
    /// The chat template failed on these messages.
    TemplateFailed "template_failed",
    /// The tokenizer failed on this text.
    TokenizerFailed "tokenizer_failed",
    /// The prompt, or the number of prompts or tokens, is larger than its limit.
    RequestTooLarge "request_too_large",
    /// No tokenizer is configured for the request's model.
    UnknownModel "unknown_model",
    /// A field that a template or a time is taken from holds what it cannot hold.
    InvalidField "invalid_field",
    /// Records that the Kafka client cannot read, a batch with a wrong checksum for example, and that an operator
    /// decided to pass.
    Unreadable "unreadable",
    /// The event's page ids are of another scheme than its pool's, or `id_scheme` is no name of one.
    IdSchemeMismatch "id_scheme_mismatch",
}

impl ErrorCode {
    /// Whether such refusals say that producers and this program disagree about the format. A clock that is ahead says
    /// nothing of it, and is its own pool's trouble; nor does a log that was passed where it could not be read.
    pub fn is_of_format(self) -> bool {
        !matches!(self, Self::EventTimeAhead | Self::Unreadable)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A refused record: the bounded code and one line for people.
///
/// The detail is made of fixed words, field names, positions, counts and limits only, so it can be
/// logged and published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct DecodeError {
    code: ErrorCode,
    detail: Cow<'static, str>,
}

impl DecodeError {
    /// A refusal with this code; `detail` must quote no payload.
    pub fn new(code: ErrorCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { code, detail: detail.into() }
    }

    /// The bounded code.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// One line for people.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_distinct_labels() {
        let names: BTreeSet<_> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), ErrorCode::ALL.len());
        assert!(names.iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')));
    }

    #[test]
    fn the_name_is_the_variant_in_snake_case() {
        for code in ErrorCode::ALL {
            let camel: String =
                code.name().split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
            assert_eq!(camel, format!("{code:?}"));
        }
    }
}
