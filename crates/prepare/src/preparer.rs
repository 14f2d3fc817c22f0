//! One record to its request events, or to a dead letter.

use super::events::{Common, Hashing, push_pages};
use super::field_lookup::FieldLookup;
use super::fields::ValueDepth::{Body, Top};
use super::fields::{self, FieldValues, PromptForms};
use super::models::Tokenizers;
use super::recipe::{RawFormat, Recipe, TemplateFields};
use super::records::{PreparedRecord, RawRecord};
use super::tokens::RecordPrompts;
use kvset_core::units::EventTime;
use kvset_formats::almost_json;
use kvset_formats::codec::{
    DeadLetter, DecodeError, Encoding, ErrorCode, LetterContent, LookupError, Provenance, RawPrompt,
    RawRequest, RequestDecoder, WriterSchemas, count,
};
use kvset_formats::logs::{FieldPath, LogReader, Preset, foreign};
use kvset_formats::output::{Destination, OutputRecord};
use kvset_formats::placeholders::Placeholders;
use kvset_formats::position::Partition;
use kvset_formats::record::outcome::served_elsewhere;
use kvset_formats::stated::PromptForm;
use kvset_formats::time::Time;
use kvset_formats::trace::{self, Format, LoggedAnswer, ObservedRequest};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// Prepares records.
pub struct Preparer {
    pub(super) recipe: Arc<Recipe>,
    pub(super) names: TemplateFields,
    pub(super) reader: Arc<LogReader>,
    tokenizers: Tokenizers,
    decoder: RequestDecoder,
    pub(super) values: FieldValues,
    pub(super) prompts: RecordPrompts,
    /// What the record at hand says of its answer.
    pub(super) answer: LoggedAnswer,
    ids: Vec<u64>,
}

impl Preparer {
    /// A preparer; those of several threads get clones of the tokenizers.
    pub fn new(recipe: Arc<Recipe>, tokenizers: Tokenizers) -> Self {
        Self {
            names: TemplateFields::of(&recipe),
            reader: Arc::new(LogReader { preset: recipe.preset, places: recipe.places.clone() }),
            tokenizers,
            decoder: RequestDecoder::new(Encoding::Auto, recipe.limits.decode),
            recipe,
            values: FieldValues::default(),
            prompts: RecordPrompts::default(),
            answer: LoggedAnswer::default(),
            ids: Vec::new(),
        }
    }

    /// The same, which finds the schemas of records in Confluent's wire format here.
    pub fn with_schemas(self, schemas: Option<Arc<dyn WriterSchemas>>) -> Self {
        Self { decoder: self.decoder.with_schemas(schemas), ..self }
    }

    /// Gets the schema that [`Self::prepare`] will need for this record, where it needs one: the only step
    /// that may wait.
    ///
    /// # Errors
    /// The schema cannot be known now, and so neither what the record is.
    pub fn look_up(&mut self, record: &RawRecord<'_>) -> Result<(), LookupError> {
        self.decoder.look_up(record.source.payload())
    }

