//! Line formats: what a line becomes, and the source that hands lines to a decoder.

use super::carried::Carried;
use super::entry::{DraftSink, EntryFields, EntryReader};
use super::error::{RowError, TraceError};
use super::id_arrays::{FIELD, Shortened};
use super::options::ReadOptions;
use super::rows::RowRecords;
use super::text::{LineWalk, TextLine};
use crate::almost_json;
use crate::record::fault::RowFault;
use crate::record::id_scope::IdScope;
use crate::record::json::{Object, ParseTrouble, read_line};
use crate::record::row::{BatchMark, DeclaredScope, RowBatch};
use crate::record::served::read_served;
use crate::record::subagents::{SubagentEvidence, SubagentTimes, may_have_subagents};
use crate::time::{NumberUnit, Numbers};
use kvset_core::engines::one_pass::EngineRange;
use kvset_core::units::PageSize;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// What one step through a file gave.
pub(super) enum Filled {
    /// The batch holds at least one request.
    Requests,
    /// One row was refused.
    Refused(RowError),
    /// What the requests up to the next such, or to the file's end, come to in each of the pools that take ranges.
    Ranges(Vec<Option<EngineRange>>),
    /// The file is at its end.
    End,
}

/// A trace file, whatever its format.
pub(super) trait TraceSource: Send {
    /// Puts the next requests into `batch`, which is empty.
    fn fill(&mut self, batch: &mut RowBatch, carried: &mut Carried) -> Result<Filled, TraceError>;
}

/// Where the requests of a record go.
pub(super) struct RecordSink<'s> {
    pub batch: &'s mut RowBatch,
    pub carried: &'s mut Carried,
    /// The number of its row, counted from 1.
    pub number: u64,
}

/// Turns records into requests.
pub(super) trait Decode: Send {
    /// Files the requests of a record; none is allowed.
    fn decode(&mut self, record: &[u8], sink: &mut RecordSink<'_>) -> Result<(), RowFault>;
}

/// A file of rows.
pub(super) struct LineSource {
    pub rows: RowRecords,
    pub file: Arc<str>,
    pub decoder: Box<dyn Decode>,
}

impl LineSource {
    /// Decodes the record at hand; where that fails, once more as the JSON that it almost is.
    fn decode(&mut self, batch: &mut RowBatch, carried: &mut Carried) -> Result<(), RowFault> {
        let Self { rows, decoder, .. } = self;
        let (record, number) = (rows.record(), rows.number());
        let mut sink = RecordSink { batch, carried, number };
        if let Err(fault) = decoder.decode(record, &mut sink) {
            sink.batch.clear();
            let json = almost_json::as_json(record).ok_or(fault)?;
            decoder.decode(&json, &mut sink).map_err(RowFault::without_words)?;
        }
        Ok(())
    }
}

impl TraceSource for LineSource {
    fn fill(&mut self, batch: &mut RowBatch, carried: &mut Carried) -> Result<Filled, TraceError> {
        loop {
            let step = self.rows.step();
            let number = self.rows.number();
            let step = step.map_err(|source| TraceError::Read {
                file: Arc::clone(&self.file),
                line: number,
                source,
            })?;
            let Some(read) = step else {
                carried.note_place(&self.file, self.rows.place());
                carried.comments += self.rows.comments();
                return Ok(Filled::End);
            };
            match read.and_then(|()| self.decode(batch, carried)) {
                Err(fault) => {
                    batch.clear();
                    let (file, fault) = (Arc::clone(&self.file), self.rows.fault(fault));
                    return Ok(Filled::Refused(RowError { file, line: number, fault }));
                }
                Ok(()) => {
                    carried.place(batch);
                    if !batch.is_drained() {
                        return Ok(Filled::Requests);
                    }
                }
            }
        }
    }
}

/// Mooncake, qwen and weka lines.
#[derive(Clone)]
pub(super) struct Records {
    /// How numbers of `timestamp` are meant.
    pub numbers: Numbers,
    /// Tokens per page where the row does not say.
    pub page_size: PageSize,
    /// Whether a line may be a whole session.
    pub sessions: bool,
    pub id_scope: IdScope,
    /// From where the requests of sub-agents count their times.
    pub subagents: SubagentTimes,
    /// The line at hand without its ids.
    shortened: Shortened,
}

/// How rows of page ids are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowForm {
    /// The unit of numbers of `timestamp` that are no dates.
    pub unit: NumberUnit,
    /// Tokens per page where neither the row nor the user says.
    pub page_size: PageSize,
    /// Whether a line may be a whole session.
    pub sessions: bool,
}

