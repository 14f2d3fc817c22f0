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

use super::position::{LogRange, NextOffset};
use super::resume::{Facts, LostHistory, Origin, Refusal, Resume, StartFrom, decide};

/// What a bounded run reads of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// First offset read. What lies before `count_from` only warms the state up.
    pub begin: NextOffset,
    /// First offset that counts, and whose outputs are published.
    pub count_from: NextOffset,
    /// First offset that does not belong to the run.
    pub end: NextOffset,
}

impl Stretch {
    /// Offsets read in all; gaps count too.
    pub fn offsets(&self) -> u64 {
        u64::try_from(self.end.0.saturating_sub(self.begin.0)).unwrap_or(0)
    }

    /// Decides where to take up the partition within this stretch.
    ///
    /// # Errors
    /// [`Refusal`] as for [`decide`]; also where the log no longer holds the stretch.
    pub fn decide(&self, facts: &Facts<'_>) -> Result<Resume, Refusal> {
        let log = LogRange { start: facts.log.start.max(self.begin), end: facts.log.end };
        if self.end > log.end {
            let evidence = format!("the run ends at offset {}, the log at {}", self.end, log.end);
            return Err(Refusal::OtherLog { evidence });
        }
        let resume = decide(&Facts { log, start: StartFrom::Earliest, ..*facts })?;
        // A snapshot holds what came before; anything else begins with records that are gone.
        let lost = !matches!(resume.origin, Origin::Snapshot(_)) && log.start > self.begin;
        if lost && facts.lost_history == LostHistory::Refuse {
            return Err(Refusal::HistoryLost { from: self.begin, to: log.start });
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
