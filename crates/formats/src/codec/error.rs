//! Why a record is refused: a bounded set of codes, and a detail that quotes no payload.

use std::borrow::Cow;
use std::fmt;

/// Why a record was refused. The names are a contract: they are the dead-letter header
/// `kvset_error_code` and the metric label `code`; new ones may be added, none changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorCode {
    /// The record's value has no bytes. (A record without a value, a tombstone, is passed.)
    EmptyRecord,
    /// The first bytes show neither Avro single-object encoding nor JSON, or not the configured one.
    UnknownEncoding,
    /// Avro single-object encoding of a schema this program does not know.
    UnknownSchema,
    /// The bytes are not what their encoding demands: cut off, wrong type, trailing bytes.
    Undecodable,
    /// The record is larger than `max_record_bytes`.
    RecordTooLarge,
    /// The request has more pages than `max_pages_per_request`.
    TooManyPages,
    /// The number of page ids does not fit the number of tokens.
    PageCountMismatch,
    /// The cached tokens are no number, negative, or more than the prompt's tokens.
    InvalidCachedTokens,
    /// A number is negative, fractional or too large for its field.
    InvalidNumber,
    /// The page size is zero or above `max_page_size`.
    InvalidPageSize,
    /// The event time lies outside the accepted range, often because it is not in milliseconds.
    EventTimeOutOfRange,
    /// The event time is further ahead of the record's own time stamp than `max_event_time_ahead`.
    EventTimeAhead,
    /// A required field is missing or null.
    MissingField,
    /// Neither the record key nor the value names a pool.
    MissingPool,
    /// The pool's name is no UTF-8, has control characters or is longer than `max_pool_bytes`.
    InvalidPool,
    /// The record key and the value name different pools.
    PoolConflict,
    /// The event's page size is not the one of its pool.
    UnknownPageSize,
    /// The pool is new and the number of pools has reached its bound.
    TooManyPools,
    /// Page ids are known under another prefix and the policy is to refuse that.
    ChainViolation,
    /// A request's body is not JSON, or a known field has the wrong type.
    InvalidBody,
    /// Images, audio, video, files or another content that is not text.
    UnsupportedContent,
    /// A field changes the prompt in a way this program does not follow.
    UnsupportedField,
    /// A field that is part of the prompt in the API the body was written for, and that no chat template
    /// renders; the detail names it.
    UnrenderedField,
    /// The prompt is spread over several records, and this one holds a part of it.
    ScatteredPrompt,
    /// The record states another number of prompt tokens than it holds: a part of a prompt.
    PromptMismatch,
    /// Messages, but the model has no chat template.
    NoChatTemplate,
    /// The chat template called `raise_exception`.
    TemplateRefused,
    /// The chat template failed on these messages.
    TemplateFailed,
    /// The tokenizer failed on this text.
    TokenizerFailed,
    /// The prompt, or the number of prompts or tokens, is larger than its limit.
    RequestTooLarge,
    /// No tokenizer is configured for the request's model.
    UnknownModel,
    /// A field that a template or a time is taken from holds what it cannot hold.
    InvalidField,
    /// Records that the Kafka client cannot read, a batch with a wrong checksum for example, and that an operator
    /// decided to pass.
    Unreadable,
    /// The event's page ids are of another scheme than its pool's, or `id_scheme` is no name of one.
    IdSchemeMismatch,
}

impl ErrorCode {
    /// Every code with its stable name, in the order of this page.
    const NAMES: [(Self, &'static str); 34] = [
        (Self::EmptyRecord, "empty_record"),
        (Self::UnknownEncoding, "unknown_encoding"),
        (Self::UnknownSchema, "unknown_schema"),
        (Self::Undecodable, "undecodable"),
        (Self::RecordTooLarge, "record_too_large"),
        (Self::TooManyPages, "too_many_pages"),
        (Self::PageCountMismatch, "page_count_mismatch"),
        (Self::InvalidCachedTokens, "invalid_cached_tokens"),
        (Self::InvalidNumber, "invalid_number"),
        (Self::InvalidPageSize, "invalid_page_size"),
        (Self::EventTimeOutOfRange, "event_time_out_of_range"),
        (Self::EventTimeAhead, "event_time_ahead"),
        (Self::MissingField, "missing_field"),
        (Self::MissingPool, "missing_pool"),
        (Self::InvalidPool, "invalid_pool"),
        (Self::PoolConflict, "pool_conflict"),
        (Self::UnknownPageSize, "unknown_page_size"),
        (Self::TooManyPools, "too_many_pools"),
        (Self::ChainViolation, "chain_violation"),
        (Self::InvalidBody, "invalid_body"),
        (Self::UnsupportedContent, "unsupported_content"),
        (Self::UnsupportedField, "unsupported_field"),
        (Self::UnrenderedField, "unrendered_field"),
        (Self::ScatteredPrompt, "scattered_prompt"),
        (Self::PromptMismatch, "prompt_mismatch"),
        (Self::NoChatTemplate, "no_chat_template"),
        (Self::TemplateRefused, "template_refused"),
        (Self::TemplateFailed, "template_failed"),
        (Self::TokenizerFailed, "tokenizer_failed"),
        (Self::RequestTooLarge, "request_too_large"),
        (Self::UnknownModel, "unknown_model"),
        (Self::InvalidField, "invalid_field"),
        (Self::Unreadable, "unreadable"),
        (Self::IdSchemeMismatch, "id_scheme_mismatch"),
    ];

    /// Every code; the complete set of metric labels.
    pub const ALL: [Self; Self::NAMES.len()] = {
        let (mut all, mut at) = ([Self::EmptyRecord; Self::NAMES.len()], 0);
        while at < all.len() {
            all[at] = Self::NAMES[at].0;
            at += 1;
        }
        all
    };

    /// The stable name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }
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
