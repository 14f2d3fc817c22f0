//! What rows say by several fields together, of which none says so by itself: parameters that make an engine look
//! nothing up, and masks of the answer in a list of ids.

use super::UnreadField;
use super::rules::UnreadKind;
use super::words::{any, any_of_several, words};
use crate::row_values::walk;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Two parameters that together score the tokens of a prompt, where neither does so by itself: the first and what stands
/// beside it.
const PAIRS: [(&str, &str); 1] = [("echo", "logprobs")];

/// Rows with a pair of parameters by which their engine computes the whole prompt.
pub(super) fn look_nothing_up(rows: &mut dyn Iterator<Item = &Value>) -> Vec<UnreadField> {
    let (mut told, mut of) = (BTreeMap::<String, u64>::new(), 0);
    for row in rows {
        of += 1;
        let mut asked = BTreeSet::new();
        walk(row, &mut |path, value| {
            if !matches!(value, Value::Null | Value::Bool(false)) {
                asked.insert(path.to_owned());
            }
        });
        let paired = asked.iter().filter(|path| {
            let (around, last) = path.rfind('.').map_or(("", path.as_str()), |at| path.split_at(at + 1));
            PAIRS.iter().any(|(one, other)| *one == last && asked.contains(&format!("{around}{other}")))
        });
        paired.for_each(|path| *told.entry(path.clone()).or_default() += 1);
    }
    let field = |(path, rows)| UnreadField::counted(path, UnreadKind::NoLookup, (rows, of));
    told.into_iter().map(field).collect()
}

/// Masks that say which ids of a list are the answer's, where no list by itself is the answer: the ids are of both.
pub(super) fn answers_within(rows: &mut dyn Iterator<Item = &Value>) -> Vec<UnreadField> {
    let (mut told, mut of) = (BTreeMap::<String, u64>::new(), 0);
    for row in rows {
        of += 1;
        let (mut masks, mut lists) = (Vec::new(), Vec::new());
        walk(row, &mut |path, value| {
            let Some(items) = value.as_array().filter(|items| items.len() > 1) else { return };
            let names = words(path.rsplit('.').next().unwrap_or_default());
            let is_mask = any(&names, &["mask"])
                && any(
                    &names,
                    &["loss", "response", "action", "completion", "assistant", "answer", "generation"],
                );
            match is_mask {
                true => masks.push((path.to_owned(), items.clone())),
                false if any_of_several(&names, &["token", "id", "sequence", "response", "prompt"]) => {
                    lists.push(items.len());
                }
                false => {}
            }
        });
        for (path, mask) in masks {
            let first = mask.first();
            let is_mixed = mask.iter().any(|item| Some(item) != first);
            let has_own = lists.iter().filter(|list| **list == mask.len()).count() > usize::from(is_mixed);
            let is_of_both = lists.iter().any(|list| *list > mask.len() || (is_mixed && *list == mask.len()));
            if is_of_both && !has_own {
                *told.entry(path).or_default() += 1;
            }
        }
    }
    let field = |(path, rows)| UnreadField::counted(path, UnreadKind::WithAnswer, (rows, of));
    told.into_iter().map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn two_parameters_of_one_object_are_a_pair() {
        let told = |row: Value| look_nothing_up(&mut std::iter::once(&row)).pop().map(|field| field.path);
        assert_eq!(told(json!({"echo": true, "logprobs": 0})).as_deref(), Some("echo"));
        assert_eq!(told(json!({"body": {"echo": true, "logprobs": 1}})).as_deref(), Some("body.echo"));
        assert_eq!(told(json!({"echo": true, "body": {"logprobs": 1}})), None);
        assert_eq!(told(json!({"echo": false, "logprobs": 1})), None);
    }

    #[test]
    fn a_mask_marks_answer_tokens_within_a_list_of_prompt_and_answer() {
        let told = |row: Value| !answers_within(&mut std::iter::once(&row)).is_empty();
        assert!(told(json!({"token_ids": [1, 2, 3, 4], "loss_mask": [0, 0, 1, 1]})));
        assert!(told(json!({"tokens": [1, 2, 3, 4], "action_mask": [1, 1]})));
        assert!(!told(json!({"prompt_ids": [1, 2, 3], "response_ids": [4, 5], "response_mask": [1, 1]})));
        assert!(!told(json!({"token_ids": [1, 2, 3], "attention_mask": [1, 1, 1]})));
    }
}
