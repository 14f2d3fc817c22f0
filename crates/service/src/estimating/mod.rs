//! `kvset run`: subscribe, estimate, publish. `kvset backfill` is the same between two offsets.

mod parking;
mod pool_partitions;
mod recovery;
pub mod stage;

use crate::clock::{Clock, SystemClock, TellingClock, alive};
use crate::error::ServiceError;
use crate::events::Observer;
use crate::plan::ServicePlan;
use crate::poll_loop::clients::{join, live_on, no_threads};
use crate::poll_loop::coordinator::Coordinator;
use crate::poll_loop::summary::Summary;
use crate::shutdown::Shutdown;
use crate::snapshots::checkpoints::Checkpoints;
use crate::workers::threads::Workers;
use kvset_kafka::kafka::member::Member;
use kvset_pipeline::publish::Sink;
use stage::Estimating;

/// Runs the service until it is asked to stop, has come to the end of its bounds or cannot go on.
///
/// # Errors
/// Why it could not go on. What was committed stays; the rest is done again after a restart.
pub fn serve(
    plan: &ServicePlan,
    shutdown: &Shutdown,
    observer: &dyn Observer,
) -> Result<Summary, ServiceError> {
    live_on(plan.stream.retry_for, shutdown, |summary| live(plan, shutdown, observer, summary))
}

/// From joining the group to leaving it.
fn live(
    plan: &ServicePlan,
    shutdown: &Shutdown,
    observer: &dyn Observer,
    summary: &mut Summary,
) -> Result<(), ServiceError> {
    if let Some(registry) = &plan.registry {
        registry.start();
    }
    // First of all, so that a second process on the directory disturbs nobody.
    let state = plan.state.as_ref();
    let checkpoints = state.map(|state| Checkpoints::open(state, &plan.task.topic)).transpose()?;
    let (sink, source) = alive(observer, || join(&plan.stream))?;
    let clock = TellingClock { clock: &SystemClock, observer };
    estimate(plan, &clock, (sink, &source), checkpoints, shutdown, observer, summary)
}

/// The same between any source and sink. The source outlives the threads whose queues hold records in its memory.
pub(crate) fn estimate<'c, M: Member + 'c, O: Sink<Member = M>>(
    plan: &'c ServicePlan,
    clock: &'c dyn Clock,
    (sink, source): (O, &'c M),
    checkpoints: Option<Checkpoints>,
    shutdown: &Shutdown,
    observer: &'c dyn Observer,
    summary: &mut Summary,
) -> Result<(), ServiceError>
where
    M::Record<'c>: Send + Sync,
{
    shutdown.begin();
    std::thread::scope(|scope| {
        let threads = plan.stream.threads;
        let workers = Workers::start(scope, threads, plan.task.encoding, plan.task.limits)
            .map_err(|error| no_threads(threads, &error))?;
        let stage = Estimating::new(plan, clock, workers, checkpoints, observer);
        let coordinator = Coordinator::new(&plan.stream, clock, source, sink, stage, observer);
        let (life, ended) = coordinator.run(shutdown);
        summary.add(&life);
        ended
    })
}
