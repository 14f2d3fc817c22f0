//! Fields that part a log by what became of its requests: a flag, a word of few values, or something against nothing,
//! under a name that speaks of an outcome, of who answered, or of a cache. Which of the values says that no engine
//! computed the prompt is the reader's to know; that the rows differ in it is said.

use super::UnreadField;
use super::rules::UnreadKind;
use super::scopes::{is_of_caller, is_within, keeps_no_answers};
use super::words::{ANSWERS, ENDED, OUTCOMES, any, words};
use crate::record::outcome::CLIENT_GONE;
use crate::row_values::walk;
use kvset_core::units::names::listed;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};

/// Names of what became of a request, alongside [`ENDED`] and [`OUTCOMES`].
const ENDS: [&str; 32] = listed(
    "ok success successful succeeded completed failure error errors err errno exception traceback fault \
        allowed admitted admission accepted rejection shed dropped timeout cancelled canceled aborted mock \
        coalesced deduplicated deduped replayed rail rails triggered",
);
/// Names of who answered.
const SOURCES: [&str; 7] = ["fallback", "provider", "responder", "semantic", "redis", "memoized", "answered"];
/// Names that say so of a request where they are a yes or a no.
const FLAGS: [&str; 21] = listed(
    "limited timed called invoked executed computed intercepted replay probe warmup synthetic canary test testing \
        healthcheck health heartbeat shadow stub bypassed quarantined",
);
/// Names that say so of an answer or a service, where they say nothing by themselves.
const OF_ANSWERS: [&str; 4] = ["flags", "source", "tier", "origin"];
const SERVED: [&str; 3] = ["served", "service", "result"];
/// Names with other meanings: why an answer ended, what is asked of a cache, what an engine says of its pages, and
/// what is no request.
const OTHERS: [&str; 58] = listed(
    "finish stop done end incomplete termination sampling sampled key ttl control max size config enabled \
        enable use no skip bypass allow retention salt read write creation usage prefix kv page pages block \
        blocks radix token tokens tok toks ktok chars n rate ratio pct language lang country currency zip \
        postal order case issue customer account subscription details reasoning",
);
/// Rows of which it is told that some have no answer, at least.
const FEWEST: u64 = 8;
/// Values that a field of few has at most.
const FEW: usize = 6;
/// The longest value that is a word.
const MAX_WORD: usize = 40;

/// What a field has in how many rows, by words; nothing is a value, too.
#[derive(Default)]
struct Values {
    words: BTreeMap<String, Vec<usize>>,
}

/// A field that parts a log.
pub(super) struct Split {
    pub field: UnreadField,
    /// A row that has it.
    pub row: usize,
    /// The rows that have another value than most, in their order.
    pub others: Vec<usize>,
}

const NOTHING: &str = "nothing";
const SOMETHING: &str = "something";

/// Whether a field speaks of an outcome, of who answered, or of a cache.
fn speaks(path: &str) -> bool {
    let names: Vec<String> = path.rsplit('.').take(2).flat_map(words).collect();
    let last: Vec<String> = path.rsplit('.').take(1).flat_map(words).collect();
    let is_flat = path.split('.').all(|name| name != "messages");
    let is_of_answer = any(&last, &OF_ANSWERS) && (any(&names, &ANSWERS) || any(&names, &SERVED));
    let is_of_outcome = [&ENDED[..], &OUTCOMES, &ENDS, &SOURCES].iter().any(|of| any(&last, of));
    let is_of_cache = last.iter().any(|word| word.contains("cache"));
    // HAProxy's says which side ended a request.
    if last == ["termination", "state"] {
        return true;
    }
    (is_of_outcome || is_of_answer || is_of_cache)
        && is_flat
        && !any(&names, &OTHERS)
        && !is_within(path)
        && !is_of_caller(path)
        && !keeps_no_answers(path)
}

/// Whether a yes or a no says by its name whether a request was computed.
fn is_flag(path: &str, value: &Value) -> bool {
    let last: Vec<String> = path.rsplit('.').take(1).flat_map(words).collect();
    let is_truth = value.is_boolean()
        || value
            .as_str()
            .is_some_and(|text| ["true", "false", "yes", "no"].contains(&text.to_ascii_lowercase().as_str()));
    is_truth && any(&last, &FLAGS) && !is_within(path) && !keeps_no_answers(path)
}

