//! Requests to token ids.

use super::body::{Body, Prompts};
use super::cache::SharedCache;
use super::encoder::Reuse;
use super::error::{TokenizeCode, TokenizeError};
use super::messages::{self, Fields};
use super::model::Model;
use super::template::ChatTemplates;
use super::unrendered;
use kvset_core::units::EventTime;
use minijinja::Value;
use std::fmt;
use std::sync::Arc;

/// What tokenising may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenizeLimits {
    /// Largest body, in bytes.
    pub max_body_bytes: usize,
    /// Largest prompt, in bytes of text.
    pub max_prompt_bytes: usize,
    /// Memory for token ids of texts met before, in bytes, of a tokenizer and all its clones; 0 tokenises
    /// everything anew.
    pub cache_bytes: usize,
}

impl Default for TokenizeLimits {
    /// 64 MiB a body and a prompt, 256 MiB of memory.
    fn default() -> Self {
        Self { max_body_bytes: 64 << 20, max_prompt_bytes: 64 << 20, cache_bytes: 256 << 20 }
    }
}

/// The token ids of a request's prompts: one of a chat, one or several of a completion.
///
/// `Debug` shows counts in place of ids.
#[derive(Default)]
pub struct TokenizedPrompts {
    ids: Vec<u32>,
    ends: Vec<usize>,
}

impl TokenizedPrompts {
    /// The prompts in the request's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        let start = |index: usize| if index == 0 { 0 } else { self.ends[index - 1] };
        self.ends.iter().enumerate().map(move |(index, end)| &self.ids[start(index)..*end])
    }

    /// Number of prompts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the request has no prompt, as an empty list of prompts has none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Tokens of all prompts.
    pub fn tokens(&self) -> usize {
        self.ids.len()
    }

    fn clear(&mut self) {
        self.ids.clear();
        self.ends.clear();
    }

    fn end_prompt(&mut self) {
        self.ends.push(self.ids.len());
    }
}

impl fmt::Debug for TokenizedPrompts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenizedPrompts")
            .field("prompts", &self.len())
            .field("tokens", &self.tokens())
            .finish()
    }
}

/// Turns OpenAI-compatible bodies into token ids. One a thread; clones share the memory of the pieces
/// they met.
pub struct RequestTokenizer {
    model: Arc<Model>,
    limits: TokenizeLimits,
    cache: Arc<SharedCache>,
    reuse: Reuse,
    prompts: TokenizedPrompts,
}

impl Clone for RequestTokenizer {
    fn clone(&self) -> Self {
        Self {
            model: Arc::clone(&self.model),
            limits: self.limits,
            cache: Arc::clone(&self.cache),
            reuse: Reuse::default(),
            prompts: TokenizedPrompts::default(),
        }
    }
}

impl RequestTokenizer {
    /// A tokenizer for requests to this model.
    pub fn new(model: Arc<Model>, limits: TokenizeLimits) -> Self {
        Self {
            model,
            cache: Arc::new(SharedCache::new(limits.cache_bytes)),
            limits,
            reuse: Reuse::default(),
            prompts: TokenizedPrompts::default(),
        }
    }

    /// How much text was tokenised and how much was known, since the start.
    pub fn reuse(&self) -> Reuse {
        self.reuse
    }

    /// Tokenises a chat or completion request, bare or under `body`. `time` is the day that templates
    /// see; without it those that ask for one take their own default or are refused.
    ///
    /// Chats are rendered with the model's template and tokenised as they are, completions get what the
    /// tokenizer puts around a text; `add_special_tokens` in the body says otherwise.
    ///
    /// # Errors
    /// [`TokenizeError`]; nothing is known of the request then.
    pub fn tokenize(
        &mut self,
        body: &[u8],
        time: Option<EventTime>,
    ) -> Result<&TokenizedPrompts, TokenizeError> {
        self.prompts.clear();
        self.check_size("the body", body.len(), self.limits.max_body_bytes)?;
        let mut body = Body::read(body)?;
        match body.messages.take() {
            Some(messages) => self.chat(messages, body, time)?,
            None => self.completion(body)?,
        }
        if self.prompts.is_empty() {
            return Err(TokenizeError::new(TokenizeCode::MissingField, "the prompt is an empty list"));
        }
        Ok(&self.prompts)
    }

    fn check_size(&self, what: &str, bytes: usize, limit: usize) -> Result<(), TokenizeError> {
        if bytes <= limit {
            return Ok(());
        }
        let detail = format!("{what} has {bytes} bytes, more than the {limit} allowed");
        Err(TokenizeError::new(TokenizeCode::RequestTooLarge, detail))
    }

    fn completion(&mut self, body: Body<'_>) -> Result<(), TokenizeError> {
        let framed = body.add_special_tokens.unwrap_or(true);
        match body.prompt {
            Some(Prompts::Text(text)) => self.text(&text, framed)?,
            Some(Prompts::Texts(texts)) => {
                texts.iter().try_for_each(|text| self.text(text, framed))?;
            }
            Some(Prompts::Tokens(tokens)) => self.tokens(&tokens),
            Some(Prompts::TokenLists(lists)) => lists.iter().for_each(|tokens| self.tokens(tokens)),
            // A stored prompt was refused when the body was read.
            Some(Prompts::Stored) | None => {}
        }
        Ok(())
    }

