//! Logs that are known by name ([`crate::logs`]), a record a line: the same reading as `kvset prepare` has.
//!
//! A prompt that is a body is tokenised with a model's own tokenizer; token ids are hashed as they are, page ids are
//! page ids. Of a line with several requests one that is of no use is refused by itself.

use super::options::ReadOptions;
use super::paging::Paging;
use super::records::{Decode, RecordSink};
use crate::codec::{DecodeError, ErrorCode};
use crate::identity::{self, NamedParts};
use crate::logs::{LogReader, Logged, LoggedPrompt, LoggedRequest, Preset, token_ids};
use crate::record::fault::RowFault;
use crate::record::generated::Generated;
use crate::record::id_scope::IdScope;
use crate::record::json::TOKEN_FIELDS;
use crate::record::members::members;
use crate::record::row::{DeclaredScope, Draft, RefusedRow, RowBatch};
use crate::record::unshown::UnshownFields;
use crate::retention_class;
use crate::stated::PromptForm;
use crate::time::Moment;
use kvset_core::request::labels::{Label, Labels};
#[cfg(feature = "tokenize")]
use kvset_tokenize::{RequestTokenizer, TokenizeLimits};
use std::ops::Range;
use std::sync::Arc;

/// Decodes the records of a log.
pub(super) struct LogDecoder {
    reader: Arc<LogReader>,
    #[cfg(feature = "tokenize")]
    tokenizer: Option<RequestTokenizer>,
    paging: Paging,
    /// When the last request that says so came.
    moment: Moment,
    id_scope: IdScope,
}

impl LogDecoder {
    pub fn new(reader: LogReader, options: &ReadOptions) -> Self {
        #[cfg(feature = "tokenize")]
        let limits = TokenizeLimits { max_body_bytes: options.max_line_bytes, ..TokenizeLimits::default() };
        Self {
            reader: Arc::new(reader),
            #[cfg(feature = "tokenize")]
            tokenizer: options.model.clone().map(|model| {
                RequestTokenizer::new(model, limits).served_by(options.chat_engine).watching_partings()
            }),
            paging: Paging::new(options),
            moment: Moment::default(),
            id_scope: options.id_scope.clone(),
        }
    }
}

impl Decode for LogDecoder {
    fn decode(&mut self, record: &[u8], sink: &mut RecordSink<'_>) -> Result<(), RowFault> {
        let reader = Arc::clone(&self.reader);
        let (count, requests) = match reader.read(record)? {
            Logged::PassedOver(why) => {
                sink.batch.passed_over.push(why);
                return Ok(());
            }
            Logged::Requests { count, requests } => (count, requests),
        };
        for (index, request) in requests.enumerate() {
            let mark = sink.batch.mark();
            let read = request
                .map_err(RowFault::from)
                .and_then(|request| self.file_and_tell(&request, record, sink));
            match read {
                Ok(()) => {}
                Err(fault) if count == 1 => return Err(fault),
                Err(fault) => {
                    sink.batch.go_back(mark);
                    let fault = RowFault::OneOfSeveral { number: index + 1, count, fault: Box::new(fault) };
                    sink.batch.refused.push(RefusedRow { after: 0, line: sink.number, fault });
                }
            }
        }
        // They follow the good ones of their record.
        let RowBatch { refused, drafts, .. } = &mut *sink.batch;
        refused.iter_mut().for_each(|row| row.after = drafts.len());
        refused.reverse();
        Ok(())
    }
}

impl LogDecoder {
    fn file_and_tell(
        &mut self,
        request: &LoggedRequest<'_>,
        record: &[u8],
        sink: &mut RecordSink<'_>,
    ) -> Result<(), RowFault> {
        self.moment = request.arrival.map_or(self.moment, |arrival| arrival.moment);
        let first = sink.batch.drafts.len();
        let form = self.file(request, sink)?;
        let RecordSink { batch, carried, number } = sink;
        if let Some(form) = form {
            let found = batch.drafts[first..].iter().filter_map(|draft| draft.input_tokens).sum();
            let observed = &request.observed;
            let stated = (observed.input_tokens, observed.counted_apart());
            carried.stated.compare(stated, found, form, &observed.unread)?;
        }
        let parts = self.parts(request, record, &mut batch.text);
        let kept = batch.kept_apart(&parts);
        batch.drafts[first..].iter_mut().for_each(|draft| draft.inherit_identity(&kept));
        self.tell(request, first, *number, batch)
    }

    /// What keeps its pages apart: what the log calls it, else what the record says, else the request itself.
    fn parts(&self, request: &LoggedRequest<'_>, record: &[u8], text: &mut String) -> NamedParts {
        let mut parts = NamedParts::default();
        if let LoggedPrompt::Body(body) = &request.prompt {
            parts.read_within(body.as_bytes(), text);
        }
        if self.reader.preset.is_none_or(Preset::has_fields) {
            parts.read_within(record, text);
        }
        for (place, (path, _)) in identity::FIELDS.iter().enumerate() {
            if let Some(value) = request.name(&path.join(".")) {
                let start = text.len();
                text.push_str(value);
                parts.set(place, start..text.len());
            }
        }
        parts
    }

