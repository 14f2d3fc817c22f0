//! What a record says of its request as it was served: the form that every reader of records ends in, and that every
//! writer begins at, be it a row for replay or an event for prepare.

use super::generated::Generated;
use crate::stated::PromptForm;
use kvset_core::request::event::CachedTokens;
use std::time::Duration;

/// Prompt tokens that a request wrote to its provider's cache, as Anthropic counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheWrites {
    /// All of them.
    pub tokens: u64,
    /// Those that are kept for five minutes.
    pub five_minutes: u64,
    /// Those that are kept for an hour.
    pub one_hour: u64,
}

impl CacheWrites {
    /// Those of which nothing says how long they are kept.
    pub fn unstated(&self) -> u64 {
        self.tokens.saturating_sub(self.five_minutes.saturating_add(self.one_hour))
    }

    /// Adds another request's.
    pub fn add(&mut self, other: &Self) {
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.five_minutes = self.five_minutes.saturating_add(other.five_minutes);
        self.one_hour = self.one_hour.saturating_add(other.one_hour);
    }
}

/// What was observed of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObservedRequest {
    /// From its arrival to its last token.
    pub duration: Option<Duration>,
    /// Prompt tokens as the log counts them, of all prompts together.
    pub input_tokens: Option<u64>,
    /// The same under a name that does not say of what it is the length: alongside token ids, of tokens.
    pub input_length: Option<u64>,
    /// Tokens generated.
    pub output_tokens: Option<u64>,
    /// What was generated.
    pub answer: Generated,
    /// Prompt tokens that came from the serving engine's cache.
    pub cached_tokens: CachedTokens,
    /// Prompt tokens that were written to the provider's cache.
    pub cache_writes: Option<CacheWrites>,
    /// Parts of the record that may hold the rest of a prompt that is not whole, and that are not read.
    pub unread: Vec<String>,
}

impl ObservedRequest {
    /// Tokens of prompts in this form, as the record states them, and those that it states apart.
    pub fn stated(&self, form: PromptForm) -> (Option<u64>, u64) {
        let length = self.input_length.filter(|_| form != PromptForm::Text);
        (self.input_tokens.or(length), self.counted_apart())
    }

    /// Prompt tokens that some logs count among those of the prompt, and others beside them.
    pub fn counted_apart(&self) -> u64 {
        let written = self.cache_writes.map_or(0, |writes| writes.tokens);
        self.cached_tokens.stated().unwrap_or(0).saturating_add(written)
    }

    /// The same of a record of so many prompts: what is counted over several tells of none.
    #[must_use]
    pub fn of_prompts(self, prompts: usize) -> Self {
        if prompts == 1 {
            return self;
        }
        let Self { duration, input_tokens, input_length, unread, .. } = self;
        Self { duration, input_tokens, input_length, unread, ..Self::default() }
    }

    /// Whether it tells of the answer, or of what was cached.
    pub fn tells_of_answer(&self) -> bool {
        self.output_tokens.is_some()
            || self.answer != Generated::Unknown
            || self.cached_tokens != CachedTokens::Unstated
    }
}
