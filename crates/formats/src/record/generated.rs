//! What an engine generated for a prompt, as far as a log has it: token ids, or text.
//!
//! Engines keep what they computed, and the next turn of a chat repeats the answer before it. Ids say which pages
//! these are. Text does where the model's tokenizer makes as many tokens of it as the usage states: a call, reasoning
//! that a response leaves out, or an answer that was generated in other tokens than its text encodes to are
//! recognised by that.

use super::numbers::TokenId;
#[cfg(feature = "tokenize")]
use crate::codec::DecodeError;
use kvset_core::units::names::listed;
#[cfg(feature = "tokenize")]
use kvset_tokenize::RequestTokenizer;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// What an engine generated for the only prompt of a request. `Debug` shows no text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Generated {
    /// The log has nothing, not all, or something else.
    #[default]
    Unknown,
    /// All token ids, the last of which the engine computed nothing of.
    Ids(Vec<u32>),
    /// All text.
    Text(AnswerText),
}

impl Generated {
    /// Its token ids, where the log lists them.
    pub fn ids(&self) -> &[u32] {
        match self {
            Self::Ids(ids) => ids,
            Self::Unknown | Self::Text(_) => &[],
        }
    }

    /// A digest of its begin, by which answers are told apart: what an answer goes on with may not be there yet in a
    /// log that writes it as it grows.
    pub(crate) fn digest(&self) -> Option<u64> {
        const IDS: usize = 16;
        const BYTES: usize = 64;
        match self {
            Self::Ids(ids) if ids.len() > 1 => {
                Some(xxh3_64_with_seed(bytemuck::cast_slice(&ids[..ids.len().min(IDS)]), 1))
            }
            Self::Text(text) if !text.text.is_empty() => {
                let bytes = text.text.as_bytes();
                Some(xxh3_64(&bytes[..bytes.len().min(BYTES)]))
            }
            Self::Unknown | Self::Ids(_) | Self::Text(_) => None,
        }
    }

    /// Its token ids behind the prompt that `tokenizer` read last; none where they are not known.
    ///
    /// # Errors
    /// The tokenizer fails on its text.
    #[cfg(feature = "tokenize")]
    pub fn ids_behind(&self, tokenizer: &mut RequestTokenizer) -> Result<Vec<u32>, DecodeError> {
        match self {
            Self::Unknown => Ok(Vec::new()),
            Self::Ids(ids) => Ok(ids.clone()),
            Self::Text(text) => Ok(text.ids(tokenizer.tokenize_answer(&text.text)?)),
        }
    }
}

/// The text of an answer.
#[derive(Clone, PartialEq, Eq)]
pub struct AnswerText {
    text: String,
    /// Tokens generated, as the usage states them.
    tokens: Option<u64>,
    /// Whether the model ended it, with a token that has no text.
    ended: bool,
}

impl fmt::Debug for AnswerText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerText").field("bytes", &self.text.len()).field("tokens", &self.tokens).finish()
    }
}

impl AnswerText {
    /// The ids that were generated, if the text's `encoded` ones are those.
    #[cfg(any(test, feature = "tokenize"))]
    fn ids(&self, mut encoded: Vec<u32>) -> Vec<u32> {
        /// Stands for the token that ends an answer: nothing is computed of it, whatever its id.
        const END: u32 = 0;
        let length = encoded.len() as u64;
        let ended = match self.tokens {
            Some(tokens) if tokens == length => false,
            Some(tokens) if tokens == length + 1 => true,
            Some(_) => return Vec::new(),
            None => self.ended,
        };
        encoded.extend(ended.then_some(END));
        encoded
    }
}

/// What was read so far of what was generated.
#[derive(Debug, Default)]
pub(crate) struct GeneratedReading {
    ids: AnswerTokens,
    text: Spoken,
    ended: bool,
}

