//! Ctrl-C and SIGTERM: the first asks to stop, the second forces it, and so does the end of the deadline.

use anyhow::Context as _;
use kvset_formats::time::words;
use kvset_service::shutdown::Shutdown;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Time between two looks at whether somebody asked to stop.
const LOOK: Duration = Duration::from_millis(100);

/// The shutdown of a program with a job to do. What ends before the job is begun, while brokers are looked for,
/// did not do it: exit code 1.
///
/// # Errors
/// The system lets no handler be set.
pub fn shutdown_by_signals() -> anyhow::Result<Shutdown> {
    shutdown_with(1)
}

/// The shutdown of a program that runs until it is asked to stop: to have ended before it began is to have ended
/// in order, exit code 0.
///
/// # Errors
/// The system lets no handler be set.
pub fn service_shutdown_by_signals() -> anyhow::Result<Shutdown> {
    shutdown_with(0)
}

/// A shutdown requested by the first Ctrl-C or SIGTERM; the second ends the process with exit code 1. As long as
/// there is nothing to put in order, while brokers are looked for, which may take minutes, the first one ends it,
/// with exit code `unbegun`.
fn shutdown_with(unbegun: i32) -> anyhow::Result<Shutdown> {
    let (stop, idle) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the second signal finds the flag the first one set.
        register_conditional_shutdown(signal, unbegun, Arc::clone(&idle))
            .and_then(|_| register_conditional_shutdown(signal, 1, Arc::clone(&stop)))
            .and_then(|_| register(signal, Arc::clone(&stop)))
            .with_context(|| format!("cannot handle signal {signal}"))?;
    }
    Ok(Shutdown::by(stop, idle))
}

/// Says that the process was asked to stop, and ends it with exit code 1 where it has not ended by itself within
/// `deadline` of being asked to, whatever it waits for: a client library may wait for brokers that never answer.
///
/// # Errors
/// The system gives no thread.
pub fn force_after(shutdown: Shutdown, deadline: Duration) -> anyhow::Result<()> {
    let watch = move || {
        while !shutdown.is_requested() {
            std::thread::sleep(LOOK);
        }
        // Said from here: the poll loop may be waiting for a broker, and hears of it only then.
        tracing::info!(
            "stopping: within shutdown.deadline = {}, or at once when interrupted again",
            words(deadline)
        );
        std::thread::sleep(deadline);
        tracing::error!(
            "not stopped within shutdown.deadline = {}: ending all the same; the next start goes on from the \
             committed offsets",
            words(deadline)
        );
        signal_hook::low_level::exit(1);
    };
    let watching = std::thread::Builder::new().name("kvset-deadline".to_owned()).spawn(watch);
    watching.map(drop).context("cannot watch the deadline of a shutdown")
}
