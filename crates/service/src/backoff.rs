//! Repeating calls that fail in passing: with growing pauses, up to a deadline.

use crate::clock::Clock;
use kvset_kafka::kafka::KafkaFailure;
use kvset_pipeline::publish::FailureKind;
use std::time::{Duration, Instant};

/// Longest wait for one answer of a broker.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);
/// Longest wait for an answer that nothing depends on.
pub(crate) const GLANCE: Duration = Duration::from_secs(1);

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Pauses that double up to a second, until the deadline.
pub struct Backoff<'c> {
    clock: &'c dyn Clock,
    deadline: Instant,
    pause: Duration,
}

impl<'c> Backoff<'c> {
    /// For this long from now on.
    pub fn lasting(clock: &'c dyn Clock, time: Duration) -> Self {
        Self { clock, deadline: clock.now() + time, pause: FIRST_PAUSE }
    }

    /// Waits before the same call is made again; `false` when the deadline has passed.
    pub fn wait(&mut self) -> bool {
        let left = self.deadline.saturating_duration_since(self.clock.now());
        if left.is_zero() {
            return false;
        }
        self.clock.sleep(self.pause.min(left));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

/// Asks the brokers until they answer, for as long as passing troubles are waited out.
///
/// # Errors
/// What no repetition mended.
pub fn answered<T>(
    clock: &dyn Clock,
    retry_for: Duration,
    ask: impl Fn() -> Result<T, KafkaFailure>,
) -> Result<T, KafkaFailure> {
    let mut retry = Backoff::lasting(clock, retry_for);
    loop {
        match ask() {
            Err(failure) if failure.kind == FailureKind::Transient && retry.wait() => {
                tracing::warn!("{failure}");
            }
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Passes only while somebody sleeps.
    struct Asleep(Mutex<Instant>);

    impl Clock for Asleep {
        fn now(&self) -> Instant {
            *self.0.lock().expect("no panic under the lock")
        }

        fn sleep(&self, time: Duration) {
            *self.0.lock().expect("no panic under the lock") += time;
        }
    }

    #[test]
    fn pauses_double_and_end_at_the_deadline() {
        let clock = Asleep(Mutex::new(Instant::now()));
        let begin = clock.now();
        let mut backoff = Backoff::lasting(&clock, Duration::from_millis(2000));
        let mut waited = Vec::new();
        while backoff.wait() {
            waited.push(clock.since(begin).as_millis());
        }
        assert_eq!(waited, [20, 60, 140, 300, 620, 1260, 2000]);
    }
}
