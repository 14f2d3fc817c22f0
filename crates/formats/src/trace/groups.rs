//! Requests that were read together, with what they come to in the pools that take ranges.

use super::error::{RowError, TraceError};
use super::findings::TraceFindings;
use super::reader::{ReadProgress, ReaderStep, TraceItem, TraceReader};
use crate::record::row::RowBatch;
use kvset_core::engines::one_pass::EngineRange;
use std::sync::Arc;

/// Page ids after which what was parsed is passed on, once the line is at its end.
const IDS_AT_ONCE: usize = 1 << 15;
/// The same for requests and refused rows.
pub(super) const ITEMS_AT_ONCE: usize = 512;

/// Some requests and refused rows, one after another.
#[derive(Default)]
pub(super) struct RowGroup {
    /// Parsed lines, each with the name of its file. Those behind `used` are empty, kept for their memory.
    batches: Vec<(RowBatch, Arc<str>)>,
    used: usize,
    /// Requests by the number of their batch and their own in that, and why rows were refused, each handed out once.
    items: Vec<Result<(usize, usize), Option<RowError>>>,
    /// The next item to be handed out.
    next: usize,
    /// What all of the requests come to in each of the pools that take ranges.
    ranges: Vec<Option<EngineRange>>,
    /// How far the files were read.
    pub progress: ReadProgress,
}

/// A row as a caller gets it; a refused one only once.
fn take<'a>(
    row: &mut Result<(usize, usize), Option<RowError>>,
    batches: &'a [(RowBatch, Arc<str>)],
) -> Option<TraceItem<'a>> {
    match row {
        Ok((batch, index)) => {
            let (batch, file) = &batches[*batch];
            Some(TraceItem::Request(batch.row(*index, file)))
        }
        Err(error) => error.take().map(TraceItem::Refused),
    }
}

/// Items that were read together.
pub struct ItemGroup<'a> {
    /// Requests and refused rows in their order.
    pub items: Vec<TraceItem<'a>>,
    /// What the requests come to in each of the pools that take ranges; `None` where a pool has to observe them one
    /// after another, and empty where all have to.
    pub ranges: Vec<Option<EngineRange>>,
}

impl RowGroup {
    /// Whether every item was handed out.
    pub fn is_drained(&self) -> bool {
        self.next == self.items.len()
    }

    /// The next item, where there is one.
    pub fn next_item(&mut self) -> Option<TraceItem<'_>> {
        let item = self.items.get_mut(self.next)?;
        self.next += 1;
        take(item, &self.batches)
    }

    /// All items that were not handed out yet.
    pub fn rest(&mut self) -> ItemGroup<'_> {
        let is_whole = self.next == 0;
        let rest = &mut self.items[self.next..];
        self.next += rest.len();
        let items = rest.iter_mut().filter_map(|item| take(item, &self.batches)).collect();
        ItemGroup { items, ranges: if is_whole { std::mem::take(&mut self.ranges) } else { Vec::new() } }
    }

    fn clear(&mut self) {
        self.items.clear();
        self.ranges.clear();
        (self.used, self.next) = (0, 0);
    }

    /// Fills the group; false where the trace is at its end. One that has ranges holds all their requests and no
    /// others: `ranges` are those of the requests to come.
    fn fill(
        &mut self,
        reader: &mut TraceReader,
        ranges: &mut Vec<Option<EngineRange>>,
    ) -> Result<bool, TraceError> {
        self.ranges = std::mem::take(ranges);
        let mut ids = 0;
        while !reader.batch_mut().is_drained() || !self.is_full(ids) {
            match reader.step()? {
                Some(ReaderStep::Request(index)) => self.items.push(Ok((self.used, index))),
                Some(ReaderStep::Refused(error)) => self.items.push(Err(Some(error))),
                Some(ReaderStep::Ranges(found)) => {
                    if self.ends_before(&found) {
                        *ranges = found;
                        return Ok(true);
                    }
                    self.ranges = found;
                }
                None => return Ok(false),
            }
            // The others of its line follow it.
            ids += self.take_drained(reader);
        }
        Ok(true)
    }

    /// Whether it is time to pass on what was parsed, where no range says when.
    fn is_full(&self, ids: usize) -> bool {
        self.ranges.is_empty() && (ids >= IDS_AT_ONCE || self.items.len() >= ITEMS_AT_ONCE)
    }

    /// Whether requests of these ranges, or of none, begin another group.
    fn ends_before(&self, ranges: &[Option<EngineRange>]) -> bool {
        let has_ranges = !self.ranges.is_empty() || !ranges.is_empty();
        has_ranges && !self.items.is_empty()
    }

    /// Takes the reader's line over once all its requests are reported; returns how many ids it has.
    fn take_drained(&mut self, reader: &mut TraceReader) -> usize {
        if !reader.batch_mut().is_drained() || reader.batch_mut().drafts.is_empty() {
            return 0;
        }
        if self.used == self.batches.len() {
            self.batches.push((RowBatch::default(), Arc::from("")));
        }
        let name = reader.file_name();
        let (batch, file) = &mut self.batches[self.used];
        *file = name;
        batch.clear();
        std::mem::swap(batch, reader.batch_mut());
        self.used += 1;
        batch.ids.len()
    }
}

/// Reads group after group.
pub(super) struct GroupReader {
    reader: TraceReader,
    /// What the requests of the next group come to.
    ranges: Vec<Option<EngineRange>>,
    /// Why there is no further group, or that the trace is at its end.
    ended: Option<Result<(), TraceError>>,
}

impl GroupReader {
    pub fn new(reader: TraceReader) -> Self {
        Self { reader, ranges: Vec::new(), ended: None }
    }

    /// The next group, in the memory of an earlier one; none at the end.
    ///
    /// # Errors
    /// [`TraceError`] when a file cannot be read on, once all before that was handed out. The reader is then at its
    /// end.
    pub fn next(&mut self, mut group: RowGroup) -> Result<Option<RowGroup>, TraceError> {
        if let Some(ended) = &mut self.ended {
            return std::mem::replace(ended, Ok(())).map(|()| None);
        }
        group.clear();
        let filled = group.fill(&mut self.reader, &mut self.ranges);
        self.ended = match filled {
            Ok(true) => None,
            Ok(false) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        group.progress = self.reader.progress();
        Ok(Some(group))
    }

    /// What the reader found out, once the trace is at its end.
    pub fn findings(&self) -> TraceFindings {
        self.reader.findings()
    }
}
