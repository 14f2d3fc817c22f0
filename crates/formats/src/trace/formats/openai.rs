//! Chat and completion requests, tokenised with a model's own tokenizer and hashed into pages.
//!
//! A line is an OpenAI-compatible body, bare or under `body` (see [`kvset_tokenize`]); a completion of several
//! prompts is several requests. Alongside the body's fields a line may carry `timestamp` (or another of the names
//! that [`crate::record::stated_time`] lists; small numbers in milliseconds) and `session_id`. What it says of the
//! answer is read too: a `usage` (its own, or that of a `response`) or `output_tokens`, and `duration_ms`. The
//! partial last page is hashed too, as for token ids.

use crate::record::extras::{ExtrasReading, RowExtras};
use crate::record::fault::RowFault;
use crate::record::id_scope::IdScope;
use crate::record::json::{Fields, Object, ParseTrouble, read_line};
use crate::record::row::DeclaredScope;
use crate::retention_class;
use crate::time::{NumberUnit, Numbers};
use crate::trace::options::ReadOptions;
use crate::trace::paging::Paging;
use crate::trace::records::{Decode, RecordSink};
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
    /// A decoder that tokenises for `model`.
    pub fn new(model: Arc<Model>, options: &ReadOptions) -> Self {
        let limits = TokenizeLimits { max_body_bytes: options.max_line_bytes, ..TokenizeLimits::default() };
        Self {
            tokenizer: RequestTokenizer::new(model, limits)
                .served_by(options.chat_engine)
                .watching_partings(),
            paging: Paging::new(options),
            numbers: options.numbers(Numbers::DatesOr(NumberUnit::Milliseconds)),
            id_scope: options.id_scope.clone(),
        }
    }
}

impl Decode for Requests {
    fn decode(&mut self, line: &[u8], sink: &mut RecordSink<'_>) -> Result<(), RowFault> {
        let batch = &mut *sink.batch;
        let (text, trouble) = (&mut batch.text, ParseTrouble::default());
        let (scope_field, numbers, found) = (self.id_scope.field(), self.numbers, RowExtras::default());
        let mut line_extras = LineExtras { text, trouble, scope_field, numbers, found };
        if let Err(error) = read_line(line, Object(&mut line_extras)) {
            return Err(line_extras.trouble.fault(&error));
        }
        let mut extras = line_extras.found;
        if let Some(why) = extras.answer().passed_over() {
            batch.passed_over.push(why);
            return Ok(());
        }
        retention_class::complete(&mut extras.labels, line, &mut batch.text);
        let kept = batch.kept_apart(&extras.parts);
        let time = extras.time.arrival(extras.duration()).map(|arrival| arrival.moment);
        let (observed, first) = (extras.observed(), batch.drafts.len());
        let paging = (&mut self.paging, &mut self.tokenizer);
        let form = sink.file_body(paging, (line, time), &observed.answer)?;
        let RecordSink { batch, carried, number } = sink;
        let drafts = &mut batch.drafts[first..];
        let found = drafts.iter().filter_map(|draft| draft.input_tokens).sum();
        let observed = observed.of_prompts(drafts.len());
        for draft in drafts {
            extras.complete(draft, &observed, &kept);
            draft.line = *number;
        }
        carried.stated.compare(observed.stated(form), found, form, &observed.unread)?;
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
