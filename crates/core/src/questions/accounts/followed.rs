//! The requests of every name: what they find, and what is held for them.

use super::names::{AccountId, NameIndex};
use super::occupancy::Occupancy;
use super::ranked::{RankedAccount, ranked};
use super::tally::{AccountShare, AccountTally, AccountsConfig, AccountsTally};
use crate::questions::lifetimes::{Holders, Packed};
use crate::request::outcome::Outcome;
use crate::units::heap::heap_bytes;
use serde::{Deserialize, Serialize};

/// The accounts of a pool.
#[derive(Debug, Serialize, Deserialize)]
pub struct Accounts {
    /// By the pool's configuration.
    #[serde(skip, default = "AccountsConfig::unknown")]
    config: AccountsConfig,
    names: NameIndex,
    /// One per capacity.
    occupancies: Vec<Occupancy>,
    /// What each capacity had held as the first counted request had arrived.
    before: Option<Vec<Vec<u128>>>,
}

heap_bytes!(Accounts { names, occupancies, before; config });

impl Accounts {
    /// Nobody seen yet.
    pub fn new(config: AccountsConfig) -> Self {
        Self {
            names: NameIndex::default(),
            occupancies: config.capacities.iter().map(|capacity| Occupancy::at(*capacity)).collect(),
            before: None,
            config,
        }
    }

    /// The account of a name.
    pub fn id_of(&mut self, name: Option<&str>) -> AccountId {
        self.names.id_of(name)
    }

    /// Follows the latest request, of an account, that has taken its `pages` over. Returns what it adds to windows
    /// that count it.
    pub(crate) fn follow(
        &mut self,
        holders: &Holders,
        outcome: &Outcome,
        (id, pages): (AccountId, u32),
        counted: bool,
    ) -> AccountShare {
        let order = self.config.order;
        self.occupancies.iter_mut().for_each(|occupancy| occupancy.follow(holders, pages, order));
        if counted && self.before.is_none() {
            self.before = Some(self.so_far(holders));
        }
        AccountShare::of(outcome, id, &self.config)
    }

    pub(crate) fn renumber(&mut self, packed: &Packed) {
        self.occupancies.iter_mut().for_each(|occupancy| occupancy.renumber(packed));
    }

    /// Completes what was read back from a snapshot; whether it is what is requested and follows the list.
    pub(crate) fn resume(&mut self, config: AccountsConfig, holders: &Holders) -> bool {
        let is_known = |account: u32| (account as usize) < self.names.len();
        let sums = |sums: &Vec<u128>| sums.len() <= self.names.len();
        let sound = self.names.are_sound()
            && holders.entries().iter().all(|holder| is_known(holder.account))
            && self.occupancies.len() == config.capacities.len()
            && self.occupancies.iter().zip(&config.capacities).all(|(occupancy, capacity)| {
                occupancy.is_sound(*capacity, holders) && occupancy.accounts() <= self.names.len()
            })
            && self
                .before
                .iter()
                .all(|before| before.len() == config.capacities.len() && before.iter().all(sums));
        self.config = config;
        sound
    }

    fn so_far(&self, holders: &Holders) -> Vec<Vec<u128>> {
        self.occupancies.iter().map(|occupancy| occupancy.so_far(holders)).collect()
    }

    /// The `most` accounts that hold the most, then all others together: what the requests of `tally` found, and
    /// what was held since the first request that counts.
    pub(crate) fn ranked(&self, holders: &Holders, tally: &AccountsTally, most: usize) -> Vec<RankedAccount> {
        let Some(before) = &self.before else { return Vec::new() };
        let now = self.so_far(holders);
        let of = |at: usize| {
            let held = now.iter().enumerate().map(|(capacity, sums)| {
                let sum = |sums: Option<&Vec<u128>>| sums.and_then(|sums| sums.get(at)).copied().unwrap_or(0);
                sum(Some(sums)).saturating_sub(sum(before.get(capacity)))
            });
            let id = AccountId::at(at);
            let tally = tally.of(id).cloned().unwrap_or_else(|| AccountTally::new(self.config.shape()));
            RankedAccount { name: None, others: None, id, tally, page_milliseconds: held.collect() }
        };
        ranked((0..self.names.len()).map(of).collect(), most, |id| self.names.name(id).map(str::to_owned))
    }
}
