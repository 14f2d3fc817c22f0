//! What the requests of accounts find, counted.

use super::names::AccountId;
use crate::questions::counters::{Counter, Share};
use crate::request::outcome::{Need, Outcome};
use crate::stack::Order;
use crate::stack::needs::Needs;
use crate::units::heap::heap_bytes;
use crate::units::is_countable;
use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountsConfig {
    /// The order of pages within a request.
    pub order: Order,
    /// Capacities in followed pages, ascending.
    pub capacities: Vec<u64>,
    /// Shares of the reusable prefix that a request must find.
    pub targets: Vec<Ratio>,
}

impl AccountsConfig {
    /// How many of everything are counted.
    pub fn shape(&self) -> AccountsShape {
        AccountsShape { capacities: self.capacities.len(), targets: self.targets.len() }
    }

    /// What stands there until a snapshot that was read back is completed.
    pub(in crate::questions) fn unknown() -> Self {
        Self { order: Order::RootFirst, capacities: Vec::new(), targets: Vec::new() }
    }
}

/// How many of everything are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AccountsShape {
    /// Capacities.
    pub capacities: usize,
    /// Target ratios.
    pub targets: usize,
}

/// One request as every window counts it, in followed pages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountShare {
    account: AccountId,
    page_accesses: u64,
    reusable: u64,
    /// Hits, one per capacity.
    hits: Vec<u64>,
    /// Required capacity, one a target; empty where nothing is reusable.
    needs: Vec<Need>,
}

heap_bytes!(AccountShare { hits, needs; account, page_accesses, reusable });

impl AccountShare {
    /// What a request found for an account.
    pub(super) fn of(outcome: &Outcome, account: AccountId, config: &AccountsConfig) -> Self {
        let reusable = outcome.reusable_prefix();
        let need = |target: &Ratio| outcome.need_of_prefix(target.ceil_of(reusable));
        Self {
            account,
            page_accesses: outcome.page_accesses,
            reusable,
            hits: config.capacities.iter().map(|capacity| outcome.hits_at(*capacity)).collect(),
            needs: if reusable == 0 { Vec::new() } else { config.targets.iter().map(need).collect() },
        }
    }
}

/// The counts of one account, in followed pages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::questions) struct AccountTally {
    pub(in crate::questions) requests: u64,
    pub(in crate::questions) with_reuse: u64,
    pub(in crate::questions) page_accesses: u64,
    pub(in crate::questions) reusable: u64,
    /// Hits, one per capacity.
    pub(in crate::questions) hits: Vec<u64>,
    /// One a target.
    pub(in crate::questions) needs: Vec<Needs>,
}

heap_bytes!(AccountTally { hits, needs; requests, with_reuse, page_accesses, reusable });

impl AccountTally {
    pub(super) fn new(shape: AccountsShape) -> Self {
        Self {
            hits: vec![0; shape.capacities],
            needs: vec![Needs::default(); shape.targets],
            ..Self::default()
        }
    }

    fn add(&mut self, share: &AccountShare) {
        self.requests += 1;
        self.with_reuse += u64::from(share.reusable > 0);
        self.page_accesses += share.page_accesses;
        self.reusable += share.reusable;
        self.hits.iter_mut().zip(&share.hits).for_each(|(sum, hits)| *sum += hits);
        self.needs.iter_mut().zip(&share.needs).for_each(|(needs, need)| needs.insert(*need));
    }

    /// Takes in another account's.
    pub(super) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.with_reuse += other.with_reuse;
        self.page_accesses += other.page_accesses;
        self.reusable += other.reusable;
        self.hits.iter_mut().zip(&other.hits).for_each(|(sum, hits)| *sum += hits);
        for (needs, others) in self.needs.iter_mut().zip(&other.needs) {
            *needs = Needs::merged([&*needs, others].into_iter());
        }
    }

    fn is_sound(&self, shape: AccountsShape) -> bool {
        let counts = [self.requests, self.page_accesses];
        (self.hits.len(), self.needs.len()) == (shape.capacities, shape.targets)
            && counts.iter().chain(&self.hits).all(|count| is_countable(*count))
            && self.reusable <= self.page_accesses
            && self.with_reuse <= self.requests
            && self.needs.iter().all(Needs::is_sound)
    }
}

/// The counts of every account over a set of requests.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AccountsTally {
    shape: AccountsShape,
    accounts: BTreeMap<AccountId, AccountTally>,
}

heap_bytes!(AccountsTally { accounts; shape });

impl AccountsTally {
    /// The counts of an account.
    pub(super) fn of(&self, account: AccountId) -> Option<&AccountTally> {
        self.accounts.get(&account)
    }
}

impl Share for AccountShare {
    type Shape = AccountsShape;

    fn is_sound(&self, shape: AccountsShape) -> bool {
        self.account.is_possible()
            && self.hits.len() == shape.capacities
            && self.needs.len() == if self.reusable == 0 { 0 } else { shape.targets }
            && self.hits.iter().chain([&self.page_accesses]).all(|count| is_countable(*count))
            && self.reusable <= self.page_accesses
    }
}

impl Counter for AccountsTally {
    type Share = AccountShare;

    fn new(shape: AccountsShape) -> Self {
        Self { shape, accounts: BTreeMap::new() }
    }

    fn add(&mut self, share: &AccountShare) {
        let fresh = || AccountTally::new(self.shape);
        self.accounts.entry(share.account).or_insert_with(fresh).add(share);
    }

    fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        parts.fold(None, |sum, part| {
            let mut sum = sum.unwrap_or_else(|| Self::new(part.shape));
            for (account, tally) in &part.accounts {
                let fresh = || AccountTally::new(part.shape);
                sum.accounts.entry(*account).or_insert_with(fresh).merge(tally);
            }
            Some(sum)
        })
    }

    fn is_sound(&self, shape: AccountsShape) -> bool {
        self.shape == shape
            && self.accounts.iter().all(|(account, tally)| account.is_possible() && tally.is_sound(shape))
    }

    fn consolidate(&mut self) {
        self.accounts.values_mut().flat_map(|tally| &mut tally.needs).for_each(Needs::consolidate);
    }

    fn is_consolidated(&self) -> bool {
        self.accounts.values().flat_map(|tally| &tally.needs).all(Needs::is_consolidated)
    }
}
