//! What a row says of whether a cache served its request: requests that failed, those that a gateway answered by
//! itself, and those of endpoints that generate no text touched none.

use super::members::members;
use super::numbers::count;
use crate::row_values::{RowValue, walk};
use crate::spelling::Spellings;
use aho_corasick::packed::Searcher;
use kvset_core::request::endpoint::{asks_for_no_text, generates_no_text};
use kvset_core::units::names::listed;
use serde_json::value::RawValue;
use std::sync::LazyLock;

/// The HTTP status of the answer, or a word for it.
const STATUSES: [&str; 7] = listed(
    "status status_code response_status response_code response_status_code http_status http_status_code",
);
/// What went wrong, where something did.
const ERRORS: [&str; 2] = ["error", "error_code"];
/// Whether the request was answered.
const SUCCESS: &str = "success";
/// Whether a gateway answered it from a cache of answers.
const ANSWER_CACHES: [&str; 3] = ["cached", "cache_hit", "cache_status"];

/// Values of a hit that was none, in small letters, alongside those that begin as a refusal does.
const NO_HIT: [&str; 12] =
    ["false", "n", "f", "nil", "null", "off", "disabled", "dynamic", "stale", "unknown", "error", "pass"];

/// The path that was asked: not every endpoint takes prompts to answer.
const ENDPOINTS: [&str; 3] = ["endpoint", "request_path", "url_path"];

/// The first HTTP status of a request that failed.
const FIRST_FAILURE: u64 = 400;

static SPELLINGS: LazyLock<Spellings> = LazyLock::new(|| Spellings::of(LoggedOutcome::names()));

/// Why a request that a gateway answered touched no cache of pages.
const OF_GATEWAY: &str = "the gateway answered from its own cache";
/// Any whole number, among the values of a mark.
const NUMBER: &str = "<number>";
/// The status of a request whose client went away: the engine computes its prompt all the same.
pub(crate) const CLIENT_GONE: u64 = 499;
/// Words that say so, in small letters.
const GONE: [&str; 4] = ["disconnect", "cancel", "abort", "client closed"];

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
            SUCCESS => self.failed |= is_one_of(&["false", "0"]),
            _ if ERRORS.contains(&key) => {
                let lower = text.to_ascii_lowercase();
                let is_of_client = text.len() < 200 && GONE.iter().any(|word| lower.contains(word));
                let is_none = [
                    "null", "", "-", "0", "false", "none", "[]", "{}", "ok", "success", "no_error", "noerror",
                ];
                let is_good =
                    count(text).is_ok_and(|status| status.is_some_and(|code| (200..300).contains(&code)));
                self.failed |= !is_one_of(&is_none) && !is_good && !is_of_client && text != "499";
            }
            _ if ENDPOINTS.contains(&key) => self.generates_no_text |= generates_no_text(text),
            _ if ANSWER_CACHES.contains(&key) => {
                // The name of a cache or of a kind of hit says that there was one.
                let lower = text.to_ascii_lowercase();
                let is_named = key == "cache_hit"
                    && lower.starts_with(|first: char| first.is_ascii_alphabetic())
                    && !NO_HIT.contains(&lower.as_str())
                    && !["miss", "no", "bypass", "skip", "expire"].iter().any(|no| lower.starts_with(no))
                    && !lower.contains("miss");
                self.from_cache_of_answers |=
                    is_named || is_one_of(&["true", "1", "yes", "y", "t", "hit", "semantic hit"]);
            }
            _ => {
                // Its meaning may stand behind it.
                let code = text.split_once(' ').map_or(text, |(code, _)| code);
                let status = count(code).ok().flatten();
                let is_failure =
                    status.is_some_and(|status| status >= FIRST_FAILURE && status != CLIENT_GONE);
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

    /// Why no cache of pages served the request. `is_of_engine`: an engine says what it found, so `cache_hit` is its
    /// word.
    pub fn passed_over(self, is_of_engine: bool) -> Option<&'static str> {
        match self {
            Self { failed: true, .. } => Some("the request failed"),
            Self { generates_no_text: true, .. } => Some("its endpoint generates no text"),
            Self { from_cache_of_answers: true, .. } if !is_of_engine => Some(OF_GATEWAY),
            _ => None,
        }
    }
}

