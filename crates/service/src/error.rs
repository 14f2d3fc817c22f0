//! Why the service ends.

use crate::workers::pool::WorkerGone;
use kvset_formats::position::Partition;
use kvset_kafka::kafka::KafkaFailure;
use kvset_kafka::kafka::member::UnreadableRecords;
use kvset_pipeline::assignment::OrderError;
use kvset_pipeline::facts::InvalidPartition;
use kvset_pipeline::publish::{FailureKind, PublishError};
use kvset_pipeline::resume::ResumeRefusal;
use kvset_pipeline::task::TaskError;
use kvset_snapshot::store::StoreError;

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
        refusal: ResumeRefusal,
    },
    /// The topic was created anew while its records were processed.
    #[error("topic `{topic}`: {refusal}")]
    Recreated {
        /// The topic.
        topic: String,
        /// What shows it, and the way out.
        refusal: ResumeRefusal,
    },
    /// Records that the client cannot read, and nobody has decided to pass.
    #[error(
        "{topic}/{} cannot be read at offset {}: {}. It stands still here until it can be read, or is passed: stop the \
         group, and `kvset skip --partition {} --offset {}`; estimates are then marked warm_up, and a dead letter says \
         what they lack",
        place.partition, place.offset, place.reason, place.partition, place.offset
    )]
    Unreadable {
        /// The topic.
        topic: String,
        /// Where, and why.
        place: UnreadableRecords,
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

impl ServiceError {
    /// Whether every partition meets it: a registry that lets nobody in answers nobody.
    pub(super) fn is_of_the_process(&self) -> bool {
        matches!(self, Self::Task(TaskError::Schema(_)))
    }

    /// Whether the same process can go on, with new clients, as after a restart.
    pub(super) fn wants_a_new_client(&self) -> bool {
        match self {
            Self::Kafka(failure) => failure.kind == FailureKind::Spent,
            Self::Publish(PublishError::Fatal(error)) => error.kind == FailureKind::Spent,
            _ => false,
        }
    }
}

impl From<WorkerGone> for ServiceError {
    fn from(gone: WorkerGone) -> Self {
        Self::Threads(gone.to_string())
    }
}
