//! The consumer group as the brokers run it: who may have what, and who is told so.

use crate::chance::Chance;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// A rebalance as a member is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rebalance {
    Assigned(Vec<i32>),
    Revoked(Vec<i32>),
    Lost(Vec<i32>),
}

/// A member, by the number of its process.
#[derive(Debug, Default)]
pub struct MemberState {
    /// Rebalances it has not been told of.
    pub queue: VecDeque<Rebalance>,
    /// The one it was told of and must answer before it polls again.
    pub unanswered: Option<Rebalance>,
    /// Where it fetches next.
    pub positions: BTreeMap<i32, i64>,
    pub paused: BTreeSet<i32>,
    /// Partitions whose end it was told of.
    pub ended: BTreeSet<i32>,
    /// The group thinks it is gone; it does not know yet.
    pub expelled: bool,
    /// It joined again before it was told, and has not given up what it held before.
    pub rejoined: bool,
    /// Another process has its name.
    pub fenced: bool,
    /// When its process ended without leaving.
    pub died: Option<Duration>,
}

impl MemberState {
    /// Whether its offsets are accepted.
    pub fn is_valid(&self) -> bool {
        !self.expelled && !self.fenced
    }

    fn is_giving_up(&self, partition: i32) -> bool {
        let all = self.queue.iter().chain(&self.unanswered);
        all.clone().any(|event| matches!(event, Rebalance::Revoked(given) if given.contains(&partition)))
    }

    /// Takes back an assignment it has not been told of; false where it has.
    fn take_back(&mut self, partition: i32) -> bool {
        let mut found = false;
        for event in &mut self.queue {
            if let Rebalance::Assigned(given) = event {
                found |= given.contains(&partition);
                given.retain(|other| *other != partition);
            }
        }
        found
    }
}

/// The group.
#[derive(Debug)]
pub struct Group {
    /// Everything is revoked before anything is assigned.
    eager: bool,
    pub members: BTreeMap<usize, MemberState>,
    holders: Vec<Option<usize>>,
    targets: Vec<Option<usize>>,
}

impl Group {
    pub fn new(partitions: usize, eager: bool) -> Self {
        let none = vec![None; partitions];
        Self { eager, members: BTreeMap::new(), holders: none.clone(), targets: none }
    }

    pub fn join(&mut self, member: usize, chance: &mut Chance) {
        self.members.insert(member, MemberState::default());
        self.rebalance(chance);
    }

    /// A member that is gone for good.
    pub fn remove(&mut self, member: usize, chance: &mut Chance) {
        self.members.remove(&member);
        self.free(member);
        self.rebalance(chance);
    }

    /// A member that did not show up in time, and does not know.
    pub fn expel(&mut self, member: usize, chance: &mut Chance) {
        let Some(state) = self.members.get_mut(&member) else { return };
        state.queue.clear();
        state.expelled = true;
        self.free(member);
        self.rebalance(chance);
    }

    /// A member that was expelled joins again before it was told; false where it cannot. It is told to give up what it
    /// held, or that it may keep it, as if nobody else had had it meanwhile.
    pub fn join_again(&mut self, member: usize, chance: &mut Chance) -> bool {
        let Some(state) = self.members.get_mut(&member) else { return false };
        let held: Vec<i32> = state.positions.keys().copied().collect();
        if held.is_empty() || state.unanswered.is_some() {
            return false;
        }
        (state.expelled, state.rejoined) = (false, true);
        state.queue.push_back(if chance.one_in(3) {
            Rebalance::Assigned(Vec::new())
        } else {
            Rebalance::Revoked(held)
        });
        true
    }

    /// A member asks for news.
    pub fn news(&mut self, member: usize, chance: &mut Chance) -> Option<Rebalance> {
        let state = self.members.get_mut(&member)?;
        if state.expelled {
            let held: Vec<i32> = state.positions.keys().copied().collect();
            if held.is_empty() {
                state.expelled = false;
                self.rebalance(chance);
                return None;
            }
            state.queue.push_front(Rebalance::Lost(held));
        }
        let event = state.queue.pop_front()?;
        state.unanswered = Some(event.clone());
        Some(event)
    }