/// Token ids of an answer that a log lists.
#[derive(Debug, Default)]
enum AnswerTokens {
    /// None.
    #[default]
    Nowhere,
    /// These.
    Ids(Vec<u32>),
    /// So many of something else than token ids.
    Others(u64),
    /// Those of several answers, of which none is distinguished.
    Several,
}

/// Text of an answer.
#[derive(Default)]
enum Spoken {
    /// None.
    #[default]
    Nothing,
    /// This.
    Text(String),
    /// Something of which text does not show all tokens: a call, reasoning, several answers.
    Else,
}

impl fmt::Debug for Spoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Text(_) => "Text",
            Self::Else => "Else",
        })
    }
}

impl GeneratedReading {
    /// Takes the value of a field that lists token ids.
    pub fn list(&mut self, ids: &str) {
        self.ids.add(tokens_in(ids), false);
    }

    /// Takes the choices of a response, or of a chunk of one. vLLM lists in each the ids that it adds.
    pub fn choices(&mut self, choices: &RawValue) {
        let Ok(choices) = serde_json::from_str::<Vec<&RawValue>>(choices.get()) else { return };
        let choices: Vec<_> = choices.into_iter().map(object).collect();
        match choices.as_slice() {
            [choice] if choice.get("index").is_none_or(|index| index.get() == "0") => {
                let said = |name| choice.get(name).filter(|value| value.get() != "null");
                said("token_ids").into_iter().for_each(|ids| self.ids.add(tokens_in(ids.get()), true));
                said("text").into_iter().for_each(|text| self.text.add(content(text)));
                let messages = said("message").into_iter().chain(said("delta"));
                messages.for_each(|message| self.text.add(message_text(message)));
                said("finish_reason").into_iter().for_each(|reason| self.end(reason));
            }
            [] => {}
            _ => (self.ids, self.text) = (AnswerTokens::Several, Spoken::Else),
        }
    }

    /// Takes the content of a message.
    pub fn content(&mut self, value: &RawValue) {
        self.text.add(content(value));
    }

    /// Takes the delta of a chunk of Anthropic's.
    pub fn delta(&mut self, delta: &RawValue) {
        match object(delta).get("stop_reason") {
            Some(reason) => self.end(reason),
            None => self.text.add(block(delta)),
        }
    }

    /// Takes the output items of OpenAI's Responses API: all of them, whatever parts were streamed before.
    pub fn output(&mut self, items: &RawValue) {
        let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(items.get()) else { return };
        if !items.is_empty() {
            self.text = Spoken::Nothing;
        }
        for item in items {
            let members = object(item);
            let is_message = members.get("type").is_some_and(|kind| kind.get() == "\"message\"");
            match members.get("content").filter(|_| is_message) {
                Some(value) => self.text.add(content(value)),
                None => self.text.add(Spoken::Else),
            }
        }
    }

    /// Takes the reason that generation stopped for.
    pub fn end(&mut self, reason: &RawValue) {
        self.ended = matches!(reason.get(), "\"stop\"" | "\"end_turn\"");
    }

    /// The same, and of another one what this one does not say.
    pub fn or(self, other: Self) -> Self {
        let ids = match self.ids {
            AnswerTokens::Nowhere => other.ids,
            ids => ids,
        };
        match self.text {
            Spoken::Nothing => Self { ids, ..other },
            text => Self { ids, text, ended: self.ended },
        }
    }

    /// How many tokens are listed.
    pub fn listed(&self) -> Option<u64> {
        match &self.ids {
            AnswerTokens::Ids(ids) => Some(ids.len() as u64),
            AnswerTokens::Others(items) => Some(*items),
            AnswerTokens::Nowhere | AnswerTokens::Several => None,
        }
    }

