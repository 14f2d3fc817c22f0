//! The part of a partition that a bounded run covers, and where to take it up.
//!
//! ```text
//!   begin                count_from                          end
//!     |----------------------|--------------------------------|
//!      warms the state up,     counted and published
//!      counts nowhere
//! ```
//!
//! A bounded run is the service between two offsets: the decision is [`decide`]'s, over a log that is
//! taken to start where the run does.

use super::resume::{LostHistory, Origin, Resume, ResumeFacts, ResumeRefusal, StartFrom, decide};
use kvset_formats::position::{LogRange, NextOffset};

/// What a bounded run reads of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetRange {
    /// First offset read. What lies before `count_from` only warms the state up.
    pub begin: NextOffset,
    /// First offset that counts, and whose outputs are published.
    pub count_from: NextOffset,
    /// First offset that does not belong to the run.
    pub end: NextOffset,
}

impl OffsetRange {
    /// Offsets read in all; gaps count too.
    pub fn offsets(&self) -> u64 {
        u64::try_from(self.end.0.saturating_sub(self.begin.0)).unwrap_or(0)
    }

    /// Decides where to take up the partition within this range.
    ///
    /// # Errors
    /// [`ResumeRefusal`] as for [`decide`]; also where the log no longer holds the range.
    pub fn decide(&self, facts: &ResumeFacts<'_>) -> Result<Resume, ResumeRefusal> {
        let log = LogRange { start: facts.log.start.max(self.begin), end: facts.log.end };
        if self.end > log.end {
            let evidence = format!("the run ends at offset {}, the log at {}", self.end, log.end);
            return Err(ResumeRefusal::OtherLog { evidence });
        }
        let resume = decide(&ResumeFacts { log, start: StartFrom::Earliest, ..*facts })?;
        // A snapshot holds what came before; anything else begins with records that are gone.
        let lost = !matches!(resume.origin, Origin::Snapshot(_)) && log.start > self.begin;
        if lost && facts.lost_history == LostHistory::Refuse {
            return Err(ResumeRefusal::HistoryLost { from: self.begin, to: log.start });
        }
        let explanation = match facts.committed {
            None => {
                format!("offsets {} to {}", self.count_from, self.end) + &self.warming(resume.replay_from)
            }
            Some(_) => resume.explanation,
        };
        Ok(Resume {
            publish_from: resume.publish_from.max(self.count_from),
            count_from: self.count_from,
            explanation,
            ..resume
        })
    }

    fn warming(&self, from: NextOffset) -> String {
        match from < self.count_from {
            true => format!(", warmed up from offset {from}"),
            false => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::resume::{LastRecord, SnapshotFacts, SnapshotHealth};
    use super::*;

    const RANGE: OffsetRange =
        OffsetRange { begin: NextOffset(10), count_from: NextOffset(20), end: NextOffset(50) };

    fn snapshot(next: i64) -> SnapshotFacts {
        let (health, last_record) = (SnapshotHealth::Sound, LastRecord::Same);
        SnapshotFacts { next_offset: NextOffset(next), health, last_record }
    }

    fn facts(committed: Option<i64>, log: (i64, i64), snapshots: &[SnapshotFacts]) -> ResumeFacts<'_> {
        ResumeFacts {
            committed: committed.map(NextOffset),
            log: LogRange { start: NextOffset(log.0), end: NextOffset(log.1) },
            snapshots,
            parked: None,
            start: StartFrom::Latest,
            lost_history: LostHistory::Refuse,
        }
    }

    fn points(facts: &ResumeFacts<'_>) -> Result<(i64, i64, i64, bool), ResumeRefusal> {
        let resume = RANGE.decide(facts)?;
        Ok((resume.replay_from.0, resume.publish_from.0, resume.count_from.0, resume.warm_up))
    }

    #[test]
    fn a_run_goes_on_where_it_was() {
        for (committed, log, snapshots, expected) in [
            (None, (0, 60), &[][..], (10, 20, 20, true)),
            (Some(20), (0, 60), &[], (10, 20, 20, true)),
            (Some(30), (0, 60), &[], (10, 30, 20, true)),
            (Some(30), (0, 60), &[snapshot(15), snapshot(28), snapshot(40)], (28, 30, 20, false)),
            (Some(30), (25, 60), &[snapshot(28)], (28, 30, 20, false)),
        ] {
            assert_eq!(
                points(&facts(committed, log, snapshots)),
                Ok(expected),
                "{committed:?} {snapshots:?}"
            );
        }
        let whole = OffsetRange { begin: NextOffset(0), count_from: NextOffset(0), end: NextOffset(50) };
        let resume = whole.decide(&facts(None, (0, 50), &[])).expect("a log");
        assert!(!resume.warm_up, "nothing came before");
        assert_eq!((whole.offsets(), RANGE.offsets()), (50, 40));
    }

    #[test]
    fn a_log_that_lost_what_the_run_needs_is_refused() {
        let lost = ResumeRefusal::HistoryLost { from: NextOffset(10), to: NextOffset(11) };
        assert_eq!(points(&facts(Some(30), (11, 60), &[])), Err(lost.clone()));
        assert_eq!(points(&facts(None, (11, 60), &[])), Err(lost));
        let allowed = ResumeFacts { lost_history: LostHistory::Rebuild, ..facts(Some(30), (11, 60), &[]) };
        assert_eq!(points(&allowed), Ok((11, 30, 20, true)));
        assert!(matches!(points(&facts(None, (0, 49), &[])), Err(ResumeRefusal::OtherLog { .. })), "cut off");
        let forgotten = points(&facts(None, (0, 60), &[snapshot(30)]));
        assert!(matches!(forgotten, Err(ResumeRefusal::ProgressForgotten { .. })), "its offsets expired");
    }
}
