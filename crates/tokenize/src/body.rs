//! The bodies of chat and completion requests, as far as they shape the prompt.

use super::apis::{anthropic, responses};
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
    /// Whether the line of a batch asks for something else than an answer to a prompt.
    other_endpoint: bool,
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
                let mut outline = Outline { body: None, other_endpoint: false, unrendered: None };
                while let Some(Key(key)) = map.next_key()? {
                    if key == "body" {
                        outline.body = map.next_value()?;
                    } else if key == "url" {
                        let url: Option<&RawValue> = map.next_value()?;
                        outline.other_endpoint = url.is_some_and(|url| answers_no_prompt(url.get()));
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

/// Whether requests of this path, as JSON, are answered without generating text. Their bodies look like those that are.
fn answers_no_prompt(url: &str) -> bool {
    ["/embeddings", "/rerank", "/score", "/moderations"]
        .iter()
        .any(|end| url.trim_end_matches(['"', '/']).ends_with(end))
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
    /// Whether the model is to think, as Anthropic's API says it.
    thinking: Option<Value>,
    system: Option<Value>,
    instructions: Option<Value>,
    input: Option<Value>,
    reasoning: Option<Value>,
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
            if outline.other_endpoint {
                let detail = "`url` of the batch's line names an endpoint that generates no text";
                return Err(TokenizeError::new(TokenizeCode::UnsupportedContent, detail));
            }
            text = body.get().as_bytes();
            outline = serde_json::from_slice(text).map_err(fault)?;
        }
        // By its name before anything else: a body of another API may lack what is asked for below.
        if let Some(field) = outline.unrendered {
            return Err(unrendered::refused(field));
        }
        let mut body: Self = serde_json::from_slice(text).map_err(fault)?;
        body.check()?;
        body.become_chat()?;
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
        match (&self.messages, &self.prompt, &self.input) {
            (_, Some(Prompts::Stored), _) => {
                let detail = "`prompt` is a stored prompt, whose text only the API's provider has: log the request \
                    with its messages";
                refuse(TokenizeCode::UnsupportedField, detail)
            }
            (Some(_), Some(_), _) => refuse(TokenizeCode::InvalidBody, "the body has messages and a prompt"),
            (Some(_), _, Some(input)) | (_, Some(_), Some(input)) if input.is_true() => {
                Err(unrendered::refused("input"))
            }
            (None, None, None) => {
                refuse(TokenizeCode::MissingField, "the body has neither messages, prompt nor input")
            }
            _ => Ok(()),
        }
    }

    /// Turns what other APIs say into messages, tools and variables of a chat.
    fn become_chat(&mut self) -> Result<(), TokenizeError> {
        for (index, tool) in self.tools.iter_mut().flatten().enumerate() {
            *tool = function(tool, index)?;
        }
        let instructions = self.instructions.take().filter(Value::is_true);
        let system = self.system.take().filter(Value::is_true);
        let reasoning = self.reasoning.take().filter(Value::is_true);
        match (self.messages.take(), self.input.take()) {
            (Some(messages), _) => {
                let converts = system.is_some() || messages.iter().any(anthropic::is_message);
                let converted = if converts { anthropic::chat(system.as_ref(), messages)? } else { messages };
                self.messages = Some(converted);
                refuse_any([("instructions", &instructions), ("reasoning", &reasoning)])
            }
            (None, Some(input)) if self.prompt.is_none() => {
                self.messages = Some(responses::chat(instructions.as_ref(), &input)?);
                self.set_effort(reasoning.as_ref())?;
                refuse_any([("system", &system), ("thinking", &self.thinking())])
            }
            (None, _) => refuse_any([
                ("instructions", &instructions),
                ("reasoning", &reasoning),
                ("system", &system),
                ("thinking", &self.thinking()),
            ]),
        }
    }

    /// The effort that the Responses API asks for, under the name that chats have for it. How a summary is to be
    /// written is no part of the prompt.
    fn set_effort(&mut self, reasoning: Option<&Value>) -> Result<(), TokenizeError> {
        let Some(reasoning) = reasoning else { return Ok(()) };
        let effort = reasoning.get_attr("effort").ok().filter(|effort| !effort.is_undefined());
        let known = ["effort", "summary", "generate_summary"];
        let keys = reasoning.try_iter().into_iter().flatten();
        if keys.into_iter().any(|key| key.as_str().is_none_or(|key| !known.contains(&key))) {
            return Err(unrendered::refused("reasoning"));
        }
        self.reasoning_effort = effort.filter(Value::is_true).or(self.reasoning_effort.take());
        Ok(())
    }

    /// What the body says of thinking, if it says anything.
    pub fn thinking(&self) -> Option<Value> {
        self.thinking.clone().filter(Value::is_true)
    }
}

/// A tool as chats declare it.
fn function(tool: &Value, index: usize) -> Result<Value, TokenizeError> {
    let has_function = tool.get_attr("function").is_ok_and(|function| function.kind() == ValueKind::Map);
    match tool {
        _ if has_function => Ok(tool.clone()),
        _ if responses::is_tool(tool) => Ok(responses::tool(tool)),
        _ if anthropic::is_tool(tool) => Ok(anthropic::tool(tool)),
        _ => Err(unrendered::refused(&format!("tools[{index}]"))),
    }
}

/// Refuses the first of these that is there: it has no place in this kind of body.
fn refuse_any<const N: usize>(fields: [(&str, &Option<Value>); N]) -> Result<(), TokenizeError> {
    match fields.into_iter().find(|(_, value)| value.is_some()) {
        Some((name, _)) => Err(unrendered::refused(name)),
        None => Ok(()),
    }
}

/// The prompts of a completion request.
pub(super) enum Prompts<'a> {
    Text(Cow<'a, str>),
    Texts(Vec<Cow<'a, str>>),
    Tokens(Vec<u32>),
    TokenLists(Vec<Vec<u32>>),
    /// The id of a prompt that the API keeps, with what is put into it.
    Stored,
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

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Prompts<'de>, A::Error> {
        let mut has_id = false;
        while let Some((Key(key), IgnoredAny)) = map.next_entry()? {
            has_id |= key == "id";
        }
        if has_id { Ok(Prompts::Stored) } else { Err(A::Error::custom("a prompt that is an object")) }
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
