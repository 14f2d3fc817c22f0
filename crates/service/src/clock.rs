//! Time as the service sees it, so that a simulation can let it pass at will.

use crate::events::{Observer, ServiceEvent};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Time between two signs of life while something is waited for.
const SIGN: Duration = Duration::from_secs(1);

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

/// Makes a call that may wait for long, within deadlines of its own, and has it said once a second that this is so.
pub(crate) fn alive<T>(observer: &dyn Observer, call: impl FnOnce() -> T) -> T {
    let (done, is_done) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while is_done.recv_timeout(SIGN) == Err(RecvTimeoutError::Timeout) {
                observer.on(&ServiceEvent::Waiting);
            }
        });
        let called = call();
        drop(done);
        called
    })
}

/// A clock that says, before it sleeps, that the process lives and waits.
pub(crate) struct TellingClock<'c> {
    pub(crate) clock: &'c dyn Clock,
    pub(crate) observer: &'c dyn Observer,
}

impl Clock for TellingClock<'_> {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn sleep(&self, time: Duration) {
        self.observer.on(&ServiceEvent::Waiting);
        self.clock.sleep(time);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Signs(AtomicU64);

    impl Observer for Signs {
        fn on(&self, event: &ServiceEvent<'_>) {
            let is_sign = matches!(event, ServiceEvent::Waiting);
            self.0.fetch_add(u64::from(is_sign), Ordering::SeqCst);
        }
    }

    /// A broker that was away at the start, or under load, had Kubernetes kill the process.
    #[test]
    fn whoever_waits_says_so() {
        let signs = Signs::default();
        assert_eq!(alive(&signs, || 7), 7);
        assert_eq!(signs.0.load(Ordering::SeqCst), 0, "nothing was waited for");
        alive(&signs, || std::thread::sleep(SIGN + SIGN / 2));
        assert_eq!(signs.0.load(Ordering::SeqCst), 1);
        TellingClock { clock: &SystemClock, observer: &signs }.sleep(Duration::ZERO);
        assert_eq!(signs.0.load(Ordering::SeqCst), 2);
    }
}
