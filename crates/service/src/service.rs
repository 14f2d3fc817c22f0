//! `kvset run`: subscribe, estimate, publish. `kvset backfill` is the same between two offsets.

use super::backoff::Backoff;
use super::checkpoints::Checkpoints;
use super::clock::SystemClock;
use super::coordinator::Coordinator;
use super::error::ServiceError;
use super::estimating::Estimating;
use super::events::Observer;
use super::parts::Parts;
use super::plan::{ServicePlan, StreamPlan};
use super::shutdown::Shutdown;
use super::workers::Workers;
use kvset_formats::position::{NextOffset, Partition};
use kvset_kafka::kafka::sink::KafkaSink;
use kvset_kafka::kafka::source::Source;
use kvset_pipeline::publish::RetryPolicy;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What a run came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records processed.
    pub records: u64,
    /// Results committed: estimates, or prepared request events.
    pub results: u64,
    /// Dead letters committed.
    pub dead_letters: u64,
    /// Commits.
    pub commits: u64,
    /// The committed next offset of every partition this process worked on.
    pub next_offsets: BTreeMap<Partition, NextOffset>,
}

impl Summary {
    pub(super) fn add(&mut self, life: &Self) {
        self.records += life.records;
        self.results += life.results;
        self.dead_letters += life.dead_letters;
        self.commits += life.commits;
        self.next_offsets.extend(life.next_offsets.iter().map(|(partition, next)| (*partition, *next)));
    }
}

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

/// One life after another, until one ends for a reason that new clients would not mend.
pub(super) fn live_on(
    retry_for: Duration,
    shutdown: &Shutdown,
    mut live: impl FnMut(&mut Summary) -> Result<(), ServiceError>,
) -> Result<Summary, ServiceError> {
    let mut summary = Summary::default();
    let mut retry = Backoff::lasting(&SystemClock, retry_for);
    loop {
        let (begin, commits) = (Instant::now(), summary.commits);
        let ended = live(&mut summary);
        if summary.commits > commits || begin.elapsed() > retry_for {
            retry = Backoff::lasting(&SystemClock, retry_for);
        }
        match ended {
            // A broker that crashed knows nothing of the last transaction, say. Who was asked to stop has no use for new
            // clients, and whoever goes on begins where the committed offsets are.
            Err(error) if error.wants_a_new_client() && shutdown.is_requested() => {
                tracing::warn!("what was not committed is left to the next start: {error}");
                return Ok(summary);
            }
            Err(error) if error.wants_a_new_client() && retry.wait() => {
                tracing::warn!("joining the group anew, with new clients: {error}");
            }
            ended => return ended.map(|()| summary),
        }
    }
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
    let (sink, source) = join(&plan.stream)?;
    shutdown.begin();
    std::thread::scope(|scope| {
        let threads = plan.stream.threads;
        let workers = Workers::start(scope, threads).map_err(|error| no_threads(threads, &error))?;
        let stage = Estimating::new(plan, &SystemClock, workers, checkpoints, observer);
        let parts = Parts { clock: &SystemClock, source: &source, sink, stage, observer };
        let (life, ended) = Coordinator::new(&plan.stream, parts).run(shutdown);
        summary.add(&life);
        ended
    })
}

/// Opens the producer and joins the group, or reads what the bounds say. The source must outlive the threads whose queues hold
/// records in its memory.
pub(super) fn join(plan: &StreamPlan) -> Result<(KafkaSink, Source), ServiceError> {
    let connection = &plan.connection;
    let outputs = plan.outputs.clone();
    let sink =
        KafkaSink::open(connection, &plan.transactional_id(), outputs, plan.guarantee, plan.retry_for)?;
    let source = match &plan.bounds {
        None => Source::join(connection, &plan.membership, &plan.topic)?,
        Some(bounds) => Source::alone(connection, &plan.membership.group, &plan.topic, bounds.notes.clone())?,
    };
    Ok((sink, source))
}

pub(super) fn no_threads(threads: usize, error: &std::io::Error) -> ServiceError {
    ServiceError::Threads(format!("starting {threads} threads: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvset_pipeline::publish::{FailureKind, PublishError, SinkError};

    /// What a life ends with that was asked to stop, when its last commit fails like this.
    fn stopped_with(kind: FailureKind) -> Result<Summary, ServiceError> {
        let shutdown = Shutdown::new();
        live_on(Duration::ZERO, &shutdown, |summary| {
            summary.commits += 1;
            shutdown.request();
            Err(PublishError::Fatal(SinkError { kind, message: "the last commit".to_owned() }).into())
        })
    }

    #[test]
    fn a_client_that_is_spent_while_stopping_is_no_failure() {
        assert_eq!(
            stopped_with(FailureKind::Spent).expect("asked to stop").commits,
            1,
            "what was done counts"
        );
        assert!(stopped_with(FailureKind::Fatal).is_err());
    }

    #[test]
    fn a_client_that_is_spent_is_replaced_unless_asked_to_stop() {
        let (shutdown, mut lives) = (Shutdown::new(), 0);
        let ended = live_on(Duration::from_secs(5), &shutdown, |_| {
            lives += 1;
            let spent = SinkError { kind: FailureKind::Spent, message: "spent".to_owned() };
            if lives < 3 { Err(PublishError::Fatal(spent).into()) } else { Ok(()) }
        });
        assert!(ended.is_ok() && lives == 3, "{lives} lives");
    }
}
