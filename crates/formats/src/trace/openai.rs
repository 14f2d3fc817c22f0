//! Chat and completion requests, tokenised with a model's own tokenizer and hashed into pages.
//!
//! A line is an OpenAI-compatible body, bare or under `body` (see [`kvset_tokenize`]); a completion of several
//! prompts is several requests. Alongside the body's fields a line may carry `timestamp` (or another of the names
//! that [`crate::record::stated_time`] lists; small numbers in milliseconds) and `session_id`. What it says of the
//! answer is read too: a `usage` (its own, or that of a `response`) or `output_tokens`, and `duration_ms`. The
//! partial last page is hashed too, as for token ids.

use super::options::ReadOptions;
use super::paging::Paging;
use super::records::{Carried, Decode};
use crate::identity::NamedParts;
use crate::record::answer::LoggedAnswer;
use crate::record::fault::RowFault;
use crate::record::id_scope::IdScope;
use crate::record::json::{Fields, Name, Object, ParseTrouble, ignore, read_line, row_name};
use crate::record::row::{DeclaredScope, Draft, RowBatch};
use crate::record::stated_time::StatedTime;
use crate::retention_class;
use crate::stated::form_of;
use crate::time::{NumberUnit, Numbers, ms_of};
use kvset_core::request::labels::{Label, Labels};
use kvset_core::units::{EventTime, PageSize};
use kvset_tokenize::{Model, RequestTokenizer, TokenizeLimits};
use serde::de::MapAccess;
use std::ops::Range;
use std::sync::Arc;

const FIELD_SESSION: &str = "session_id";

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
        let mut beside = LineExtras::new(&self.id_scope, self.numbers, &mut batch.text);
        if let Err(error) = read_line(line, Object(&mut beside)) {
            return Err(beside.trouble.fault(&error));
        }
        let LineExtras { time, session, scope_name, mut labels, answer, parts, .. } = beside;
        if let Some(why) = answer.passed_over() {
            batch.passed_over.push(why);
            return Ok(());
        }
        retention_class::complete(&mut labels, line, &mut batch.text);
        let kept = batch.kept_apart(&parts);
        let duration = answer.duration().or_else(|| time.duration());
        let arrival = time.arrival(duration);
        let moment = arrival.map(|arrival| EventTime(arrival.moment.ms()));
        self.tokenizer.tokenize(line, moment)?;
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
            let Some(filed) = batch.drafts.pop() else { continue };
            let mut draft = Draft {
                page_size: filed.page_size,
                ids: filed.ids,
                are_tokens: filed.are_tokens,
                output_ids: filed.output_ids,
                tokens_behind: filed.tokens_behind,
                ids_chained: filed.ids_chained,
                input_tokens: filed.input_tokens,
                output_tokens: answer.output_tokens(prompts.len()),
                duration_ms: duration.map(ms_of),
                cached_tokens: answer.cached_tokens(prompts.len()),
                cache_writes: answer.cache_writes(prompts.len()),
                labels: filed.labels.or(&labels),
                session: session.clone(),
                scope_name: scope_name.clone(),
                line: number,
                ..kept.clone()
            };
            draft.at(arrival);
            draft.is_end = time.is_end_alone(duration);
            draft.is_backward = time.is_backward();
            draft.asked = remarks.asked;
            batch.drafts.push(draft);
        }
        let (found, form) = (prompts.tokens() as u64, form_of(prompts.are_text()));
        let stated = if prompts.are_text() { answer.prompt_tokens() } else { answer.prompt_ids() };
        carried.stated.compare(stated, found, form, &[""; 0])?;
        for index in 0..batch.drafts.len() {
            batch.set_scope(index, &self.id_scope, DeclaredScope::Global)?;
        }
        Ok(())
    }
}

/// What a line says alongside the request.
struct LineExtras<'s> {
    text: &'s mut String,
    scope_field: Option<&'s str>,
    trouble: ParseTrouble,
    numbers: Numbers,
    time: StatedTime,
    session: Option<Range<usize>>,
    scope_name: Option<Range<usize>>,
    labels: Labels<Range<usize>>,
    answer: LoggedAnswer,
    parts: NamedParts,
}

impl<'s> LineExtras<'s> {
    fn new(id_scope: &'s IdScope, numbers: Numbers, text: &'s mut String) -> Self {
        let scope_field = match id_scope {
            IdScope::Field(name) => Some(name.as_str()),
            _ => None,
        };
        let trouble = ParseTrouble::default();
        let answer = LoggedAnswer::default();
        let labels = Labels::default();
        Self {
            text,
            scope_field,
            trouble,
            numbers,
            time: StatedTime::default(),
            session: None,
            scope_name: None,
            labels,
            answer,
            parts: NamedParts::default(),
        }
    }
}

impl<'de> Fields<'de> for LineExtras<'_> {
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        if self.scope_field == Some(key) {
            self.trouble.field = "--id-scope field";
            self.scope_name = map.next_value_seed(Name(self.text))?;
            if key == FIELD_SESSION {
                self.session = self.scope_name.clone();
            }
            if let Some(label) = Label::of_field(key) {
                self.labels.set(label, self.scope_name.clone());
            }
            return Ok(());
        }
        let key = row_name(key);
        if let Some(known) = StatedTime::name(key) {
            return self.time.read(known, map, self.numbers, &mut self.trouble);
        }
        match key {
            FIELD_SESSION => {
                self.trouble.field = FIELD_SESSION;
                self.session = map.next_value_seed(Name(self.text))?;
            }
            _ if LoggedAnswer::takes(key) => self.answer.read(key, map, &mut self.trouble)?,
            _ if NamedParts::takes(key) => self.parts.read(key, map, self.text)?,
            _ => {
                let label = Label::of_field(key);
                self.trouble.field = label.map_or("", Label::name);
                match label {
                    Some(label) => {
                        let name = map.next_value_seed(Name(self.text))?;
                        self.labels.set(label, name);
                    }
                    None => ignore(map)?,
                }
            }
        }
        Ok(())
    }
}
