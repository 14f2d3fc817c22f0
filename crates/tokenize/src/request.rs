//! Requests to token ids.

use super::apis::anthropic::Conversion;
use super::body::{Body, CompletionPrompts};
use super::cache::SharedCache;
use super::chat::Setting;
use super::encoder::EncoderReuse;
use super::fields::ObjectFields;
use super::marks;
use super::model::Model;
use super::partings::{FirstText, HeadPartings};
use super::remarks::ChatRemarks;
use super::roles::RenderedRoles;
use super::rules::ChatRules;
use kvset_core::engines::chat_engine::ChatEngine;
use kvset_core::request::refusal::{DecodeError, ErrorCode};
use kvset_core::units::EventTime;
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
    are_ids: bool,
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

    /// Whether the request gave them as text, so that their ids are the tokenizer's; as token ids where not.
    pub fn are_text(&self) -> bool {
        !self.are_ids
    }

    /// Tokens of all prompts.
    pub fn tokens(&self) -> usize {
        self.ids.len()
    }

    fn clear(&mut self) {
        self.ids.clear();
        self.ends.clear();
        self.are_ids = false;
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

/// Turns OpenAI-compatible bodies into token ids. One per thread; clones share the memory of the pieces
/// they met.
pub struct RequestTokenizer {
    model: Arc<Model>,
    limits: TokenizeLimits,
    cache: Arc<SharedCache>,
    reuse: EncoderReuse,
    prompts: TokenizedPrompts,
    /// The last piece of the last prompt's text, which an answer goes on from.
    tail: String,
    rules: &'static ChatRules,
    roles: RenderedRoles,
    remarks: ChatRemarks,
    /// Where prompts part early, while somebody wants to know.
    partings: Option<HeadPartings>,
}

impl Clone for RequestTokenizer {
    fn clone(&self) -> Self {
        let partings = self.partings.as_ref().map(|_| HeadPartings::default());
        let fresh = Self::with_memory(Arc::clone(&self.model), self.limits, Arc::clone(&self.cache));
        Self { rules: self.rules, partings, ..fresh }
    }
}

impl RequestTokenizer {
    /// A tokenizer for requests to this model.
    pub fn new(model: Arc<Model>, limits: TokenizeLimits) -> Self {
        Self::with_memory(model, limits, Arc::new(SharedCache::new(limits.cache_bytes)))
    }

    fn with_memory(model: Arc<Model>, limits: TokenizeLimits, cache: Arc<SharedCache>) -> Self {
        Self {
            model,
            limits,
            cache,
            reuse: EncoderReuse::default(),
            prompts: TokenizedPrompts::default(),
            tail: String::new(),
            rules: ChatRules::of(ChatEngine::default()),
            roles: RenderedRoles::default(),
            remarks: ChatRemarks::default(),
            partings: None,
        }
    }

    /// The same, which looks where prompts part early, too, and says so in its remarks.
    pub fn watching_partings(self) -> Self {
        Self { partings: Some(HeadPartings::default()), ..self }
    }

    /// The same for bodies that this engine served.
    pub fn served_by(self, engine: ChatEngine) -> Self {
        Self { rules: ChatRules::of(engine), ..self }
    }

    /// What the chats held since the last call that engines treat each in a way of its own.
    pub fn take_remarks(&mut self) -> ChatRemarks {
        std::mem::take(&mut self.remarks)
    }

    /// How much text was tokenised and how much was known, since the start.
    pub fn reuse(&self) -> EncoderReuse {
        self.reuse
    }

    /// Tokenises a chat or completion request, bare or under `body`. `time` is the day that templates
    /// see; without it those that ask for one take their own default or are refused.
    ///
    /// Chats are rendered with the model's template and tokenised as they are, completions get what the
    /// tokenizer puts around a text; `add_special_tokens` in the body says otherwise.
    ///
    /// # Errors
    /// [`DecodeError`]; nothing is known of the request then.
    pub fn tokenize(
        &mut self,
        body: &[u8],
        time: Option<EventTime>,
    ) -> Result<&TokenizedPrompts, DecodeError> {
        self.prompts.clear();
        self.tail.clear();
        self.check_size("the body", body.len(), self.limits.max_body_bytes)?;
        let mut body = Body::read(body)?;
        let mut remarks = ChatRemarks::default();
        let templates = self.model.templates.as_ref();
        let conversion = Conversion {
            rules: self.rules,
            moves_late_system: templates
                .is_some_and(|t| t.moves_late_system(self.rules.moves_unrendered_systems)),
            remarks: &mut remarks,
        };
        match body.take_chat(conversion)? {
            Some(messages) => self.chat(messages, body, time, remarks)?,
            None => self.completion(body)?,
        }
        if self.prompts.is_empty() {
            return Err(DecodeError::new(ErrorCode::MissingField, "the prompt is an empty list"));
        }
        Ok(&self.prompts)
    }

    /// The prompts of the request tokenised last; none where it was refused.
    pub fn prompts(&self) -> &TokenizedPrompts {
        &self.prompts
    }

    /// Token ids of an answer to the prompt tokenised last, as a later prompt that repeats both has them. Where the
    /// tokenizer joins the prompt's end with the answer, the answer's by itself.
    ///
    /// # Errors
    /// [`DecodeError`]: the text is too large, or the tokenizer fails on it.
    pub fn tokenize_answer(&mut self, text: &str) -> Result<Vec<u32>, DecodeError> {
        self.check_size("an answer", text.len(), self.limits.max_prompt_bytes)?;
        let mut encode = |text: &str| -> Result<Vec<u32>, DecodeError> {
            let mut ids = Vec::new();
            self.model.encoder.encode(text, false, &self.cache, &mut self.reuse, &mut ids)?;
            Ok(ids)
        };
        let joined = encode(&[&self.tail, text].concat())?;
        match joined.strip_prefix(encode(&self.tail)?.as_slice()) {
            Some(answer) => Ok(answer.to_vec()),
            None => encode(text),
        }
    }

    fn check_size(&self, what: &str, bytes: usize, limit: usize) -> Result<(), DecodeError> {
        if bytes <= limit {
            return Ok(());
        }
        let detail = format!("{what} has {bytes} bytes, more than the {limit} allowed");
        Err(DecodeError::new(ErrorCode::RequestTooLarge, detail))
    }

    fn completion(&mut self, body: Body<'_>) -> Result<(), DecodeError> {
        let framed = body.add_special_tokens.unwrap_or(true);
        match body.prompt {
            Some(CompletionPrompts::Text(text)) => self.text(&text, framed)?,
            Some(CompletionPrompts::Texts(texts)) => {
                texts.iter().try_for_each(|text| self.text(text, framed))?;
            }
            Some(CompletionPrompts::Tokens(tokens)) => self.tokens(&tokens),
            Some(CompletionPrompts::TokenLists(lists)) => lists.iter().for_each(|tokens| self.tokens(tokens)),
            // A stored prompt was refused when the body was read.
            Some(CompletionPrompts::Stored) | None => {}
        }
        Ok(())
    }

    fn tokens(&mut self, tokens: &[u32]) {
        self.prompts.ids.extend(tokens);
        self.prompts.are_ids = true;
        self.prompts.end_prompt();
    }

    fn text(&mut self, text: &str, framed: bool) -> Result<(), DecodeError> {
        if let Some(partings) = &mut self.partings {
            let parting = partings.observe(None, FirstText::of_completion(text));
            self.remarks.add(&parting);
            self.remarks.add(&marks::of_completion(text));
        }
        self.encode(text, framed)?;
        self.prompts.end_prompt();
        Ok(())
    }

    fn encode(&mut self, text: &str, framed: bool) -> Result<(), DecodeError> {
        self.check_size("a prompt", text.len(), self.limits.max_prompt_bytes)?;
        let ids = &mut self.prompts.ids;
        let last = self.model.encoder.encode(text, framed, &self.cache, &mut self.reuse, ids)?;
        self.tail.clear();
        self.tail.push_str(last);
        Ok(())
    }

    fn chat(
        &mut self,
        messages: Vec<ObjectFields>,
        body: Body<'_>,
        time: Option<EventTime>,
        remarks: ChatRemarks,
    ) -> Result<(), DecodeError> {
        let framed = body.add_special_tokens.unwrap_or(false);
        if !marks::says_something(&messages) {
            let detail = "every `content` of its messages is empty: the log leaves texts out, and without them it \
                has no prompts";
            return Err(DecodeError::new(ErrorCode::MissingField, detail));
        }
        let mut remarks = remarks;
        if let Some(partings) = &mut self.partings {
            remarks.add(&marks::of(&messages, body.continue_final_message == Some(true)));
            remarks.add(&partings.observe(body.raw_tools, FirstText::of_chat(&messages)));
        }
        let setting = Setting { rules: self.rules, time, max_bytes: self.limits.max_prompt_bytes };
        let (text, continued, remarks) =
            setting.render(&self.model, messages, body, &mut self.roles, remarks)?;
        self.encode(&text, framed)?;
        if let Some(rest) = continued {
            self.encode(&rest, false)?;
        }
        self.prompts.end_prompt();
        self.remarks.add(&remarks);
        Ok(())
    }
}