/// A value as a word; one that says that there is none is nothing, and those of a request that was answered are one.
fn word(value: &Value) -> String {
    const NONE: [&str; 6] = ["", "-", "none", "null", "nil", "n/a"];
    const GOOD: [&str; 7] = ["ok", "success", "succeeded", "successful", "completed", "complete", "finished"];
    let code = value.as_u64().or_else(|| value.as_str()?.split(' ').next()?.parse().ok());
    match value {
        _ if code.is_some_and(|code| (200..400).contains(&code) || code == CLIENT_GONE) => "`200`".to_owned(),
        Value::Null => NOTHING.to_owned(),
        Value::Array(items) if items.is_empty() => NOTHING.to_owned(),
        Value::Object(members) if members.is_empty() => NOTHING.to_owned(),
        Value::Array(_) | Value::Object(_) => SOMETHING.to_owned(),
        Value::String(text) => {
            let text = text.trim();
            let is_blank = text.len() > 1 && text.bytes().all(|byte| matches!(byte, b'0' | b'-'));
            match text {
                _ if is_blank || NONE.iter().any(|none| text.eq_ignore_ascii_case(none)) => {
                    NOTHING.to_owned()
                }
                _ if GOOD.iter().any(|good| text.eq_ignore_ascii_case(good)) => "`ok`".to_owned(),
                _ if text.len() > MAX_WORD => SOMETHING.to_owned(),
                _ => format!("`{text}`"),
            }
        }
        _ => format!("`{value}`"),
    }
}

/// Whether a word is the code of a country or of a part of one.
fn is_place(word: &str) -> bool {
    let code = word.trim_matches('`');
    code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_uppercase()) && !["OK", "NO"].contains(&code)
}

impl Values {
    /// The values with their rows, the most frequent first; those of many values are one. What a row does not have is
    /// nothing.
    fn classes(mut self, rows: &[usize]) -> Vec<(String, Vec<usize>)> {
        let has: HashSet<_> = self.words.values().flatten().copied().collect();
        let mut nothing = self.words.remove(NOTHING).unwrap_or_default();
        nothing.extend(rows.iter().filter(|row| !has.contains(*row)));
        nothing.sort_unstable();
        let (set, different) = (self.words.values().map(Vec::len).sum::<usize>(), self.words.len());
        let is_of_many = different > FEW || (different > 2 && different * 2 > set);
        let mut classes: Vec<_> = match is_of_many || self.words.contains_key(SOMETHING) {
            true => vec![(SOMETHING.to_owned(), self.words.into_values().flatten().collect())],
            false => self.words.into_iter().collect(),
        };
        classes.extend((!nothing.is_empty()).then(|| (NOTHING.to_owned(), nothing)));
        classes.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.len()));
        classes
    }
}

/// The fields that part these rows.
pub(super) fn splits<'v>(rows: impl Iterator<Item = (usize, &'v Value)>) -> Vec<Split> {
    let (mut fields, mut numbers) = (BTreeMap::<String, Values>::new(), Vec::new());
    for (number, row) in rows {
        numbers.push(number);
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        walk(row, &mut |path, value| {
            let has_members = value.as_object().is_some_and(|members| !members.is_empty());
            let speaks = || speaks(path) || is_flag(path, value);
            if !path.is_empty() && !has_members && !path.contains("[]") && speaks() {
                seen.entry(path.to_owned()).or_insert_with(|| word(value));
            }
        });
        for (path, word) in seen {
            fields.entry(path).or_default().words.entry(word).or_default().push(number);
        }
    }
    fields
        .into_iter()
        .filter_map(|(path, values)| Split::of(path, values.classes(&numbers), numbers.len()))
        .collect()
}

impl Split {
    /// Of a field with these values; nothing where all rows have the same.
    fn of(path: String, mut classes: Vec<(String, Vec<usize>)>, rows: usize) -> Option<Self> {
        let row = *classes.iter().find(|(word, _)| word != NOTHING)?.1.first()?;
        if path.to_lowercase().ends_with("state") || path.to_lowercase().ends_with("code") {
            let mut said = classes.iter().filter(|(word, _)| word != NOTHING);
            if said.all(|(word, _)| is_place(word)) {
                return None;
            }
        }
        let said: Vec<_> =
            classes.iter().take(3).map(|(word, rows)| format!("{word} in {}", rows.len())).collect();
        let mut others: Vec<_> = classes.drain(1..).flat_map(|(_, rows)| rows).collect();
        others.sort_unstable();
        let counts = (others.len() as u64, rows as u64);
        let field =
            UnreadField { said: said.join(", "), ..UnreadField::counted(path, UnreadKind::Outcome, counts) };
        (!others.is_empty()).then_some(Self { field, row, others })
    }

