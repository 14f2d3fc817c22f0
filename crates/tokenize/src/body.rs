//! The bodies of chat and completion requests, as far as they shape the prompt.

use super::error::{TokenizeCode, TokenizeError};
use super::messages::Fields;
use super::unrendered::{self, SaysSomething};
use minijinja::Value;
use minijinja::value::ValueKind;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// What the keys of an object tell before the body is read.
struct Outline<'a> {
    /// A line of a batch file holds the body under `body`.
    body: Option<&'a RawValue>,
    /// A field that is part of a prompt and would not be rendered.
    unrendered: Option<&'static str>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Outline<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OutlineVisitor;
        impl<'de> Visitor<'de> for OutlineVisitor {
            type Value = Outline<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Outline<'de>, A::Error> {
                let mut outline = Outline { body: None, unrendered: None };
                while let Some(Key(key)) = map.next_key()? {
                    if key == "body" {
                        outline.body = map.next_value()?;
                    } else if let Some(field) = unrendered::known(&unrendered::BODY_FIELDS, &key) {
                        let SaysSomething(says) = map.next_value()?;
                        outline.unrendered = outline.unrendered.or(says.then_some(field));
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(outline)
            }
        }
        deserializer.deserialize_map(OutlineVisitor)
    }
}

/// A key, copied only where it is escaped.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// A request's body. Other fields (sampling, the model's name) do not shape the prompt, or are refused
/// by their name (see [`unrendered`]).
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
    chat_template: Option<IgnoredAny>,
    prompt_embeds: Option<IgnoredAny>,
}

impl<'a> Body<'a> {
    /// Reads a body, bare or under `body`.
    pub fn read(json: &'a [u8]) -> Result<Self, TokenizeError> {
        let fault = |error| TokenizeError::from_json(&error);
        let mut outline: Outline<'a> = serde_json::from_slice(json).map_err(fault)?;
        let mut text = json;
        if let Some(body) = outline.body {
            text = body.get().as_bytes();
            outline = serde_json::from_slice(text).map_err(fault)?;
        }
        // By its name before anything else: a body of another API may lack what is asked for below.
        if let Some(field) = outline.unrendered {
            return Err(unrendered::refused(field));
        }
        let body: Self = serde_json::from_slice(text).map_err(fault)?;
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
        for (index, tool) in self.tools.iter().flatten().enumerate() {
            let function =
                tool.get_attr("function").ok().filter(|function| function.kind() == ValueKind::Map);
            if function.is_none() {
                return Err(unrendered::refused(&format!("tools[{index}]")));
            }
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
