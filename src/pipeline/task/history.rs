//! What a task did not see of its log, and which windows that leaves incomplete.

use crate::core::estimate::Estimate;
use crate::core::units::EventTime;
use crate::core::window::WindowKind;
use serde::{Deserialize, Serialize};

/// Whether everything the state depends on was seen.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum History {
    /// It was.
    Whole,
    /// Records are missing; the first one after them has not come yet.
    Missing,
    /// Records before this event time are missing.
    MissingBefore(EventTime),
    /// Records up to the event time `upto`, the largest of theirs, were seen and not counted; those
    /// before `missing_before` were not seen either, where there is such a time.
    WarmedUp {
        /// As in [`History::MissingBefore`].
        missing_before: Option<EventTime>,
        /// Largest event time of a record that did not count.
        upto: EventTime,
    },
}

impl History {
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

    /// Whether records that belong into the window, or into the history it must have, are not in it.
    pub(super) fn lacks(self, estimate: &Estimate, min_history_ms: u64) -> bool {
        let (missing_before, upto) = match self {
            Self::Whole | Self::Missing => return false,
            Self::MissingBefore(time) => (Some(time), None),
            Self::WarmedUp { missing_before, upto } => (missing_before, Some(upto)),
        };
        let known_from =
            |time: EventTime| time.0.saturating_add(i64::try_from(min_history_ms).unwrap_or(i64::MAX));
        let partial = match estimate.window {
            // These reach back further than any event time tells.
            WindowKind::All => true,
            WindowKind::Last { requests } => estimate.requests < u64::from(requests),
            WindowKind::Tumbling { .. } | WindowKind::Hopping { .. } => {
                upto.is_some_and(|upto| estimate.start_ms <= upto.0)
            }
        };
        partial || missing_before.is_some_and(|time| estimate.start_ms <= known_from(time))
    }
}
