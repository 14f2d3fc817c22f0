//! The bodies of chat and completion requests, as far as they shape the prompt.

use super::error::{TokenizeCode, TokenizeError};
use super::messages::Fields;
use minijinja::Value;
use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// A line of a batch file holds the body under `body`.
#[derive(Deserialize)]
struct Wrapper<'a> {
    #[serde(borrow, default)]
    body: Option<&'a RawValue>,
}

/// A request's body. Unknown fields (sampling, the model's name) do not shape the prompt.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Body<'a> {
    pub messages: Option<Vec<Fields>>,
    #[serde(borrow)]
    pub prompt: Option<Prompts<'a>>,
    pub tools: Option<Vec<Value>>,
    pub documents: Option<Vec<Value>>,
    pub chat_template_kwargs: Option<Fields>,
    pub reasoning_effort: Option<Value>,
    pub add_generation_prompt: Option<bool>,
    pub continue_final_message: Option<bool>,
    pub add_special_tokens: Option<bool>,
    chat_template: Option<serde::de::IgnoredAny>,
    prompt_embeds: Option<serde::de::IgnoredAny>,
}

impl<'a> Body<'a> {
    /// Reads a body, bare or under `body`.
    pub fn read(json: &'a [u8]) -> Result<Self, TokenizeError> {
        let read = || -> Result<Self, serde_json::Error> {
            let wrapper: Wrapper<'a> = serde_json::from_slice(json)?;
            match wrapper.body {
                Some(body) => serde_json::from_str(body.get()),
                None => serde_json::from_slice(json),
            }
        };
        let body = read().map_err(|error| TokenizeError::from_json(&error))?;
        body.check()?;
        Ok(body)
    }

    fn check(&self) -> Result<(), TokenizeError> {
        let refuse = |code, detail: &'static str| Err(TokenizeError::new(code, detail));
        if self.chat_template.is_some() {
            return refuse(TokenizeCode::UnsupportedField, "the body brings a chat_template of its own");
        }
        if self.prompt_embeds.is_some() {
            return refuse(TokenizeCode::UnsupportedContent, "prompt_embeds is no text");
        }
        match (&self.messages, &self.prompt) {
            (Some(_), Some(_)) => refuse(TokenizeCode::InvalidBody, "the body has messages and a prompt"),
            (None, None) => refuse(TokenizeCode::MissingField, "the body has neither messages nor prompt"),
            _ => Ok(()),
        }
    }
}

/// The prompts of a completion request.
pub(super) enum Prompts<'a> {
    Text(Cow<'a, str>),
    Texts(Vec<Cow<'a, str>>),
    Tokens(Vec<u32>),
    TokenLists(Vec<Vec<u32>>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Prompts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PromptsVisitor)
    }
}

struct PromptsVisitor;

impl<'de> Visitor<'de> for PromptsVisitor {
    type Value = Prompts<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, token ids, or an array of either")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Prompts<'de>, E> {
        Ok(Prompts::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Prompts<'de>, E> {
        Ok(Prompts::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Prompts<'de>, A::Error> {
        let Some(first) = array.next_element::<Item<'de>>()? else { return Ok(Prompts::Texts(Vec::new())) };
        let mixed = || A::Error::custom("a prompt of different kinds");
        match first {
            Item::Text(text) => {
                let mut texts = vec![text];
                while let Some(item) = array.next_element()? {
                    let Item::Text(text) = item else { return Err(mixed()) };
                    texts.push(text);
                }
                Ok(Prompts::Texts(texts))
            }
            Item::Token(token) => {
                let mut tokens = vec![token];
                while let Some(token) = array.next_element()? {
                    tokens.push(token);
                }
                Ok(Prompts::Tokens(tokens))
            }
            Item::Tokens(tokens) => {
                let mut lists = vec![tokens];
                while let Some(tokens) = array.next_element()? {
                    lists.push(tokens);
                }
                Ok(Prompts::TokenLists(lists))
            }
        }
    }
}

/// An item of a prompt that is an array.
enum Item<'a> {
    Text(Cow<'a, str>),
    Token(u32),
    Tokens(Vec<u32>),
}

impl<'de> Deserialize<'de> for Item<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemVisitor)
    }
}

struct ItemVisitor;

impl<'de> Visitor<'de> for ItemVisitor {
    type Value = Item<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, a token id or an array of token ids")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Item<'de>, E> {
        Ok(Item::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Item<'de>, E> {
        Ok(Item::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E: Error>(self, token: u64) -> Result<Item<'de>, E> {
        u32::try_from(token).map(Item::Token).map_err(|_| E::custom("token id out of range"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Item<'de>, A::Error> {
        let mut tokens = Vec::new();
        while let Some(token) = array.next_element()? {
            tokens.push(token);
        }
        Ok(Item::Tokens(tokens))
    }
}
