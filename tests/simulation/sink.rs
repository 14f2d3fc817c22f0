//! A process as a producer, transactional or merely idempotent.

use crate::broker::Promise;
use crate::member::SimMember;
use crate::world::{Process, State};
use kvset::output::OutputRecord;
use kvset::pipeline::publish::{FailureKind, KafkaFailure, Sink};
use kvset::position::{NextOffset, Partition};

/// What the client knows of its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Ready,
    Open,
    /// Something of it failed: only an abort is accepted.
    MustAbort,
    /// A commit was requested and not answered; only the same call again is accepted. Perhaps no
    /// answer will ever come.
    Committing {
        silent: bool,
    },
    /// Nothing is accepted any more.
    Over(FailureKind),
}

/// The simulated producer.
#[derive(Debug)]
pub struct SimSink {
    process: Process,
    id: String,
    epoch: u64,
    promise: Promise,
    phase: Phase,
}

fn failed(kind: FailureKind, at: &str) -> KafkaFailure {
    KafkaFailure { kind, message: format!("{at}: {kind:?}") }
}

impl SimSink {
    /// Fences whoever used the id before.
    pub fn open(process: Process, id: String) -> Self {
        let mut state = process.world.state();
        let promise = state.broker.promise;
        let State { broker, chance, .. } = &mut *state;
        let epoch = broker.init_producer(&id, chance).unwrap_or_else(|reason| {
            state.demand(Err(reason));
            0
        });
        drop(state);
        Self { process, id, epoch, promise, phase: Phase::Ready }
    }

    /// One step of the open transaction, which may fail in every way there is.
    fn step(
        &mut self,
        at: &'static str,
        effect: impl FnOnce(&mut State, &str, u64) -> Result<(), FailureKind>,
    ) -> Result<(), KafkaFailure> {
        match self.phase {
            Phase::Open => {}
            Phase::MustAbort => return Err(failed(FailureKind::Abortable, at)),
            Phase::Over(kind) => return Err(failed(kind, at)),
            Phase::Ready | Phase::Committing { .. } => return Err(failed(FailureKind::Fatal, at)),
        }
        let (id, epoch) = (&self.id, self.epoch);
        let result = self.process.step(at, |state| {
            let rates = state.rates;
            if state.strikes(rates.passing, "passing failure", at) {
                return Err(FailureKind::Transient);
            }
            if state.strikes(rates.abortable, "abortable failure", at) {
                return Err(FailureKind::Abortable);
            }
            if state.strikes(rates.fatal, "fatal failure", at) {
                return Err(FailureKind::Fatal);
            }
            if state.strikes(rates.fatal, "spent client", at) {
                return Err(FailureKind::Spent);
            }
            effect(state, id, epoch)
        })?;
        result.map_err(|kind| {
            self.phase = match kind {
                FailureKind::Transient => self.phase,
                FailureKind::Abortable => Phase::MustAbort,
                FailureKind::Migrated | FailureKind::Spent | FailureKind::Fatal => Phase::Over(kind),
            };
            if kind == FailureKind::Migrated {
                self.process.world.state().count("fenced", at);
            }
            failed(kind, at)
        })
    }

    fn commit_transaction(&mut self) -> Result<(), KafkaFailure> {
        if let Phase::Committing { silent } = self.phase {
            let answer = self.process.step("commit again", |state| {
                if silent {
                    return Err(FailureKind::Transient);
                }
                // Carried out already, or now.
                let committed = state.broker.commit(&self.id, self.epoch)?;
                state.demand(committed);
                Ok(())
            })?;
            return self.committed(answer);
        }
        let mut unanswered = None;
        let answer = self.step("commit", |state, id, epoch| {
            state.broker.announce_commit(id, epoch)?;
            let lost = state.rates.lost_reply;
            if state.strikes(lost, "lost reply", "commit not carried out") {
                unanswered = Some(state.chance.one_in(3));
                return Err(FailureKind::Transient);
            }
            let committed = state.broker.commit(id, epoch)?;
            state.demand(committed);
            if state.strikes(lost, "lost reply", "commit carried out") {
                unanswered = Some(state.chance.one_in(3));
                return Err(FailureKind::Transient);
            }
            Ok(())
        });
        if let Some(silent) = unanswered {
            self.phase = Phase::Committing { silent };
        }
        answer?;
        self.phase = Phase::Ready;
        Ok(())
    }