    /// The JSON of a record whose schema, which was looked up, is one of JSON; the value of any other.
    pub fn json_within<'r>(&self, record: &RawRecord<'r>) -> &'r [u8] {
        self.decoder.json_within(record.source.payload())
    }

    /// What the chats since the last call held that a reader of the result should know, in sentences.
    pub fn remarks(&mut self) -> Vec<String> {
        self.tokenizers.remarks()
    }

    /// Prepares one record. One that cannot be used becomes a dead letter, where those are requested.
    pub fn prepare(&mut self, record: &RawRecord<'_>) -> PreparedRecord {
        let value = self.json_within(record);
        let passed_over = match record.source.value {
            None => Some(PreparedRecord::TOMBSTONE),
            Some(_) => served_elsewhere(value, value),
        };
        if passed_over.is_some() {
            let partition = Partition(record.source.partition);
            return PreparedRecord { passed_over, ..PreparedRecord::of(partition) };
        }
        let prepared = self.prepare_value(value, record);
        // What fails may hold words that only Python's JSON has.
        match almost_json::as_json(value).filter(|_| prepared.refused.is_some()) {
            Some(json) => self.prepare_value(&json, record),
            None => prepared,
        }
    }

    /// The refusal of a record that cannot be read as it is, but is known for what it is.
    pub(super) fn of_a_known_log(&self, value: &[u8], error: DecodeError) -> DecodeError {
        use ErrorCode::{MissingField, Undecodable, UnknownEncoding, UnrenderedField};
        let unread = matches!(error.code(), MissingField | Undecodable | UnknownEncoding | UnrenderedField);
        if !unread || self.recipe.preset.is_some() || self.recipe.places.request.is_some() {
            return error;
        }
        let what = match Preset::recognise(value) {
            Some((log, place)) if place.is_top() => {
                Some(format!("this is the log of {log}, set prepare.preset = \"{log}\""))
            }
            Some((log, place)) => {
                Some(format!("{place} is the log of {log}, set prepare.preset = \"{log}\""))
            }
            None => of_a_trace(value).or_else(|| foreign::describe(value)),
        };
        let Some(what) = what else { return error };
        if !value.trim_ascii_start().starts_with(b"{") {
            return DecodeError::new(UnknownEncoding, what);
        }
        DecodeError::new(error.code(), format!("{what}: {}", error.detail()))
    }

    /// The dead letter of a record that is refused for this reason.
    pub fn refuse(&self, record: &RawRecord<'_>, error: &DecodeError) -> PreparedRecord {
        let recipe = &self.recipe;
        let by = Provenance { version: &recipe.version, fingerprint: &recipe.fingerprint };
        let mut letter = match recipe.letters {
            LetterContent::Raw => Some(DeadLetter::within(recipe.max_letter_bytes, record.source, error, by)),
            LetterContent::Redacted => Some(DeadLetter::redacted(record.source, error, by)),
            LetterContent::Off => None,
        };
        if let (Some(letter), Some(_)) = (&mut letter, recipe.hash_key) {
            // A record that somebody guesses could be recognised by it.
            letter.headers.retain(|(name, _)| *name != DeadLetter::HASH);
        }
        let outputs = letter.map(|letter| OutputRecord {
            destination: Destination::DeadLetters,
            partition: Partition(record.source.partition),
            window: None,
            key: letter.key,
            value: letter.value,
            headers: letter.headers,
            placed_by: None,
        });
        PreparedRecord {
            outputs: outputs.into_iter().collect(),
            refused: Some(error.code()),
            refused_requests: 1,
            ..PreparedRecord::of(Partition(record.source.partition))
        }
    }

    pub(super) fn events(
        &mut self,
        record: &RawRecord<'_>,
        out: &mut PreparedRecord,
    ) -> Result<(), DecodeError> {
        let value = record.source.value.unwrap_or_default();
        self.answer = LoggedAnswer::default();
        let mut rewritten = Vec::new();
        if let Some(raw) = self.decoder.read_raw(record.source.payload(), &mut rewritten) {
            return self.raw_request(raw?, record, out);
        }
        if value.trim_ascii_start().first() != Some(&b'{') {
            // Request events in Avro, or nothing that is known: the decoder says which.
            self.values.reset(self.names.paths.len());
            self.expect(RawFormat::PageIds)?;
            return self.page_ids(record, out);
        }
        let with_tokens = matches!(self.recipe.format, RawFormat::Auto | RawFormat::TokenIds);
        if let Some(path) = &self.recipe.places.request {
            let request = path.find(value)?.ok_or_else(|| nothing_at(path))?;
            let (paths, prompts) = (&self.names.paths, &mut self.prompts);
            fields::read(value, Top, paths, false, &mut self.values, prompts, Some(&mut self.answer))?;
            let request = request.as_bytes();
            let held = fields::read(request, Body, paths, with_tokens, &mut self.values, prompts, None)?;
            return self.request(held, request, record, out);
        }
        let (paths, prompts) = (&self.names.paths, &mut self.prompts);
        let held =
            fields::read(value, Top, paths, with_tokens, &mut self.values, prompts, Some(&mut self.answer))?;
        self.request(held, value, record, out)
    }

    /// A request in JSON, once its fields are read.
    fn request(
        &mut self,
        held: PromptForms,
        request: &[u8],
        record: &RawRecord<'_>,
        out: &mut PreparedRecord,
    ) -> Result<(), DecodeError> {
        if let Some(path) = &self.recipe.places.response
            && let Some(response) = path.find(record.source.value.unwrap_or_default())?
        {
            fields::read_response(response.as_bytes(), &self.names.paths, &mut self.values)?;
            self.answer = LoggedAnswer::of_response(&response)?.or(std::mem::take(&mut self.answer));
        }
        if let Some(why) = self.answer.passed_over() {
            out.passed_over = Some(why);
            return Ok(());
        }
        match self.kind(held)? {
            // Page ids are the record itself.
            RawFormat::PageIds if self.recipe.places.request.is_some() => Err(other_format()),
            RawFormat::PageIds => self.page_ids(record, out),
            RawFormat::TokenIds => {
                let common = self.common(record, None)?;
                self.token_ids(&common, out)
            }
            _ => {
                let common = self.common(record, None)?;
                self.body(request, &common, record, out)
            }
        }
    }

    /// What a JSON record is to be taken for, by its fields.
    pub(super) fn kind(&self, held: PromptForms) -> Result<RawFormat, DecodeError> {
        use RawFormat::{Auto, Openai, PageIds, TokenIds};
        match (self.recipe.format, held) {
            (Auto | PageIds, PromptForms { page_ids: true, .. }) => Ok(PageIds),
            // No prompt is empty: where its ids are, the text alongside them is what was served.
            (Auto, PromptForms { tokens: true, body: true, .. })
                if self.prompts.iter().any(<[u32]>::is_empty) =>
            {
                Ok(Openai)
            }
            (Auto | TokenIds, PromptForms { tokens: true, unshown, .. }) => {
                let longest = self.prompts.iter().map(<[u32]>::len).max().unwrap_or(0);
                unshown.check(longest as u64).map(|()| TokenIds)
            }
            (Auto | Openai, PromptForms { body: true, .. }) => Ok(Openai),
            (Auto, _) => {
                let detail = "the record has neither messages, prompt, input, body, token_ids nor page_ids";
                Err(DecodeError::new(ErrorCode::MissingField, detail))
            }
            _ => Err(other_format()),
        }
    }

    pub(super) fn expect(&self, found: RawFormat) -> Result<(), DecodeError> {
        let wanted = self.recipe.format;
        if wanted == RawFormat::Auto || wanted == found { Ok(()) } else { Err(other_format()) }
    }

    fn raw_request(
        &mut self,
        raw: RawRequest<'_>,
        record: &RawRecord<'_>,
        out: &mut PreparedRecord,
    ) -> Result<(), DecodeError> {
        self.values.reset(self.names.paths.len());
        for (name, value) in &raw.fields {
            let wanted = self.names.paths.iter().position(|path| path.join(".") == *name);
            wanted.map_or(Ok(()), |index| self.values.set(index, value))?;
            self.answer.read_named(name, value)?;
        }
        let mut common = self.common(record, raw.event_time.map(Time::of_ms))?;
        let ObservedRequest { output_tokens, duration, .. } = &mut common.observed;
        *output_tokens = count("output_tokens", raw.output_tokens)?.or(*output_tokens);
        *duration = count("duration_ms", raw.duration_ms)?.map(Duration::from_millis).or(*duration);
        match raw.prompt {
            RawPrompt::Tokens(tokens) => {
                self.expect(RawFormat::TokenIds)?;
                self.prompts.set(tokens);
                self.token_ids(&common, out)
            }
            RawPrompt::Body(body) => {
                self.expect(RawFormat::Openai)?;
                self.body(body.as_bytes(), &common, record, out)
            }
        }
    }

    /// What the record says alongside its prompt.
    pub(super) fn common(
        &self,
        record: &RawRecord<'_>,
        event_time: Option<Time>,
    ) -> Result<Common, DecodeError> {
        let lookup = FieldLookup { names: &self.names, values: &self.values, record };
        let pool = lookup.fill(&self.names.pool)?;
        let stated = match (event_time, &self.names.event_time) {
            (Some(time), _) => Some(time),
            (None, Some(source)) => Some(lookup.event_time(source, self.recipe.time_unit)?),
            (None, None) => None,
        };
        let stamped = stated.map(|time| time.moment.ms()).or(record.source.timestamp_ms);
        let time = stamped.ok_or_else(|| {
            DecodeError::new(ErrorCode::MissingField, "the record has no time stamp; set prepare.event_time")
        })?;
        let labels = self.names.labels_outside_the_namespace();
        let labels = labels.filter_map(|(label, field)| Some((label, self.values.get(field)?.to_owned())));
        Ok(Common {
            rules: self.recipe.rules(&pool),
            pool,
            namespace: lookup.namespace(self.recipe.hash_key)?,
            time: EventTime(time),
            form: stated.map(|time| time.form),
            observed: self.answer.observed(),
            labels: labels.collect(),
        })
    }

    pub(super) fn token_ids(&mut self, common: &Common, out: &mut PreparedRecord) -> Result<(), DecodeError> {
        let of_each = (self.prompts.len() > 1).then(|| common.of_several());
        let common = of_each.as_ref().unwrap_or(common);
        self.prompts.iter().for_each(|tokens| out.placeholders.note(tokens));
        let found = self.prompts.iter().map(|tokens| tokens.len() as u64).sum();
        let (observed, form) = (&common.observed, PromptForm::TokenIds);
        out.stated.compare(observed.stated(form), found, form, &observed.unread)?;
        let mut hashing = Hashing::new(&self.recipe, common, &mut self.ids, out);
        hashing.expect(self.prompts.len())?;
        self.prompts.iter().try_for_each(|tokens| hashing.prompt(tokens, common.observed.answer.ids()))
    }

    pub(super) fn body(
        &mut self,
        body: &[u8],
        common: &Common,
        record: &RawRecord<'_>,
        out: &mut PreparedRecord,
    ) -> Result<(), DecodeError> {
        let lookup = FieldLookup { names: &self.names, values: &self.values, record };
        let labelled = common.with_retention_class_of(body);
        let common = labelled.as_ref().unwrap_or(common);
        // A model for every name needs none.
        let model = match lookup.fill(&self.names.model) {
            Err(error) if error.code() == ErrorCode::MissingField => None,
            filled => Some(filled?),
        };
        let (ids, tokenizers) = (&mut self.ids, &mut self.tokenizers);
        let mut hash = |common: &Common, out: &mut PreparedRecord| {
            let mut placeholders = Placeholders::default();
            let mut hashing = Hashing::new(&self.recipe, common, ids, out);
            let mut take = |tokens: &[u32], answer: &[u32], form| {
                if form == PromptForm::TokenIds {
                    placeholders.note(tokens);
                }
                hashing.prompt(tokens, answer)
            };
            let asked = (model.as_deref(), body, common.time);
            let form = tokenizers.tokenize(asked, &common.observed.answer, &mut take)?;
            out.placeholders.add(&placeholders);
            let (stated, tokens) = (common.observed.stated(form), out.total().tokens);
            out.stated.compare(stated, tokens, form, &common.observed.unread)
        };
        let hashed = hash(common, out);
        if out.total().requests < 2 || !common.observed.tells_of_answer() {
            return hashed;
        }
        *out = PreparedRecord::of(out.partition);
        hash(&common.of_several(), out)
    }

    /// A request event goes on as it is, under the pool's name and within the namespace.
    fn page_ids(&mut self, record: &RawRecord<'_>, out: &mut PreparedRecord) -> Result<(), DecodeError> {
        let lookup = FieldLookup { names: &self.names, values: &self.values, record };
        let (pool, namespace) = (lookup.fill(&self.names.pool)?, lookup.namespace(self.recipe.hash_key)?);
        let mut message = self.decoder.read(record.source.payload())?;
        message.pool = None;
        message.request_id = None;
        let labels = self.names.labels_outside_the_namespace();
        message.labels = labels.filter_map(|(label, _)| Some((label, *message.labels.get(label)?))).collect();
        if let Some(namespace) = namespace {
            message.scope = Some(Cow::Owned(format!("{:016x}", namespace.value())));
        }
        push_pages(&self.recipe, &pool, message, out)
    }
}

/// That rows of page ids are for another command, where a record is such a row.
fn of_a_trace(value: &[u8]) -> Option<String> {
    let format = trace::format_of(value)?;
    let is_of_pages = matches!(format, Format::Mooncake | Format::Weka | Format::Qwen);
    is_of_pages
        .then(|| format!("these are rows of a trace ({format}, `hash_ids`), which `kvset replay` reads"))
}

pub(super) fn other_format() -> DecodeError {
    DecodeError::new(ErrorCode::UnknownEncoding, "the record is not of the format that prepare.format names")
}

fn nothing_at(path: &FieldPath) -> DecodeError {
    let detail = format!("there is no request at `{path}`, where prepare.request looks for it");
    DecodeError::new(ErrorCode::MissingField, detail)
}
