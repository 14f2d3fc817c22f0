//! What of a log is not in a pool's windows, and which windows that leaves incomplete.

use crate::units::EventTime;
use crate::units::window::WindowKind;

/// What is not in the windows; nothing by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MissingRecords {
    /// Records before this event time were not seen.
    pub unseen_before: Option<EventTime>,
    /// Records up to this event time, the largest of theirs, were seen and not counted.
    pub uncounted_upto: Option<EventTime>,
}

impl MissingRecords {
    /// Whether records that belong into a window, or into the history it must have, are not in it.
    pub fn touches(self, kind: WindowKind, start_ms: i64, requests: u64, min_history_ms: u64) -> bool {
        if self == Self::default() {
            return false;
        }
        let min_history_ms = i64::try_from(min_history_ms).unwrap_or(i64::MAX);
        let known_from = self.unseen_before.map(|time| time.0.saturating_add(min_history_ms));
        let partial = match kind {
            // These reach back further than any event time tells.
            WindowKind::All => true,
            WindowKind::Last { requests: wanted } => requests < u64::from(wanted),
            WindowKind::Tumbling { .. } | WindowKind::Hopping { .. } => {
                self.uncounted_upto.is_some_and(|upto| start_ms <= upto.0)
            }
        };
        partial || known_from.is_some_and(|known_from| start_ms <= known_from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_reach_back_to_what_is_missing_are_incomplete() {
        let (tumbling, last) = (WindowKind::Tumbling { size_ms: 10 }, WindowKind::Last { requests: 5 });
        let (unseen, uncounted) = (Some(EventTime(100)), Some(EventTime(200)));
        let whole = MissingRecords::default();
        let unseen = MissingRecords { unseen_before: unseen, ..whole };
        let uncounted = MissingRecords { uncounted_upto: uncounted, ..whole };
        for kind in [tumbling, last, WindowKind::All] {
            assert!(!whole.touches(kind, i64::MIN, 0, u64::MAX), "{kind}");
        }
        assert!(unseen.touches(tumbling, 100, 1, 0) && !unseen.touches(tumbling, 110, 1, 0));
        assert!(unseen.touches(tumbling, 110, 1, 30), "the history it must have is cut short");
        assert!(uncounted.touches(tumbling, 200, 1, 0) && !uncounted.touches(tumbling, 210, 1, 30));
        assert!(uncounted.touches(last, 300, 4, 0) && !uncounted.touches(last, 300, 5, 0));
        assert!(unseen.touches(WindowKind::All, 300, 9, 0) && uncounted.touches(WindowKind::All, 300, 9, 0));
    }
}
