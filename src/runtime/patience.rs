//! Repeating calls that fail in passing: with growing pauses, up to a deadline.

use crate::kafka::KafkaFailure;
use crate::pipeline::publish::{Family, Patience};
use std::time::{Duration, Instant};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Pauses that double up to a second, until the deadline.
#[derive(Debug)]
pub struct Backoff {
    deadline: Instant,
    pause: Duration,
}

impl Backoff {
    /// Patience for this long from now on.
    pub fn lasting(time: Duration) -> Self {
        Self { deadline: Instant::now() + time, pause: FIRST_PAUSE }
    }
}

impl Patience for Backoff {
    fn wait(&mut self) -> bool {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(self.pause.min(left));
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

/// Asks the brokers until they answer, for as long as passing troubles are waited out.
///
/// # Errors
/// The last failure.
pub(super) fn answer<T>(
    retry_for: Duration,
    mut ask: impl FnMut() -> Result<T, KafkaFailure>,
) -> Result<T, KafkaFailure> {
    let mut patience = Backoff::lasting(retry_for);
    loop {
        match ask() {
            Err(failure) if failure.family == Family::Transient && patience.wait() => {
                tracing::warn!("{failure}");
            }
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_at_the_deadline() {
        let mut backoff = Backoff::lasting(Duration::from_millis(30));
        let begin = Instant::now();
        let waits = std::iter::repeat_with(|| backoff.wait()).take_while(|again| *again).count();
        assert!((1..=3).contains(&waits), "{waits} waits of 20 ms and more within 30 ms");
        assert!(begin.elapsed() >= Duration::from_millis(30));
    }
}
