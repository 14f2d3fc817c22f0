//! The bodies of chat and completion requests, as far as they shape the prompt.

use super::apis::anthropic::{self, Conversion};
use super::apis::{field, langchain, responses};
use super::error::of_json;
use super::fields::ObjectFields;
use super::rules::ChatRules;
use super::tools;
use super::unrendered;
use kvset_core::request::endpoint::generates_no_text;
use kvset_core::request::refusal::{DecodeError, ErrorCode};
use kvset_core::request::unshown::says_something;
use minijinja::Value;
use minijinja::value::ValueKind;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// What the keys of an object tell before the body is read.
#[derive(Default)]
struct ObjectOutline<'a> {
    /// A line of a batch file holds the body under `body`.
    body: Option<&'a RawValue>,
    /// Whether the line of a batch asks for something else than an answer to a prompt.
    other_endpoint: bool,
    /// A field that is part of a prompt and would not be rendered.
    unrendered: Option<&'static str>,
    /// A field that says where the prompt is kept, and whether the body has messages of its own.
    kept_elsewhere: Option<&'static str>,
    has_messages: bool,
    /// The tools as they are written.
    tools: Option<&'a RawValue>,
}

impl<'de: 'a, 'a> Deserialize<'de> for ObjectOutline<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self::default())
    }
}

/// Fills itself.
impl<'de: 'a, 'a> Visitor<'de> for ObjectOutline<'a> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some(BodyKey(key)) = map.next_key()? {
            if key == "body" {
                self.body = map.next_value()?;
            } else if key == "tools" {
                self.tools = map.next_value()?;
            } else if key == "url" {
                let url: Option<&RawValue> = map.next_value()?;
                self.other_endpoint = url.is_some_and(|url| generates_no_text(url.get().trim_matches('"')));
            } else if key == "messages" {
                self.has_messages = says_something(map.next_value::<&RawValue>()?.get());
            } else if let Some(field) = unrendered::known(&unrendered::NAMES_OF_HISTORIES, &key) {
                let value: &RawValue = map.next_value()?;
                // A log gives a conversation a name, an API an object.
                let place = match value.get().starts_with('"') {
                    true => &mut self.kept_elsewhere,
                    false => &mut self.unrendered,
                };
                *place = place.or(says_something(value.get()).then_some(field));
            } else if let Some(field) = unrendered::of_body(&key) {
                let says = says_something(map.next_value::<&RawValue>()?.get());
                self.unrendered = self.unrendered.or(says.then_some(field));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        let kept_elsewhere = self.kept_elsewhere.filter(|_| !self.has_messages);
        self.unrendered = self.unrendered.or(kept_elsewhere);
        Ok(self)
    }
}

/// A key, copied only where it is escaped.
#[derive(Deserialize)]
struct BodyKey<'a>(#[serde(borrow)] Cow<'a, str>);

/// A request's body. Other fields (sampling, the model's name) do not shape the prompt, or are refused
/// by their name (see [`unrendered`]).
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Body<'a> {
    #[serde(deserialize_with = "messages")]
    pub messages: Option<Vec<ObjectFields>>,
    #[serde(borrow)]
    pub prompt: Option<CompletionPrompts<'a>>,
    #[serde(deserialize_with = "list_or_text")]
    pub tools: Option<Vec<Value>>,
    /// The same as they are written.
    #[serde(skip)]
    pub raw_tools: Option<&'a RawValue>,
    pub documents: Option<Vec<Value>>,
    pub chat_template_kwargs: Option<ObjectFields>,
    pub reasoning_effort: Option<Value>,
    pub add_generation_prompt: Option<bool>,
    pub continue_final_message: Option<bool>,
    pub add_special_tokens: Option<bool>,
    pub tool_choice: Option<Value>,
    /// Whether the model is to think, as Anthropic's API says it.
    thinking: Option<Value>,
    /// Anthropic's effort, alongside what an answer is to look like.
    output_config: Option<Value>,
    context_management: Option<IgnoredAny>,
    system: Option<Value>,
    instructions: Option<Value>,
    /// The two texts of a log that keeps no messages.
    system_prompt: Option<Value>,
    user_prompt: Option<Value>,
    input: Option<Value>,
    reasoning: Option<Value>,
    chat_template: Option<IgnoredAny>,
    prompt_embeds: Option<IgnoredAny>,
    /// Fields that a client's library puts into the body, as its caller wrote them.
    #[serde(borrow)]
    extra_body: Option<&'a RawValue>,
    /// Ollama's, which renders a prompt unless it is `raw`, behind the tokens of turns before.
    options: Option<IgnoredAny>,
    keep_alive: Option<IgnoredAny>,
    context: Option<Value>,
    template: Option<Value>,
    raw: Option<Value>,
}

