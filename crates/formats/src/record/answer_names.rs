//! The names that answers and usages have for what they count, whoever wrote them.

use super::outcome::LoggedOutcome;
use super::stated_time::{DURATION, StatedTime};
use crate::spelling::Spellings;
use CountKind::{
    CacheCreation, CacheRead, Cached, FiveMinutes, Input, OneHour, Output, Prompt, RowLength, RowTokens,
    Total,
};
use CountPlace::{Answer, Row, UsageAlone};
use hashbrown::HashSet;
use kvset_core::units::names::listed;
use std::sync::LazyLock;

/// What a count is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountKind {
    /// All tokens of the prompt.
    Prompt,
    /// The same, but for what [`Self::CacheRead`] and [`Self::CacheCreation`] count apart.
    Input,
    Output,
    /// Of the prompt and of the answer together.
    Total,
    /// Tokens of the prompt that came from the cache.
    Cached,
    CacheRead,
    CacheCreation,
    FiveMinutes,
    OneHour,
    /// All tokens of the prompt, as a row states them by itself.
    RowTokens,
    /// The same under a name that does not say of what it is the length: alongside token ids, of tokens.
    RowLength,
}

impl CountKind {
    /// How many there are.
    pub const COUNT: usize = Self::RowLength as usize + 1;
}

/// Where else than in a usage a name is that of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountPlace {
    /// Nowhere: elsewhere a prompt and an answer have it.
    UsageAlone,
    /// In an answer.
    Answer,
    /// In a row, too, alongside its usage.
    Row,
}

/// Names of counts in a usage: of the completions API, the responses API, Anthropic's, DeepSeek's, Gemini's,
/// Bedrock's and llama.cpp's, and of what gateways, engines and SDKs make of them ([`standard`] spellings).
pub(crate) const COUNTS: [(&str, CountKind, CountPlace); 40] = [
    ("prompt_tokens", Prompt, Answer),
    // OpenRouter's of the engine's own tokenizer, beside those of another.
    ("native_tokens_prompt", Prompt, Row),
    ("native_tokens_completion", Output, Row),
    ("native_tokens_cached", Cached, Row),
    ("prompt_token_count", Prompt, Answer),
    ("prompt_token", Prompt, Answer),
    ("tokens_evaluated", Prompt, Answer),
    ("input_tokens", Input, Answer),
    ("completion_tokens", Output, Row),
    ("completion_token", Output, Answer),
    ("output_tokens", Output, Row),
    ("candidates_token_count", Output, Answer),
    ("num_output_tokens", Output, Row),
    ("output_length", Output, Row),
    ("output_len", Output, Row),
    ("output_toks", Output, Row),
    ("osl", Output, Row),
    ("tokens_predicted", Output, Answer),
    ("predicted_n", Output, Answer),
    ("cached_tokens", Cached, Row),
    ("num_cached_tokens", Cached, Row),
    ("cached_input_tokens", Cached, Row),
    ("cached_prompt_tokens", Cached, Row),
    ("prompt_cached_tokens", Cached, Answer),
    ("cached_content_token_count", Cached, Answer),
    ("prompt_cache_hit_tokens", Cached, Answer),
    ("cache_read_tokens", Cached, Answer),
    ("cache_n", Cached, Answer),
    ("cache_read", Cached, Answer),
    ("cache_read_input_tokens", CacheRead, Answer),
    ("input_cached_tokens", CacheRead, Answer),
    ("cache_creation_input_tokens", CacheCreation, Answer),
    ("cache_write_input_tokens", CacheCreation, Answer),
    ("ephemeral_5m_input_tokens", FiveMinutes, Answer),
    ("ephemeral_1h_input_tokens", OneHour, Answer),
    // In a usage alone, where a row counts more than its request, and as Langfuse writes one.
    ("total_tokens", Total, UsageAlone),
    ("input", Input, UsageAlone),
    ("output", Output, UsageAlone),
    ("input_cache_read", CacheRead, Answer),
    ("input_cache_creation", CacheCreation, Answer),
];

/// Fields of a row, or of its response, that lead to a usage.
pub(crate) const USAGES: [&str; 5] = ["usage", "usage_metadata", "usage_details", "meta_info", "timings"];
/// Fields of a usage that lead on.
pub(crate) const DETAILS: [&str; 5] = listed(
    "prompt_tokens_details prompt_token_details input_tokens_details input_token_details cache_creation",
);
/// Fields that hold a response, or a part of one.
pub(crate) const RESPONSES: [&str; 4] = ["response", "chunks", "message", "body"];

/// Fields that list the token ids of the answer, whose number is its length where nothing else says that.
pub(crate) const ANSWER_IDS: [&str; 6] = listed(
    "output_ids output_token_ids output_tok_ids completion_token_ids completion_ids response_token_ids",
);

/// Fields of a row itself that state its prompt's tokens: no usage, which would say what was cached, too.
const ROW_TOKENS: [&str; 10] = listed(
    "prompt_tokens input_tokens num_prompt_tokens num_input_tokens prompt_token_count input_token_count \
        n_prompt_tokens tokens_in tokens_prompt context_tokens",
);
/// The same under names that do not say of what they are the length.
const ROW_LENGTHS: [&str; 6] =
    ["input_length", "prompt_length", "prompt_len", "input_toks", "input_len", "isl"];

/// The count of the prompt's tokens that a row states by itself under this name.
pub(crate) fn of_prompt(key: &str) -> Option<(&'static str, CountKind)> {
    let lists = [(&ROW_TOKENS[..], RowTokens), (&ROW_LENGTHS, RowLength)];
    lists.into_iter().find_map(|(names, kind)| Some((one_of(names, key)?, kind)))
}

/// The count of this name, in a usage or in an answer outside of one.
pub(crate) fn count_of(key: &str, in_usage: bool) -> Option<(&'static str, CountKind)> {
    let (name, kind, place) = COUNTS.into_iter().find(|(name, ..)| *name == key)?;
    (in_usage || place != UsageAlone).then_some((name, kind))
}

/// The one of these names that is `key`.
pub(crate) fn one_of(names: &[&'static str], key: &str) -> Option<&'static str> {
    names.iter().copied().find(|name| *name == key)
}

/// Names of a row's own fields. A `body` there is the request's.
fn of_row() -> impl Iterator<Item = &'static str> {
    let counts = COUNTS.into_iter().filter(|(.., place)| *place == Row).map(|(name, ..)| name);
    let counts = counts.chain(ROW_TOKENS).chain(ROW_LENGTHS);
    let row = ["response", "chunks", DURATION].into_iter().chain(USAGES).chain(ANSWER_IDS).chain(counts);
    let lengths = StatedTime::names().filter(|known| known.is_length()).map(|known| known.name);
    row.chain(LoggedOutcome::names()).chain(lengths)
}

/// Every name that stands for one thing wherever it stands.
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    let counts = COUNTS.into_iter().filter(|(.., place)| *place != UsageAlone).map(|(name, ..)| name);
    of_row().chain(DETAILS).chain(counts)
}

/// The name in the usual spelling, where it is one of these.
pub(crate) fn standard(key: &str) -> &str {
    static SPELLINGS: LazyLock<Spellings> = LazyLock::new(|| Spellings::of(all()));
    SPELLINGS.standard(key)
}

/// Whether a field of a row itself is of its answer.
pub(crate) fn is_of_row(key: &str) -> bool {
    static OF_ROW: LazyLock<HashSet<&'static str, foldhash::fast::FixedState>> =
        LazyLock::new(|| of_row().collect());
    OF_ROW.contains(standard(key))
}
