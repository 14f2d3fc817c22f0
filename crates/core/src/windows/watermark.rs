//! How far event time has got in one partition.

use crate::units::EventTime;
use serde::{Deserialize, Serialize};

/// The largest event time seen less the allowed lateness; it never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermark {
    allowed_lateness_ms: u64,
    time: Option<EventTime>,
}

impl Watermark {
    /// A watermark that has seen no record.
    pub fn new(allowed_lateness_ms: u64) -> Self {
        Self { allowed_lateness_ms, time: None }
    }

    /// Takes a record's event time in; true when that moved the watermark.
    pub fn observe(&mut self, event_time: EventTime) -> bool {
        let lateness = i64::try_from(self.allowed_lateness_ms).unwrap_or(i64::MAX);
        let moved = Some(EventTime(event_time.0.saturating_sub(lateness)));
        let moves = moved > self.time;
        self.time = self.time.max(moved);
        moves
    }

    /// Where it stands; `None` before the first record.
    pub fn time(self) -> Option<EventTime> {
        self.time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_the_largest_time_and_never_goes_back() {
        let mut watermark = Watermark::new(10);
        assert_eq!(watermark.time(), None);
        let moves = [100, 90, 105, 105].map(|time| watermark.observe(EventTime(time)));
        assert_eq!((moves, watermark.time()), ([true, false, true, false], Some(EventTime(95))));
        let mut patient = Watermark::new(u64::MAX);
        assert!(patient.observe(EventTime(i64::MIN)));
        assert_eq!(patient.time(), Some(EventTime(i64::MIN)), "saturates");
    }
}