    /// Whether it speaks of a cache.
    pub fn is_of_cache(&self) -> bool {
        self.field.path.to_lowercase().contains("cache")
    }
}

/// Rows that state no answer, where more than the half of them do; the field is one that the others state it in.
pub(super) fn unanswered<'v>(rows: impl Iterator<Item = &'v Value>) -> Option<UnreadField> {
    let (mut stating, mut answered, mut count) = (BTreeMap::<String, u64>::new(), 0u64, 0u64);
    for row in rows {
        count += 1;
        let mut is_answered = false;
        walk(row, &mut |path, value| {
            if !path.is_empty() && is_answer(path) && states_something(value) {
                is_answered = true;
                if stating.len() < FEW || stating.contains_key(path) {
                    *stating.entry(path.to_owned()).or_default() += 1;
                }
            }
        });
        answered += u64::from(is_answered);
    }
    let without = count - answered;
    let path = stating.into_iter().max_by_key(|(path, rows)| (*rows, std::cmp::Reverse(path.len())))?.0;
    let is_told = count >= FEWEST && without > 0 && answered * 5 >= count * 2;
    is_told.then(|| UnreadField::counted(path, UnreadKind::NoAnswer, (without, count)))
}

/// Rows whose usage is empty, where others count something in it: a cache of answers clears it.
pub(super) fn uncounted(rows: &mut dyn Iterator<Item = &Value>) -> Vec<UnreadField> {
    let (mut usages, mut of) = (BTreeMap::<String, (u64, u64)>::new(), 0);
    for row in rows {
        of += 1;
        walk(row, &mut |path, value| {
            let Some(members) = value.as_object().filter(|_| path.rsplit('.').next() == Some("usage")) else {
                return;
            };
            let (empty, full) = usages.entry(path.to_owned()).or_default();
            *(if members.is_empty() { empty } else { full }) += 1;
        });
    }
    let told = usages.into_iter().filter(|(_, (empty, full))| *empty > 0 && full * 5 >= of * 2);
    told.map(|(path, (empty, _))| UnreadField::counted(path, UnreadKind::NoAnswer, (empty, of))).collect()
}

/// Whether a path is one of an answer, or counts its tokens or when the first of them came. Streams have no usage.
fn is_answer(path: &str) -> bool {
    const OTHERS: [&str; 20] = [
        "max", "min", "limit", "format", "schema", "id", "type", "model", "status", "code", "header",
        "headers", "cost", "price", "source", "flags", "prompt", "input", "time", "mock",
    ];
    let last: Vec<String> = path.rsplit('.').take(1).flat_map(words).collect();
    (any(&last, &ANSWERS) || any(&last, &["ttft", "chunks"]))
        && !any(&last, &OTHERS)
        && !any(&words(path), &["messages", "tools", "input", "params", "usage"])
}

