//! Stopping: asked for once, it is clean; asked for twice, it is at once.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
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

    /// Ctrl-C and SIGTERM ask; a second one ends the process with exit code 1.
    ///
    /// # Errors
    /// The system refuses the handlers.
    pub fn on_signals() -> io::Result<Self> {
        let shutdown = Self::new();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag down, passes, and raises it.
            flag::register_conditional_shutdown(signal, 1, Arc::clone(&shutdown.requested))?;
            flag::register(signal, Arc::clone(&shutdown.requested))?;
        }
        Ok(shutdown)
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
