//! `kvset prepare`: raw request logs to request events.

mod plan;
mod progress;
mod stage;
mod threads;

pub use plan::{PreparePlan, PreparePlanError, preparer, recipe};
pub use progress::ProgressLog;

use crate::clock::{SystemClock, TellingClock, alive};
use crate::error::ServiceError;
use crate::events::Observer;
use crate::poll_loop::clients::{join, live_on, no_threads};
use crate::poll_loop::coordinator::Coordinator;
use crate::poll_loop::summary::Summary;
use crate::shutdown::Shutdown;
use stage::Preparing;
use threads::Threads;

/// Prepares records until it is asked to stop or cannot go on.
///
/// # Errors
/// Why it could not go on. What was committed stays; the rest is done again after a restart.
pub fn prepare(
    plan: &PreparePlan,
    shutdown: &Shutdown,
    observer: &dyn Observer,
) -> Result<Summary, ServiceError> {
    live_on(plan.stream.retry_for, shutdown, |summary| live(plan, shutdown, observer, summary))
}

/// From joining the group to leaving it.
fn live(
    plan: &PreparePlan,
    shutdown: &Shutdown,
    observer: &dyn Observer,
    summary: &mut Summary,
) -> Result<(), ServiceError> {
    if let Some(registry) = &plan.registry {
        registry.start();
    }
    let (sink, source) = alive(observer, || join(&plan.stream))?;
    let clock = TellingClock { clock: &SystemClock, observer };
    shutdown.begin();
    std::thread::scope(|scope| {
        let threads = Threads::start(scope, plan).map_err(|error| no_threads(plan.stream.threads, &error))?;
        let stage = Preparing::new(plan, threads, observer);
        let coordinator = Coordinator::new(&plan.stream, &clock, &source, sink, stage, observer);
        let (life, ended) = coordinator.run(shutdown);
        summary.add(&life);
        ended
    })
}
