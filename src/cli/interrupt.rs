//! Ctrl-C and SIGTERM: the first asks to stop, the second forces it.

use anyhow::Context as _;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that turns true at the first Ctrl-C or SIGTERM; the second ends the process with exit code 1.
///
/// # Errors
/// The system lets no handler be set.
pub fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the second signal finds the flag the first one set.
        signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .with_context(|| format!("cannot handle signal {signal}"))?;
    }
    Ok(stop)
}
