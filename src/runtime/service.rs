//! `kvset run`: subscribe, estimate, publish.

use super::checkpoints::Checkpoints;
use super::coordinator::Coordinator;
use super::estimating::Estimating;
use super::observe::Observer;
use super::plan::{ServicePlan, StreamPlan};
use super::shutdown::Shutdown;
use super::workers::{WorkerGone, Workers};
use crate::kafka::KafkaFailure;
use crate::kafka::outlet::KafkaOutlet;
use crate::kafka::source::Source;
use crate::pipeline::facts::InvalidPartition;
use crate::pipeline::lanes::OrderError;
use crate::pipeline::position::{NextOffset, Partition};
use crate::pipeline::publish::PublishError;
use crate::pipeline::resume::Refusal;
use crate::pipeline::task::TaskError;
use crate::snapshot::store::StoreError;
use std::collections::BTreeMap;

/// Why the service ended. Whatever it was, a restart goes on from the committed offsets.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The brokers.
    #[error(transparent)]
    Kafka(#[from] KafkaFailure),
    /// A partition cannot be taken up.
    #[error("partition {partition}: {refusal}")]
    Resume {
        /// The partition.
        partition: Partition,
        /// Why, and the way out.
        refusal: Refusal,
    },
    /// A partition cannot be processed further.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// Output could not be published.
    #[error("publishing: {0}")]
    Publish(#[from] PublishError),
    /// The source broke its promise.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// The snapshot directory.
    #[error(transparent)]
    State(#[from] StoreError),
    /// The input topic has a name that no Kafka allows.
    #[error(transparent)]
    Topic(#[from] InvalidPartition),
    /// Threads.
    #[error("{0}")]
    Threads(String),
}

impl From<WorkerGone> for ServiceError {
    fn from(gone: WorkerGone) -> Self {
        Self::Threads(gone.to_string())
    }
}

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

/// Runs the service until it is asked to stop or cannot go on.
///
/// # Errors
/// Why it could not go on. What was committed stays; the rest is done again after a restart.
pub fn serve(
    plan: &ServicePlan,
    shutdown: &Shutdown,
    observer: &dyn Observer,
) -> Result<Summary, ServiceError> {
    // First of all, so that a second process on the directory disturbs nobody.
    let state = plan.state.as_ref();
    let checkpoints = state.map(|state| Checkpoints::open(state, &plan.task.topic)).transpose()?;
    let (outlet, source) = join(&plan.stream)?;
    std::thread::scope(|scope| {
        let threads = plan.stream.threads;
        let workers = Workers::start(scope, threads).map_err(|error| no_threads(threads, &error))?;
        let stage = Estimating::new(plan, workers, checkpoints, observer);
        Coordinator::new(&plan.stream, &source, outlet, stage, observer).run(shutdown)
    })
}

/// Opens the producer and joins the group. The source must outlive the threads whose queues hold
/// records in its memory.
pub(super) fn join(plan: &StreamPlan) -> Result<(KafkaOutlet, Source), ServiceError> {
    let (connection, membership) = (&plan.connection, &plan.membership);
    let outlet =
        KafkaOutlet::open(connection, membership, plan.outputs.clone(), plan.guarantee, plan.retry_for)?;
    Ok((outlet, Source::join(connection, membership, &plan.topic)?))
}

pub(super) fn no_threads(threads: usize, error: &std::io::Error) -> ServiceError {
    ServiceError::Threads(format!("starting {threads} threads: {error}"))
}
