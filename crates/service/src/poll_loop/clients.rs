//! The clients a poll loop works with: opened together, and opened anew where the old ones are of no more use.

use super::summary::Summary;
use crate::backoff::Backoff;
use crate::clock::SystemClock;
use crate::error::ServiceError;
use crate::plan::StreamPlan;
use crate::shutdown::Shutdown;
use kvset_kafka::kafka::sink::KafkaSink;
use kvset_kafka::kafka::source::Source;
use std::time::{Duration, Instant};

/// One life after another, until one ends for a reason that new clients would not mend.
pub(crate) fn live_on(
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
            // A broker that crashed knows nothing of the last transaction, say. Who was asked to stop has no use for
            // new clients, and whoever goes on begins where the committed offsets are.
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

/// Opens the producer and joins the group, or reads what the bounds say. The source must outlive the threads whose
/// queues hold records in its memory.
pub(crate) fn join(plan: &StreamPlan) -> Result<(KafkaSink, Source), ServiceError> {
    let connection = &plan.connection;
    let outputs = plan.outputs.clone();
    let sink =
        KafkaSink::open(connection, &plan.transactional_id(), outputs, plan.guarantee, plan.retry_for)?
            .of_group(&plan.membership.group);
    let source = match &plan.bounds {
        None => Source::join(connection, &plan.membership, &plan.topic)?,
        Some(bounds) => {
            let (notes, gaps) = (bounds.notes.clone(), bounds.gaps.clone());
            Source::alone(connection, &plan.membership.group, &plan.topic, notes, gaps)?
        }
    };
    Ok((sink, source))
}

pub(crate) fn no_threads(threads: usize, error: &std::io::Error) -> ServiceError {
    ServiceError::Threads(format!("starting {threads} threads: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvset_pipeline::publish::{FailureKind, KafkaFailure, PublishError};

    /// What a life ends with that was asked to stop, when its last commit fails like this.
    fn stopped_with(kind: FailureKind) -> Result<Summary, ServiceError> {
        let shutdown = Shutdown::new();
        live_on(Duration::ZERO, &shutdown, |summary| {
            summary.commits += 1;
            shutdown.request();
            Err(PublishError::Fatal(KafkaFailure { kind, message: "the last commit".to_owned() }).into())
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
            let spent = KafkaFailure { kind: FailureKind::Spent, message: "spent".to_owned() };
            if lives < 3 { Err(PublishError::Fatal(spent).into()) } else { Ok(()) }
        });
        assert!(ended.is_ok() && lives == 3, "{lives} lives");
    }
}
