//! Time as the service sees it, so that a simulation can let it pass at will.

use std::time::{Duration, Instant};

/// Tells the time and waits.
pub trait Clock: Sync {
    /// Now; never earlier than before.
    fn now(&self) -> Instant;

    /// Waits.
    fn sleep(&self, time: Duration);

    /// Time since then.
    fn since(&self, then: Instant) -> Duration {
        self.now().saturating_duration_since(then)
    }
}

/// The clock of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}
