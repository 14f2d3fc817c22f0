//! One or several trace files as one stream of requests.

use super::arrival::HoldBack;
use super::avro::Events;
use super::carried::{Carried, turns_sentence};
use super::detect::{Detected, detect_row, format_of};
use super::error::{RowError, TraceError};
use super::fields::FieldWatch;
use super::findings::TraceFindings;
use super::formats::LineFormat;
use super::frames::{self, Frames};
use super::input::{TraceInput, file_bytes};
use super::lines::{LineReader, LineStep, RowReader};
use super::logged::LogDecoder;
use super::options::{Format, ReadOptions, RowOrder};
use super::parallel::{Parallel, ParallelLines};
use super::records::{Filled, LineSource, Records, TraceSource};
use super::rows::{self, Opener, RowRecords};
use super::served::Served;
use super::start_unit::StartUnit;
use super::text::{LineWalk, TextLine, utf16};
use super::unpack::read_ahead;
use crate::codec::CONTAINER_MAGIC;
use crate::logs::{LogReader, Places, Preset};
use crate::record::row::{RefusedRow, RowBatch, TraceRow};
use crate::record::subagents::SubagentEvidence;
use crate::time::NumberUnit;
use kvset_core::engines::one_pass::EngineRange;
use std::collections::VecDeque;
use std::io::{self, BufRead, Cursor, Read};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much of a file is looked at to see what its times, or those of its sub-agents, count from.
const LOOKED_AT_BYTES: usize = 4 << 20;

/// What a step through a trace found.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one item at a time is read, and most are requests")]
pub enum TraceItem<'a> {
    /// A request.
    Request(TraceRow<'a>),
    /// A row that was passed over; the caller counts it and decides.
    Refused(RowError),
}

/// How far a trace was read, in bytes of its files as they lie on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadProgress {
    pub read_bytes: u64,
    /// Absent where a file has no size, as standard input.
    pub total_bytes: Option<u64>,
}

/// Reads trace files one after the other, in bounded memory.
pub struct TraceReader {
    waiting: VecDeque<PathBuf>,
    current: Option<OpenFile>,
    options: ReadOptions,
    batch: RowBatch,
    /// The file that the batch is of.
    batch_file: Arc<str>,
    carried: Carried,
    /// Holds requests back until none can come that arrived before them.
    held: Option<HoldBack>,
    /// What a file is read into whose requests are held back.
    incoming: RowBatch,
    parallel: Parallel,
    finished_bytes: u64,
    total_bytes: Option<u64>,
}

/// The file being read.
struct OpenFile {
    name: Arc<str>,
    format: Format,
    source: Box<dyn TraceSource>,
    read_bytes: Arc<AtomicU64>,
    /// Fields of its first row that seem to be times and are not read.
    unread_times: Vec<String>,
    /// What looks at its fields, where something does.
    fields: Option<FieldWatch>,
}

/// Opens trace files; `-` is standard input. Only the first is opened now, but all must be there.
///
/// # Errors
///
/// [`TraceError`] when a file is missing, the first cannot be read or its format cannot be known.
pub fn open(paths: &[PathBuf], options: &ReadOptions) -> Result<TraceReader, TraceError> {
    open_with(paths, options, Parallel::none())
}

/// The same with lines read side by side, in formats whose lines need nothing of one another.
pub(super) fn open_with(
    paths: &[PathBuf],
    options: &ReadOptions,
    parallel: Parallel,
) -> Result<TraceReader, TraceError> {
    let mut total_bytes = Some(0);
    for path in paths {
        let size = file_bytes(path)?;
        total_bytes = total_bytes.zip(size).map(|(sum, size)| sum + size);
    }
    let waiting = paths.iter().cloned().collect();
    let mut reader = TraceReader { parallel, ..TraceReader::new(waiting, options, total_bytes) };
    reader.open_next()?;
    Ok(reader)
}