    fn committed(&mut self, answer: Result<(), FailureKind>) -> Result<(), KafkaFailure> {
        match answer {
            Ok(()) => self.phase = Phase::Ready,
            Err(FailureKind::Transient) => {}
            Err(kind) => self.phase = Phase::Over(kind),
        }
        answer.map_err(|kind| failed(kind, "commit again"))
    }
}

/// A client joins again before it says that it was expelled.
pub fn join_again(state: &mut State, member: usize) {
    if state.broker.group.join_again(member, &mut state.chance) {
        state.count("rebalance", "joined again unnoticed");
    }
}

/// Whether the group takes offsets of this member, and its client knows nothing against it.
fn admit(state: &mut State, member: usize) -> Result<(), FailureKind> {
    let Some(found) = state.broker.group.members.get(&member) else { return Err(FailureKind::Abortable) };
    if found.fenced {
        state.count("fenced", "member");
        return Err(FailureKind::Migrated);
    }
    if found.rejoined {
        state.count("refused offsets", "held under another name");
        return Err(FailureKind::Abortable);
    }
    if found.expelled {
        state.count("refused offsets", "no longer a member");
        // A client may notice by this very answer.
        if state.chance.one_in(2) {
            join_again(state, member);
        }
        return Err(FailureKind::Abortable);
    }
    if !found.queue.is_empty() && state.chance.one_in(2) {
        state.count("refused offsets", "rebalance in progress");
        return Err(FailureKind::Abortable);
    }
    Ok(())
}

impl Sink for SimSink {
    type Member = SimMember;

    fn begin(&mut self) -> Result<(), KafkaFailure> {
        self.process.step("begin", |_| ())?;
        match self.phase {
            Phase::Ready => {
                self.phase = Phase::Open;
                Ok(())
            }
            Phase::Over(kind) => Err(failed(kind, "begin")),
            Phase::Open | Phase::MustAbort | Phase::Committing { .. } => {
                Err(failed(FailureKind::Fatal, "begin"))
            }
        }
    }

    fn send(&mut self, record: &OutputRecord) -> Result<(), KafkaFailure> {
        let promise = self.promise;
        self.step("send", |state, id, epoch| match promise {
            Promise::ExactlyOnce => state.broker.add_output(id, epoch, record, state.now),
            Promise::AtLeastOnce => {
                let published = state.broker.publish(record);
                state.demand(published);
                Ok(())
            }
        })
    }

    fn offsets(&mut self, next: &[(Partition, NextOffset)], member: &SimMember) -> Result<(), KafkaFailure> {
        let (promise, member) = (self.promise, member.0.number);
        let next: Vec<_> = next.iter().map(|(partition, next)| (partition.0, next.0)).collect();
        self.step("offsets", |state, id, epoch| {
            admit(state, member)?;
            match promise {
                Promise::ExactlyOnce => state.broker.add_offsets(id, epoch, &next, state.now)?,
                Promise::AtLeastOnce => {
                    let committed = state.broker.commit_offsets(&next);
                    state.demand(committed);
                }
            }
            let lost = state.rates.lost_reply;
            if state.strikes(lost, "lost reply", "offsets") { Err(FailureKind::Transient) } else { Ok(()) }
        })
    }

    fn commit(&mut self) -> Result<(), KafkaFailure> {
        match self.promise {
            Promise::ExactlyOnce => self.commit_transaction(),
            Promise::AtLeastOnce => {
                self.phase = Phase::Ready;
                Ok(())
            }
        }
    }

    fn abort(&mut self) -> Result<(), KafkaFailure> {
        if let Phase::Over(kind) = self.phase {
            return Err(failed(kind, "abort"));
        }
        let (id, epoch, promise) = (&self.id, self.epoch, self.promise);
        let answer = self.process.step("abort", |state| {
            let rates = state.rates;
            if state.strikes(rates.passing, "passing failure", "abort") {
                return Err(FailureKind::Transient);
            }
            match promise {
                Promise::ExactlyOnce => state.broker.abort(id, epoch),
                Promise::AtLeastOnce => Ok(()),
            }
        })?;
        match answer {
            Ok(()) => self.phase = Phase::Ready,
            Err(FailureKind::Transient) => {}
            Err(kind) => self.phase = Phase::Over(kind),
        }
        answer.map_err(|kind| failed(kind, "abort"))
    }
}
