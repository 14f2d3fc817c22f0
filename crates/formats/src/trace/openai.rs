//! Chat and completion requests, tokenised with a model's own tokenizer and hashed into pages.
//!
//! A line is an OpenAI-compatible body, bare or under `body` (see [`kvset_tokenize`]); a completion of several
//! prompts is several requests. Alongside the body's fields a line may carry `timestamp` (or another of the names
//! that [`crate::record::stated_time`] lists; small numbers in milliseconds) and `session_id`. What it says of the
//! answer is read too: a `usage` (its own, or that of a `response`) or `output_tokens`, and `duration_ms`. The
//! partial last page is hashed too, as for token ids.

use super::extras::{ExtrasReading, RowExtras};
use super::options::ReadOptions;
use super::paging::Paging;
use super::records::{Carried, Decode};
use crate::record::fault::RowFault;
use crate::record::id_scope::IdScope;
use crate::record::json::{Fields, Object, ParseTrouble, read_line};
use crate::record::row::{DeclaredScope, RowBatch};
use crate::retention_class;
use crate::stated::form_of;
use crate::time::{NumberUnit, Numbers};
use kvset_core::units::{EventTime, PageSize};
use kvset_tokenize::{Model, RequestTokenizer, TokenizeLimits};
use serde::de::MapAccess;
use std::sync::Arc;

/// Decodes requests.
pub(super) struct Requests {
    tokenizer: RequestTokenizer,
    paging: Paging,
    numbers: Numbers,
    id_scope: IdScope,
}

impl Requests {
    /// A decoder that tokenises for `model` and hashes pages of `page_size` tokens unless the user says
    /// otherwise.
    pub fn new(model: Arc<Model>, page_size: PageSize, options: &ReadOptions) -> Self {
        let limits = TokenizeLimits { max_body_bytes: options.max_line_bytes, ..TokenizeLimits::default() };
        Self {
            tokenizer: RequestTokenizer::new(model, limits)
                .served_by(options.chat_engine)
                .watching_partings(),
            paging: Paging::new(page_size, options),
            numbers: options.numbers(Numbers::DatesOr(NumberUnit::Milliseconds)),
            id_scope: options.id_scope.clone(),
        }
    }
}

impl Decode for Requests {
    fn decode(
        &mut self,
        line: &[u8],
        number: u64,
        batch: &mut RowBatch,
        carried: &mut Carried,
    ) -> Result<(), RowFault> {
        let (text, trouble) = (&mut batch.text, ParseTrouble::default());
        let (scope_field, numbers, found) = (self.id_scope.field(), self.numbers, RowExtras::default());
        let mut line_extras = LineExtras { text, trouble, scope_field, numbers, found };
        if let Err(error) = read_line(line, Object(&mut line_extras)) {
            return Err(line_extras.trouble.fault(&error));
        }
        let mut extras = line_extras.found;
        if let Some(why) = extras.answer.passed_over() {
            batch.passed_over.push(why);
            return Ok(());
        }
        retention_class::complete(&mut extras.labels, line, &mut batch.text);
        let kept = batch.kept_apart(&extras.parts);
        let arrival = extras.time.arrival(extras.duration());
        self.tokenizer.tokenize(line, arrival.map(|arrival| EventTime(arrival.moment.ms())))?;
        let answer = &extras.answer;
        let generated = answer.generated(self.tokenizer.prompts().len());
        let generated = generated.ids_behind(&mut self.tokenizer)?;
        let remarks = self.tokenizer.take_remarks();
        carried.chats.add(&remarks);
        let prompts = self.tokenizer.prompts();
        for tokens in prompts.iter() {
            if !prompts.are_text() {
                carried.placeholders.note(tokens);
            }
            batch.file_prompt(&mut self.paging, tokens);
            batch.file_answer(&mut self.paging, tokens, &generated);
            let Some(draft) = batch.drafts.last_mut() else { continue };
            extras.complete(draft, prompts.len(), &kept);
            draft.cache_writes = answer.cache_writes(prompts.len());
            (draft.asked, draft.line) = (remarks.asked, number);
        }
        let (found, form) = (prompts.tokens() as u64, form_of(prompts.are_text()));
        let stated = if prompts.are_text() { answer.prompt_tokens() } else { answer.prompt_ids() };
        carried.stated.compare(stated, found, form, &[""; 0])?;
        batch.set_scopes(0, &self.id_scope, DeclaredScope::Global)
    }
}

/// A line of which all is read but the request.
struct LineExtras<'s> {
    text: &'s mut String,
    trouble: ParseTrouble,
    scope_field: Option<&'s str>,
    numbers: Numbers,
    found: RowExtras,
}

impl<'de> Fields<'de> for LineExtras<'_> {
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let Self { text, trouble, scope_field, numbers, found } = self;
        let (scope_field, numbers) = (*scope_field, *numbers);
        found.read(key, map, ExtrasReading { text, trouble, scope_field, numbers })
    }
}
