//! `kvset prepare --dry-run`: what the first records of a log are, what becomes of them, and the settings that would
//! read them. Nothing is written, and no prompt is shown.

use crate::cli::args::PrepareArgs;
use crate::cli::{Failure, print};
use crate::commands::first_records::{self, OneTry, topic_of};
use crate::present::words::{counted, elapsed, moment};
use kvset_formats::almost_json;
use kvset_formats::census::{FieldCensus, RowReading, RowSample};
use kvset_formats::codec::{
    DecodeLimits, Encoding, LetterContent, RequestDecoder, SourceRecord, WriterSchemas,
};
use kvset_formats::logs::shape::{PromptKind, RecordShape};
use kvset_formats::logs::{LogReader, RecordPath, foreign};
use kvset_formats::placeholders::Placeholders;
use kvset_formats::stated::StatedPrompts;
use kvset_formats::time::TimeForm;
use kvset_formats::trace::{self, CacheWrites, Format, LoggedAnswer, PromptRepeats};
use kvset_prepare::{PoolShare, PreparedRecord, Preparer, Preset, RawRecord};
use kvset_service::plan::schemas::open;
use kvset_service::prepare::preparer;
use kvset_settings::Settings;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// What the records came to.
#[derive(Default)]
struct DryRunFindings {
    records: u64,
    /// How many records held what, where.
    shapes: BTreeMap<String, u64>,
    /// Paths of requests, of usages and of times, by how often they were seen.
    requests: BTreeMap<String, u64>,
    usages: BTreeMap<String, u64>,
    times: BTreeMap<(String, TimeForm), u64>,
    /// Records that seem to be of a log known by name, and where in them.
    presets: BTreeMap<(Preset, RecordPath), u64>,
    outcomes: BTreeMap<String, (u64, u64)>,
    tokens: u64,
    cached: u64,
    /// Tokens that were written to a provider's cache.
    written: Option<CacheWrites>,
    /// Prompts whose tokens the log states.
    stated: StatedPrompts,
    /// Requests of token ids, and those with placeholders of media among them.
    placeholders: Placeholders,
    pools: BTreeMap<String, u64>,
    /// When the first and the last request came, in milliseconds of event time.
    arrivals: Option<(i64, i64)>,
    /// Requests whose time is the stamp that their record gets in a topic: a file has none.
    unstamped: u64,
    /// How records write that, and of how many; nothing where it is the stamp of the record.
    forms: BTreeMap<Option<TimeForm>, u64>,
    /// Records whose requests came before those of a record ahead of them, and by how many milliseconds at most.
    backwards: (u64, i64),
    /// Records that gave requests, to see which of their fields are read.
    kept: RowSample,
    /// Requests that may be written more than once.
    repeats: PromptRepeats,
    /// What the chats held that a reader should know.
    remarks: Vec<String>,
}

/// Reads the first records of a file, or of a topic where there is no such file.
pub fn run(args: &PrepareArgs, log: &Path) -> Result<(), Failure> {
    let mut settings = Settings::load(args.config.file())?;
    // Why a record is refused stands in its dead letter.
    settings.prepare.dead_letters = LetterContent::Redacted;
    let registry = open(&settings.schema_registry).map_err(|error| Failure::Usage(error.into()))?;
    let schemas = registry.map(|registry| Arc::new(OneTry(registry)) as Arc<dyn WriterSchemas>);
    let preparer = preparer(&settings).map_err(|error| Failure::Usage(error.into()))?;
    let mut preparer = preparer.with_schemas(schemas);
    let mut findings = DryRunFindings { kept: RowSample::of_log(None), ..DryRunFindings::default() };
    let mut read = |record: RawRecord<'_>| findings.read(record, &mut preparer).map_err(Failure::from);
    match topic_of(log) {
        Some(topic) => first_records::of_topic(&settings, topic, args.records, &mut read)?,
        None => {
            let largest = settings.prepare.max_record_bytes.0;
            first_records::of_file(log, args.records, largest, &mut read)?;
        }
    }
    findings.remarks.extend(findings.stated.sentence());
    findings.remarks.extend(findings.placeholders.sentence());
    findings.remarks.extend(findings.repeats.facts().sentence());
    findings.remarks.extend(preparer.remarks());
    findings.remarks.extend(findings.unread_fields(&mut preparer).sentences());
    print(&findings.in_words(&settings, log))
}