impl Records {
    /// A decoder for rows of this form.
    pub fn new(form: RowForm, options: &ReadOptions) -> Self {
        Self {
            numbers: options.numbers(Numbers::DatesOr(form.unit)),
            page_size: options.page_size.unwrap_or(form.page_size),
            sessions: form.sessions,
            id_scope: options.id_scope.clone(),
            subagents: SubagentTimes::default(),
            shortened: Shortened::default(),
        }
    }

    /// Files a line that is one request.
    fn file_request(&self, mut entry: EntryReader<'_, '_>) -> Result<DeclaredScope, RowFault> {
        if entry.found.time().is_none() && entry.found.delay.is_none() {
            return Err(RowFault::missing("timestamp"));
        }
        let draft = entry.draft().ok_or_else(|| RowFault::missing("hash_ids"))?;
        entry.sink.batch.drafts.push(draft);
        Ok(entry.found.declared)
    }

    /// Files a line that is a session: its requests in the order of their times.
    fn file_session(&self, batch: &mut RowBatch, mark: BatchMark, found: &EntryFields) {
        let session = found.extras.session.as_ref().or(found.id.as_ref());
        let kept = batch.kept_apart(&found.extras.parts);
        let first = mark.drafts;
        batch.drafts[first..].sort_by_key(|draft| draft.moment);
        for draft in &mut batch.drafts[first..] {
            draft.page_size = draft.page_size.or(found.page_size);
            draft.session = session.cloned();
            draft.scope_name = draft.scope_name.take().or_else(|| found.extras.scope_name.clone());
            draft.labels = std::mem::take(&mut draft.labels).or(&found.extras.labels);
            draft.inherit_identity(&kept);
        }
        batch.sessions.push(first..batch.drafts.len());
    }

    /// Appends the requests of a line to `batch`, or none; those of a session are still to be placed.
    pub(super) fn read(&mut self, line: &[u8], number: u64, batch: &mut RowBatch) -> Result<(), RowFault> {
        let mark = batch.mark();
        let mut shortened = std::mem::take(&mut self.shortened);
        let is_shortened = self.id_scope.field() != Some(FIELD) && shortened.take(line, &mut batch.ids);
        let Shortened { json, arrays } = &shortened;
        let brief = if is_shortened { json } else { line };
        let read = read_served((line, brief), batch, |batch| {
            if is_shortened && self.read_json(json, number, batch, Some(arrays)).is_ok() {
                return Ok(());
            }
            // What is wrong is said of the line as it is.
            batch.go_back(mark);
            self.read_json(line, number, batch, None)
        });
        self.shortened = shortened;
        read.inspect_err(|_| batch.go_back(mark))
    }

