//! What windows count: requirements without each group of conversations, and who the largest are of.

use crate::families::certainty::GROUPS;
use crate::questions::counters::{Counter, Share};
use crate::request::outcome::Need;
use crate::stack::needs::Needs;
use crate::units::heap::heap_bytes;
use crate::units::is_countable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Conversations told one by one. Of more of them a part is, chosen by their keys.
const TOLD: usize = 4096;

/// What one request adds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertaintyShare {
    /// The key of its conversation.
    pub(super) conversation: u64,
    /// The group of that, whose own cache the request is not served by.
    pub(super) group: u8,
    /// What it needs of the pool, one entry a target ratio.
    pub(super) own: Vec<Need>,
    /// What it needs without each group, target by target; 0 where it finds nothing there.
    pub(super) without: Vec<Need>,
}

heap_bytes!(CertaintyShare { own, without; conversation, group });

impl Share for CertaintyShare {
    /// Target ratios.
    type Shape = usize;

    fn is_sound(&self, targets: usize) -> bool {
        u64::from(self.group) < GROUPS
            && self.own.len() == targets
            && self.without.len() == targets * GROUPS as usize
    }
}

/// The counts over a set of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertaintyTally {
    /// Requests by the group of their conversation.
    requests: Vec<u64>,
    /// What requests need without each group, target by target.
    without: Vec<Needs>,
    conversations: ToldConversations,
}

heap_bytes!(CertaintyTally { requests, without, conversations });

/// Conversations one by one: those whose keys begin with enough zeros.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ToldConversations {
    /// Zeros: one in two to the power of these is told.
    zeros: u32,
    /// Targets.
    targets: usize,
    /// By key.
    told: BTreeMap<u64, ToldConversation>,
}

heap_bytes!(ToldConversations { told; zeros, targets });

/// One of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ToldConversation {
    requests: u64,
    /// The most that one of its requests needs of the pool, by target.
    most: Vec<Need>,
}

heap_bytes!(ToldConversation { most; requests });

impl CertaintyTally {
    /// Requests whose conversation is not of this group.
    pub(super) fn requests_without(&self, group: usize) -> u64 {
        let others = self.requests.iter().enumerate().filter(|(other, _)| *other != group);
        others.map(|(_, requests)| requests).sum()
    }

    /// What they need at a target ratio.
    pub(super) fn needs_without(&self, group: usize, target: usize) -> Option<&Needs> {
        self.without.get(target * GROUPS as usize + group)
    }

    /// Conversations; of more than are told, as many as those that are stand for.
    pub(super) fn conversations(&self) -> u64 {
        self.conversations.all(|_| true)
    }

    /// The share of the requests that the largest told conversation has.
    pub(super) fn largest_share(&self) -> f64 {
        let most = self.conversations.told.values().map(|told| told.requests).max().unwrap_or(0);
        most as f64 / self.requests.iter().sum::<u64>().max(1) as f64
    }

    /// Conversations with a request that needs more than fits at a target ratio.
    pub(super) fn above(&self, target: usize, fits: impl Fn(Need) -> bool) -> u64 {
        let needs = |told: &ToldConversation| told.most.get(target).copied().unwrap_or(0);
        self.conversations.all(|told| !fits(needs(told)))
    }
}

impl ToldConversations {
    /// How many there are of a kind.
    fn all(&self, is_counted: impl Fn(&ToldConversation) -> bool) -> u64 {
        (self.told.values().filter(|told| is_counted(told)).count() as u64) << self.zeros
    }

    fn tells(&self, key: u64) -> bool {
        key.leading_zeros() >= self.zeros
    }

    fn add(&mut self, key: u64, requests: u64, most: &[Need]) {
        if !self.tells(key) {
            return;
        }
        let fresh = || ToldConversation { requests: 0, most: vec![0; self.targets] };
        let own = self.told.entry(key).or_insert_with(fresh);
        own.requests += requests;
        own.most.iter_mut().zip(most).for_each(|(most, need)| *most = (*most).max(*need));
        while self.told.len() > TOLD && self.zeros < u64::BITS {
            self.zeros += 1;
            let zeros = self.zeros;
            self.told.retain(|key, _| key.leading_zeros() >= zeros);
        }
    }

    fn is_sound(&self, targets: usize) -> bool {
        let is_sound = |(key, told): (&u64, &ToldConversation)| {
            self.tells(*key) && told.most.len() == targets && is_countable(told.requests)
        };
        self.zeros <= u64::BITS
            && self.targets == targets
            && self.told.len() <= TOLD
            && self.told.iter().all(is_sound)
    }
}

impl Counter for CertaintyTally {
    type Share = CertaintyShare;

    fn new(targets: usize) -> Self {
        let groups = GROUPS as usize;
        Self {
            requests: vec![0; groups],
            without: vec![Needs::default(); targets * groups],
            conversations: ToldConversations { targets, ..ToldConversations::default() },
        }
    }

    fn add(&mut self, share: &CertaintyShare) {
        if let Some(requests) = self.requests.get_mut(usize::from(share.group)) {
            *requests += 1;
        }
        let needs = self.without.iter_mut().zip(&share.without).filter(|(_, need)| **need > 0);
        needs.for_each(|(needs, need)| needs.insert(*need));
        self.conversations.add(share.conversation, 1, &share.own);
    }

    fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        let mut sum = Self::new(parts.clone().next()?.conversations.targets);
        sum.conversations.zeros = parts.clone().map(|part| part.conversations.zeros).max()?;
        for (at, needs) in sum.without.iter_mut().enumerate() {
            *needs = Needs::merged(parts.clone().filter_map(|part| part.without.get(at)));
        }
        for part in parts {
            sum.requests.iter_mut().zip(&part.requests).for_each(|(sum, part)| *sum += part);
            let told = part.conversations.told.iter();
            told.for_each(|(key, told)| sum.conversations.add(*key, told.requests, &told.most));
        }
        Some(sum)
    }

    fn consolidate(&mut self) {
        self.without.iter_mut().for_each(Needs::consolidate);
    }

    fn is_consolidated(&self) -> bool {
        self.without.iter().all(Needs::is_consolidated)
    }

    fn is_sound(&self, targets: usize) -> bool {
        self.requests.len() == GROUPS as usize
            && self.requests.iter().all(|requests| is_countable(*requests))
            && self.without.len() == targets * GROUPS as usize
            && self.without.iter().all(Needs::is_sound)
            && self.conversations.is_sound(targets)
    }
}
