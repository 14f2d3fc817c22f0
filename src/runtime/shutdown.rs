//! Stopping in order, when asked to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to stop, shared by everything that runs.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    requested: Arc<AtomicBool>,
}

impl Shutdown {
    /// Nobody asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asked for by whoever raises this flag, a signal for example.
    pub fn by(requested: Arc<AtomicBool>) -> Self {
        Self { requested }
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
