//! Records of logs that are known by name: one of them may hold many requests.
//!
//! The requests of a record are prepared in its order, each by itself. Their events go out together, with the offset
//! after the record, so a record that is read again gives them again or not at all. A request that is of no use takes
//! none of the others with it: the record's dead letter says which were refused and why the first one was.

use super::events::{push_pages, signed};
use super::fields::{self, Held};
use super::preparer::{Preparer, other_format};
use super::recipe::RawFormat;
use super::records::{PoolShare, Prepared, RawRecord};
use kvset_core::event::CachedTokens;
use kvset_core::pages::PageIds;
use kvset_formats::codec::{DecodeError, ErrorCode, RequestMessage};
use kvset_formats::logs::{Logged, LoggedPrompt, LoggedRequest, Preset};
use kvset_formats::position::Partition;
use kvset_formats::time::ms_of;
use std::borrow::Cow;
use std::sync::Arc;

/// Most requests of one record: what the OpenTelemetry collector sends at once where nobody says otherwise.
const MAX_REQUESTS: usize = 8192;
/// Most refused requests of one record that its dead letter names by their numbers.
const NAMED: usize = 16;

impl Preparer {
    /// Prepares a record of this shape.
    pub(super) fn prepare_logged(&mut self, preset: Preset, record: &RawRecord<'_>) -> Prepared {
        let value = record.source.value.unwrap_or_default();
        let recipe = Arc::clone(&self.recipe);
        let read = self.recipe.limits.decode.check_size(value).and_then(|()| {
            let logged = preset.read(value, &recipe.places)?;
            check_count(&logged)?;
            Ok(logged)
        });
        let mut all = Prepared { partition: Partition(record.source.partition), ..Prepared::default() };
        let (count, requests) = match read {
            Ok(Logged::Requests { count, requests }) => (count, requests),
            Ok(Logged::PassedOver(why)) => {
                all.passed_over = Some(why);
                return all;
            }
            Err(error) => return self.refuse(record, &error),
        };
        let (mut refused, mut first) = (Vec::new(), None);
        for (index, request) in requests.enumerate() {
            let mut one = Prepared { partition: all.partition, ..Prepared::default() };
            match request.and_then(|request| self.logged(&request, record, &mut one)) {
                Ok(()) if count == 1 => return one,
                Ok(()) => all.add(one),
                Err(error) => {
                    refused.push(index + 1);
                    first.get_or_insert(error);
                }
            }
        }
        let Some(error) = first else { return all };
        if count == 1 {
            return self.refuse(record, &error);
        }
        let detail = format!("{}: {}", places(&refused, count), error.detail());
        let letter = self.refuse(record, &DecodeError::new(error.code(), detail));
        all.outputs.extend(letter.outputs);
        all.refused = letter.refused;
        all.refused_requests = refused.len() as u64;
        all
    }

    /// The events of one request.
    fn logged(
        &mut self,
        request: &LoggedRequest<'_>,
        record: &RawRecord<'_>,
        out: &mut Prepared,
    ) -> Result<(), DecodeError> {
        let held = self.read_beside(request, record)?;
        let arrival = request.arrival.filter(|_| self.recipe.event_time.is_none());
        let mut common = self.common(record, arrival)?;
        common.output_tokens = request.output_tokens.and_then(signed);
        common.duration_ms = request.duration.map(ms_of).and_then(signed);
        common.cached_tokens = request.cached_tokens;
        out.cache_writes = request.cache_writes;
        match &request.prompt {
            LoggedPrompt::Body(body) => {
                match self.kind(held)? {
                    RawFormat::TokenIds => self.token_ids(&common, out)?,
                    RawFormat::PageIds => return Err(other_format()),
                    _ => self.body(body.as_bytes(), &common, record, out)?,
                }
                if let Some(stated) = request.input_tokens.filter(|_| out.requests == 1) {
                    out.stated_prompts = 1;
                    out.differing_prompts = u64::from(stated != out.tokens);
                }
                Ok(())
            }
            LoggedPrompt::Tokens(prompts) => {
                self.expect(RawFormat::TokenIds)?;
                self.prompts.set_all(prompts);
                self.token_ids(&common, out)
            }
            LoggedPrompt::Pages { ids, page_size } => {
                self.expect(RawFormat::PageIds)?;
                let scope = common.namespace.map(|scope| Cow::Owned(format!("{:016x}", scope.value())));
                let message = RequestMessage {
                    event_time: common.time.0,
                    page_ids: PageIds::from_slice(ids),
                    page_size: page_size.and_then(|size| i32::try_from(size.get()).ok()),
                    input_tokens: request.input_tokens.and_then(signed),
                    output_tokens: common.output_tokens,
                    duration_ms: common.duration_ms,
                    cached_tokens: common.cached_tokens.stated().and_then(signed),
                    cached_tokens_left_out: common.cached_tokens == CachedTokens::LeftOut,
                    labels: common.labels.each_ref().map(String::as_str),
                    scope,
                    ..RequestMessage::default()
                };
                out.time_form = common.form;
                push_pages(&self.recipe, &common.pool, message, out)
            }
        }
    }

