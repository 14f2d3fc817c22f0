//! Up to when a pool's log is complete, as those who write it say.
//!
//! An engine knows which requests it has in flight, so whoever writes its log can say with each record before which
//! arrival everything is written. A record need not wait any longer then for an earlier one that may follow.

use crate::units::EventTime;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Writers of a pool that are told apart; of more nothing is known to be complete.
const MAX_WRITERS: usize = 256;

/// What a record says of the writer's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriterWord<'a> {
    /// The replica that wrote it; empty where it has no name.
    pub writer: &'a str,
    /// Before this arrival all of the writer's requests are written; absent where it does not say.
    pub complete_before: Option<EventTime>,
}

/// What a pool's writers have said.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Writers {
    /// Of each that says: until when it was heard of, and before which arrival everything of it is written. One that
    /// is silent for longer than requests may take is taken to be gone.
    stating: BTreeMap<Box<str>, (EventTime, EventTime)>,
    /// The latest record of one that does not.
    unstated: Option<EventTime>,
}

impl Writers {
    /// Takes a record's word in, and says before which arrival the pool's log is complete: nowhere that is known, where
    /// a writer does not say that was heard `since` then.
    pub(super) fn observe(
        &mut self,
        word: WriterWord<'_>,
        event_time: EventTime,
        since: EventTime,
    ) -> Option<EventTime> {
        let has_room = self.stating.len() < MAX_WRITERS;
        match (word.complete_before, self.stating.get_mut(word.writer)) {
            (Some(before), Some(known)) => {
                *known = (known.0.max(event_time).max(before), known.1.max(before));
            }
            (Some(before), None) if has_room => {
                self.stating.insert(word.writer.into(), (event_time.max(before), before));
            }
            _ => self.unstated = self.unstated.max(Some(event_time)),
        }
        self.stating.retain(|_, (latest, _)| *latest >= since);
        let all_say = self.unstated.is_none_or(|latest| latest < since);
        self.stating.values().map(|(_, before)| *before).min().filter(|_| all_say)
    }
}
