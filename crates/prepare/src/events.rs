//! Prompts to request events: hashed, sampled, within limits, written.

use super::recipe::{PageRules, PrepareLimits, Recipe};
use super::records::{PoolShare, PreparedRecord};
use kvset_core::request::event::{CachedTokens, full_pages};
use kvset_core::request::id_scheme::IdScheme;
use kvset_core::request::labels::{Label, Labels};
use kvset_core::request::sample::Sample;
use kvset_core::units::EventTime;
use kvset_core::units::hashing::PageHasher;
use kvset_core::units::pages::{PageIds, Scope};
use kvset_core::units::ratio::Ratio;
use kvset_formats::codec::{DecodeError, ErrorCode, RequestEncoding, RequestMessage, encode_request};
use kvset_formats::output::{Destination, OutputRecord};
use kvset_formats::retention_class;
use kvset_formats::time::{TimeForm, ms_of};
use kvset_formats::trace::ObservedRequest;

/// What a record's events have in common.
#[derive(Clone)]
pub(super) struct Common {
    pub(super) pool: String,
    pub(super) rules: PageRules,
    pub(super) namespace: Option<Scope>,
    pub(super) time: EventTime,
    /// How the record writes that; nothing where it is the stamp of the record.
    pub(super) form: Option<TimeForm>,
    /// What the record says of its only prompt.
    pub(super) observed: ObservedRequest,
    pub(super) labels: Labels<String>,
}

impl Common {
    /// What every event of the record says.
    pub(super) fn message(&self) -> RequestMessage<'_> {
        let ObservedRequest { output_tokens, duration, cached_tokens, .. } = &self.observed;
        RequestMessage {
            event_time: self.time.0,
            output_tokens: output_tokens.and_then(signed),
            duration_ms: duration.map(ms_of).and_then(signed),
            cached_tokens: cached_tokens.stated().and_then(signed),
            cached_tokens_left_out: *cached_tokens == CachedTokens::LeftOut,
            labels: self.labels.each_ref().map(String::as_str),
            ..RequestMessage::default()
        }
    }

    /// The same with how long its body asks for its pages to be kept; `None` where that adds nothing.
    pub(super) fn with_retention_class_of(&self, body: &[u8]) -> Option<Self> {
        if self.labels.get(Label::RetentionClass).is_some() {
            return None;
        }
        let class = retention_class::of_body(body)?;
        let mut labelled = self.clone();
        labelled.labels.set(Label::RetentionClass, Some(class));
        Some(labelled)
    }

    /// The same for a record of several prompts.
    pub(super) fn of_several(&self) -> Self {
        Self { observed: self.observed.clone().of_prompts(0), ..self.clone() }
    }
}

/// Turns prompts of one record into request events.
pub(super) struct Hashing<'a> {
    recipe: &'a Recipe,
    common: &'a Common,
    hasher: PageHasher,
    ids: &'a mut Vec<u64>,
    out: &'a mut PreparedRecord,
}

impl<'a> Hashing<'a> {
    pub(super) fn new(
        recipe: &'a Recipe,
        common: &'a Common,
        ids: &'a mut Vec<u64>,
        out: &'a mut PreparedRecord,
    ) -> Self {
        let page_size = common.rules.page_size;
        let hasher = match recipe.hash_key {
            None => PageHasher::new(page_size),
            Some(key) => PageHasher::keyed(page_size, key),
        };
        Self { recipe, common, hasher, ids, out }
    }

    pub(super) fn expect(&self, prompts: usize) -> Result<(), DecodeError> {
        let limit = self.recipe.limits.max_prompts;
        if prompts <= limit {
            return Ok(());
        }
        let detail = format!("the record has more than {limit} prompts");
        Err(DecodeError::new(ErrorCode::RequestTooLarge, detail))
    }