/// Shows the requests of a row that is read by itself.
fn read_row(row: &[u8], options: &ReadOptions, see: &mut dyn FnMut(&TraceRow<'_>)) -> Result<(), TraceError> {
    let mut reader = TraceReader::from_reader("", Box::new(Cursor::new(row.to_vec())), options)?;
    while let Some(item) = reader.next_item()? {
        if let TraceItem::Request(row) = item {
            see(&row);
        }
    }
    Ok(())
}

impl TraceReader {
    fn new(waiting: VecDeque<PathBuf>, options: &ReadOptions, total_bytes: Option<u64>) -> Self {
        Self {
            waiting,
            current: None,
            options: options.clone(),
            batch: RowBatch::default(),
            batch_file: Arc::from(""),
            held: (options.order == RowOrder::Arrival).then(|| HoldBack::new(options.reorder_bytes)),
            incoming: RowBatch::default(),
            carried: Carried::default(),
            parallel: Parallel::none(),
            finished_bytes: 0,
            total_bytes,
        }
    }

    /// Reads a stream instead of files; `name` stands for it in messages.
    ///
    /// # Errors
    ///
    /// [`TraceError`] when its first bytes cannot be read or its format cannot be known.
    pub fn from_reader(
        name: &str,
        reader: Box<dyn Read + Send>,
        options: &ReadOptions,
    ) -> Result<Self, TraceError> {
        Self::from_reader_with(name, reader, options, Parallel::none())
    }

    /// The same with lines read side by side.
    pub(super) fn from_reader_with(
        name: &str,
        reader: Box<dyn Read + Send>,
        options: &ReadOptions,
        parallel: Parallel,
    ) -> Result<Self, TraceError> {
        let mut this = Self { parallel, ..Self::new(VecDeque::new(), options, None) };
        this.start(TraceInput::from_reader(name, reader)?)?;
        Ok(this)
    }

    /// Goes to the next request or refused row; `None` at the end of the last file.
    ///
    /// # Errors
    ///
    /// [`TraceError`] when a file cannot be read on. The reader is then at its end.
    pub fn next_item(&mut self) -> Result<Option<TraceItem<'_>>, TraceError> {
        let mut found = self.step();
        while let Ok(Some(ReaderStep::Ranges(_))) = found {
            found = self.step();
        }
        match found {
            Ok(Some(ReaderStep::Request(index))) => {
                Ok(Some(TraceItem::Request(self.batch.row(index, &self.batch_file))))
            }
            Ok(Some(ReaderStep::Refused(error))) => Ok(Some(TraceItem::Refused(error))),
            Ok(Some(ReaderStep::Ranges(_)) | None) => Ok(None),
            Err(error) => {
                self.current = None;
                self.waiting.clear();
                self.batch.clear();
                Err(error)
            }
        }
    }

    /// Whether the lines of the file at hand are parsed on other threads.
    pub(super) fn is_parallel(&self) -> bool {
        self.parallel.threads > 1 && LineFormat::rows(self.format()).is_some()
    }

    /// The line that is read, whose requests [`TraceReader::step`] tells by their numbers.
    pub(super) fn batch_mut(&mut self) -> &mut RowBatch {
        &mut self.batch
    }

    /// The file that the line is of.
    pub(super) fn file_name(&self) -> Arc<str> {
        Arc::clone(&self.batch_file)
    }

    pub(super) fn step(&mut self) -> Result<Option<ReaderStep>, TraceError> {
        loop {
            if let Some(RefusedRow { line, fault, .. }) = self.batch.take_refused() {
                return Ok(Some(ReaderStep::Refused(RowError { file: self.file_name(), line, fault })));
            }
            if let Some(index) = self.batch.advance() {
                return Ok(Some(self.check(index)));
            }
            self.batch.clear();
            if self.release(false) {
                continue;
            }
            let Some(file) = &mut self.current else {
                // What follows may count its times from elsewhere.
                if self.release(self.waiting.is_empty() || !self.carried.timeline.compares())
                    || self.open_next()?
                {
                    continue;
                }
                return Ok(None);
            };
            let batch = if self.held.is_some() { &mut self.incoming } else { &mut self.batch };
            let filled = file.source.fill(batch, &mut self.carried)?;
            if self.options.order == RowOrder::Expected && !self.carried.timeline.is_in_order() {
                return Err(TraceError::ReadAgain);
            }
            match filled {
                Filled::Requests => self.hold_back(),
                Filled::Refused(error) => return Ok(Some(ReaderStep::Refused(error))),
                Filled::Ranges(ranges) => return Ok(Some(ReaderStep::Ranges(ranges))),
                Filled::End => {
                    self.finished_bytes += file.read_bytes.load(Ordering::Relaxed);
                    if !self.carried.timeline.is_stated() {
                        self.carried.note_unread_times(&file.name, &file.unread_times);
                    }
                    if let Some(watch) = &file.fields {
                        self.carried.fields.merge(watch.unread(&self.options, read_row));
                    }
                    self.current = None;
                    // The next file's requests are of no range that ends here.
                    return Ok(Some(ReaderStep::Ranges(Vec::new())));
                }
            }
        }
    }

    /// Holds back what was read, where requests are held back; rows that were refused go on.
    fn hold_back(&mut self) {
        let Some(file) = &self.current else { return };
        if let Some(held) = &mut self.held {
            held.take(&mut self.incoming, &file.name, self.carried.timeline.is_stated());
            std::mem::swap(&mut self.batch.refused, &mut self.incoming.refused);
            self.incoming.clear();
        }
        self.batch_file = Arc::clone(&file.name);
    }

    /// Lets requests go that were held back, as many as have to be or, where nothing follows that compares with them,
    /// all of them; false where there are none.
    fn release(&mut self, is_end: bool) -> bool {
        let Some(file) = self.held.as_mut().and_then(|held| held.release(&mut self.batch, is_end)) else {
            return false;
        };
        self.batch_file = file;
        true
    }

    /// Refuses a request whose page ids contradict its tokens, whatever its format.
    fn check(&self, index: usize) -> ReaderStep {
        let row = self.batch.row(index, "");
        match row.check() {
            Ok(()) => ReaderStep::Request(index),
            Err(mismatch) => ReaderStep::Refused(RowError {
                file: self.file_name(),
                line: row.line,
                fault: mismatch.into(),
            }),
        }
    }

    /// Opens the next file; false when there is none.
    fn open_next(&mut self) -> Result<bool, TraceError> {
        match self.waiting.pop_front() {
            Some(path) => self.start(TraceInput::open(&path)?).map(|()| true),
            None => Ok(false),
        }
    }

    fn start(&mut self, input: TraceInput) -> Result<(), TraceError> {
        let TraceInput { name, bytes, is_packed, read_bytes } = input;
        let (head, bytes) = frames::head(bytes).map_err(|source| unreadable(&name, source))?;
        let OpenSource { detected, source, fields } = self.source(&head, bytes, &name, is_packed)?;
        let format = detected.format;
        self.carried.timeline.begin_file(&name);
        self.carried.files.begin(&name);
        self.carried.note_format(format);
        if self.options.places.request.is_none() {
            self.carried.note_places(&name, &detected.places);
        }
        self.carried.merges_models = format == Format::Weka && !self.options.weka_models_apart;
        self.carried.lists_pages |= format == Format::Mooncake;
        self.carried.note_subagents(&name, detected.subagents);
        let unread_times = detected.unread_times;
        self.current = Some(OpenFile { name, format, source, read_bytes, unread_times, fields });
        Ok(())
    }

    /// The source that reads a file of these first bytes. Where it parses on the reader's thread, what is packed may be
    /// decompressed on another.
    fn source(
        &mut self,
        head: &[u8],
        bytes: Box<dyn BufRead + Send>,
        name: &Arc<str>,
        is_packed: bool,
    ) -> Result<OpenSource, TraceError> {
        let asked = self.options.format;
        let ahead = |bytes| match is_packed && self.parallel.unpacks {
            true => read_ahead(bytes).map_err(|source| unreadable(name, source)),
            false => Ok(bytes),
        };
        if asked == Format::Avro || (asked == Format::Auto && head.starts_with(&CONTAINER_MAGIC)) {
            let events = Events::open(ahead(bytes)?, name, &self.options)?;
            return Ok(OpenSource::unwatched(Format::Avro, Box::new(events)));
        }
        if matches!(asked, Format::Auto | Format::Log(Preset::Otlp | Preset::EnvoyAiGateway))
            && frames::is_framed(head)
        {
            let preset = if let Format::Log(preset) = asked { preset } else { Preset::Otlp };
            let rows = Box::new(Frames::new(ahead(bytes)?, self.options.max_line_bytes));
            let source = self.log_source(Some(preset), Places::default(), rows, name);
            return Ok(OpenSource::unwatched(Format::Log(preset), source));
        }
        if let Some(encoding) = utf16(head) {
            return Err(TraceError::Utf16 { file: Arc::clone(name), encoding });
        }
        let lines = rows::lines(bytes, self.options.max_line_bytes);
        let mut lines = lines.map_err(|source| unreadable(name, source))?;
        let mut detected = self.detect(&mut lines, name)?;
        let lines_limit = lines.limit();
        self.options.start_unit = start_unit(&mut lines, &detected);
        let form = LineFormat::rows(detected.format).filter(|_| !detected.is_enveloped);
        if self.parallel.threads <= 1 || form.is_none() {
            lines.through(ahead)?;
        }
        let fields = self.options.looks_at_fields.then(|| FieldWatch::new(&detected, self.total_bytes));
        if let Some(watch) = &fields {
            lines.watch(&watch.sample);
        }
        if let Some(form) = form {
            let mut decoder = Records::new(form, &self.options);
            if form.sessions {
                let mut evidence = SubagentEvidence::default();
                lines.look_ahead(LOOKED_AT_BYTES, |text| {
                    decoder.seek_evidence(text, lines_limit, &mut evidence)
                });
                decoder.subagents = evidence.times();
                detected.subagents = evidence;
            }
            let source = records(lines, Arc::clone(name), decoder, &self.parallel)?;
            return Ok(OpenSource { detected, source, fields });
        }
        let source = self.line_source(detected.clone(), lines, name)?;
        Ok(OpenSource { detected, source, fields })
    }

    /// How the rows of a file are read: as it was requested, or as the first row shows.
    fn detect(&self, lines: &mut LineReader, name: &Arc<str>) -> Result<Detected, TraceError> {
        let (asked, request) = (self.options.format, &self.options.places.request);
        match (asked, request) {
            (_, Some(_)) if !asked.has_places() => Err(TraceError::NoPlaces { format: asked }),
            (Format::Log(_), _) => Ok(Detected::plain(asked)),
            (Format::Dynamo, Some(_)) => Ok(Detected::plain(Format::Log(Preset::Dynamo))),
            (_, Some(path)) => {
                let places = Places { request: Some(path.clone()), response: None };
                Ok(Detected { places, ..Detected::plain(Format::Openai) })
            }
            (Format::Auto, None) => detect_format(lines, name),
            // What carries rows of the format shows in the first one; what holds none is for the format to refuse.
            (_, None) => match detect_format(lines, name) {
                Ok(found) if found.is_enveloped && LineFormat::is_read_as(asked, found.format) => {
                    Ok(Detected { format: asked, ..found })
                }
                Ok(_) | Err(TraceError::UnknownFormat { .. }) => Ok(Detected::plain(asked)),
                Err(error) => Err(error),
            },
        }
    }

    /// The source that reads `lines` one by one.
    fn line_source(
        &self,
        detected: Detected,
        lines: LineReader,
        name: &Arc<str>,
    ) -> Result<Box<dyn TraceSource>, TraceError> {
        let Detected { format, is_enveloped, places, .. } = detected;
        let (rows, options) = (Box::new(lines), &self.options);
        if let Format::Log(preset) = format {
            return Ok(self.log_source(Some(preset), Places::default(), rows, name));
        }
        let is_of_requests = matches!(format, Format::Openai | Format::TokenIds) && !is_enveloped;
        if is_of_requests && (places.request.is_some() || options.places.response.is_some()) {
            return Ok(self.log_source(None, places, rows, name));
        }
        let is_row =
            move |row: &[u8]| format_of(row).is_some_and(|found| LineFormat::is_read_as(format, found));
        let opener = if is_enveloped { Opener::Rows(Box::new(is_row)) } else { Opener::Bare };
        let (rows, file) = (RowRecords::new(rows, opener), Arc::clone(name));
        match LineFormat::decoder(format, options) {
            Some(decoder) => Ok(Box::new(LineSource { rows, file, decoder })),
            None => Err(TraceError::NoModel { file }),
        }
    }

    /// The source that reads the records of a log, or of requests at a place.
    fn log_source(
        &self,
        preset: Option<Preset>,
        found: Places,
        rows: Box<dyn RowReader>,
        name: &Arc<str>,
    ) -> Box<dyn TraceSource> {
        let Places { request, response } = self.options.places.clone();
        let places = Places { request: request.or(found.request), response: response.or(found.response) };
        let reader = LogReader { preset, places };
        let rows = RowRecords::new(rows, Opener::Log(reader.clone()));
        let decoder = Served::boxed(LogDecoder::new(reader, &self.options));
        Box::new(LineSource { rows, file: Arc::clone(name), decoder })
    }

    /// The format of the file being read; `Auto` before the first and after the last.
    pub fn format(&self) -> Format {
        self.current.as_ref().map_or(Format::Auto, |file| file.format)
    }

    /// How far the files were read.
    pub fn progress(&self) -> ReadProgress {
        let current = self.current.as_ref().map_or(0, |file| file.read_bytes.load(Ordering::Relaxed));
        ReadProgress { read_bytes: self.finished_bytes + current, total_bytes: self.total_bytes }
    }

    /// What was found out, as far as the trace was read.
    pub fn findings(&self) -> TraceFindings {
        let (carried, lone_turns) = (&self.carried, self.carried.lone_turns());
        TraceFindings {
            formats: carried.formats.clone(),
            notes: self.notes(),
            replicas: carried.files.replicas(),
            repeats: carried.repeats.facts(),
            fields: carried.unread(),
            doubt: carried.doubt(),
            doubt_of_nothing: lone_turns.map(|found| (found.clone(), turns_sentence(&found))),
            passed_over: carried.passed_over.clone(),
            times: carried.timeline.facts().clone(),
            is_in_order: carried.timeline.is_in_order(),
        }
    }

    /// What a reader of the results has to know about how this trace was read so far.
    pub fn notes(&self) -> Vec<String> {
        let times = self.carried.timeline.facts();
        let placed = times.placed_sessions;
        let note = format!(
            "{placed} sessions have no common clock: each was started where the one before it ended, \
             so times across sessions are invented, sessions never interleave, and only requests of one \
             session are in flight together"
        );
        let mut notes = if placed > 1 { vec![note] } else { Vec::new() };
        notes.extend(times.notes(self.options.order));
        notes.extend_from_slice(self.carried.places());
        notes.extend(self.carried.comments_note());
        notes.extend(self.carried.models_note());
        notes.extend(self.carried.session_note());
        notes.extend(self.carried.turns_note());
        notes.extend(self.carried.transcripts_note());
        notes.extend(self.carried.unread().sentences());
        notes.extend(self.carried.repeats_notes());
        notes.extend(self.carried.files.sentence());
        notes.extend(self.carried.rotated_note());
        notes.extend(self.carried.files.silent_replicas());
        notes.extend(self.carried.set_aside_note());
        notes.extend(self.carried.stated_note());
        notes.extend(self.carried.cut_ids().map(|(_, said)| said));
        notes.extend(self.carried.placeholders.sentence());
        #[cfg(feature = "tokenize")]
        notes.extend(self.carried.remarks().sentences(self.options.chat_engine, "--chat-engine"));
        notes
    }
}