    /// What was generated, where these are all of the `tokens` that the usage states. The ids of a stream's last
    /// chunk are not.
    pub fn generated(&self, tokens: Option<u64>) -> Generated {
        match (&self.ids, &self.text) {
            (AnswerTokens::Ids(ids), _) if tokens.is_none_or(|tokens| tokens == ids.len() as u64) => {
                Generated::Ids(ids.clone())
            }
            (AnswerTokens::Several, _) => Generated::Unknown,
            (_, Spoken::Text(text)) if !text.is_empty() => {
                Generated::Text(AnswerText { text: text.clone(), tokens, ended: self.ended })
            }
            _ => Generated::Unknown,
        }
    }
}

impl AnswerTokens {
    /// Takes a further list: of a chunk, which goes on, or of the whole.
    fn add(&mut self, list: Self, goes_on: bool) {
        *self = match (std::mem::take(self), list) {
            (known, Self::Nowhere) => known,
            (Self::Ids(mut ids), Self::Ids(more)) if goes_on => {
                ids.extend(more);
                Self::Ids(ids)
            }
            (Self::Several, _) => Self::Several,
            (_, list) => list,
        };
    }
}

impl Spoken {
    /// Takes what follows.
    fn add(&mut self, more: Self) {
        match (&mut *self, more) {
            (_, Self::Nothing) | (Self::Else, _) => {}
            (Self::Text(text), Self::Text(more)) => text.push_str(&more),
            (_, more) => *self = more,
        }
    }
}

/// A list of token ids, as such or in a text; nothing of any other value.
pub(crate) struct List<'a>(pub &'a mut GeneratedReading);

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let value: &RawValue = Deserialize::deserialize(deserializer)?;
        self.0.list(quoted(value).as_deref().unwrap_or(value.get()));
        Ok(())
    }
}

fn tokens_in(list: &str) -> AnswerTokens {
    if !list.trim_start().starts_with('[') {
        return AnswerTokens::Nowhere;
    }
    if let Ok(ids) = serde_json::from_str::<Vec<TokenId>>(list) {
        return AnswerTokens::Ids(ids.into_iter().map(|TokenId(id)| id).collect());
    }
    let items = serde_json::from_str::<Vec<IgnoredAny>>(list);
    items.map_or(AnswerTokens::Nowhere, |items| AnswerTokens::Others(items.len() as u64))
}

/// The text of a message, or of a part of one that was streamed.
fn message_text(message: &RawValue) -> Spoken {
    const UNSHOWN: [&str; 7] = listed(
        "reasoning_content reasoning reasoning_details thinking_blocks tool_calls function_call audio",
    );
    let members = object(message);
    if UNSHOWN.iter().filter_map(|name| members.get(*name)).any(|value| !is_empty(value)) {
        return Spoken::Else;
    }
    members.get("content").map_or(Spoken::Nothing, |value| content(value))
}

/// The text of a message's content: a text, or blocks of it.
fn content(value: &RawValue) -> Spoken {
    if let Some(text) = quoted(value) {
        return Spoken::Text(text);
    }
    let mut text = Spoken::Nothing;
    let blocks = serde_json::from_str::<Vec<&RawValue>>(value.get()).unwrap_or_default();
    blocks.into_iter().for_each(|part| text.add(block(part)));
    text
}

/// The text of a block, or of a part of one that was streamed.
fn block(block: &RawValue) -> Spoken {
    let members = object(block);
    let kind = members.get("type").and_then(|kind| quoted(kind)).unwrap_or_default();
    match kind.as_str() {
        "text" | "output_text" | "text_delta" => {
            members.get("text").and_then(|text| quoted(text)).map_or(Spoken::Else, Spoken::Text)
        }
        _ => Spoken::Else,
    }
}

/// The members of an object; none of any other value.
fn object(value: &RawValue) -> BTreeMap<String, &RawValue> {
    serde_json::from_str(value.get()).unwrap_or_default()
}

fn quoted(value: &RawValue) -> Option<String> {
    value.get().starts_with('"').then(|| serde_json::from_str(value.get()).ok()).flatten()
}

fn is_empty(value: &RawValue) -> bool {
    matches!(value.get(), "null" | "\"\"" | "[]" | "{}")
}

