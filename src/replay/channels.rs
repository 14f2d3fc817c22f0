//! What goes into a reading of the traces besides their files, and what comes out of it row by row.

use super::TraceFindings;
use super::ledger::EngineLedger;
use super::per_request::PerRequest;
use kvset_formats::trace::{Recording, TraceRow};

/// Looks at every row of a trace while it is replayed.
pub trait RowCensus {
    /// The trace is read from its start: what was seen of it is void.
    fn start_over(&mut self);

    /// A request that is replayed, in the order of the replay.
    fn row(&mut self, row: &TraceRow<'_>);

    /// The trace is at its end, whether or not a row of it could be used.
    fn end(&mut self, findings: &TraceFindings, ledger: &EngineLedger);
}

/// The channels of a reading.
#[derive(Default)]
pub(super) struct Channels<'w> {
    /// Rows that are read in place of the trace files.
    pub recording: Option<&'w Recording>,
    /// Where a line for each counted request goes.
    pub per_request: Option<PerRequest<'w>>,
    /// What looks at each row.
    pub census: Option<&'w mut dyn RowCensus>,
}

impl Channels<'_> {
    /// The reading begins, perhaps once more.
    ///
    /// # Errors
    /// What was written before cannot be taken back.
    pub fn begin(&mut self) -> std::io::Result<()> {
        self.census.iter_mut().for_each(|census| census.start_over());
        self.per_request.iter_mut().try_for_each(PerRequest::begin)
    }
}
