//! A process as a member of the group.

use crate::group::Rebalance;
use crate::input::Fetched;
use crate::sink::join_again;
use crate::world::{Process, State};
use kvset::core::units::Offset;
use kvset::kafka::KafkaFailure;
use kvset::kafka::member::{Committed, Event, Identities, LogEnd, Member, TopicId};
use kvset::pipeline::facts::RecordIdentity;
use kvset::pipeline::publish::FailureKind;
use kvset::position::{LogRange, NextOffset, Partition};
use std::collections::BTreeMap;
use std::time::Duration;

/// A member of the simulated group.
#[derive(Debug, Clone)]
pub struct SimMember(pub Process);

fn passing(state: &mut State, at: &'static str) -> Result<(), KafkaFailure> {
    let one_in = state.rates.passing;
    if state.strikes(one_in, "passing failure", at) {
        return Err(KafkaFailure { kind: FailureKind::Transient, message: format!("{at}: no answer") });
    }
    Ok(())
}

impl SimMember {
    fn next_event(&self, state: &mut State) -> Option<Event<Fetched>> {
        let member = state.broker.group.members.get_mut(&self.0.number)?;
        if member.fenced {
            let message = "another member has this one's name".to_owned();
            return Some(Event::Trouble(KafkaFailure { kind: FailureKind::Migrated, message }));
        }
        if let Some(open) = &member.unanswered {
            let broken = Err(format!("polled while {open:?} was not answered"));
            state.demand(broken);
            return None;
        }
        if member.expelled && state.chance.one_in(3) {
            join_again(state, self.0.number);
            return None;
        }
        if let Some(event) = state.broker.group.news(self.0.number, &mut state.chance) {
            let number = self.0.number;
            state.note(|| format!("process {number} is told: {event:?}"));
            let typed = |partitions: Vec<i32>| partitions.into_iter().map(Partition).collect();
            return Some(match event {
                Rebalance::Assigned(partitions) => Event::Assigned(typed(partitions)),
                Rebalance::Revoked(partitions) => Event::Revoked(typed(partitions)),
                Rebalance::Lost(partitions) => {
                    state.count("rebalance", "lost");
                    Event::Lost(typed(partitions))
                }
            });
        }
        if let Err(failure) = passing(state, "poll") {
            return Some(Event::Trouble(failure));
        }
        self.fetch(state)
    }

    /// A record of some partition, or that one has come to its end.
    fn fetch(&self, state: &mut State) -> Option<Event<Fetched>> {
        let State { broker, chance, .. } = state;
        let member = broker.group.members.get(&self.0.number)?;
        let fetching: Vec<_> = member
            .positions
            .iter()
            .filter(|(partition, _)| !member.paused.contains(partition))
            .map(|(partition, next)| (*partition, *next))
            .collect();
        let (partition, next) = chance.pick(&fetching)?;
        if next < broker.logs[partition as usize].start {
            let message = format!("offset {next} of partition {partition} is no longer in the log");
            return Some(Event::Trouble(KafkaFailure::fatal(message)));
        }
        let found = broker.record_from(partition, next).cloned();
        let member = broker.group.members.get_mut(&self.0.number)?;
        match found {
            Some(record) => {
                member.positions.insert(partition, record.0.offset + 1);
                member.ended.remove(&partition);
                Some(Event::Record(record))
            }
            None => member.ended.insert(partition).then_some(Event::End(Partition(partition))),
        }
    }
}

impl Member for SimMember {
    type Record<'r> = Fetched;
    type Lookup = SimLookup;

    fn poll(&self, timeout: Duration) -> Option<Event<Fetched>> {
        let polled = self.0.step("poll", |state| {
            let event = self.next_event(state);
            state.pass(if event.is_some() { Duration::from_millis(1) } else { timeout });
            event
        });
        polled.unwrap_or_else(|dead| Some(Event::Trouble(dead.into())))
    }

    fn committed(
        &self,
        partitions: &[Partition],
        timeout: Duration,
    ) -> Result<Vec<(Partition, Committed)>, KafkaFailure> {
        self.0.step("committed", |state| {
            passing(state, "committed")?;
            if partitions.iter().any(|partition| state.broker.is_unstable(partition.0)) {
                state.count("waited for", "an undecided transaction");
                state.pass(timeout);
                let message = "a transaction is undecided".to_owned();
                return Err(KafkaFailure { kind: FailureKind::Transient, message });
            }
            let committed = |partition: &Partition| {
                let next = state.broker.logs[partition.0 as usize].committed.map(NextOffset);
                (*partition, Committed { next, ..Committed::default() })
            };
            Ok(partitions.iter().map(committed).collect())
        })?
    }