    /// Adds the event of a prompt and the token ids of its answer, which are empty where they are not known.
    pub(super) fn prompt(&mut self, tokens: &[u32], answer: &[u32]) -> Result<(), DecodeError> {
        self.expect(self.out.outputs.len() + 1)?;
        self.out.share(&self.common.pool).tokens += tokens.len() as u64;
        self.out.time_form = self.common.form;
        let limit = self.recipe.limits.max_tokens;
        if self.out.total().tokens > limit as u64 {
            let detail = format!("the record has more tokens than prepare.max_tokens = {limit}");
            return Err(DecodeError::new(ErrorCode::RequestTooLarge, detail));
        }
        let common = self.common;
        let rules = common.rules;
        let limits = &self.recipe.limits.decode;
        limits.check_pages(tokens.len() / rules.page_size.get() as usize)?;
        self.ids.clear();
        let namespace = common.namespace.unwrap_or(Scope::GLOBAL);
        self.hasher.hash(namespace, tokens, rules.include_partial_page, self.ids);
        let mut output_ids = Vec::new();
        self.hasher.hash_answer(namespace, (tokens, self.ids), answer, &mut output_ids);
        limits.check_pages(self.ids.len() + output_ids.len())?;
        let sampled = rules.sample_rate != Ratio::ONE;
        if sampled {
            let sample = Sample::at(rules.sample_rate);
            for ids in [&mut *self.ids, &mut output_ids] {
                *ids = sample.followed(Scope::GLOBAL, PageIds::from_slice(ids)).collect();
            }
        }
        let scheme = IdScheme::of_hasher(rules.page_size, self.recipe.hash_key.is_some());
        let mut message = RequestMessage {
            page_ids: PageIds::from_slice(self.ids),
            output_page_ids: PageIds::from_slice(&output_ids),
            ids_chained: true,
            page_size: i32::try_from(rules.page_size.get()).ok(),
            // With it, the number of page ids would have to fit.
            input_tokens: if sampled { None } else { i64::try_from(tokens.len()).ok() },
            ..common.message()
        };
        message.labels.set(Label::IdScheme, Some(&scheme));
        if sampled {
            // Of a sample's pages nobody knows how many came from the cache.
            (message.cached_tokens, message.cached_tokens_left_out) = (None, false);
        }
        limits.admit(Some(common.pool.as_bytes()), message.clone())?;
        push(self.out, &self.recipe.limits, &common.pool, &message)
    }
}

/// Adds the event of a request whose page ids are ready made, with those of them that the pool's sample follows.
pub(super) fn push_pages(
    recipe: &Recipe,
    pool: &str,
    message: RequestMessage<'_>,
    out: &mut PreparedRecord,
) -> Result<(), DecodeError> {
    let rules = recipe.rules(pool);
    let (ids, output_ids, scheme);
    let mut message = message;
    if let Some(key) = recipe.hash_key {
        // Whoever made them had no key.
        let keyed = |ids: PageIds<'_>| -> Vec<u64> { ids.iter().map(|id| key.id(id)).collect() };
        (ids, output_ids) = (keyed(message.page_ids), keyed(message.output_page_ids));
        message.page_ids = PageIds::from_slice(&ids);
        message.output_page_ids = PageIds::from_slice(&output_ids);
        // Where there is no room for the name of the scheme with the key, it is not known.
        scheme = message.labels.take(Label::IdScheme).map(|name| format!("{name}:keyed"));
        message.labels.set(Label::IdScheme, scheme.as_deref().filter(|name| IdScheme::new(name).is_some()));
    }
    let limits = &recipe.limits.decode;
    let event = limits.admit(Some(pool.as_bytes()), message.clone())?.event;
    out.share(pool).tokens += event.input_tokens.unwrap_or(0);
    let mut followed = Vec::new();
    if rules.sample_rate != Ratio::ONE {
        let page_size = event.page_size.unwrap_or(rules.page_size);
        let full = full_pages(&event, page_size, rules.include_partial_page)
            .map_err(|error| DecodeError::new(ErrorCode::PageCountMismatch, error.to_string()))?;
        let sample = Sample::at(rules.sample_rate);
        followed.extend(sample.followed(event.scope, full));
        let prompt_pages = followed.len();
        followed.extend(sample.followed(event.scope, event.output_page_ids));
        let (prompt, output) = followed.split_at(prompt_pages);
        message.page_ids = PageIds::from_slice(prompt);
        message.output_page_ids = PageIds::from_slice(output);
        message.input_tokens = None;
        // Of a sample's pages nobody knows how many came from the cache.
        (message.cached_tokens, message.cached_tokens_left_out) = (None, false);
    }
    push(out, &recipe.limits, pool, &message)
}

/// Adds an event to what goes out.
fn push(
    out: &mut PreparedRecord,
    limits: &PrepareLimits,
    pool: &str,
    message: &RequestMessage<'_>,
) -> Result<(), DecodeError> {
    let mut value = Vec::with_capacity(64 + 8 * (message.page_ids.len() + message.output_page_ids.len()));
    encode_request(message, RequestEncoding::Avro, &mut value)
        .map_err(|_| DecodeError::new(ErrorCode::Undecodable, "the event cannot be written"))?;
    let (bytes, limit) = (pool.len() + value.len(), limits.max_event_bytes);
    if bytes > limit {
        let detail = format!("its event has {bytes} bytes, more than prepare.max_event_bytes = {limit}");
        return Err(DecodeError::new(ErrorCode::TooManyPages, detail));
    }
    out.share(pool).add(PoolShare { requests: 1, tokens: 0, pages: message.page_ids.len() as u64 });
    out.note_arrival((message.event_time, message.event_time));
    out.outputs.push(OutputRecord {
        destination: Destination::Results,
        partition: out.partition,
        window: None,
        key: Some(pool.as_bytes().to_vec()),
        value: Some(value),
        headers: Vec::new(),
        placed_by: None,
    });
    Ok(())
}

/// As a message has a count.
pub(super) fn signed(count: u64) -> Option<i64> {
    i64::try_from(count).ok()
}