impl DryRunFindings {
    fn read(&mut self, mut raw: RawRecord<'_>, preparer: &mut Preparer) -> anyhow::Result<()> {
        self.records += 1;
        let has_stamp = raw.source.timestamp_ms.is_some();
        raw.source.timestamp_ms.get_or_insert(0);
        preparer.look_up(&raw)?;
        let record = preparer.json_within(&raw);
        let json = almost_json::as_json(record);
        let json = json.as_deref().unwrap_or(record);
        let shape = RecordShape::of(json);
        let written = shape.as_ref().and_then(|shape| cache_writes(json, shape));
        if raw.source.value.is_some() {
            self.note(json, shape.as_ref());
        }
        let mut prepared = preparer.prepare(&raw);
        let events = prepared.total().requests;
        if events > 0 {
            self.kept.add(json);
            prepared.cache_writes = prepared.cache_writes.or(written);
        }
        let outcome = match (prepared.refused, prepared.passed_over) {
            (Some(code), _) if events > 0 => format!(
                "{events} request event(s), {} request(s) refused: {}{}",
                prepared.refused_requests,
                code.name(),
                detail(&prepared)
            ),
            (Some(code), _) => format!("refused: {}{}", code.name(), detail(&prepared)),
            (None, Some(why)) => format!("passed over: {why}"),
            (None, None) => format!("{events} request event(s)"),
        };
        let number = self.records;
        self.outcomes.entry(outcome).or_insert((0, number)).0 += 1;
        self.add(&prepared, has_stamp, json);
        Ok(())
    }

    /// Which fields of the first records could matter and are not read: those without which a record becomes the same
    /// events.
    fn unread_fields(&self, preparer: &mut Preparer) -> FieldCensus {
        let mut decoder = RequestDecoder::new(Encoding::Avro, DecodeLimits::default());
        FieldCensus::take(&self.kept, &mut |json| {
            let source = SourceRecord {
                topic: "",
                partition: 0,
                offset: 0,
                timestamp_ms: Some(0),
                key: None,
                value: Some(json),
                schema_header: None,
            };
            let prepared = preparer.prepare(&RawRecord { source, headers: Vec::new() });
            let mut reading = RowReading {
                may_be_text: prepared.total().tokens > 0 && prepared.placeholders.requests == 0,
                ..RowReading::default()
            };
            let mut digest = Xxh3::new();
            for output in &prepared.outputs {
                digest.update(output.key.as_deref().unwrap_or_default());
                digest.update(output.value.as_deref().unwrap_or_default());
                let event = output.value.as_deref().map(|value| decoder.decode(output.key.as_deref(), value));
                if let Some(Ok(found)) = event {
                    let pool = String::from_utf8_lossy(output.key.as_deref().unwrap_or_default());
                    reading.note(&pool, &found.event);
                }
            }
            (prepared.total().requests > 0).then(|| RowReading { digest: digest.digest(), ..reading })
        })
    }

    /// Notes what a record seems to be.
    fn note(&mut self, record: &[u8], shape: Option<&RecordShape>) {
        if let Some((preset, place)) = Preset::recognise(record) {
            let at = if place.is_top() { String::new() } else { format!(" {place}") };
            *self.shapes.entry(format!("the log of {preset}{at}")).or_default() += 1;
            *self.presets.entry((preset, place)).or_default() += 1;
            return;
        }
        match shape {
            Some(shape) if !shape.requests.is_empty() => self.note_requests(shape),
            _ => *self.shapes.entry(without_request(record)).or_default() += 1,
        }
    }

    fn note_requests(&mut self, shape: &RecordShape) {
        let Some((place, kind)) = shape.requests.first() else { return };
        let at = place.as_ref().map_or_else(String::new, |place| format!(" at {place}"));
        *self.shapes.entry(format!("{kind}{at}")).or_default() += 1;
        if let (Some(place), false) = (place, *kind == PromptKind::PageIds) {
            *self.requests.entry(place.to_string()).or_default() += 1;
        }
        for place in shape.usages.iter().flatten() {
            *self.usages.entry(place.to_string()).or_default() += 1;
        }
        for (place, form) in &shape.times {
            *self.times.entry((place.to_string(), *form)).or_default() += 1;
        }
    }