#[cfg(test)]
mod tests {
    use super::super::answer::LoggedAnswer;
    use super::*;

    fn text(response: &str) -> Option<String> {
        match LoggedAnswer::of_response(response).expect("an answer").generated(1) {
            Generated::Text(text) => Some(text.text),
            Generated::Unknown | Generated::Ids(_) => None,
        }
    }

    #[test]
    fn text_of_an_answer_is_read_as_every_api_has_it() {
        for response in [
            r#"{"choices": [{"index": 0, "message": {"role": "assistant", "content": "A b"}, "finish_reason": "stop"}]}"#,
            r#"{"choices": [{"message": {"content": [{"type": "text", "text": "A "}, {"type": "text", "text": "b"}]}}]}"#,
            r#"{"choices": [{"message": {"content": "A b", "tool_calls": [], "reasoning_content": null}}]}"#,
            r#"{"choices": [{"index": 0, "text": "A b"}]}"#,
            r#"{"type": "message", "content": [{"type": "text", "text": "A b"}], "stop_reason": "end_turn"}"#,
            r#"{"output": [{"type": "message", "content": [{"type": "output_text", "text": "A b"}]}]}"#,
            r#"[{"choices": [{"index": 0, "delta": {"content": "A "}}]}, {"choices": [{"index": 0, "delta": {"content": "b"}}]}]"#,
            "data: {\"delta\": {\"type\": \"text_delta\", \"text\": \"A \"}}\n\n\
             data: {\"delta\": {\"type\": \"text_delta\", \"text\": \"b\"}}\n\n\
             data: {\"delta\": {\"stop_reason\": \"end_turn\"}}\n",
            "data: {\"type\": \"response.output_text.delta\", \"delta\": \"A b\"}\n\n\
             data: {\"response\": {\"output\": [{\"type\": \"message\", \"content\": [{\"type\": \"output_text\", \"text\": \"A b\"}]}]}}\n",
        ] {
            assert_eq!(text(response).as_deref(), Some("A b"), "{response}");
        }
    }

    #[test]
    fn text_that_is_not_all_that_was_generated_is_none() {
        for response in [
            r#"{"choices": [{"message": {"content": "A b", "tool_calls": [{"id": "1"}]}}]}"#,
            r#"{"choices": [{"message": {"content": "A b", "reasoning_content": "Hm"}}]}"#,
            r#"{"choices": [{"message": {"content": "A"}}, {"index": 1, "message": {"content": "b"}}]}"#,
            r#"{"content": [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "A b"}]}"#,
            r#"{"output": [{"type": "reasoning"}, {"type": "message", "content": [{"type": "output_text", "text": "A"}]}]}"#,
            r#"{"output": [{"type": "function_call", "name": "f"}]}"#,
            r#"{"choices": [{"message": {"content": null}}]}"#,
            r#"{"choices": [{"message": {"content": ""}}]}"#,
            r#"{"choices": "x", "content": 3, "delta": null, "output": {}}"#,
        ] {
            assert_eq!(text(response), None, "{response}");
        }
    }

    #[test]
    fn text_counts_where_its_tokens_are_those_of_the_usage() {
        let answer = |tokens, ended| AnswerText { text: "A b".to_owned(), tokens, ended };
        for (answer, ids) in [
            (answer(Some(2), true), vec![7, 8]),
            (answer(Some(3), false), vec![7, 8, 0]),
            (answer(Some(1), true), vec![]),
            (answer(Some(4), true), vec![]),
            (answer(None, true), vec![7, 8, 0]),
            (answer(None, false), vec![7, 8]),
        ] {
            assert_eq!(answer.ids(vec![7, 8]), ids, "{answer:?}");
        }
        assert!(!format!("{:?}", answer(None, true)).contains("A b"));
        let response = r#"{"choices": [{"message": {"content": "A b"}}]}"#;
        assert!(!format!("{:?}", LoggedAnswer::of_response(response).expect("an answer")).contains("A b"));
    }
}
