//! How a process stands with its group: what it makes of being told that another process has its name.

use std::time::{Duration, Instant};

/// What has happened to a member's place in the group.
#[derive(Debug, Default)]
pub(super) struct MemberStanding {
    /// Whether it was thrown out and has not been given anything since.
    evicted: bool,
    /// When there was trouble with the brokers last.
    troubled_at: Option<Instant>,
}

impl MemberStanding {
    /// It was given partitions, or none of them.
    pub fn assigned(&mut self) {
        self.evicted = false;
    }

    /// Its partitions went to others without it being asked.
    pub fn evicted(&mut self) {
        self.evicted = true;
    }

    /// A broker failed or did not answer.
    pub fn troubled(&mut self, now: Instant) {
        self.troubled_at = Some(now);
    }

    /// Whether being fenced is no proof that another process has this one's stable name; new clients find out, which
    /// are told so again if one has.
    ///
    /// - librdkafka asks for the place under a member id that it dropped when the session ended.
    /// - A broker that takes the group over knows the member ids that were written last: one that the broker before
    ///   it gave out and did not write yet is a stranger's to it, and so is one whose answer was lost on the way.
    pub fn doubts_fencing(&self, now: Instant, within: Duration) -> bool {
        let is_recent = |at: Instant| now.saturating_duration_since(at) <= within;
        self.evicted || self.troubled_at.is_some_and(is_recent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Duration = Duration::from_secs(60);

    /// A kill run on three brokers: the one that led the group went away five seconds before a member was fenced that
    /// had just begun.
    #[test]
    fn a_fencing_soon_after_trouble_with_the_brokers_is_no_proof_of_another_process() {
        let begin = Instant::now();
        let mut standing = MemberStanding::default();
        assert!(!standing.doubts_fencing(begin, WITHIN), "nothing has happened");
        standing.troubled(begin);
        assert!(standing.doubts_fencing(begin + Duration::from_secs(5), WITHIN));
        standing.assigned();
        assert!(
            standing.doubts_fencing(begin + Duration::from_secs(5), WITHIN),
            "before the broker went away"
        );
        assert!(!standing.doubts_fencing(begin + 2 * WITHIN, WITHIN), "long ago");
    }

    #[test]
    fn who_was_thrown_out_may_be_fenced_for_its_own_old_place() {
        let mut standing = MemberStanding::default();
        standing.evicted();
        assert!(standing.doubts_fencing(Instant::now(), WITHIN));
        standing.assigned();
        assert!(!standing.doubts_fencing(Instant::now(), WITHIN));
    }
}