    /// Reads what templates and labels name: from the record, from the request in it, and by the log's own names, each
    /// before the one that comes ahead of it here.
    fn read_beside(
        &mut self,
        request: &LoggedRequest<'_>,
        record: &RawRecord<'_>,
    ) -> Result<Held, DecodeError> {
        let value = record.source.value.unwrap_or_default();
        let (paths, prompts) = (&self.names.paths, &mut self.prompts);
        if self.recipe.preset.is_some_and(Preset::has_fields) {
            fields::read(value, paths, false, &mut self.values, prompts, None)?;
        } else {
            self.values.reset(paths.len());
        }
        let held = match &request.prompt {
            LoggedPrompt::Body(body) => {
                fields::read_request(body.as_bytes(), paths, true, &mut self.values, prompts)?
            }
            _ => Held::default(),
        };
        for (index, path) in self.names.paths.iter().enumerate() {
            if let Some(value) = request.name(&path.join(".")) {
                self.values.set(index, value)?;
            }
        }
        Ok(held)
    }
}

/// Which requests of a record were refused, counted from 1.
fn places(refused: &[usize], count: usize) -> String {
    let named: Vec<String> = refused.iter().take(NAMED).map(usize::to_string).collect();
    let more = if refused.len() > NAMED { ", ..." } else { "" };
    format!(
        "{} of {count} requests of the record (number {}{more}), the first of them",
        refused.len(),
        named.join(", ")
    )
}

fn check_count(logged: &Logged<'_>) -> Result<(), DecodeError> {
    match logged {
        Logged::Requests { count, .. } if *count > MAX_REQUESTS => {
            let detail = format!(
                "the record has {count} requests, more than {MAX_REQUESTS}: let the collector send smaller batches",
            );
            Err(DecodeError::new(ErrorCode::RequestTooLarge, detail))
        }
        _ => Ok(()),
    }
}

impl Prepared {
    /// Adds what became of a further request of the record.
    fn add(&mut self, one: Self) {
        self.outputs.extend(one.outputs);
        self.requests += one.requests;
        one.arrivals.into_iter().for_each(|arrivals| self.note_arrival(arrivals));
        self.time_form = one.time_form.or(self.time_form);
        self.tokens += one.tokens;
        self.pages += one.pages;
        self.stated_prompts += one.stated_prompts;
        self.differing_prompts += one.differing_prompts;
        if let Some(writes) = one.cache_writes {
            self.cache_writes.get_or_insert_default().add(&writes);
        }
        if self.pool.is_empty() {
            one.pool.clone_into(&mut self.pool);
        }
        let share = PoolShare { requests: one.requests, tokens: one.tokens, pages: one.pages };
        match self.shares.iter_mut().find(|(pool, _)| *pool == one.pool) {
            Some((_, known)) => known.add(share),
            None => self.shares.push((one.pool, share)),
        }
    }
}

impl PoolShare {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.tokens += other.tokens;
        self.pages += other.pages;
    }
}