/// How a file is read.
struct OpenSource {
    detected: Detected,
    source: Box<dyn TraceSource>,
    fields: Option<FieldWatch>,
}

impl OpenSource {
    /// Of records that are no lines of JSON.
    fn unwatched(format: Format, source: Box<dyn TraceSource>) -> Self {
        Self { detected: Detected::plain(format), source, fields: None }
    }
}

/// What [`TraceReader::step`] found: a request of the batch, a refused row, or what the requests up to the next such
/// come to in each of the pools that take ranges.
pub(super) enum ReaderStep {
    Ranges(Vec<Option<EngineRange>>),
    Request(usize),
    Refused(RowError),
}

/// A stream that gives nothing to begin with.
fn unreadable(name: &Arc<str>, source: io::Error) -> TraceError {
    TraceError::Read { file: Arc::clone(name), line: 0, source }
}

/// Looks at the first row. An empty file has no rows in any format.
fn detect_format(lines: &mut LineReader, name: &Arc<str>) -> Result<Detected, TraceError> {
    let step = lines.peek();
    let (file, line) = (Arc::clone(name), lines.number());
    let detected = match step.map_err(|source| TraceError::Read { file: Arc::clone(name), line, source })? {
        LineStep::Line => detect_row(lines.row()),
        LineStep::TooLong => Err(format!("a line longer than {} bytes", lines.limit())),
        LineStep::Cut | LineStep::End => Ok(Detected::plain(Format::Mooncake)),
    };
    detected.map_err(|seen| TraceError::UnknownFormat { file, line, seen })
}

