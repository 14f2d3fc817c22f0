//! The words of names and of short values.

use kvset_core::units::names::listed;
use serde_json::Value;

/// What tokens are called.
pub(super) const TOKENS: [&str; 3] = ["token", "tokens", "toks"];
/// What is said of those that a cache had.
pub(super) const FOUND: [&str; 5] = ["cached", "hit", "hits", "reused", "matched"];
/// What is said of others: those that were not found, were stored, or cost something, and shares of them.
pub(super) const NOT_FOUND: [&str; 12] = [
    "uncached", "miss", "missed", "write", "written", "creation", "create", "created", "cost", "price",
    "rate", "ratio",
];
/// Names of what was answered.
pub(super) const ANSWERS: [&str; 11] = listed(
    "response responses reply answer completion completions output outputs choices generated generations",
);
/// Names of who judged an answer, and of what came of that.
pub(super) const JUDGED: [&str; 13] = listed(
    "eval evals evaluation evaluations evaluator judge judgement judgment grader grading critique critic \
        feedback",
);
/// Names of what became of a request: as a flag, and with a word for it.
pub(super) const ENDED: [&str; 7] =
    ["blocked", "refused", "rejected", "failed", "mocked", "throttled", "skipped"];
pub(super) const OUTCOMES: [&str; 9] =
    ["code", "status", "state", "outcome", "result", "disposition", "decision", "verdict", "reason"];

/// The words of a name: `dpRank`, `dp-rank` and `dp_rank` have two.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for letter in name.chars() {
        let is_new = !before.is_alphanumeric() || (before.is_lowercase() && letter.is_uppercase());
        match letter.is_alphanumeric() {
            true if is_new => words.push(letter.to_lowercase().collect()),
            true => words.last_mut().into_iter().for_each(|word| word.extend(letter.to_lowercase())),
            false => {}
        }
        before = letter;
    }
    words
}

pub(super) fn any(words: &[String], of: &[&str]) -> bool {
    words.iter().any(|word| of.contains(&word.as_str()))
}

/// The same where these may be named in the plural.
pub(super) fn any_of_several(words: &[String], of: &[&str]) -> bool {
    words.iter().any(|word| {
        of.contains(&word.as_str()) || word.strip_suffix('s').is_some_and(|one| of.contains(&one))
    })
}

/// The words of a short value: a label, not a text.
pub(super) fn words_of_value(value: &Value) -> Vec<String> {
    const MAX_LABEL: usize = 48;
    value.as_str().filter(|text| text.len() <= MAX_LABEL).map(words).unwrap_or_default()
}

pub(super) fn words_of_last(own: &[&str]) -> Vec<String> {
    own.first().map(|name| words(name)).unwrap_or_default()
}

/// Whether a flag is set, as a truth or in words.
pub(super) fn is_set(value: &Value) -> bool {
    match value {
        Value::Bool(flag) => *flag,
        Value::String(text) => ["true", "yes"].iter().any(|word| text.eq_ignore_ascii_case(word)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        assert_eq!(words("dpRank"), ["dp", "rank"]);
        assert_eq!(words("k8s.pod-name[]"), ["k8s", "pod", "name"]);
    }
}
