//! What an operator should know of the partitions while the loop turns: those that stand still although records wait,
//! and those that no member of the group has.

use crate::clock::Clock;
use crate::events::partition_list;
use kvset_formats::position::{NextOffset, Partition};
use kvset_kafka::kafka::KafkaFailure;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long records wait while none is processed before their partition stands still. Transactions of producers may
/// hold records back for a minute, by Kafka's defaults.
const STALLED_AFTER: Duration = Duration::from_secs(120);
/// Time between two looks at the group. A partition without an owner at one of them may be on its way to another.
const LOOK: Duration = Duration::from_secs(15);

/// Least time between two times that the group is to share its partitions out again.
const SHARE_OUT: Duration = Duration::from_secs(60);

/// What was seen of the partitions.
pub(super) struct Conditions<'c> {
    clock: &'c dyn Clock,
    /// Of each partition whose records wait: how far it was processed, and since when.
    waiting: BTreeMap<Partition, (NextOffset, Instant)>,
    stalled: Vec<Partition>,
    looked: Instant,
    /// Without an owner at the last look.
    suspects: Vec<Partition>,
    /// And at the one before.
    unowned: Vec<Partition>,
    /// When the group was to share them out again.
    shared_out: Option<Instant>,
}

impl<'c> Conditions<'c> {
    pub fn new(clock: &'c dyn Clock) -> Self {
        let (waiting, stalled, suspects, unowned) = Default::default();
        Self { clock, waiting, stalled, looked: clock.now(), suspects, unowned, shared_out: None }
    }

    /// Notes how far partitions were processed whose records wait; of the others there is nothing to say.
    pub fn note_waiting(&mut self, waiting: impl Iterator<Item = (Partition, NextOffset)>) {
        let now = self.clock.now();
        let mut before = std::mem::take(&mut self.waiting);
        self.waiting = waiting
            .map(|(partition, next)| {
                let known = before.remove(&partition).filter(|(known, _)| *known == next);
                (partition, known.unwrap_or((next, now)))
            })
            .collect();
        let is_long = |since: &Instant| now.saturating_duration_since(*since) >= STALLED_AFTER;
        let stalled = self.waiting.iter().filter(|(_, (_, since))| is_long(since));
        let stalled: Vec<_> = stalled.map(|(partition, _)| *partition).collect();
        if !stalled.is_empty() && stalled != self.stalled {
            let (named, minutes) = (partition_list(&stalled), STALLED_AFTER.as_secs() / 60);
            tracing::warn!("records wait in {named}, and none was processed for {minutes} minutes");
        }
        self.stalled = stalled;
    }

    /// Looks at the group where it is time to; whether this member is to have it share its partitions out again. An
    /// answer that fails to come says nothing.
    pub fn look(&mut self, unowned: impl FnOnce() -> Result<(Vec<Partition>, bool), KafkaFailure>) -> bool {
        if self.clock.since(self.looked) < LOOK {
            return false;
        }
        let (suspects, is_mine) = unowned().unwrap_or_else(|failure| {
            tracing::debug!("{failure}");
            (Vec::new(), false)
        });
        let lasting = |partition: &Partition| self.suspects.contains(partition);
        let unowned: Vec<_> = suspects.iter().copied().filter(lasting).collect();
        if !unowned.is_empty() && unowned != self.unowned {
            tracing::warn!(
                "no member of the group has {}: nobody reads from there",
                partition_list(&unowned)
            );
        }
        (self.suspects, self.unowned, self.looked) = (suspects, unowned, self.clock.now());
        let is_due = self.shared_out.is_none_or(|before| self.clock.since(before) >= SHARE_OUT);
        let shares_out = is_mine && is_due && !self.unowned.is_empty();
        if shares_out {
            tracing::info!("having the group share out {} again", partition_list(&self.unowned));
            self.shared_out = Some(self.clock.now());
        }
        shares_out
    }

    /// Partitions of which records wait, and none has been processed for a while.
    pub fn stalled(&self) -> &[Partition] {
        &self.stalled
    }

    /// Partitions that no member of the group had at the last two looks.
    pub fn unowned(&self) -> &[Partition] {
        &self.unowned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// A clock that moves when it is told to.
    struct Hand(Instant, Mutex<Duration>);

    impl Hand {
        fn new() -> Self {
            Self(Instant::now(), Mutex::default())
        }

        fn turn(&self, seconds: u64) {
            self.sleep(Duration::from_secs(seconds));
        }
    }

    impl Clock for Hand {
        fn now(&self) -> Instant {
            self.0 + *self.1.lock().expect("no panic")
        }

        fn sleep(&self, time: Duration) {
            *self.1.lock().expect("no panic") += time;
        }
    }

    fn waiting(offsets: &[(i32, i64)]) -> impl Iterator<Item = (Partition, NextOffset)> {
        offsets.iter().map(|(partition, next)| (Partition(*partition), NextOffset(*next)))
    }

    #[test]
    fn a_partition_stalls_where_records_wait_and_none_is_processed_for_two_minutes() {
        let hand = Hand::new();
        let mut conditions = Conditions::new(&hand);
        conditions.note_waiting(waiting(&[(0, 5), (1, 7), (2, 9)]));
        hand.turn(119);
        conditions.note_waiting(waiting(&[(0, 5), (1, 8), (2, 9)]));
        assert_eq!(conditions.stalled(), []);
        hand.turn(1);
        // 1 has moved on, and 2 has nothing left to do.
        conditions.note_waiting(waiting(&[(0, 5), (1, 8)]));
        assert_eq!(conditions.stalled(), [Partition(0)]);
        conditions.note_waiting(waiting(&[(0, 6), (1, 8), (2, 9)]));
        assert_eq!(conditions.stalled(), []);
        hand.turn(119);
        conditions.note_waiting(waiting(&[(2, 9)]));
        assert_eq!(conditions.stalled(), [], "it waits anew");
    }

    fn unowned(partitions: &[i32], is_mine: bool) -> Result<(Vec<Partition>, bool), KafkaFailure> {
        Ok((partitions.iter().copied().map(Partition).collect(), is_mine))
    }

    #[test]
    fn a_partition_is_without_an_owner_at_the_second_look() {
        let hand = Hand::new();
        let mut conditions = Conditions::new(&hand);
        let look = |conditions: &mut Conditions<'_>, found: &[i32]| {
            hand.turn(15);
            assert!(!conditions.look(|| unowned(found, false)), "another member sees to it");
            conditions.unowned().iter().map(|partition| partition.0).collect::<Vec<_>>()
        };
        assert!(look(&mut conditions, &[1, 2]).is_empty());
        assert_eq!(look(&mut conditions, &[2, 3]), [2]);
        conditions.look(|| panic!("it is not time yet"));
        assert_eq!(look(&mut conditions, &[3]), [3]);
        hand.turn(15);
        conditions.look(|| Err(KafkaFailure::fatal("no right to")));
        assert_eq!(conditions.unowned(), [], "what is not known is not said");
    }

    #[test]
    fn partitions_that_stay_without_an_owner_are_shared_out_again_once_a_minute() {
        let hand = Hand::new();
        let mut conditions = Conditions::new(&hand);
        let mut looks = |found: &[i32]| {
            hand.turn(15);
            conditions.look(|| unowned(found, true))
        };
        assert!(!looks(&[1]), "it may be on its way");
        assert!(looks(&[1]));
        assert_eq!([looks(&[1]), looks(&[1]), looks(&[1]), looks(&[1])], [false, false, false, true]);
        assert!(!looks(&[]) && !looks(&[2]));
    }
}
