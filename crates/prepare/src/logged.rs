//! The requests of a record. What carries records of a log is opened, and a record of a log known by name may hold many
//! requests, too.
//!
//! The requests of a record are prepared in its order, each by itself. Their events go out together, with the offset
//! after the record, so a record that is read again gives them again or not at all. A request that is of no use takes
//! none of the others with it: the record's dead letter says which were refused and why the first one was.

use super::events::{push_pages, signed};
use super::fields::ValueDepth::{Body, Top};
use super::fields::{self, PromptForms};
use super::preparer::{Preparer, other_format};
use super::recipe::RawFormat;
use super::records::{PreparedRecord, RawRecord};
use kvset_core::units::pages::PageIds;
use kvset_formats::codec::{DecodeError, ErrorCode, RequestMessage, SourceRecord};
use kvset_formats::logs::{EnvelopeRecords, LogReader, Logged, LoggedPrompt, LoggedRequest, Preset};
use kvset_formats::position::Partition;
use std::borrow::Cow;
use std::sync::Arc;

/// Most requests of one record: what the OpenTelemetry collector sends at once where nobody says otherwise.
const MAX_REQUESTS: usize = 8192;
/// Most refused requests of one record that its dead letter names by their numbers.
const NAMED: usize = 16;

/// What became of the requests of a record, so far.
#[derive(Default)]
struct Gathered {
    /// How many there were.
    count: usize,
    /// The first that became events, until there is another.
    first: Option<PreparedRecord>,
    /// All of them, once there are several.
    all: PreparedRecord,
    /// The numbers of those that were refused, from 1 on, and why the first was.
    refused: Vec<usize>,
    error: Option<DecodeError>,
    /// Why the first record was passed over that was.
    passed_over: Option<&'static str>,
}

impl Gathered {
    fn add(&mut self, read: Result<PreparedRecord, DecodeError>) {
        self.count += 1;
        match read {
            Ok(one) if self.count == 1 => self.first = Some(one),
            Ok(one) => {
                self.first.take().into_iter().for_each(|first| self.all.add(first));
                self.all.add(one);
            }
            Err(error) => {
                self.refused.push(self.count);
                self.error.get_or_insert(error);
            }
        }
    }

    /// Makes room for a record's requests.
    fn expect(&self, count: usize) -> Result<(), DecodeError> {
        if self.count.saturating_add(count) <= MAX_REQUESTS {
            return Ok(());
        }
        let detail = format!(
            "the record has more than {MAX_REQUESTS} requests: let the collector send smaller batches"
        );
        Err(DecodeError::new(ErrorCode::RequestTooLarge, detail))
    }
}

impl Preparer {
    /// Prepares a record: all requests of the records in it.
    pub(super) fn prepare_value(&mut self, value: &[u8], record: &RawRecord<'_>) -> PreparedRecord {
        let mut gathered = Gathered::default();
        gathered.all.partition = Partition(record.source.partition);
        match self.gather(value, record, &mut gathered) {
            Ok(()) => self.finish(gathered, record),
            Err(error) => self.refuse(record, &self.of_a_known_log(value, error)),
        }
    }