    fn log_range(&self, partition: Partition, _: Duration) -> Result<LogRange, KafkaFailure> {
        self.0.step("log range", |state| {
            passing(state, "log range")?;
            Ok(state.broker.range(partition.0))
        })?
    }

    fn topic_id(&self, _: Duration) -> Result<Option<TopicId>, KafkaFailure> {
        self.0.step("topic id", |state| {
            passing(state, "topic id")?;
            Ok(TopicId::new("the-only-one"))
        })?
    }

    fn unowned(&self, _: Duration) -> Result<(Vec<Partition>, bool), KafkaFailure> {
        self.0.step("unowned", |state| passing(state, "unowned").map(|()| (Vec::new(), false)))?
    }

    fn share_out_again(&self) {}

    fn lookup(&self) -> Result<SimLookup, KafkaFailure> {
        Ok(SimLookup(self.0.clone()))
    }

    fn assign(&self, starts: &[(Partition, NextOffset)]) -> Result<(), KafkaFailure> {
        let starts: Vec<_> = starts.iter().map(|(partition, next)| (partition.0, next.0)).collect();
        Ok(self.0.step("assign", |state| {
            let answered = state.broker.group.assign(self.0.number, &starts);
            state.demand(answered);
        })?)
    }

    fn unassign(&self, partitions: &[Partition]) -> Result<(), KafkaFailure> {
        let partitions: Vec<_> = partitions.iter().map(|partition| partition.0).collect();
        Ok(self.0.step("unassign", |state| {
            let answered = state.broker.group.unassign(self.0.number, &partitions, &mut state.chance);
            state.demand(answered);
        })?)
    }

    fn skip_to(&self, partition: Partition, next: NextOffset) -> Result<(), KafkaFailure> {
        Ok(self.0.step("skip", |state| {
            if let Some(member) = state.broker.group.members.get_mut(&self.0.number) {
                member.positions.insert(partition.0, next.0);
            }
        })?)
    }

    fn pause(&self, partition: Partition) -> Result<(), KafkaFailure> {
        Ok(self.0.step("pause", |state| {
            if let Some(member) = state.broker.group.members.get_mut(&self.0.number) {
                member.paused.insert(partition.0);
            }
        })?)
    }

    fn resume(&self, partition: Partition) -> Result<(), KafkaFailure> {
        Ok(self.0.step("resume", |state| {
            if let Some(member) = state.broker.group.members.get_mut(&self.0.number) {
                member.paused.remove(&partition.0);
            }
        })?)
    }

    fn log_ends(&self) -> BTreeMap<Partition, LogEnd> {
        let state = self.0.world.state();
        let end = |partition| {
            let end = NextOffset(state.broker.end(partition));
            (Partition(partition), LogEnd { end, read_to: end })
        };
        (0..state.broker.logs.len() as i32).map(end).collect()
    }

    fn away_for(&self) -> Duration {
        Duration::ZERO
    }

    fn is_evicted(&self) -> bool {
        let state = self.0.world.state();
        state.broker.group.members.get(&self.0.number).is_some_and(|member| member.rejoined)
    }

    fn last_trouble(&self) -> Option<Duration> {
        None
    }

    fn leave(&self, _: bool) {
        // A process that died at this very step is removed by its session's end.
        let _ = self.0.step("leave", |state| {
            state.broker.group.remove(self.0.number, &mut state.chance);
        });
    }
}

/// Looks records up in the simulated log.
pub struct SimLookup(Process);

impl Identities for SimLookup {
    fn identity(
        &self,
        partition: Partition,
        offset: Offset,
        _: Duration,
    ) -> Result<Option<RecordIdentity>, KafkaFailure> {
        self.0.step("identity", |state| {
            passing(state, "identity")?;
            let record = state.broker.record_from(partition.0, offset.0);
            Ok(record.map(|record| record.0.identity()).filter(|found| found.offset == offset))
        })?
    }
}