    /// Adds what the sub-agents of these lines show, until that is plenty.
    pub(super) fn seek_evidence(
        &self,
        text: &[u8],
        limit: usize,
        found: &mut SubagentEvidence,
    ) -> ControlFlow<()> {
        let mut reader = Self { subagents: SubagentTimes::Absolute, ..self.clone() };
        let (mut batch, mut walk) = (RowBatch::default(), LineWalk::default());
        while let Some(line) = walk.step(text, limit) {
            let TextLine::Whole(line) = line else { continue };
            if !may_have_subagents(&text[line.clone()]) {
                continue;
            }
            batch.clear();
            // What cannot be read is refused where it is read for good.
            if reader.read(&text[line], walk.number, &mut batch).is_ok() {
                found.add(batch.subagents);
            }
            if found.is_plenty() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// The same for a line as it is, or one that these arrays were taken out of.
    fn read_json(
        &self,
        line: &[u8],
        number: u64,
        batch: &mut RowBatch,
        taken: Option<&[Range<usize>]>,
    ) -> Result<(), RowFault> {
        let (mark, numbers, scope_field) = (batch.mark(), self.numbers, self.id_scope.field());
        let trouble = ParseTrouble::default();
        let subagents = self.subagents;
        let mut sink = DraftSink { batch, trouble, numbers, scope_field, line: number, subagents, taken };
        let mut entry = EntryReader::new(&mut sink);
        if let Err(error) = read_line(line, Object(&mut entry)) {
            return Err(sink.trouble.fault(&error));
        }
        let declared = if self.sessions && entry.found.nested.is_some() {
            let EntryReader { sink, found } = entry;
            self.file_session(sink.batch, mark, &found);
            found.declared
        } else {
            self.file_request(entry)?
        };
        for draft in &mut batch.drafts[mark.drafts..] {
            draft.page_size.get_or_insert(self.page_size);
        }
        batch.set_scopes(mark.drafts, &self.id_scope, declared)
    }
}

impl Decode for Records {
    fn decode(&mut self, record: &[u8], sink: &mut RecordSink<'_>) -> Result<(), RowFault> {
        self.read(record, sink.number, sink.batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FORM: RowForm =
        RowForm { unit: NumberUnit::Milliseconds, page_size: PageSize::new(64).unwrap(), sessions: true };

    const LINES: [&str; 5] = [
        r#"{"timestamp": 7, "input_length": 130, "hash_ids": [1, 2, 18446744073709551615], "output_length": 3}"#,
        r#"{"id":"a","block_size":64,"hash_id_scope":"local","requests":[{"t":1.5,"hash_ids":[3,4]},{"t":9,"duration_ms":5,"requests":[{"t":1,"hash_ids":[0]}]}]}"#,
        r#"{"timestamp":1,"x":{"hash_ids":[1,2]},"hash_ids":[],"models":["a","b"],"session_id":"hash_ids"}"#,
        r#"{"timestamp":1,"hash_ids":[5],"user":"a\"b","hash_ids":[6]}"#,
        r#"{"hash_ids":[[0]],"timestamp":1,"x":"[","y":[true,"hash_ids",[1]],"hash_ids":null}"#,
    ];

    /// All that a line is read as.
    fn told(batch: &RowBatch, read: Result<(), RowFault>) -> String {
        let rows: Vec<_> =
            (0..batch.drafts.len()).map(|index| format!("{:?}", batch.row(index, "f"))).collect();
        format!("{read:?} {:?} {rows:?}", batch.sessions)
    }

    #[test]
    fn a_refused_session_takes_no_time() {
        let options = ReadOptions { id_scope: IdScope::Field("user".to_owned()), ..ReadOptions::default() };
        let mut records = Records::new(FORM, &options);
        let (mut batch, mut carried) = (RowBatch::default(), Carried::default());
        let lines = [
            r#"{"id":"a","user":"u","requests":[{"t":1,"duration_ms":500,"hash_ids":[1]}]}"#,
            r#"{"id":"b","requests":[{"t":900,"duration_ms":500,"hash_ids":[1]}]}"#,
            r#"{"id":"c","user":"u","requests":[{"t":1,"hash_ids":[1]}]}"#,
        ];
        let read = lines.map(|line| records.read(line.as_bytes(), 1, &mut batch).is_ok());
        assert_eq!(read, [true, false, true], "the second names no user");
        carried.timeline.place(&mut batch);
        let times: Vec<i64> = batch.drafts.iter().map(|draft| draft.moment.ms()).collect();
        assert_eq!((times, carried.timeline.facts().placed_sessions), (vec![1000, 2500], 2));
    }

    proptest! {
        #[test]
        fn a_line_without_its_ids_is_read_as_the_line(
            line in prop::sample::select(LINES.to_vec()),
            edits in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(b"[]{},:\"\\01 9h-.e".to_vec()), any::<bool>()), 0..3),
            field in prop::sample::select(vec!["user", "hash_ids", "session_id"]),
            scoped: bool,
        ) {
            let mut line = line.as_bytes().to_vec();
            for (at, byte, replaces) in edits {
                let at = at.index(line.len());
                match replaces {
                    true => line[at] = byte,
                    false => line.insert(at, byte),
                }
            }
            let id_scope = if scoped { IdScope::Field(field.to_owned()) } else { IdScope::Auto };
            let options = ReadOptions { id_scope, ..ReadOptions::default() };
            let mut records = Records::new(FORM, &options);
            let (mut short, mut whole) = (RowBatch::default(), RowBatch::default());
            let read = records.read(&line, 7, &mut short);
            let expected = records.read_json(&line, 7, &mut whole, None).inspect_err(|_| whole.clear());
            prop_assert_eq!(told(&short, read), told(&whole, expected), "{}", String::from_utf8_lossy(&line));
        }
    }
}