/// A list, or the JSON text that a database made of one.
fn list_or_text<'de, D: Deserializer<'de>, T: serde::de::DeserializeOwned>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let raw: Option<&RawValue> = Option::deserialize(deserializer)?;
    let Some(json) = raw.map(RawValue::get) else { return Ok(None) };
    let read = match json.starts_with('"') {
        true => serde_json::from_str::<String>(json).and_then(|text| serde_json::from_str(&text)),
        false => serde_json::from_str(json),
    };
    read.map(Some).map_err(|_| D::Error::custom("a list is expected"))
}

/// Messages in a list, in the only list of a list, or in a text of either.
fn messages<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<ObjectFields>>, D::Error> {
    let raw: Option<&RawValue> = Option::deserialize(deserializer)?;
    let Some(json) = raw.map(RawValue::get) else { return Ok(None) };
    let text: Cow<'_, str> = match json.starts_with('"') {
        true => Cow::Owned(serde_json::from_str(json).map_err(|_| D::Error::custom("a list is expected"))?),
        false => Cow::Borrowed(json),
    };
    let read = serde_json::from_str(&text).or_else(|error| {
        let lists: Vec<Vec<ObjectFields>> = serde_json::from_str(&text)?;
        <[_; 1]>::try_from(lists).map(|[only]| only).map_err(|_| error)
    });
    let read: Vec<ObjectFields> = read.map_err(|_| D::Error::custom("a list is expected"))?;
    Ok(Some(read.into_iter().map(langchain::as_message).collect()))
}

/// What a body asks of the model's thoughts.
#[derive(Default)]
pub(super) struct Thoughts {
    /// The effort, in the engine's words.
    pub effort: Option<Value>,
    /// Whether the effort sets the variables that switch thinking.
    pub switches: bool,
    /// Whether the model is to think, where the body says so apart from an effort.
    pub thinks: Option<bool>,
    /// The same as Anthropic's API says it.
    pub thinking: Option<bool>,
}

impl<'a> Body<'a> {
    /// Reads a body, bare or under `body`.
    pub fn read(json: &'a [u8]) -> Result<Self, DecodeError> {
        let fault = |error| of_json(&error);
        let mut outline: ObjectOutline<'a> = serde_json::from_slice(json).map_err(fault)?;
        let mut text = json;
        if let Some(body) = outline.body {
            if outline.other_endpoint {
                let detail = "`url` of the batch's line names an endpoint that generates no text";
                return Err(DecodeError::new(ErrorCode::UnsupportedContent, detail));
            }
            text = body.get().as_bytes();
            outline = serde_json::from_slice(text).map_err(fault)?;
        }
        // By its name before anything else: a body of another API may lack what is requested below.
        if let Some(field) = outline.unrendered {
            return Err(unrendered::refused(field));
        }
        let mut body: Self = serde_json::from_slice(text).map_err(fault)?;
        body.raw_tools = outline.tools;
        if let Some(extra) = body.extra_body.take() {
            body.take_extra(extra.get())?;
        }
        body.check()?;
        Ok(body)
    }