    fn add(&mut self, prepared: &PreparedRecord, is_stamped: bool, record: &[u8]) {
        let PoolShare { requests, tokens, .. } = prepared.total();
        if requests == 0 {
            return;
        }
        self.tokens += tokens;
        match prepared.time_form {
            None if !is_stamped => self.unstamped += requests,
            _ => self.add_arrivals(prepared),
        }
        self.stated.add(&prepared.stated);
        self.placeholders.add(&prepared.placeholders);
        if let Some(writes) = &prepared.cache_writes {
            self.written.get_or_insert_default().add(writes);
        }
        for (pool, share) in &prepared.shares {
            *self.pools.entry(pool.clone()).or_default() += share.requests;
        }
        let mut decoder = RequestDecoder::new(Encoding::Avro, DecodeLimits::default());
        for output in &prepared.outputs {
            let event = output.value.as_deref().map(|value| decoder.decode(output.key.as_deref(), value));
            let Some(Ok(found)) = event else { continue };
            self.cached += u64::from(found.event.cached_tokens.stated().is_some());
            let has_time = prepared.time_form.is_some() || is_stamped;
            let moment = has_time.then_some(found.event.event_time.0);
            self.repeats.add_event(&found.pool, &found.event, record, moment);
        }
    }

    fn add_arrivals(&mut self, prepared: &PreparedRecord) {
        let Some((first, last)) = prepared.arrivals else { return };
        *self.forms.entry(prepared.time_form).or_default() += prepared.total().requests;
        let (earliest, latest) = self.arrivals.get_or_insert((first, last));
        let behind = latest.saturating_sub(first);
        if behind > 0 {
            self.backwards = (self.backwards.0 + 1, self.backwards.1.max(behind));
        }
        (*earliest, *latest) = ((*earliest).min(first), (*latest).max(last));
    }

    /// When requests came, and what the order of the records says of that.
    fn arrival_rows(&self) -> Vec<(u64, String)> {
        let mut rows = Vec::new();
        if self.unstamped > 0 {
            rows.push((self.unstamped, "the stamps that the records get in a topic".to_owned()));
        }
        let Some((first, last)) = self.arrivals else { return rows };
        let form = |(form, count): (&Option<TimeForm>, &u64)| {
            let what = form.map_or_else(|| "the stamps of the records".to_owned(), |form| form.to_string());
            (*count, what)
        };
        rows.extend(self.forms.iter().map(form));
        let requests = self.forms.values().sum();
        let span = elapsed(last.saturating_sub(first));
        rows.push((requests, format!("from {} to {}: {span}", moment(first), moment(last))));
        if let (count @ 1.., by) = self.backwards {
            let what = format!(
                "records hold requests that came before those of a record ahead of them, by up to {}: the events \
                 keep the \
                 order of the log; kvset replay takes requests in the order of arrival",
                elapsed(by)
            );
            rows.push((count, what));
        }
        rows
    }

    fn in_words(&self, settings: &Settings, log: &Path) -> String {
        let mut text = format!("{}: {} read\n", log.display(), counted(self.records, "record", "records"));
        if let Some(preset) = settings.prepare.preset {
            let _ = writeln!(text, "prepare.preset is {preset}, whose shape is that of {}", preset.source());
        }
        let mut section = |title: &str, rows: Vec<(u64, String)>| {
            text += &format!("\n{title}\n");
            text.extend(rows.iter().map(|(count, what)| format!("{count:>8}  {what}\n")));
        };
        section("what they hold", self.shapes.iter().map(|(what, count)| (*count, what.clone())).collect());
        let became = self
            .outcomes
            .iter()
            .map(|(what, (records, first))| (*records, format!("{what} (first: record {first})")));
        section("what becomes of them with these settings", became.collect());
        if self.tokens > 0 {
            let mut mapped = vec![(self.tokens, "prompt tokens".to_owned())];
            mapped.push((self.cached, "request events that say how much was cached".to_owned()));
            if let Some(written) = &self.written {
                let what = format!(
                    "tokens written to a provider's cache: {} for 5 minutes, {} for an hour, {} for a time not stated",
                    written.five_minutes,
                    written.one_hour,
                    written.unstated()
                );
                mapped.push((written.tokens, what));
            }
            mapped.extend(self.pools.iter().map(|(pool, count)| (*count, format!("in pool {pool}"))));
            section("how they were mapped", mapped);
        }
        if self.arrivals.is_some() || self.unstamped > 0 {
            section("when requests came", self.arrival_rows());
        }
        for remark in &self.remarks {
            let _ = write!(text, "\nnote: {remark}");
        }
        text.push_str(if self.remarks.is_empty() { "" } else { "\n" });
        let advice = self.advice(settings);
        if !advice.is_empty() {
            let _ = write!(text, "\nsettings that would read more of it\n\n[prepare]\n{advice}");
        }
        text
    }

