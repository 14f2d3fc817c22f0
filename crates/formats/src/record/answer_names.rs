//! The names that answers and usages have for what they count, whoever wrote them.

use super::outcome::LoggedOutcome;
use super::stated_time::{DURATION, StatedTime};
use crate::spelling::Spellings;
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
    /// Tokens of the prompt that came from the cache.
    Cached,
    CacheRead,
    CacheCreation,
    FiveMinutes,
    OneHour,
}

/// Names of counts in a usage: of the completions API, the responses API, Anthropic's, DeepSeek's, Gemini's,
/// Bedrock's and llama.cpp's, and of what gateways, engines and SDKs make of them ([`standard`] spellings).
pub(crate) const COUNTS: [(&str, CountKind); 36] = [
    ("prompt_tokens", CountKind::Prompt),
    ("prompt_token_count", CountKind::Prompt),
    ("prompt_token", CountKind::Prompt),
    ("tokens_evaluated", CountKind::Prompt),
    ("input_tokens", CountKind::Input),
    ("completion_tokens", CountKind::Output),
    ("completion_token", CountKind::Output),
    ("output_tokens", CountKind::Output),
    ("candidates_token_count", CountKind::Output),
    ("num_output_tokens", CountKind::Output),
    ("output_length", CountKind::Output),
    ("output_len", CountKind::Output),
    ("output_toks", CountKind::Output),
    ("osl", CountKind::Output),
    ("tokens_predicted", CountKind::Output),
    ("predicted_n", CountKind::Output),
    ("cached_tokens", CountKind::Cached),
    ("num_cached_tokens", CountKind::Cached),
    ("cached_input_tokens", CountKind::Cached),
    ("cached_prompt_tokens", CountKind::Cached),
    ("prompt_cached_tokens", CountKind::Cached),
    ("cached_content_token_count", CountKind::Cached),
    ("prompt_cache_hit_tokens", CountKind::Cached),
    ("cache_read_tokens", CountKind::Cached),
    ("cache_n", CountKind::Cached),
    ("cache_read", CountKind::Cached),
    ("cache_read_input_tokens", CountKind::CacheRead),
    ("input_cached_tokens", CountKind::CacheRead),
    ("cache_creation_input_tokens", CountKind::CacheCreation),
    ("cache_write_input_tokens", CountKind::CacheCreation),
    ("ephemeral_5m_input_tokens", CountKind::FiveMinutes),
    ("ephemeral_1h_input_tokens", CountKind::OneHour),
    // In a usage alone, as Langfuse writes one.
    ("input", CountKind::Input),
    ("output", CountKind::Output),
    ("input_cache_read", CountKind::CacheRead),
    ("input_cache_creation", CountKind::CacheCreation),
];
/// Names that are of counts in a usage alone: elsewhere a prompt and an answer have them.
pub(crate) const OF_A_USAGE: [&str; 2] = ["input", "output"];

/// Fields of a row, or of its response, that lead to a usage.
pub(crate) const USAGES: [&str; 5] = ["usage", "usage_metadata", "usage_details", "meta_info", "timings"];
/// Fields of a usage that lead on.
pub(crate) const DETAILS: [&str; 5] = listed(
    "prompt_tokens_details prompt_token_details input_tokens_details input_token_details cache_creation",
);
/// Fields that hold a response, or a part of one.
pub(crate) const RESPONSES: [&str; 4] = ["response", "chunks", "message", "body"];

/// Counts that a row may have by itself, alongside its usage.
pub(crate) const ROW_COUNTS: [&str; 11] = listed(
    "output_tokens completion_tokens num_output_tokens output_length output_len output_toks osl \
        cached_tokens num_cached_tokens cached_prompt_tokens cached_input_tokens",
);

/// Fields that list the token ids of the answer, whose number is its length where nothing else says that.
pub(crate) const ANSWER_IDS: [&str; 5] =
    ["output_ids", "output_token_ids", "output_tok_ids", "completion_token_ids", "response_token_ids"];

/// Fields of a row itself that state its prompt's tokens: no usage, which would say what was cached, too.
pub(crate) const ROW_TOKENS: [&str; 10] = listed(
    "prompt_tokens input_tokens num_prompt_tokens num_input_tokens prompt_token_count input_token_count \
        n_prompt_tokens tokens_in tokens_prompt context_tokens",
);
/// The same under names that do not say of what they are the length: alongside token ids, of tokens.
pub(crate) const ROW_LENGTHS: [&str; 6] =
    ["input_length", "prompt_length", "prompt_len", "input_toks", "input_len", "isl"];

/// The count of this name.
pub(crate) fn count_of(key: &str) -> Option<(&'static str, CountKind)> {
    COUNTS.into_iter().find(|(name, _)| *name == key)
}

/// The one of these names that is `key`.
pub(crate) fn one_of(names: &[&'static str], key: &str) -> Option<&'static str> {
    names.iter().copied().find(|name| *name == key)
}

/// Names of a row's own fields. A `body` there is the request's.
fn of_row() -> impl Iterator<Item = &'static str> {
    let lists = [&USAGES[..], &ROW_COUNTS, &ROW_TOKENS, &ROW_LENGTHS, &ANSWER_IDS];
    let row = ["response", "chunks", DURATION].into_iter().chain(lists.into_iter().flatten().copied());
    let lengths = StatedTime::names().filter(|known| known.is_length()).map(|known| known.name);
    row.chain(LoggedOutcome::names()).chain(lengths)
}

/// Every name that stands for one thing wherever it stands.
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    let counts = COUNTS.into_iter().map(|(name, _)| name).filter(|name| !OF_A_USAGE.contains(name));
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