    /// Files the prompts of a request, one draft each. Returns what they are logged as; of page ids nothing, whose
    /// number is compared with their tokens where every row's is.
    fn file(
        &mut self,
        request: &LoggedRequest<'_>,
        sink: &mut RecordSink<'_>,
    ) -> Result<Option<PromptForm>, RowFault> {
        let answer = &request.observed.answer;
        match &request.prompt {
            LoggedPrompt::Body(body) => {
                let tokens = if self.reader.names_places() { tokens_in(body)? } else { None };
                match tokens {
                    Some(prompts) => Ok(Some(self.hash(&prompts, answer, sink))),
                    None => self.tokenize(body.as_bytes(), answer, sink).map(Some),
                }
            }
            LoggedPrompt::Tokens(prompts) => Ok(Some(self.hash(prompts, answer, sink))),
            LoggedPrompt::Pages { ids, page_size } => {
                let batch = &mut *sink.batch;
                let start = batch.ids.len();
                batch.ids.extend_from_slice(ids);
                batch.drafts.push(Draft {
                    page_size: page_size.or(Some(self.paging.page_size())),
                    ids: start..batch.ids.len(),
                    input_tokens: request.observed.input_tokens,
                    ..Draft::default()
                });
                Ok(None)
            }
        }
    }

    fn hash(&mut self, prompts: &[Vec<u32>], answer: &Generated, sink: &mut RecordSink<'_>) -> PromptForm {
        // An answer to several prompts is none of theirs.
        let answer = if prompts.len() == 1 { answer.ids() } else { &[] };
        prompts.iter().for_each(|tokens| sink.file_tokens(&mut self.paging, tokens, answer));
        PromptForm::TokenIds
    }

    #[cfg(feature = "tokenize")]
    fn tokenize(
        &mut self,
        body: &[u8],
        answer: &Generated,
        sink: &mut RecordSink<'_>,
    ) -> Result<PromptForm, RowFault> {
        let tokenizer = self.tokenizer.as_mut().ok_or_else(no_model)?;
        sink.file_body((&mut self.paging, tokenizer), (body, Some(self.moment)), answer)
    }

    #[cfg(not(feature = "tokenize"))]
    fn tokenize(&mut self, _: &[u8], _: &Generated, _: &mut RecordSink<'_>) -> Result<PromptForm, RowFault> {
        Err(no_model().into())
    }

    /// Gives the drafts from `first` on what the log says of their request.
    fn tell(
        &self,
        request: &LoggedRequest<'_>,
        first: usize,
        line: u64,
        batch: &mut RowBatch,
    ) -> Result<(), RowFault> {
        let mut keep = |name: &str| -> Option<Range<usize>> {
            let value = request.name(name)?;
            let start = batch.text.len();
            batch.text.push_str(value);
            Some(start..batch.text.len())
        };
        let session = keep("session_id");
        let mut labels: Labels<_> =
            Label::ALL.into_iter().filter_map(|label| Some((label, keep(label.name())?))).collect();
        let scope_name = self.id_scope.field().and_then(keep);
        if let LoggedPrompt::Body(body) = &request.prompt {
            retention_class::complete(&mut labels, body.as_bytes(), &mut batch.text);
        }
        let observed = request.observed.clone().of_prompts(batch.drafts.len() - first);
        for draft in &mut batch.drafts[first..] {
            draft.at(request.arrival);
            draft.line = line;
            draft.session = session.clone();
            draft.labels = std::mem::take(&mut draft.labels).or(&labels);
            draft.scope_name = scope_name.clone();
            draft.observe(&observed);
        }
        batch.set_scopes(first, &self.id_scope, DeclaredScope::Global)
    }
}

/// The prompts of a request that was found where the operator said, where it holds token ids.
fn tokens_in(request: &str) -> Result<Option<Vec<Vec<u32>>>, DecodeError> {
    let invalid = |what: String| DecodeError::new(ErrorCode::InvalidField, what);
    if request.trim_start().starts_with('[') {
        let ids = token_ids(request);
        return ids.map(Some).ok_or_else(|| {
            invalid("the request is a list, and none of token ids: name the object around it".to_owned())
        });
    }
    let Some(members) = members(request) else { return Ok(None) };
    let is_ids = |name: &str, json: &str| TOKEN_FIELDS.contains(&name) && json.starts_with('[');
    let mut lists = members.iter().filter(|(name, json)| is_ids(name, json.get()));
    let Some((name, json)) = lists.next() else { return Ok(None) };
    if lists.next().is_some() {
        return Err(invalid("the request holds token ids twice".to_owned()));
    }
    let ids = token_ids(json.get());
    let ids = ids.ok_or_else(|| invalid(format!("`{name}` of the request is no list of token ids")))?;
    // No prompt is empty: where its ids are, the text alongside them is what was served.
    let has_body = members.iter().any(|(name, _)| ["messages", "prompt", "input"].contains(&name.as_ref()));
    if has_body && ids.iter().any(Vec::is_empty) {
        return Ok(None);
    }
    let mut unshown = UnshownFields::default();
    unshown.note_list(name);
    members.iter().for_each(|(name, json)| unshown.read(name, json.get()));
    unshown.check(ids.iter().map(|ids| ids.len() as u64).max().unwrap_or(0))?;
    Ok(Some(ids))
}

fn no_model() -> DecodeError {
    let detail = "its prompt is text, which only the model's own tokenizer can read: name the model's directory with \
        --model (a build with the feature tokenize has it)";
    DecodeError::new(ErrorCode::UnknownModel, detail)
}