/// Fields and their values that say that no engine computed the prompt, and why.
const MARKS: [(&str, &[&str], &str); 7] = [
    ("encoding_format", &["float", "base64"], NO_TEXT),
    ("dimensions", &[NUMBER], NO_TEXT),
    ("cache_status", &["hit", "semantic hit", "semantic_hit", "exact hit"], OF_GATEWAY),
    ("do_remote_prefill", &["true"], "the decode worker's leg, whose prompt a prefill worker computed"),
    (
        "run_type",
        &["chain", "tool", "retriever", "parser", "prompt"],
        "a chain or a tool around a model's run",
    ),
    (
        "span_attributes.type",
        &["task", "function", "tool", "score", "eval"],
        "a task or a tool around a model's run",
    ),
    ("type", &[RESPONSE_EVENT], "an event of an answer, whose request is another"),
];
const NO_TEXT: &str = "its endpoint generates no text";
const RESPONSE_EVENT: &str = "org.kubeflow.serving.inference.response";

/// What the path of an endpoint that generates no text has, alongside others ([`asks_for_no_text`]).
const OF_ENDPOINTS: [&str; 17] = listed(
    "/embed /rerank /tokenize /detokenize /count :count :embed /moderations /images /audio /videos /render /apply /score \
        /classify /pooling /similarity",
);

/// Of every mark and every such endpoint a word that a record with it has; found in one pass, many bytes at a time. None
/// where the processor cannot.
static WORDS: LazyLock<Option<Searcher>> = LazyLock::new(|| {
    let word = |name: &'static str| name.split('.').next().filter(|word| *word != "type");
    let marks = MARKS.map(|(name, ..)| word(name).unwrap_or(RESPONSE_EVENT));
    Searcher::new(marks.into_iter().chain(OF_ENDPOINTS))
});

/// Whether a record may have a mark, or a text that is the path of an endpoint.
fn may_be_served_elsewhere(brief: &[u8]) -> bool {
    let Some(words) = WORDS.as_ref() else { return true };
    words.find_iter(brief).any(|found| {
        let is_mark = found.pattern().as_usize() < MARKS.len();
        is_mark || text_around(brief, found.start()).is_some_and(asks_for_no_text)
    })
}

/// The text between quotes around a place, where that is short.
fn text_around(json: &[u8], at: usize) -> Option<&str> {
    const FAR: usize = 200;
    let is_end = |byte: &u8| matches!(byte, b'"' | b'\n');
    let begin = json[at.saturating_sub(FAR)..at].iter().rev().position(is_end)?;
    let end = json[at..].iter().take(FAR).position(|byte| is_end(byte) || *byte == b'\\')?;
    std::str::from_utf8(&json[at - begin..at + end]).ok()
}

/// Why a record is of no request whose prompt the engine of the log computed, where a mark deep in it says so: the
/// decode worker's leg of a request, a chain around a model's run, an event of the answer alone.
///
/// What is looked for is looked for in `brief`, which is the record, or the record without its long lists of numbers.
pub fn served_elsewhere(record: &[u8], brief: &[u8]) -> Option<&'static str> {
    if !may_be_served_elsewhere(brief) {
        return None;
    }
    let row = RowValue::of(record)?;
    if asks_elsewhere(&row) {
        return Some(NO_TEXT);
    }
    MARKS.iter().find_map(|(name, values, why)| {
        let mut is_so = false;
        walk(&row.value, &mut |path, value| {
            let around = path.strip_suffix(name).filter(|around| around.is_empty() || around.ends_with('.'));
            // What an engine says of its own cache of pages.
            let of_pages = ["kv", "prefix", "radix", "engine"];
            let is_of_pages =
                |around: &str| *why == OF_GATEWAY && of_pages.iter().any(|name| around.contains(name));
            if around.is_some_and(|around| {
                !OF_PROMPTS.iter().any(|name| around.contains(name)) && !is_of_pages(around)
            }) {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                is_so |= values
                    .iter()
                    .any(|word| text.eq_ignore_ascii_case(word) || (*word == NUMBER && value.is_u64()));
            }
        });
        is_so.then_some(*why)
    })
}