    /// Takes the fields that a client's library would have put into the body, where the body itself has none.
    fn take_extra(&mut self, json: &'a str) -> Result<(), DecodeError> {
        let fault = |error| of_json(&error);
        if !json.starts_with('{') {
            return Ok(());
        }
        let outline: ObjectOutline<'a> = serde_json::from_str(json).map_err(fault)?;
        if let Some(field) = outline.unrendered {
            return Err(unrendered::refused(&format!("extra_body.{field}")));
        }
        let extra: Self = serde_json::from_str(json).map_err(fault)?;
        let prompts = [
            (extra.messages.is_some(), "messages"),
            (extra.prompt.is_some(), "prompt"),
            (extra.input.is_some(), "input"),
            (extra.tools.is_some(), "tools"),
        ];
        if let Some((_, field)) = prompts.into_iter().find(|(is_there, _)| *is_there) {
            return Err(unrendered::refused(&format!("extra_body.{field}")));
        }
        let own = std::mem::take(self);
        *self = Self {
            documents: own.documents.or(extra.documents),
            chat_template_kwargs: own.chat_template_kwargs.or(extra.chat_template_kwargs),
            reasoning_effort: own.reasoning_effort.or(extra.reasoning_effort),
            add_generation_prompt: own.add_generation_prompt.or(extra.add_generation_prompt),
            continue_final_message: own.continue_final_message.or(extra.continue_final_message),
            add_special_tokens: own.add_special_tokens.or(extra.add_special_tokens),
            thinking: own.thinking.or(extra.thinking),
            reasoning: own.reasoning.or(extra.reasoning),
            chat_template: own.chat_template.or(extra.chat_template),
            prompt_embeds: own.prompt_embeds.or(extra.prompt_embeds),
            ..own
        };
        Ok(())
    }

    fn check(&self) -> Result<(), DecodeError> {
        let refuse = |code, detail: &'static str| Err(DecodeError::new(code, detail));
        if self.chat_template.is_some() {
            return refuse(ErrorCode::UnsupportedField, "the body brings a chat_template of its own");
        }
        if self.prompt_embeds.is_some() {
            return refuse(ErrorCode::UnsupportedContent, "prompt_embeds is no text");
        }
        if self.prompt.is_some() && self.is_of_ollama() {
            let detail = "`prompt` is of Ollama's API (`options`, `keep_alive`, `context`, `template`), which puts \
                it into its \
                model's template: write it as the chat that it becomes";
            return refuse(ErrorCode::UnsupportedField, detail);
        }
        match (&self.messages, &self.prompt, &self.input) {
            (_, Some(CompletionPrompts::Stored), _) => {
                let detail = "`prompt` is a stored prompt, whose text only the API's provider has: log the request \
                    with its messages";
                refuse(ErrorCode::UnsupportedField, detail)
            }
            (Some(_), Some(_), _) => {
                let detail =
                    "the body has messages and a prompt: leave out the one that the engine was not sent";
                refuse(ErrorCode::InvalidBody, detail)
            }
            (Some(_), _, Some(input)) | (_, Some(_), Some(input)) if input.is_true() => {
                let detail = "`input` stands beside messages or a prompt and would not be rendered: leave out the one \
                    that the engine was not sent";
                refuse(ErrorCode::UnrenderedField, detail)
            }
            (None, None, None) if self.user_prompt.is_none() => {
                let detail = "the body has neither messages, prompt nor input; an answer on a row of its own is read \
                    beside its request, as `response`: left out with --skip-bad-rows, its duration and cached tokens are, too";
                refuse(ErrorCode::MissingField, detail)
            }
            _ => Ok(()),
        }
    }

    /// Whether the body is of Ollama's API, which makes a chat of a prompt.
    fn is_of_ollama(&self) -> bool {
        let is = |value: &Option<Value>, kind| value.as_ref().is_some_and(|value| value.kind() == kind);
        let continues = is(&self.context, ValueKind::Seq);
        let is_known =
            self.options.is_some() || self.keep_alive.is_some() || is(&self.template, ValueKind::String);
        continues || (is_known && !self.raw.as_ref().is_some_and(Value::is_true))
    }