    /// Settings that these records ask for and that are not made.
    fn advice(&self, settings: &Settings) -> String {
        let preset = self.presets.iter().max_by_key(|(_, count)| **count);
        if let (None, Some(((preset, place), count))) = (settings.prepare.preset, preset)
            && *count * 2 > self.records
        {
            let opened = match place.is_top() {
                true => String::new(),
                false => format!("  # its records lie {place} and are read there"),
            };
            return format!("preset = \"{preset}\"{opened}\n{}", self.model_advice());
        }
        let most = |seen: &BTreeMap<String, u64>| {
            seen.iter().max_by_key(|(_, count)| **count).map(|(place, _)| place.clone())
        };
        let (prepare, mut advice) = (&settings.prepare, String::new());
        let known = |name: &str| ["body", "response"].contains(&name);
        if prepare.preset.is_some() {
            return self.model_advice();
        }
        if let (None, Some(place)) = (&prepare.request, most(&self.requests).filter(|place| !known(place))) {
            let _ = writeln!(advice, "request = \"{place}\"");
        }
        if let (None, Some(place)) = (&prepare.response, most(&self.usages).filter(|place| !known(place))) {
            let _ = writeln!(advice, "response = \"{place}\"");
        }
        let time = self.times.iter().max_by_key(|(_, count)| **count).map(|(time, _)| time);
        if let (true, Some((place, form))) = (prepare.event_time.parts().is_empty(), time) {
            let _ = writeln!(advice, "event_time = \"{{{place}}}\"  # {form}");
        }
        advice + &self.model_advice()
    }

    fn model_advice(&self) -> String {
        let unknown = self.outcomes.keys().any(|outcome| outcome.contains("refused: unknown_model"));
        let advice = "models = [\"/models/NAME\"]  # a directory with tokenizer.json\n";
        if unknown { advice.to_owned() } else { String::new() }
    }
}

/// What a record is that holds no request which a path could lead to.
fn without_request(record: &[u8]) -> String {
    let rows = trace::format_of(record).filter(|format| !matches!(format, Format::Openai | Format::TokenIds));
    if let Some(format) = rows {
        return format!("rows of a trace ({format}), which `kvset replay` reads as they are");
    }
    if let Ok(opened) = LogReader::default().open(record)
        && let Some(Ok(first)) = opened.records.first()
        && let Some((_, kind)) = RecordShape::of(first).and_then(|shape| shape.requests.into_iter().next())
    {
        return format!("{kind} {}", opened.place);
    }
    match (foreign::describe(record), record.trim_ascii_start().first()) {
        (Some(what), Some(b'{')) => what,
        (Some(what), _) => format!("no JSON object: {what}"),
        (None, Some(b'{')) => "no messages, prompt, input, token ids or page ids anywhere".to_owned(),
        (None, _) => "no JSON object".to_owned(),
    }
}

/// What the usage of a record's response says was written to a provider's cache.
fn cache_writes(record: &[u8], shape: &RecordShape) -> Option<CacheWrites> {
    shape.usages.iter().find_map(|place| {
        let response = match place {
            Some(place) => place.find(record).ok()??,
            None => std::str::from_utf8(record).ok()?.into(),
        };
        LoggedAnswer::of_response(&response).ok()?.cache_writes(1)
    })
}

/// Why a record was refused, which quotes none of it.
fn detail(prepared: &PreparedRecord) -> String {
    let mut headers = prepared.outputs.iter().flat_map(|output| &output.headers);
    let detail = headers.find(|(name, _)| *name == "kvset_error_detail");
    detail.map_or_else(String::new, |(_, detail)| format!(": {detail}"))
}