    /// A member whose name another process took.
    pub fn fence(&mut self, member: usize, chance: &mut Chance) {
        let Some(state) = self.members.get_mut(&member) else { return };
        state.fenced = true;
        self.free(member);
        self.rebalance(chance);
    }

    /// A member answers with where it begins.
    pub fn assign(&mut self, member: usize, starts: &[(i32, i64)]) -> Result<(), String> {
        let Some(state) = self.members.get_mut(&member) else { return Ok(()) };
        let told = state.unanswered.take();
        let answered: Vec<i32> = starts.iter().map(|(partition, _)| *partition).collect();
        if told != Some(Rebalance::Assigned(answered)) {
            return Err(format!("answered {told:?} with an assignment from {starts:?} on"));
        }
        for (partition, start) in starts {
            state.positions.insert(*partition, *start);
            state.paused.remove(partition);
            state.ended.remove(partition);
        }
        Ok(())
    }

    /// A member answers by giving up.
    pub fn unassign(&mut self, member: usize, partitions: &[i32], chance: &mut Chance) -> Result<(), String> {
        let Some(state) = self.members.get_mut(&member) else { return Ok(()) };
        let told = state.unanswered.take();
        match told {
            Some(Rebalance::Revoked(ref given) | Rebalance::Lost(ref given)) if given == partitions => {}
            _ => return Err(format!("answered {told:?} by giving up {partitions:?}")),
        }
        state.positions.retain(|partition, _| !partitions.contains(partition));
        if state.rejoined || matches!(told, Some(Rebalance::Lost(_))) {
            (state.expelled, state.rejoined) = (false, false);
            self.rebalance(chance);
            return Ok(());
        }
        for partition in partitions {
            let holder = &mut self.holders[*partition as usize];
            *holder = holder.filter(|holder| *holder != member);
        }
        self.offer();
        Ok(())
    }

    fn free(&mut self, member: usize) {
        self.holders.iter_mut().filter(|holder| **holder == Some(member)).for_each(|holder| *holder = None);
    }

    /// Chooses anew who has what, and begins to move it.
    pub fn rebalance(&mut self, chance: &mut Chance) {
        let valid: Vec<usize> = self
            .members
            .iter()
            .filter(|(_, state)| state.is_valid() && !state.rejoined)
            .map(|(member, _)| *member)
            .collect();
        let turn = chance.below(8) as usize;
        let mut revoked: BTreeMap<usize, Vec<i32>> = BTreeMap::new();
        for partition in 0..self.holders.len() {
            let target = (!valid.is_empty()).then(|| valid[(partition + turn) % valid.len()]);
            self.targets[partition] = target;
            let Some(holder) = self.holders[partition].filter(|holder| self.eager || target != Some(*holder))
            else {
                continue;
            };
            let Some(state) = self.members.get_mut(&holder) else { continue };
            let number = partition as i32;
            if state.take_back(number) {
                self.holders[partition] = None;
            } else if !state.is_giving_up(number) {
                revoked.entry(holder).or_default().push(number);
            }
        }
        for (member, partitions) in revoked {
            if let Some(state) = self.members.get_mut(&member) {
                state.queue.push_back(Rebalance::Revoked(partitions));
            }
        }
        self.offer();
    }

    /// Assigns what is free.
    fn offer(&mut self) {
        let giving_up = |state: &MemberState| {
            let mut all = state.queue.iter().chain(&state.unanswered);
            all.any(|event| matches!(event, Rebalance::Revoked(_)))
        };
        if self.eager && self.members.values().any(giving_up) {
            return;
        }
        let mut assigned: BTreeMap<usize, Vec<i32>> = BTreeMap::new();
        for (partition, holder) in self.holders.iter_mut().enumerate() {
            if let (None, Some(target)) = (*holder, self.targets[partition]) {
                *holder = Some(target);
                assigned.entry(target).or_default().push(partition as i32);
            }
        }
        for (member, partitions) in assigned {
            if let Some(state) = self.members.get_mut(&member) {
                state.queue.push_back(Rebalance::Assigned(partitions));
            }
        }
    }
}