    /// Takes the messages of the chat that the engine makes of the body, whichever API it is of; nothing of a
    /// completion.
    ///
    /// # Errors
    /// What no chat can hold, by its name.
    pub fn take_chat(
        &mut self,
        mut conversion: Conversion<'_>,
    ) -> Result<Option<Vec<ObjectFields>>, DecodeError> {
        let instructions = self.instructions.take().filter(Value::is_true);
        let system = self.system.take().filter(Value::is_true);
        // What an answer thought is a text, what a request asks for has fields.
        self.reasoning = self.reasoning.take().filter(|reasoning| reasoning.as_str().is_none());
        let reasoning = self.reasoning.clone().filter(|reasoning| reasoning.is_true());
        if let Some(asked) = self.user_prompt.take().filter(|_| self.asks_nothing_else()) {
            let system = self.system_prompt.take().filter(Value::is_true);
            return Ok(Some(chat_of(system, asked)));
        }
        match (self.messages.take(), self.input.take()) {
            (Some(messages), _) => {
                refuse_any([("instructions", &instructions)])?;
                if !conversion.rules.reads_reasoning {
                    refuse_any([("reasoning", &reasoning)])?;
                }
                if system.is_some() || self.is_anthropic(&messages) {
                    return conversion.chat(system.as_ref(), messages).map(Some);
                }
                Ok(Some(messages))
            }
            (None, Some(input)) if self.prompt.is_none() => {
                refuse_any([("system", &system), ("thinking", &self.thinking)])?;
                responses::chat(instructions.as_ref(), &input, &conversion).map(Some)
            }
            (None, _) => {
                refuse_any([
                    ("instructions", &instructions),
                    ("reasoning", &reasoning),
                    ("system", &system),
                    ("thinking", &self.thinking),
                ])?;
                Ok(None)
            }
        }
    }

    /// Whether neither messages nor a prompt nor an input asks.
    fn asks_nothing_else(&self) -> bool {
        self.messages.is_none() && self.prompt.is_none() && self.input.is_none()
    }

    /// Whether the body is of Anthropic's API, where it has no `system`.
    fn is_anthropic(&self, messages: &[ObjectFields]) -> bool {
        self.thinking.is_some()
            || self.output_config.is_some()
            || self.context_management.is_some()
            || self.tools.iter().flatten().any(tools::is_anthropic)
            || messages.iter().any(anthropic::is_message)
    }

    /// What the body says of thinking.
    ///
    /// # Errors
    /// A field that says it in words of which nobody knows what they mean.
    pub fn thoughts(&self, rules: &ChatRules) -> Result<Thoughts, DecodeError> {
        let mut thoughts = Thoughts { switches: true, ..Thoughts::default() };
        thoughts.effort = self.reasoning_effort.clone().filter(|effort| !effort.is_none());
        if let Some(reasoning) = self.reasoning.as_ref().filter(|reasoning| reasoning.is_true()) {
            let known = ["effort", "summary", "generate_summary", "enabled", "enable", "reasoning_effort"];
            let keys = reasoning.try_iter().into_iter().flatten();
            if keys.into_iter().any(|key| key.as_str().is_none_or(|key| !known.contains(&key))) {
                return Err(unrendered::refused("reasoning"));
            }
            let said = |name: &str| field(reasoning, name);
            let effort = said("effort").or_else(|| said("reasoning_effort"));
            thoughts.effort = effort.filter(Value::is_true).or(thoughts.effort);
            let enabled = said("enabled").or_else(|| said("enable"));
            thoughts.thinks = enabled.filter(Value::is_true).map(|_| true);
        }
        let effort = self.output_config.as_ref().and_then(|config| field(config, "effort"));
        if let Some(effort) = effort {
            let known = effort.as_str().ok_or_else(|| unrendered::refused("output_config.effort"))?;
            thoughts.effort = Some(Value::from(rules.effort(known)));
            thoughts.switches = rules.effort_of_output_config_switches;
        }
        if let Some(thinking) = self.thinking.as_ref().filter(|thinking| thinking.is_true()) {
            let kind = field(thinking, "type");
            thoughts.thinking = match kind.as_ref().and_then(Value::as_str) {
                Some("enabled" | "adaptive") => Some(true),
                Some("disabled") => Some(false),
                _ => return Err(unrendered::refused("thinking")),
            };
        }
        Ok(thoughts)
    }
}

