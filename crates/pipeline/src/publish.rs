//! The commit protocol: outputs and consumed offsets go out together or not at all (DESIGN 4).

use kvset_formats::output::OutputRecord;
use kvset_formats::position::{NextOffset, Partition};

/// What a failed call to the outlet asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
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

/// A failed call to the outlet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OutletError {
    /// What it asks for.
    pub family: Family,
    /// What failed, where and what to do, in lowercase.
    pub message: String,
}

/// Where outputs and offsets go.
pub trait Outlet {
    /// Proof of membership in the consumer group, which fences those who lost it.
    type Member;

    /// Opens a transaction.
    fn begin(&mut self) -> Result<(), OutletError>;
    /// Adds an output to it. Refused with [`Family::Transient`] while buffers are full.
    fn send(&mut self, record: &OutputRecord) -> Result<(), OutletError>;
    /// Adds the consumed offsets to it.
    fn offsets(&mut self, next: &[(Partition, NextOffset)], member: &Self::Member)
    -> Result<(), OutletError>;
    /// Makes all of it visible at once.
    fn commit(&mut self) -> Result<(), OutletError>;
    /// Takes all of it back.
    fn abort(&mut self) -> Result<(), OutletError>;
}

/// How long to go on with calls that may succeed later.
pub trait Patience {
    /// Waits before the same call is made again; `false` when the deadline has passed.
    fn wait(&mut self) -> bool;
}

/// What goes out in one transaction: the outputs of the records before the offsets, and no others.
#[derive(Debug, Default)]
pub struct Burst<'a> {
    /// Outputs, each partition's in order.
    pub outputs: Vec<&'a OutputRecord>,
    /// The next offset of every partition that moved on, in order of partition.
    pub next_offsets: Vec<(Partition, NextOffset)>,
}

/// Why a burst was not published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// Taken back whole; the same outputs may be published by a later transaction, unless the
    /// partition is lost meanwhile.
    #[error("transaction aborted: {0}")]
    Aborted(OutletError),
    /// Somebody else owns the work now.
    #[error("{0}")]
    Migrated(OutletError),
    /// The process must end. After a restart the committed offset tells what went out.
    #[error("{0}")]
    Fatal(OutletError),
}

/// Publishes a burst in one transaction.
///
/// A transient failure repeats the same call until patience ends. An abortable one takes the
/// transaction back. When patience ends in the last call the outcome is unknown, which only a
/// restart can settle: it reads the stable committed offset.
pub fn publish<O: Outlet>(
    outlet: &mut O,
    burst: &Burst<'_>,
    member: &O::Member,
    patience: &mut impl Patience,
) -> Result<(), PublishError> {
    if let Err(error) = repeat(patience, || outlet.begin()) {
        // Nothing was opened, so there is nothing to take back.
        return Err(match error.family {
            Family::Transient | Family::Abortable => PublishError::Aborted(error),
            Family::Migrated => PublishError::Migrated(error),
            Family::Spent | Family::Fatal => PublishError::Fatal(error),
        });
    }
    if let Err(error) = fill(outlet, burst, member, patience) {
        return Err(take_back(outlet, error, patience));
    }
    repeat(patience, || outlet.commit()).map_err(|error| match error.family {
        Family::Transient => PublishError::Fatal(OutletError {
            message: format!("commit outcome unknown, a restart settles it: {}", error.message),
            ..error
        }),
        _ => take_back(outlet, error, patience),
    })
}

fn fill<O: Outlet>(
    outlet: &mut O,
    burst: &Burst<'_>,
    member: &O::Member,
    patience: &mut impl Patience,
) -> Result<(), OutletError> {
    for record in &burst.outputs {
        repeat(patience, || outlet.send(record))?;
    }
    repeat(patience, || outlet.offsets(&burst.next_offsets, member))
}

fn take_back<O: Outlet>(outlet: &mut O, error: OutletError, patience: &mut impl Patience) -> PublishError {
    if matches!(error.family, Family::Spent | Family::Fatal) {
        return PublishError::Fatal(error);
    }
    match repeat(patience, || outlet.abort()) {
        Err(abort) if abort.family == Family::Migrated => PublishError::Migrated(abort),
        Err(abort) => PublishError::Fatal(OutletError {
            family: if abort.family == Family::Spent { Family::Spent } else { Family::Fatal },
            message: format!(
                "{}; and the transaction could not be aborted: {}",
                error.message, abort.message
            ),
        }),
        Ok(()) if error.family == Family::Migrated => PublishError::Migrated(error),
        Ok(()) => PublishError::Aborted(error),
    }
}