fn states_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => false,
        Value::Number(number) => number.as_f64().is_some_and(|number| number > 0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The fields that part a log whose rows have the two values by turns.
    fn named(one: &Value, other: &Value) -> Vec<String> {
        let rows: Vec<_> = [one, other].into_iter().cycle().take(10).enumerate().collect();
        let parted = splits(rows.into_iter());
        let said = |field: UnreadField| format!("{} {}/{}", field.path, field.rows, field.of);
        parted.into_iter().map(|split| said(split.field)).collect()
    }

    #[test]
    fn fields_of_an_outcome_part_the_log_whatever_their_values() {
        for (name, one, other) in [
            ("exception", json!("litellm.ContextWindowExceededError: too long"), json!(null)),
            ("error_message", json!("Connection refused"), json!("")),
            ("err", json!(111), json!(0)),
            ("ok", json!(false), json!(true)),
            ("completed", json!(false), json!(true)),
            ("code", json!("insufficient_quota"), json!(null)),
            ("result", json!("TooManyRequests"), json!("Success")),
            ("outcome", json!("shed"), json!("served")),
            ("admission", json!("rejected"), json!("admitted")),
            ("final_state", json!("CANCELLED_IN_QUEUE"), json!("FINISHED")),
            ("response_flags", json!("UO"), json!("-")),
            ("response_source", json!("memory"), json!("upstream")),
            ("provider", json!("redis"), json!("vllm")),
            ("cache_reference_id", json!("ab12"), json!("00000000-0000-0000-0000-000000000000")),
            ("gptcache", json!(true), json!(false)),
            ("semantic_match_score", json!(0.97), json!(null)),
            ("coalesced_into", json!("a1"), json!(null)),
            ("mock_response", json!("hi"), json!(null)),
            ("fallback", json!(true), json!(false)),
            ("service_tier", json!("batch"), json!("default")),
            ("rate_limited", json!(true), json!(false)),
            ("llm_called", json!("no"), json!("yes")),
            ("is_test", json!(true), json!(false)),
            ("answered_by", json!("human"), json!("model")),
            ("triggered_input_rail", json!("self check"), json!(null)),
            ("termination_state", json!("SC--"), json!("----")),
        ] {
            assert_eq!(named(&json!({name: one}), &json!({name: other})), [format!("{name} 5/10")]);
        }
        let decision = json!({"decision": {"allowed": true}});
        assert_eq!(named(&json!({"decision": {"allowed": false}}), &decision), ["decision.allowed 5/10"]);
        assert_eq!(named(&json!({"coalesced_into": "a1"}), &json!({})), ["coalesced_into 5/10"]);
    }

    #[test]
    fn fields_of_anything_else_part_no_log() {
        for (one, other) in [
            (json!({"finish_reason": "stop"}), json!({"finish_reason": "length"})),
            (json!({"stream": true}), json!({"stream": false})),
            (json!({"tool_status": "ok"}), json!({"tool_status": "failed"})),
            (json!({"state": "CA"}), json!({"state": "NY"})),
            (json!({"user_tier": "free"}), json!({"user_tier": "pro"})),
            (json!({"prefix_cache_hit": true}), json!({"prefix_cache_hit": false})),
            (json!({"user_profile_cache": "hit"}), json!({"user_profile_cache": "miss"})),
            (json!({"language_code": "de"}), json!({"language_code": "fr"})),
            (json!({"ab_test": "a"}), json!({"ab_test": "b"})),
            (json!({"test_count": 1}), json!({"test_count": 2})),
            (json!({"source": "web"}), json!({"source": "app"})),
            (json!({"error": null}), json!({"error": ""})),
            (json!({"status": "ok"}), json!({"status": "success"})),
            (json!({"status": 200}), json!({"status": 499})),
        ] {
            assert_eq!(named(&one, &other), [""; 0], "{one}");
        }
    }

    /// DSPy clears the usage of an answer from its cache.
    #[test]
    fn rows_with_an_empty_usage_are_reported_where_others_count() {
        let told = |one: Value, other: Value| {
            let rows = [one, other];
            uncounted(&mut rows.iter().cycle().take(10)).first().map(|field| (field.rows, field.of))
        };
        let full = json!({"usage": {"prompt_tokens": 7}});
        assert_eq!(told(full.clone(), json!({"usage": {}})), Some((5, 10)));
        assert_eq!(told(full.clone(), json!({"usage": null})), None);
        assert_eq!(told(json!({"usage": {}}), json!({"usage": {}})), None);
    }

    #[test]
    fn rows_without_an_answer_are_told_where_others_have_one() {
        let unanswered = |one: &Value, other: &Value| {
            let rows: Vec<_> = [one, other].into_iter().cycle().take(10).collect();
            unanswered(rows.into_iter()).map(|field| (field.rows, field.of))
        };
        let with = json!({"response": {"choices": [{"text": "x"}]}, "usage": {"prompt_tokens": 7}});
        assert_eq!(unanswered(&with, &json!({"response": null, "usage": null})), Some((5, 10)));
        let counted = json!({"output_tokens": 9, "ttft_ms": 4});
        assert_eq!(unanswered(&counted, &json!({"output_tokens": 0, "ttft_ms": null})), Some((5, 10)));
        assert_eq!(unanswered(&with, &with), None);
        assert_eq!(
            unanswered(&json!({"prompt": "x"}), &json!({"prompt": "y", "max_output_tokens": 9})),
            None
        );
    }
}
