//! From where the requests of a sub-agent count their times.
//!
//! WEKA's format has them count from the sub-agent's start. Published files have them count from the session's, as its
//! other requests do. Nothing in a file says which: its times do, where only one of the two can be. All sub-agents of a
//! file count alike, so the first lines decide for all of it.

use crate::time::Moment;
use memchr::memmem;
use std::fmt;
use std::time::Duration;

/// How far times may be off: they are rounded.
const SLACK: Duration = Duration::from_secs(1);
/// Sub-agents that decide for a file, where so many can be only one of the two: further ones are not looked at.
const PLENTY: u64 = 64;

/// From where the requests of sub-agents count their times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SubagentTimes {
    /// The sub-agent's start: its time, which is its end, less its duration.
    #[default]
    Relative,
    /// The session's start.
    Absolute,
}

/// Sub-agents whose times can be only the one or the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SubagentEvidence {
    pub relative: u64,
    pub absolute: u64,
}

/// Whether a session's line can hold sub-agents: one has requests of its own. Tells without parsing the line.
pub(crate) fn may_have_subagents(line: &[u8]) -> bool {
    memmem::find_iter(line, br#""requests""#).nth(1).is_some()
}

impl SubagentEvidence {
    /// Takes a sub-agent that ended at `time`, by its session's clock, after `duration`; `first` and `last` are the
    /// times of its requests as they are written.
    pub fn note(&mut self, time: Moment, duration: Duration, first: Moment, last: Moment) {
        let start = time.before(duration);
        if first.after(SLACK) < start {
            // No request of it came before it did.
            self.relative += 1;
        } else if last > Moment::default().after(duration).after(SLACK) {
            // None came that long after its start, unless it has none.
            self.absolute += 1;
        }
    }

    /// Takes further sub-agents.
    pub fn add(&mut self, other: Self) {
        self.relative += other.relative;
        self.absolute += other.absolute;
    }

    /// Whether further sub-agents need not be looked at.
    pub fn is_plenty(self) -> bool {
        self.relative + self.absolute >= PLENTY
    }

    /// What the most of them show.
    pub fn times(self) -> SubagentTimes {
        match self.absolute > self.relative {
            true => SubagentTimes::Absolute,
            false => SubagentTimes::Relative,
        }
    }
}

impl fmt::Display for SubagentEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { relative, absolute } = *self;
        let (from, shown) = match self.times() {
            SubagentTimes::Relative => ("their sub-agent's", relative),
            SubagentTimes::Absolute => ("their session's", absolute),
        };
        write!(
            f,
            "the requests of sub-agents count their times from {from} start, as {shown} of {} show",
            relative + absolute
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(subagents: &[(u64, u64, u64, u64)]) -> (u64, u64) {
        let at = |seconds: u64| Moment::default().after(Duration::from_secs(seconds));
        let mut evidence = SubagentEvidence::default();
        for (time, duration, first, last) in subagents {
            evidence.note(at(*time), Duration::from_secs(*duration), at(*first), at(*last));
        }
        (evidence.relative, evidence.absolute)
    }

    #[test]
    fn a_line_with_requests_of_a_request_may_have_subagents() {
        assert!(may_have_subagents(br#"{"requests": [{"t": 1, "requests": [{"t": 0, "hash_ids": [1]}]}]}"#));
        assert!(!may_have_subagents(br#"{"requests": [{"t": 1, "hash_ids": [1], "type": "n"}]}"#));
    }

    #[test]
    fn only_times_that_exclude_one_of_the_two_are_evidence() {
        assert_eq!(evidence(&[(100, 50, 101, 120)]), (0, 1), "120 s are more than it took");
        assert_eq!(evidence(&[(100, 0, 1, 20)]), (1, 0), "1 s is before the 100 s at which it came");
        assert_eq!(evidence(&[(100, 60, 45, 58)]), (0, 0), "both can be");
        assert_eq!(evidence(&[(100, 50, 0, 30), (400, 9, 391, 399)]), (1, 1));
        assert_eq!(evidence(&[(5, 5, 1, 4)]), (0, 0), "it came with its session");
        assert_eq!(evidence(&[(100, 50, 49, 51)]), (0, 0), "rounded");
    }
}
