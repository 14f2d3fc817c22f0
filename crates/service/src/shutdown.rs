//! Stopping in order, when asked to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to stop, shared by everything that runs.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    requested: Arc<AtomicBool>,
    idle: Arc<AtomicBool>,
}

impl Shutdown {
    /// Nobody asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asked for by whoever raises the flag `requested`, a signal for example. While `idle` is raised there
    /// is nothing to put in order, and whoever asks may end the process at once.
    pub fn by(requested: Arc<AtomicBool>, idle: Arc<AtomicBool>) -> Self {
        Self { requested, idle }
    }

    /// From here on there is something to put in order.
    pub fn begin(&self) {
        self.idle.store(false, Ordering::SeqCst);
    }

    /// Asks to stop.
    pub fn request(&self) {
        self.requested.store(true, Ordering::SeqCst);
    }

    /// Whether somebody asked.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_copy_hears_the_request() {
        let shutdown = Shutdown::new();
        let copy = shutdown.clone();
        assert!(!copy.is_requested());
        shutdown.request();
        assert!(copy.is_requested());
    }
}