    fn gather(
        &mut self,
        value: &[u8],
        record: &RawRecord<'_>,
        gathered: &mut Gathered,
    ) -> Result<(), DecodeError> {
        self.recipe.limits.decode.check_size(value)?;
        let reader = Arc::clone(&self.reader);
        let is_list = value.trim_ascii_start().first() == Some(&b'[');
        let opened = match self.recipe.preset {
            None if !is_list => EnvelopeRecords::itself(value),
            _ => reader.open(value)?,
        };
        if opened.records.is_empty() {
            gathered.passed_over = Some("an empty list");
        }
        let is_only = opened.records.len() == 1;
        gathered.expect(opened.records.len())?;
        for inner in opened.records {
            let inner = match inner {
                Ok(inner) => inner,
                Err(error) if is_only => return Err(error),
                Err(error) => {
                    gathered.add(Err(error));
                    continue;
                }
            };
            let inner = RawRecord {
                source: SourceRecord { value: Some(&inner), ..record.source },
                headers: record.headers.clone(),
            };
            let read = match self.recipe.preset {
                Some(_) => self.gather_logged(&reader, &inner, value, gathered),
                None => self.gather_plain(&reader, &inner, gathered),
            };
            match read {
                Err(error) if is_only => return Err(error),
                Err(error) => gathered.add(Err(error)),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Adds the requests of a record of no log that is known.
    fn gather_plain(
        &mut self,
        reader: &LogReader,
        record: &RawRecord<'_>,
        gathered: &mut Gathered,
    ) -> Result<(), DecodeError> {
        if let Some(why) = reader.passes_over(record.source.value.unwrap_or_default())? {
            gathered.passed_over.get_or_insert(why);
            return Ok(());
        }
        let mut one = PreparedRecord::of(gathered.all.partition);
        self.events(record, &mut one)?;
        match one.passed_over {
            Some(why) => drop(gathered.passed_over.get_or_insert(why)),
            None => gathered.add(Ok(one)),
        }
        Ok(())
    }

    /// Adds the requests of a record of a log, which `around` may carry.
    fn gather_logged(
        &mut self,
        reader: &LogReader,
        record: &RawRecord<'_>,
        around: &[u8],
        gathered: &mut Gathered,
    ) -> Result<(), DecodeError> {
        let (count, requests) = match reader.read(record.source.value.unwrap_or_default())? {
            Logged::Requests { count, requests } => (count, requests),
            Logged::PassedOver(why) => {
                gathered.passed_over.get_or_insert(why);
                return Ok(());
            }
        };
        gathered.expect(count)?;
        for request in requests {
            let mut one = PreparedRecord::of(gathered.all.partition);
            let read = request.and_then(|request| self.logged(&request, record, around, &mut one));
            gathered.add(read.map(|()| one));
        }
        Ok(())
    }

    fn finish(&self, gathered: Gathered, record: &RawRecord<'_>) -> PreparedRecord {
        let Gathered { count, first, mut all, refused, error, passed_over } = gathered;
        match (count, first, error) {
            (0, ..) => PreparedRecord { passed_over, ..all },
            (1, Some(one), _) => one,
            (1, None, Some(error)) => self.refuse(record, &error),
            (_, first, error) => {
                first.into_iter().for_each(|first| all.add(first));
                let Some(error) = error else { return all };
                let detail = format!("{}: {}", places(&refused, count), error.detail());
                let letter = self.refuse(record, &DecodeError::new(error.code(), detail));
                all.outputs.extend(letter.outputs);
                all.refused = letter.refused;
                all.refused_requests = refused.len() as u64;
                all
            }
        }
    }

    /// The events of one request.
    fn logged(
        &mut self,
        request: &LoggedRequest<'_>,
        record: &RawRecord<'_>,
        around: &[u8],
        out: &mut PreparedRecord,
    ) -> Result<(), DecodeError> {
        let held = self.read_around(request, record, around)?;
        let arrival = request.arrival.filter(|_| self.recipe.event_time.is_none());
        let mut common = self.common(record, arrival)?;
        common.observed = request.observed.clone();
        out.cache_writes = common.observed.cache_writes;
        match &request.prompt {
            LoggedPrompt::Body(body) => {
                match self.kind(held)? {
                    RawFormat::TokenIds => self.token_ids(&common, out)?,
                    RawFormat::PageIds => return Err(other_format()),
                    _ => self.body(body.as_bytes(), &common, record, out)?,
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
                    page_ids: PageIds::from_slice(ids),
                    page_size: page_size.and_then(|size| i32::try_from(size.get()).ok()),
                    input_tokens: request.observed.input_tokens.and_then(signed),
                    scope,
                    ..common.message()
                };
                out.time_form = common.form;
                push_pages(&self.recipe, &common.pool, message, out)
            }
        }
    }

    /// Reads what templates and labels name: from what carries the record, from the request in it, from the record, and
    /// by the log's own names, each before the one that comes ahead of it here.
    fn read_around(
        &mut self,
        request: &LoggedRequest<'_>,
        record: &RawRecord<'_>,
        around: &[u8],
    ) -> Result<PromptForms, DecodeError> {
        let value = record.source.value.unwrap_or_default();
        let (paths, prompts) = (&self.names.paths, &mut self.prompts);
        if self.recipe.preset.is_some_and(Preset::has_fields) {
            fields::read(value, Top, paths, false, &mut self.values, prompts, None)?;
        } else {
            self.values.reset(paths.len());
        }
        if around.len() > value.len() && around.starts_with(b"{") {
            fields::read(around, Body, paths, false, &mut self.values, prompts, None)?;
        }
        let held = match &request.prompt {
            LoggedPrompt::Body(body) => {
                fields::read(body.as_bytes(), Body, paths, true, &mut self.values, prompts, None)?
            }
            _ => PromptForms::default(),
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
