//! What a row of token ids says of its prompt that the ids do not: the table that chats are refused by, too.

use crate::codec::{DecodeError, ErrorCode};
use kvset_core::request::unshown::{Unshown, says_something, unshown};

/// How many of the ids at the end of a list are the answer, where the list is of both.
const ANSWER_LENGTH: &str = "response_length";

/// The fields of a row by which its ids are not the prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnshownFields {
    field: Option<(&'static str, Unshown)>,
    /// Tokens that a cut leaves, where it is a count.
    kept: Option<u64>,
    /// Tokens of the answer, where the ids are of a list that does not say that it is a prompt's.
    answer: bool,
    is_of_both: bool,
}

impl UnshownFields {
    /// Whether a field is one of these.
    pub fn takes(key: &str) -> bool {
        key == ANSWER_LENGTH || unshown(key).is_some()
    }

    /// Takes the JSON of a field that is one of these.
    pub fn read(&mut self, key: &str, json: &str) {
        if key == ANSWER_LENGTH {
            self.answer = json.parse::<u64>().is_ok_and(|tokens| tokens > 0);
        } else if let Some(found) = unshown(key).filter(|_| says_something(json)) {
            self.field.get_or_insert(found);
            self.kept = if found.1 == Unshown::Cut { json.parse().ok() } else { self.kept };
        }
    }

    /// Takes the name of the list that the ids stand in.
    pub fn note_list(&mut self, name: &str) {
        self.is_of_both = name == "tokens";
    }

    /// Why prompts of at most so many ids are not those of the engine.
    ///
    /// # Errors
    /// They are not.
    pub fn check(&self, longest: u64) -> Result<(), DecodeError> {
        let refuse = |detail| Err(DecodeError::new(ErrorCode::UnrenderedField, detail));
        match self.field {
            Some((_, Unshown::Cut)) if self.kept.is_some_and(|kept| kept >= longest) => {}
            Some((name, kind)) => {
                let (what, cure) = match kind {
                    Unshown::Media => (
                        "is part of the prompt, and its token ids do not show it",
                        "log the page ids that the engine hashed with it, or leave such requests out",
                    ),
                    Unshown::Cut => ("cuts the prompt", "log the token ids that are left of it"),
                    Unshown::Earlier => (
                        "puts what the engine holds from before in front of the prompt",
                        "log the token ids of the whole prompt",
                    ),
                };
                return refuse(format!("`{name}` {what}: {cure}"));
            }
            None => {}
        }
        match self.answer && self.is_of_both {
            true => refuse(format!(
                "`tokens` are of the prompt and of its answer, which `{ANSWER_LENGTH}` counts: log the prompt's as \
                 `prompt_token_ids`, and the answer's as `output_token_ids`"
            )),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(list: &str, fields: &[(&str, &str)]) -> bool {
        let mut found = UnshownFields::default();
        found.note_list(list);
        fields.iter().for_each(|(key, json)| found.read(key, json));
        found.check(96).is_err()
    }

    #[test]
    fn ids_are_no_prompt_where_fields_say_more() {
        for (key, json) in [
            ("image_data", "[\"a.png\"]"),
            ("mm_hashes", "{\"image\": [\"a\"]}"),
            ("prompt_embeds", "\"gAS\""),
            ("session_params", "{\"id\": 1}"),
            ("truncate_prompt_tokens", "64"),
            ("truncate_prompt_tokens", "-1"),
        ] {
            assert!(refused("token_ids", &[(key, json)]), "{key}");
        }
        assert!(refused("tokens", &[("response_length", "32")]));
    }

    #[test]
    fn fields_that_say_nothing_leave_ids_a_prompt() {
        for (key, json) in [
            ("image_data", "[]"),
            ("mm_hashes", "{ }"),
            ("session_params", "null"),
            ("truncate_prompt_tokens", "96"),
            ("response_length", "32"),
            ("other", "[1]"),
        ] {
            assert!(!refused("prompt_token_ids", &[(key, json)]), "{key}");
        }
        assert!(!refused("tokens", &[("response_length", "0")]));
    }
}
