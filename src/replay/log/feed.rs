//! A replay of rows that come from memory.

use super::super::ledger::EngineLedger;
use super::super::run::{ReplayRun, RunContext};
use super::super::{Replay, ReplayError, ReplayOptions, TraceFindings};
use kvset_core::estimate::Estimate;
use kvset_core::estimate::config::PoolConfig;
use kvset_core::pool::Pool;
use kvset_core::units::Offset;
use kvset_core::units::window::WindowKind;
use kvset_formats::trace::TraceRow;

/// Takes rows one by one.
pub(in crate::replay) struct LogFeed {
    run: ReplayRun,
    ledger: EngineLedger,
}

impl LogFeed {
    /// A replay that has seen nothing.
    ///
    /// # Errors
    /// The options cannot be followed.
    pub fn new(options: &ReplayOptions, pool: &PoolConfig) -> Result<Self, ReplayError> {
        Ok(Self { run: ReplayRun::new(options, pool, None)?, ledger: EngineLedger::default() })
    }

    /// Takes a row, which counts or only touches; whether it was accepted.
    ///
    /// # Errors
    /// It cannot be one of this replay.
    pub fn take(&mut self, row: TraceRow<'_>, counts: bool) -> Result<bool, ReplayError> {
        let before = self.ledger.accepted;
        let warm_up = if counts { 0 } else { u64::MAX };
        let with = RunContext { ledger: &mut self.ledger, per_request: None, warm_up };
        self.run.observe_rows(&[row], with)?;
        Ok(self.ledger.accepted > before)
    }

    /// Requests accepted so far.
    pub fn accepted(&self) -> u64 {
        self.ledger.accepted
    }

    /// The pool, once a request was accepted.
    pub fn pool(&self) -> Option<&Pool> {
        self.run.pool()
    }

    /// Where the rows end.
    pub fn end(&self) -> Offset {
        Offset(self.ledger.rows as i64)
    }

    /// The estimate over all that counts so far.
    pub fn estimate(&self) -> Option<Estimate> {
        self.pool()?.counted_so_far(WindowKind::All, self.end())
    }

    /// What it came to.
    ///
    /// # Errors
    /// Rows were refused, and may not be passed over; or something cannot be known.
    pub fn finish(self, options: &ReplayOptions, findings: &TraceFindings) -> Result<Replay, ReplayError> {
        self.ledger.check(options.skip_bad_rows)?;
        Ok(self.run.finish(findings)?.0)
    }
}