/// The chat of a system prompt and of what a user asks.
fn chat_of(system: Option<Value>, asked: Value) -> Vec<ObjectFields> {
    let said = [system.map(|text| ("system", text)), Some(("user", asked))].into_iter().flatten();
    let message = |(role, text)| vec![("role".to_owned(), Value::from(role)), ("content".to_owned(), text)];
    said.map(message).map(ObjectFields).collect()
}

/// Refuses the first of these that is there: it has no place in this kind of body.
fn refuse_any<const N: usize>(fields: [(&str, &Option<Value>); N]) -> Result<(), DecodeError> {
    let says = |value: &Option<Value>| value.as_ref().is_some_and(Value::is_true);
    match fields.into_iter().find(|(_, value)| says(value)) {
        Some((name, _)) => Err(unrendered::refused(name)),
        None => Ok(()),
    }
}

/// The prompts of a completion request.
pub(super) enum CompletionPrompts<'a> {
    Text(Cow<'a, str>),
    Texts(Vec<Cow<'a, str>>),
    Tokens(Vec<u32>),
    TokenLists(Vec<Vec<u32>>),
    /// The id of a prompt that the API keeps, with what is put into it.
    Stored,
}

impl<'de: 'a, 'a> Deserialize<'de> for CompletionPrompts<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PromptsVisitor)
    }
}

struct PromptsVisitor;

impl<'de> Visitor<'de> for PromptsVisitor {
    type Value = CompletionPrompts<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, token ids, or an array of either")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<CompletionPrompts<'de>, E> {
        Ok(CompletionPrompts::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<CompletionPrompts<'de>, E> {
        Ok(CompletionPrompts::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<CompletionPrompts<'de>, A::Error> {
        let mut has_id = false;
        while let Some((BodyKey(key), IgnoredAny)) = map.next_entry()? {
            has_id |= key == "id";
        }
        if has_id {
            Ok(CompletionPrompts::Stored)
        } else {
            Err(A::Error::custom("a prompt that is an object"))
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<CompletionPrompts<'de>, A::Error> {
        let Some(first) = array.next_element::<PromptItem<'de>>()? else {
            return Ok(CompletionPrompts::Texts(Vec::new()));
        };
        let mixed = || A::Error::custom("a prompt of different kinds");
        match first {
            PromptItem::Text(text) => {
                let mut texts = vec![text];
                while let Some(item) = array.next_element()? {
                    let PromptItem::Text(text) = item else { return Err(mixed()) };
                    texts.push(text);
                }
                Ok(CompletionPrompts::Texts(texts))
            }
            PromptItem::Token(token) => {
                let mut tokens = vec![token];
                while let Some(token) = array.next_element()? {
                    tokens.push(token);
                }
                Ok(CompletionPrompts::Tokens(tokens))
            }
            PromptItem::Tokens(tokens) => {
                let mut lists = vec![tokens];
                while let Some(tokens) = array.next_element()? {
                    lists.push(tokens);
                }
                Ok(CompletionPrompts::TokenLists(lists))
            }
        }
    }
}

/// An item of a prompt that is an array.
#[derive(Deserialize)]
#[serde(untagged)]
enum PromptItem<'a> {
    Text(#[serde(borrow)] Cow<'a, str>),
    Token(u32),
    Tokens(Vec<u32>),
}