/// Parts of a record whose texts say nothing of it.
const OF_PROMPTS: [&str; 4] = ["messages", "content", "tools", "arguments"];

/// Whether a text of the row is the path of an endpoint that generates none, under whatever name; one that leads to
/// something else than the request (a picture, who is called back) is not.
fn asks_elsewhere(row: &RowValue<'_>) -> bool {
    const ELSEWHERE: [&str; 12] =
        listed("image refer callback webhook file source origin link href doc prompt input");
    let mut is_so = false;
    walk(&row.value, &mut |path, value| {
        let lower = path.to_ascii_lowercase();
        let is_of_request = !OF_PROMPTS.iter().chain(&ELSEWHERE).any(|name| lower.contains(name));
        is_so |= is_of_request && value.as_str().is_some_and(asks_for_no_text);
    });
    is_so
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legs_and_chains_are_told_by_a_mark_in_the_record() {
        for record in [
            &br#"{"request": {"kv_transfer_params": {"do_remote_decode": false, "do_remote_prefill": true}}}"#[..],
            br#"{"body": "{\"do_remote_prefill\": true}"}"#,
            br#"{"run_type": "chain", "inputs": {}}"#,
            br#"{"url": "http://v/v1/messages/count_tokens", "body": {"messages": []}}"#,
            br#"{"http_target": "/tokenize", "payload": {}}"#,
            br#"{"log": "{\"route\": \"/v1/embeddings\"}"}"#,
            br#"{"request_line": "POST /v1/audio/speech HTTP/1.1"}"#,
        ] {
            assert!(served_elsewhere(record, record).is_some(), "{}", String::from_utf8_lossy(record));
        }
        for record in [
            &br#"{"kv_transfer_params": {"do_remote_decode": true, "do_remote_prefill": false}}"#[..],
            br#"{"run_type": "llm"}"#,
            br#"{"kv": {"cache_status": "hit"}}"#,
            br#"{"prompt": "what is run_type chain?"}"#,
            br#"{"path": "/v1/chat/completions", "messages": [{"role": "user", "content": "/v1/embeddings"}]}"#,
            br#"{"referer": "https://app.example.org/v1/models", "prompt": "x"}"#,
            br#"{"image_url": "https://example.org/v1/images/7"}"#,
            br#"{"messages": [{"role": "user", "content": "{\"run_type\": \"chain\"}"}]}"#,
        ] {
            assert_eq!(served_elsewhere(record, record), None, "{}", String::from_utf8_lossy(record));
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
            ("success", "0"),
            ("status", "\"503 Service Unavailable\""),
            ("cached", "true"),
            ("cache_status", "\"HIT\""),
            ("cached", "1"),
            ("cache_hit", "\"yes\""),
            ("cache_hit", "\"redis\""),
            ("cache_hit", "\"semantic\""),
            ("error_code", "\"E_TIMEOUT\""),
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
            ("success", "1"),
            ("status", "\"200 OK\""),
            ("cached", "false"),
            ("cached", "128"),
            ("cache_hit", "\"none\""),
            ("cache_hit", "\"bypass\""),
            ("cache_hit", "\"cache-miss\""),
            ("cache_hit", "0.97"),
            ("cache_status", "\"MISS\""),
            ("error_code", "\"OK\""),
            ("error_code", "200"),
            ("error", "\"client disconnected\""),
            ("status", "499"),
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
