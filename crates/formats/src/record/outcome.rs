//! What a row says of whether a cache served its request: requests that failed, those that a gateway answered by itself, and
//! those of endpoints that generate no text touched none.

use super::members::members;
use super::numbers::count;
use crate::spelling::Spellings;
use serde_json::value::RawValue;
use std::sync::LazyLock;

/// The HTTP status of the answer, or a word for it.
const STATUSES: [&str; 7] = [
    "status",
    "status_code",
    "response_status",
    "response_code",
    "response_status_code",
    "http_status",
    "http_status_code",
];
/// What went wrong, where something did.
const ERRORS: [&str; 2] = ["error", "error_code"];
/// Whether the request was answered.
const SUCCESS: &str = "success";
/// Whether a gateway answered it from a cache of answers.
const ANSWER_CACHES: [&str; 3] = ["cached", "cache_hit", "cache_status"];

/// The path that was asked: not every endpoint takes prompts to answer.
const ENDPOINTS: [&str; 3] = ["endpoint", "request_path", "url_path"];

/// The first HTTP status of a request that failed.
const FIRST_FAILURE: u64 = 400;

static SPELLINGS: LazyLock<Spellings> = LazyLock::new(|| Spellings::of(LoggedOutcome::names()));

/// What was said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LoggedOutcome {
    failed: bool,
    from_cache_of_answers: bool,
    generates_no_text: bool,
}

impl LoggedOutcome {
    /// What a record and its answer say, by the names of plain rows.
    pub fn of_record(record: &[u8]) -> Self {
        let mut outcome = Self::default();
        for (name, value) in std::str::from_utf8(record).ok().and_then(members).unwrap_or_default() {
            if name != "response" {
                outcome.read(&name, value);
                continue;
            }
            for (name, value) in members(value.get()).unwrap_or_default() {
                outcome.read(&name, value);
            }
        }
        outcome
    }

    /// Every name.
    pub fn names() -> impl Iterator<Item = &'static str> {
        STATUSES.into_iter().chain(ERRORS).chain([SUCCESS]).chain(ANSWER_CACHES).chain(ENDPOINTS)
    }

    /// Whether a field says it.
    pub fn takes(key: &str) -> bool {
        let key = SPELLINGS.standard(key);
        Self::names().any(|name| name == key)
    }

    /// Takes the value of a field of a row, or of its answer; others say nothing.
    pub fn read(&mut self, key: &str, value: &RawValue) {
        if !Self::takes(key) {
            return;
        }
        let (key, json) = (SPELLINGS.standard(key), value.get());
        let text = json.trim_matches('"');
        let is_one_of = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
        match key {
            SUCCESS => self.failed |= is_one_of(&["false"]),
            _ if ERRORS.contains(&key) => {
                self.failed |= !is_one_of(&["null", "", "-", "0", "false", "none", "[]", "{}"]);
            }
            _ if ENDPOINTS.contains(&key) => self.generates_no_text |= answers_no_prompt(text),
            "cache_status" => self.from_cache_of_answers |= is_one_of(&["hit", "semantic hit"]),
            _ if ANSWER_CACHES.contains(&key) => self.from_cache_of_answers |= is_one_of(&["true"]),
            _ => {
                let is_failure = count(text).is_ok_and(|status| status >= Some(FIRST_FAILURE));
                self.failed |= is_failure || is_one_of(&["failed", "failure", "error"]);
            }
        }
    }

    /// The same, and what another says.
    pub fn or(self, other: Self) -> Self {
        Self {
            failed: self.failed || other.failed,
            from_cache_of_answers: self.from_cache_of_answers || other.from_cache_of_answers,
            generates_no_text: self.generates_no_text || other.generates_no_text,
        }
    }

    /// Why no cache of pages served the request. `is_of_engine`: an engine says what it found, so `cache_hit` is its word.
    pub fn passed_over(self, is_of_engine: bool) -> Option<&'static str> {
        match self {
            Self { failed: true, .. } => Some("the request failed"),
            Self { generates_no_text: true, .. } => Some("its endpoint generates no text"),
            Self { from_cache_of_answers: true, .. } if !is_of_engine => {
                Some("the gateway answered from its own cache")
            }
            _ => None,
        }
    }
}

/// Whether requests of this path are answered without generating text.
pub(crate) fn answers_no_prompt(path: &str) -> bool {
    const OTHERS: [&str; 16] = [
        "embeddings",
        "rerank",
        "score",
        "pooling",
        "classify",
        "moderations",
        "generations",
        "edits",
        "variations",
        "transcriptions",
        "translations",
        "speech",
        "count_tokens",
        "tokenize",
        "detokenize",
        "models",
    ];
    let path = path.split(['?', '#']).next().unwrap_or_default();
    path.trim_end_matches('/').rsplit('/').next().is_some_and(|last| OTHERS.contains(&last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_that_generate_no_text_are_told_by_their_last_name() {
        for path in ["/v1/embeddings", "/v1/messages/count_tokens?beta=1", "/llm/v1/rerank/"] {
            assert!(answers_no_prompt(path), "{path}");
        }
        for path in ["/v1/chat/completions", "/v1/messages", "/any/route", "", "/v1/responses?x=/models"] {
            assert!(!answers_no_prompt(path), "{path}");
        }
    }

    fn passed_over(key: &str, value: &str) -> Option<&'static str> {
        let mut outcome = LoggedOutcome::default();
        assert!(LoggedOutcome::takes(key), "{key}");
        outcome.read(key, serde_json::from_str(value).expect(value));
        outcome.passed_over(false)
    }

    #[test]
    fn requests_that_no_cache_served_are_told_by_their_fields() {
        for (key, value) in [
            ("status", "500"),
            ("status_code", "\"429\""),
            ("http_status", "400.0"),
            ("status", "\"failure\""),
            ("error", r#"{"message": "x"}"#),
            ("error", "\"timeout\""),
            ("success", "false"),
            ("cached", "true"),
            ("cache_status", "\"HIT\""),
        ] {
            assert!(passed_over(key, value).is_some(), "{key}: {value}");
        }
        for (key, value) in [
            ("status", "200"),
            ("status", "\"success\""),
            ("status", "\"completed\""),
            ("status", "null"),
            ("error", "null"),
            ("error", "\"\""),
            ("error", "{}"),
            ("success", "true"),
            ("cached", "false"),
            ("cached", "128"),
            ("cache_status", "\"MISS\""),
        ] {
            assert_eq!(passed_over(key, value), None, "{key}: {value}");
        }
    }

    #[test]
    fn a_hit_that_an_engine_reports_is_one_of_pages() {
        let mut outcome = LoggedOutcome::default();
        outcome.read("cache_hit", serde_json::from_str("true").expect("JSON"));
        assert_eq!(outcome.passed_over(true), None);
        assert!(outcome.passed_over(false).is_some());
    }
}
