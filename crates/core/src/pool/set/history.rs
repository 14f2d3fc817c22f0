//! What a set of pools did not see, or not count, of its log.

use crate::units::EventTime;
use crate::windows::missing::MissingRecords;
use serde::{Deserialize, Serialize};

/// Whether everything the state depends on was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolHistory {
    /// It was.
    Whole,
    /// Records are missing; the first one after them has not come yet.
    Missing,
    /// Records before this event time are missing.
    MissingBefore(EventTime),
    /// Records up to the event time `upto`, the largest of theirs, were seen and not counted; those
    /// before `missing_before` were not seen either, where there is such a time.
    WarmedUp {
        /// As in [`PoolHistory::MissingBefore`].
        missing_before: Option<EventTime>,
        /// Largest event time of a record that did not count.
        upto: EventTime,
    },
}

impl PoolHistory {
    /// The history once another record was seen.
    pub(super) fn after(self, event_time: EventTime, counted: bool) -> Self {
        let seen = if let Self::Missing = self { Self::MissingBefore(event_time) } else { self };
        if counted {
            return seen;
        }
        match seen {
            Self::WarmedUp { missing_before, upto } => {
                Self::WarmedUp { missing_before, upto: upto.max(event_time) }
            }
            Self::MissingBefore(time) => Self::WarmedUp { missing_before: Some(time), upto: event_time },
            Self::Whole | Self::Missing => Self::WarmedUp { missing_before: None, upto: event_time },
        }
    }

    /// What of the log is not in the windows.
    pub(super) fn missing(self) -> MissingRecords {
        match self {
            Self::Whole | Self::Missing => MissingRecords::default(),
            Self::MissingBefore(time) => MissingRecords { unseen_before: Some(time), uncounted_upto: None },
            Self::WarmedUp { missing_before, upto } => {
                MissingRecords { unseen_before: missing_before, uncounted_upto: Some(upto) }
            }
        }
    }
}
