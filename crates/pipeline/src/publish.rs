//! The commit protocol: outputs and consumed offsets go out together or not at all (docs/design.md, section 4).

use kvset_formats::output::OutputRecord;
use kvset_formats::position::{NextOffset, Partition};

/// What a failed call to Kafka asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The same call again may succeed.
    Transient,
    /// The transaction must be aborted; the same outputs may go out in a new one.
    Abortable,
    /// Somebody else owns the work now: what is pending must not be published by this process.
    Migrated,
    /// The client can do no more and nothing is known to be wrong: a new one goes on from the committed
    /// offsets.
    Spent,
    /// Nothing this process can do will help.
    Fatal,
}

/// A failed call to Kafka, with what it was about and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct KafkaFailure {
    /// What it asks for.
    pub kind: FailureKind,
    /// What failed, where and what to do, in lowercase.
    pub message: String,
}

impl KafkaFailure {
    /// A failure that no repetition can mend.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Fatal, message: message.into() }
    }
}

/// Where outputs and offsets go.
pub trait Sink {
    /// Proof of membership in the consumer group, which fences those who lost it.
    type Member;

    /// Opens a transaction.
    fn begin(&mut self) -> Result<(), KafkaFailure>;
    /// Adds an output to it. Refused with [`FailureKind::Transient`] while buffers are full.
    fn send(&mut self, record: &OutputRecord) -> Result<(), KafkaFailure>;
    /// Adds the consumed offsets to it.
    fn offsets(
        &mut self,
        next: &[(Partition, NextOffset)],
        member: &Self::Member,
    ) -> Result<(), KafkaFailure>;
    /// Makes all of it visible at once.
    fn commit(&mut self) -> Result<(), KafkaFailure>;
    /// Takes all of it back.
    fn abort(&mut self) -> Result<(), KafkaFailure>;
}

/// What goes out in one transaction: the outputs of the records before the offsets, and no others.
#[derive(Debug, Default)]
pub struct CommitBatch<'a> {
    /// Outputs, each partition's in order.
    pub outputs: Vec<&'a OutputRecord>,
    /// The next offset of every partition that moved on, in order of partition.
    pub next_offsets: Vec<(Partition, NextOffset)>,
}

/// Why a batch was not published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// Taken back whole; the same outputs may be published by a later transaction, unless the
    /// partition is lost meanwhile.
    #[error("transaction aborted: {0}")]
    Aborted(KafkaFailure),
    /// Somebody else owns the work now.
    #[error("{0}")]
    Migrated(KafkaFailure),
    /// The process must end. After a restart the committed offset tells what went out.
    #[error("{0}")]
    Fatal(KafkaFailure),
}

impl PublishError {
    /// The call that failed.
    pub fn cause(&self) -> &KafkaFailure {
        let (Self::Aborted(cause) | Self::Migrated(cause) | Self::Fatal(cause)) = self;
        cause
    }
}

/// Publishes a batch in one transaction.
///
/// A transient failure repeats the same call as long as `retry`, which waits first, says so. An abortable one takes the
/// transaction back. When retries end in the last call the outcome is unknown, which only a
/// restart can tell: it reads the stable committed offset.
pub fn publish<O: Sink>(
    sink: &mut O,
    batch: &CommitBatch<'_>,
    member: &O::Member,
    retry: &mut impl FnMut() -> bool,
) -> Result<(), PublishError> {
    if let Err(error) = repeat(retry, || sink.begin()) {
        // Nothing was opened, so there is nothing to take back.
        return Err(match error.kind {
            FailureKind::Transient | FailureKind::Abortable => PublishError::Aborted(error),
            FailureKind::Migrated => PublishError::Migrated(error),
            FailureKind::Spent | FailureKind::Fatal => PublishError::Fatal(error),
        });
    }
    if let Err(error) = fill(sink, batch, member, retry) {
        return Err(take_back(sink, error, retry));
    }
    repeat(retry, || sink.commit()).map_err(|error| match error.kind {
        FailureKind::Transient => PublishError::Fatal(KafkaFailure {
            message: format!(
                "commit outcome unknown, a restart reads the committed offset: {}",
                error.message
            ),
            ..error
        }),
        _ => take_back(sink, error, retry),
    })
}