/// Makes the same call again while it fails in passing and patience lasts.
fn repeat(
    patience: &mut impl Patience,
    mut call: impl FnMut() -> Result<(), OutletError>,
) -> Result<(), OutletError> {
    loop {
        match call() {
            Err(error) if error.family == Family::Transient && patience.wait() => {}
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvset_formats::output::Destination;
    use std::collections::VecDeque;

    /// An outlet that fails as told and keeps what a reader of committed records would see.
    #[derive(Default)]
    struct Scripted {
        failures: VecDeque<(&'static str, Family)>,
        calls: Vec<&'static str>,
        open: Vec<Vec<u8>>,
        open_offsets: Vec<(Partition, NextOffset)>,
        committed: Vec<Vec<u8>>,
        committed_offsets: Vec<(Partition, NextOffset)>,
    }

    impl Scripted {
        fn failing(failures: &[(&'static str, Family)]) -> Self {
            Self { failures: failures.iter().copied().collect(), ..Self::default() }
        }

        fn call(&mut self, name: &'static str) -> Result<(), OutletError> {
            self.calls.push(name);
            match self.failures.front() {
                Some((call, family)) if *call == name => {
                    let family = *family;
                    self.failures.pop_front();
                    Err(OutletError { family, message: format!("{name} failed") })
                }
                _ => Ok(()),
            }
        }
    }

    impl Outlet for Scripted {
        type Member = ();

        fn begin(&mut self) -> Result<(), OutletError> {
            self.call("begin")
        }
        fn send(&mut self, record: &OutputRecord) -> Result<(), OutletError> {
            self.call("send")?;
            self.open.extend(record.value.clone());
            Ok(())
        }
        fn offsets(&mut self, next: &[(Partition, NextOffset)], _: &()) -> Result<(), OutletError> {
            self.call("offsets")?;
            self.open_offsets.extend_from_slice(next);
            Ok(())
        }
        fn commit(&mut self) -> Result<(), OutletError> {
            self.call("commit")?;
            self.committed.append(&mut self.open);
            self.committed_offsets.append(&mut self.open_offsets);
            Ok(())
        }
        fn abort(&mut self) -> Result<(), OutletError> {
            self.call("abort")?;
            self.open.clear();
            self.open_offsets.clear();
            Ok(())
        }
    }

    struct Tries(u32);

    impl Patience for Tries {
        fn wait(&mut self) -> bool {
            self.0 = self.0.saturating_sub(1);
            self.0 > 0
        }
    }

    fn run(outlet: &mut Scripted) -> Result<(), PublishError> {
        let record = OutputRecord {
            destination: Destination::Results,
            partition: Partition(0),
            window: None,
            key: None,
            value: Some(b"estimate".to_vec()),
            headers: vec![],
            placed_by: None,
        };
        let burst = Burst { outputs: vec![&record], next_offsets: vec![(Partition(0), NextOffset(7))] };
        publish(outlet, &burst, &(), &mut Tries(4))
    }

    #[test]
    fn everything_goes_out_in_one_transaction() {
        let mut outlet = Scripted::default();
        run(&mut outlet).expect("no failure");
        assert_eq!(outlet.calls, ["begin", "send", "offsets", "commit"]);
        assert_eq!(outlet.committed, [b"estimate"]);
        assert_eq!(outlet.committed_offsets, [(Partition(0), NextOffset(7))]);
    }

    #[test]
    fn a_passing_failure_repeats_the_same_call() {
        for call in ["begin", "send", "offsets", "commit"] {
            let mut outlet = Scripted::failing(&[(call, Family::Transient), (call, Family::Transient)]);
            run(&mut outlet).unwrap_or_else(|error| panic!("{call}: {error}"));
            assert_eq!(outlet.calls.iter().filter(|name| **name == call).count(), 3, "{call}");
            assert_eq!(outlet.committed.len(), 1, "{call}: published once");
        }
    }

    #[test]
    fn an_abortable_failure_takes_everything_back() {
        for call in ["send", "offsets", "commit"] {
            let mut outlet = Scripted::failing(&[(call, Family::Abortable)]);
            let error = run(&mut outlet).expect_err(call);
            assert!(matches!(error, PublishError::Aborted(_)), "{call}: {error:?}");
            assert_eq!(outlet.calls.last(), Some(&"abort"));
            assert!(outlet.committed.is_empty() && outlet.open.is_empty(), "{call}");
            run(&mut outlet).expect("the same outputs go out in the next transaction");
            assert_eq!(outlet.committed, [b"estimate"], "{call}");
        }
    }

    #[test]
    fn who_was_fenced_publishes_nothing() {
        for call in ["begin", "send", "offsets", "commit"] {
            let mut outlet = Scripted::failing(&[(call, Family::Migrated)]);
            assert!(matches!(run(&mut outlet), Err(PublishError::Migrated(_))), "{call}");
            assert!(outlet.committed.is_empty(), "{call}");
        }
    }

    #[test]
    fn an_unknown_commit_outcome_ends_the_process() {
        let mut outlet = Scripted::failing(&[("commit", Family::Transient); 9]);
        let error = run(&mut outlet).expect_err("patience ends");
        assert!(matches!(&error, PublishError::Fatal(e) if e.message.contains("outcome unknown")), "{error}");
        assert!(!outlet.calls.contains(&"abort"), "an abort could contradict a commit that went through");
    }

    /// A broker that died between two transactions knows nothing of the second one and refuses to abort it.
    #[test]
    fn a_client_that_cannot_abort_is_spent_and_published_nothing() {
        let mut outlet = Scripted::failing(&[("offsets", Family::Abortable), ("abort", Family::Spent)]);
        let error = run(&mut outlet).expect_err("nothing was committed");
        assert!(matches!(&error, PublishError::Fatal(e) if e.family == Family::Spent), "{error:?}");
        assert!(outlet.committed.is_empty());
    }

    #[test]
    fn a_fatal_failure_is_not_followed_by_an_abort() {
        let mut outlet = Scripted::failing(&[("send", Family::Fatal)]);
        assert!(matches!(run(&mut outlet), Err(PublishError::Fatal(_))));
        assert_eq!(outlet.calls, ["begin", "send"]);
    }
}