    fn tokens(&mut self, tokens: &[u32]) {
        self.prompts.ids.extend(tokens);
        self.prompts.end_prompt();
    }

    fn text(&mut self, text: &str, framed: bool) -> Result<(), TokenizeError> {
        self.check_size("a prompt", text.len(), self.limits.max_prompt_bytes)?;
        let ids = &mut self.prompts.ids;
        self.model.encoder.encode(text, framed, &self.cache, &mut self.reuse, ids)?;
        self.prompts.end_prompt();
        Ok(())
    }

    fn chat(
        &mut self,
        messages: Vec<Fields>,
        body: Body<'_>,
        time: Option<EventTime>,
    ) -> Result<(), TokenizeError> {
        let framed = body.add_special_tokens.unwrap_or(false);
        let text = render(&self.model, messages, body, time, self.limits.max_prompt_bytes)?;
        self.text(&text, framed)
    }
}

/// Appended to a final message that the model is to go on with, and cut off with what follows it.
const CONTINUE: &str = "CONTINUE_FINAL_MESSAGE_TAG ";

/// The text that the model's template makes of a chat.
fn render(
    model: &Model,
    messages: Vec<Fields>,
    body: Body<'_>,
    time: Option<EventTime>,
    max_bytes: usize,
) -> Result<String, TokenizeError> {
    let Some(templates) = &model.templates else {
        return Err(TokenizeError::new(TokenizeCode::NoChatTemplate, "the model has no chat template"));
    };
    if messages.is_empty() {
        return Err(TokenizeError::new(TokenizeCode::MissingField, "the chat has no message"));
    }
    let name = templates.choose(body.tools.is_some())?;
    let thinks = thinks(&body, templates, name)?;
    let kwargs = body.chat_template_kwargs.unwrap_or_default();
    let asked = |name: &str, field: Option<bool>, otherwise: bool| {
        kwargs.get(name).map_or(field.unwrap_or(otherwise), Value::is_true)
    };
    let continues = asked("continue_final_message", body.continue_final_message, false);
    let generates = asked("add_generation_prompt", body.add_generation_prompt, !continues);
    let takes_parts = templates.takes(name);
    let messages = messages.into_iter().enumerate();
    let messages: Result<Vec<_>, _> =
        messages.map(|(index, message)| messages::prepare(message, index, takes_parts)).collect();
    let mut messages = messages?;
    if continues {
        mark_end(&mut messages)?;
    }
    let list = |values: Option<Vec<Value>>| values.map_or(Value::from(()), Value::from);
    let mut variables = model.specials.clone();
    variables.push(("tools".to_owned(), list(body.tools)));
    variables.push(("documents".to_owned(), list(body.documents)));
    variables.extend(body.reasoning_effort.map(|effort| ("reasoning_effort".to_owned(), effort)));
    variables.extend(thinks.map(|thinks| (ENABLE_THINKING.to_owned(), Value::from(thinks))));
    variables.extend(kwargs.0.iter().cloned());
    variables.push(("add_generation_prompt".to_owned(), Value::from(generates)));
    let messages = messages.into_iter().map(|message| Value::from_pairs(message.0));
    variables.push(("messages".to_owned(), messages.collect()));
    let text = templates.render(name, variables, time, max_bytes)?;
    if continues { cut_at_mark(text) } else { Ok(text) }
}

/// The variable by which templates are told whether the model is to think.
const ENABLE_THINKING: &str = "enable_thinking";

/// Whether the body asks the model to think, for templates that ask. To another one it may make no difference, or
/// one that only the model's server knows: such a body is refused.
fn thinks(body: &Body<'_>, templates: &ChatTemplates, name: &str) -> Result<Option<bool>, TokenizeError> {
    let Some(thinking) = body.thinking() else { return Ok(None) };
    let kind = thinking.get_attr("type").unwrap_or_default();
    match (kind.as_str(), templates.asks_for(name, ENABLE_THINKING)) {
        (Some("disabled"), asks) => Ok(asks.then_some(false)),
        (Some("enabled" | "adaptive"), true) => Ok(Some(true)),
        _ => Err(unrendered::refused("thinking")),
    }
}

fn mark_end(messages: &mut [Fields]) -> Result<(), TokenizeError> {
    let content = messages
        .last_mut()
        .and_then(|message| message.0.iter_mut().find(|(name, _)| name == "content"))
        .map(|(_, content)| content);
    if let Some(content) = content
        && let Some(text) = content.as_str()
    {
        *content = Value::from(format!("{text}{CONTINUE}"));
        return Ok(());
    }
    let detail = "continue_final_message needs a final message whose content is a text";
    Err(TokenizeError::new(TokenizeCode::UnsupportedField, detail))
}

/// Cuts the text where the final message ends; a template that trims messages trimmed this one too.
fn cut_at_mark(mut text: String) -> Result<String, TokenizeError> {
    let Some(end) = text.rfind(CONTINUE.trim_end()) else {
        let detail = "the chat template leaves out the final message, which is to be continued";
        return Err(TokenizeError::new(TokenizeCode::UnsupportedField, detail));
    };
    let kept = if text[end..].starts_with(CONTINUE) { end } else { text[..end].trim_end().len() };
    text.truncate(kept);
    Ok(text)
}