fn fill<O: Sink>(
    sink: &mut O,
    batch: &CommitBatch<'_>,
    member: &O::Member,
    retry: &mut impl FnMut() -> bool,
) -> Result<(), KafkaFailure> {
    for record in &batch.outputs {
        repeat(retry, || sink.send(record))?;
    }
    repeat(retry, || sink.offsets(&batch.next_offsets, member))
}

fn take_back<O: Sink>(sink: &mut O, error: KafkaFailure, retry: &mut impl FnMut() -> bool) -> PublishError {
    if matches!(error.kind, FailureKind::Spent | FailureKind::Fatal) {
        return PublishError::Fatal(error);
    }
    match repeat(retry, || sink.abort()) {
        Err(abort) if abort.kind == FailureKind::Migrated => PublishError::Migrated(abort),
        Err(abort) => PublishError::Fatal(KafkaFailure {
            kind: if abort.kind == FailureKind::Spent { FailureKind::Spent } else { FailureKind::Fatal },
            message: format!(
                "{}; and the transaction could not be aborted: {}",
                error.message, abort.message
            ),
        }),
        Ok(()) if error.kind == FailureKind::Migrated => PublishError::Migrated(error),
        Ok(()) => PublishError::Aborted(error),
    }
}

/// Makes the same call again while it fails in passing and `retry` allows.
fn repeat(
    retry: &mut impl FnMut() -> bool,
    mut call: impl FnMut() -> Result<(), KafkaFailure>,
) -> Result<(), KafkaFailure> {
    loop {
        match call() {
            Err(error) if error.kind == FailureKind::Transient && retry() => {}
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvset_formats::output::Destination;
    use std::collections::VecDeque;

    /// An sink that fails as told and keeps what a reader of committed records would see.
    #[derive(Default)]
    struct Scripted {
        failures: VecDeque<(&'static str, FailureKind)>,
        calls: Vec<&'static str>,
        open: Vec<Vec<u8>>,
        open_offsets: Vec<(Partition, NextOffset)>,
        committed: Vec<Vec<u8>>,
        committed_offsets: Vec<(Partition, NextOffset)>,
    }

    impl Scripted {
        fn failing(failures: &[(&'static str, FailureKind)]) -> Self {
            Self { failures: failures.iter().copied().collect(), ..Self::default() }
        }

        fn call(&mut self, name: &'static str) -> Result<(), KafkaFailure> {
            self.calls.push(name);
            match self.failures.front() {
                Some((call, kind)) if *call == name => {
                    let kind = *kind;
                    self.failures.pop_front();
                    Err(KafkaFailure { kind, message: format!("{name} failed") })
                }
                _ => Ok(()),
            }
        }
    }

    impl Sink for Scripted {
        type Member = ();

        fn begin(&mut self) -> Result<(), KafkaFailure> {
            self.call("begin")
        }
        fn send(&mut self, record: &OutputRecord) -> Result<(), KafkaFailure> {
            self.call("send")?;
            self.open.extend(record.value.clone());
            Ok(())
        }
        fn offsets(&mut self, next: &[(Partition, NextOffset)], _: &()) -> Result<(), KafkaFailure> {
            self.call("offsets")?;
            self.open_offsets.extend_from_slice(next);
            Ok(())
        }
        fn commit(&mut self) -> Result<(), KafkaFailure> {
            self.call("commit")?;
            self.committed.append(&mut self.open);
            self.committed_offsets.append(&mut self.open_offsets);
            Ok(())
        }
        fn abort(&mut self) -> Result<(), KafkaFailure> {
            self.call("abort")?;
            self.open.clear();
            self.open_offsets.clear();
            Ok(())
        }
    }

    fn run(sink: &mut Scripted) -> Result<(), PublishError> {
        let record = OutputRecord {
            destination: Destination::Results,
            partition: Partition(0),
            window: None,
            key: None,
            value: Some(b"estimate".to_vec()),
            headers: vec![],
            placed_by: None,
        };
        let batch = CommitBatch { outputs: vec![&record], next_offsets: vec![(Partition(0), NextOffset(7))] };
        let mut tries = 4u32;
        publish(sink, &batch, &(), &mut || {
            tries = tries.saturating_sub(1);
            tries > 0
        })
    }

    #[test]
    fn everything_goes_out_in_one_transaction() {
        let mut sink = Scripted::default();
        run(&mut sink).expect("no failure");
        assert_eq!(sink.calls, ["begin", "send", "offsets", "commit"]);
        assert_eq!(sink.committed, [b"estimate"]);
        assert_eq!(sink.committed_offsets, [(Partition(0), NextOffset(7))]);
    }

    #[test]
    fn a_passing_failure_repeats_the_same_call() {
        for call in ["begin", "send", "offsets", "commit"] {
            let mut sink =
                Scripted::failing(&[(call, FailureKind::Transient), (call, FailureKind::Transient)]);
            run(&mut sink).unwrap_or_else(|error| panic!("{call}: {error}"));
            assert_eq!(sink.calls.iter().filter(|name| **name == call).count(), 3, "{call}");
            assert_eq!(sink.committed.len(), 1, "{call}: published once");
        }
    }

    #[test]
    fn an_abortable_failure_takes_everything_back() {
        for call in ["send", "offsets", "commit"] {
            let mut sink = Scripted::failing(&[(call, FailureKind::Abortable)]);
            let error = run(&mut sink).expect_err(call);
            assert!(matches!(error, PublishError::Aborted(_)), "{call}: {error:?}");
            assert_eq!(sink.calls.last(), Some(&"abort"));
            assert!(sink.committed.is_empty() && sink.open.is_empty(), "{call}");
            run(&mut sink).expect("the same outputs go out in the next transaction");
            assert_eq!(sink.committed, [b"estimate"], "{call}");
        }
    }

    #[test]
    fn who_was_fenced_publishes_nothing() {
        for call in ["begin", "send", "offsets", "commit"] {
            let mut sink = Scripted::failing(&[(call, FailureKind::Migrated)]);
            assert!(matches!(run(&mut sink), Err(PublishError::Migrated(_))), "{call}");
            assert!(sink.committed.is_empty(), "{call}");
        }
    }

    #[test]
    fn an_unknown_commit_outcome_ends_the_process() {
        let mut sink = Scripted::failing(&[("commit", FailureKind::Transient); 9]);
        let error = run(&mut sink).expect_err("retry ends");
        assert!(matches!(&error, PublishError::Fatal(e) if e.message.contains("outcome unknown")), "{error}");
        assert!(!sink.calls.contains(&"abort"), "an abort could contradict a commit that went through");
    }

    /// A broker that died between two transactions knows nothing of the second one and refuses to abort it.
    #[test]
    fn a_client_that_cannot_abort_is_spent_and_published_nothing() {
        let mut sink =
            Scripted::failing(&[("offsets", FailureKind::Abortable), ("abort", FailureKind::Spent)]);
        let error = run(&mut sink).expect_err("nothing was committed");
        assert!(matches!(&error, PublishError::Fatal(e) if e.kind == FailureKind::Spent), "{error:?}");
        assert!(sink.committed.is_empty());
    }

    #[test]
    fn a_fatal_failure_is_not_followed_by_an_abort() {
        let mut sink = Scripted::failing(&[("send", FailureKind::Fatal)]);
        assert!(matches!(run(&mut sink), Err(PublishError::Fatal(_))));
        assert_eq!(sink.calls, ["begin", "send"]);
    }
}
