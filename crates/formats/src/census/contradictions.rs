//! Rows that state one count twice, and differently: what a cache had of a prompt, or how long the prompt is.
//!
//! One of the two is read, and nothing says that it is the right one. A place of several that tokens were found in (the
//! device, the host, another engine) has a part of them, so it contradicts the whole only where it is more.

use super::UnreadField;
use super::rules::UnreadKind;
use super::words::{FOUND, NOT_FOUND, TOKENS, any, words};
use crate::row_values::walk;
use kvset_core::units::names::listed;
use serde_json::Value;
use std::collections::BTreeMap;

/// Fewest tokens by which two counts differ that are not of one page more or less.
const FEWEST_TOKENS: f64 = 16.0;
/// Counts of a row that are compared.
const MAX_COUNTS: usize = 16;

/// What a number counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    Found,
    /// What one of several places had of it.
    FoundInOne,
    Prompt,
}

/// Two fields, in how many rows they differ, and what the first of these has.
type Pairs = BTreeMap<(String, String), (u64, (f64, f64))>;

/// The fields that contradict others in more than a rare row.
pub(super) fn contradictions(rows: &mut dyn Iterator<Item = &Value>) -> Vec<UnreadField> {
    const ONE_IN: u64 = 20;
    let (mut pairs, mut of) = (Pairs::new(), 0);
    for row in rows {
        of += 1;
        compare(&counts_of(row), &mut pairs);
    }
    let much = pairs.into_iter().filter(|(_, (rows, _))| rows * ONE_IN >= of);
    let told = much.map(|((one, other), (rows, (first, second)))| UnreadField {
        said: format!("{first} and {second} tokens, as `{other}`"),
        ..UnreadField::counted(one, UnreadKind::Contradiction, (rows, of))
    });
    told.collect()
}

fn compare(counts: &[(String, Counted, f64)], pairs: &mut Pairs) {
    for (at, (path, counted, count)) in counts.iter().enumerate() {
        for (other_path, other_counted, other) in &counts[at + 1..] {
            if differ((*counted, *count), (*other_counted, *other)) {
                let pair = (path.clone(), other_path.clone());
                pairs.entry(pair).or_insert((0, (*count, *other))).0 += 1;
            }
        }
    }
}

/// Whether two counts contradict each other; those of two things do not.
fn differ((counted, count): (Counted, f64), (other_counted, other): (Counted, f64)) -> bool {
    use Counted::{Found, FoundInOne, Prompt};
    let beyond = match (counted, other_counted) {
        (Found, Found) | (Prompt, Prompt) => (count - other).abs(),
        (FoundInOne, Found) => count - other,
        (Found, FoundInOne) => other - count,
        _ => return false,
    };
    beyond >= FEWEST_TOKENS && beyond * 10.0 > count.max(other)
}

/// The counts of a row, where each stands once: chunks of a stream and items of a list are of several moments.
fn counts_of(row: &Value) -> Vec<(String, Counted, f64)> {
    let mut counts: Vec<(String, Counted, f64)> = Vec::new();
    walk(row, &mut |path, value| {
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
        let Some((counted, number)) = counted(path).zip(number) else { return };
        if counts.len() < MAX_COUNTS && counts.iter().all(|(known, ..)| known != path) {
            counts.push((path.to_owned(), counted, number as f64));
        }
    });
    counts
}

/// What a number at a path counts, by its names; nothing where it counts more than a request, or no tokens.
fn counted(path: &str) -> Option<Counted> {
    const IN_ONE: [&str; 11] =
        listed("external local device host remote disk cpu gpu storage secondary tier");
    const OF_MORE: [&str; 12] =
        listed("session conversation cumulative lifetime average avg mean max min limit budget last");
    const OF_OTHERS: [&str; 8] =
        ["audio", "image", "text", "video", "output", "completion", "blocks", "pages"];
    const PARAMETERS: [&str; 2] = ["params", "parameters"];
    let (around, last) = path.rsplit_once('.').unwrap_or(("", path));
    let (name, all) = (words(last), words(path));
    let around = words(around);
    // What engines pass on of a transfer is in parameters, too.
    let is_asked = any(&around, &["messages", "request"])
        || (any(&around, &PARAMETERS) && any(&around, &["sampling", "generation"]));
    if path.contains("[]") || any(&all, &OF_MORE) || is_asked {
        return None;
    }
    let is_found =
        any(&name, &FOUND) || any(&name, &["read"]) || (any(&name, &["computed"]) && any(&name, &IN_ONE));
    match any(&name, &TOKENS) {
        true if is_found && !any(&name, &OF_OTHERS) && !any(&name, &NOT_FOUND) => {
            Some(if any(&all, &IN_ONE) { Counted::FoundInOne } else { Counted::Found })
        }
        true if name == ["prompt", "tokens"] && any(&around, &["usage"]) => Some(Counted::Prompt),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(row: &Value) -> Vec<String> {
        let fields = contradictions(&mut std::iter::repeat_n(row, 8));
        fields.into_iter().map(|field| format!("{} {}", field.path, field.said)).collect()
    }

    #[test]
    fn two_counts_of_one_thing_that_differ_are_told() {
        let usage =
            |cached: u64| json!({"prompt_tokens": 1296, "prompt_tokens_details": {"cached_tokens": cached}});
        let row = json!({"usage": usage(0), "engine": {"num_cached_tokens": 960}});
        let said =
            "engine.num_cached_tokens 960 and 0 tokens, as `usage.prompt_tokens_details.cached_tokens`";
        assert_eq!(told(&row), [said]);
        for row in [
            json!({"usage": usage(960), "response": {"usage": usage(0)}}),
            json!({"usage": usage(0), "kv_transfer_params": {"num_external_computed_tokens": 960}}),
            json!({"usage": {"cached_tokens": 960, "cache_read_input_tokens": 480}}),
            json!({"cached_tokens": "960", "hit_tokens": 96}),
            json!({"usage": {"prompt_tokens": 90}, "response": {"usage": {"prompt_tokens": 900}}}),
        ] {
            assert_eq!(told(&row).len(), 1, "{row}");
        }
    }

    #[test]
    fn counts_that_agree_add_up_or_are_of_something_else_are_not() {
        for row in [
            json!({"cached_tokens": 960, "usage": {"cache_read_input_tokens": 960}}),
            json!({"cached_tokens": 960, "prefix_hit_tokens": 950}),
            json!({"cached_tokens": 960, "local_cached_tokens": 160, "num_external_computed_tokens": 800}),
            json!({"cached_tokens": 0, "cache_creation_input_tokens": 960, "cache_miss_tokens": 960}),
            json!({"cached_tokens": 0, "session_cached_tokens": 9600, "max_cached_tokens": 4096}),
            json!({"chunks": [{"usage": {"cached_tokens": 0}}, {"usage": {"cached_tokens": 960}}]}),
            json!({"usage": {"prompt_tokens": 90}, "prompt_tokens": 900}),
            json!({"cached_tokens": 0, "sampling_params": {"hit_tokens": 960}}),
        ] {
            assert_eq!(told(&row), [""; 0], "{row}");
        }
    }
}