/// The unit of times that count from a start of their own, where the first rows show that it is not the format's.
fn start_unit(lines: &mut LineReader, detected: &Detected) -> Option<NumberUnit> {
    let is_first = std::str::from_utf8(lines.row()).is_ok_and(|row| StartUnit::default().note(row));
    if detected.is_enveloped || !is_first {
        return None;
    }
    let (mut found, limit) = (StartUnit::default(), lines.limit());
    lines.look_ahead(LOOKED_AT_BYTES, |text| {
        let mut walk = LineWalk::default();
        while let Some(line) = walk.step(text, limit) {
            let TextLine::Whole(line) = line else { continue };
            if !std::str::from_utf8(&text[line]).is_ok_and(|row| found.note(row)) {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    found.are_seconds().then_some(NumberUnit::Seconds)
}

/// The source of lines that need nothing of one another to be parsed.
fn records(
    lines: LineReader,
    file: Arc<str>,
    decoder: Records,
    parallel: &Parallel,
) -> Result<Box<dyn TraceSource>, TraceError> {
    if parallel.threads > 1 {
        return Ok(Box::new(ParallelLines::start(lines, file, &decoder, parallel)?));
    }
    let rows = RowRecords::new(Box::new(lines), Opener::Bare);
    Ok(Box::new(LineSource { rows, file, decoder: Box::new(decoder) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_from_a_start_are_read() {
        let rows: String =
            (0..9).map(|at| format!("{{\"timestamp\": {at}.25, \"token_ids\": [1, 2]}}\n")).collect();
        let bytes = Box::new(Cursor::new(rows.into_bytes()));
        let mut reader = TraceReader::from_reader("", bytes, &ReadOptions::default()).expect("a trace");
        while reader.step().expect("rows").is_some() {}
        let span = reader.findings().times.span.expect("times");
        assert_eq!(
            span.1.since(span.0).as_secs(),
            8,
            "{:?} {:?}",
            reader.options.start_unit,
            reader.options.time_unit
        );
    }
}
