//! Every tenant's requests: what they find, and what is held for them.

use super::accounts::{Account, TenantFigures, ranked};
use super::estimate::TenantEstimate;
use super::names::{NameIndex, TenantId};
use super::occupancy::Occupancy;
use super::tally::{TenantShare, TenantTally, TenantsConfig, TenantsTally};
use crate::engines::config::CacheConfig;
use crate::questions::lifetimes::{Holders, Packed};
use crate::request::outcome::Outcome;
use crate::units::PageBytes;
use serde::{Deserialize, Serialize};

/// The tenants of a pool.
#[derive(Debug, Serialize, Deserialize)]
pub struct Tenants {
    /// By the pool's configuration.
    #[serde(skip, default = "TenantsConfig::unknown")]
    config: TenantsConfig,
    names: NameIndex,
    /// One per capacity.
    occupancies: Vec<Occupancy>,
    /// What each capacity had held as the first counted request had arrived.
    before: Option<Vec<Vec<u128>>>,
    /// The latest request, where it counts.
    #[serde(skip)]
    share: Option<TenantShare>,
}

impl Tenants {
    /// Nobody seen yet.
    pub fn new(config: TenantsConfig) -> Self {
        Self {
            names: NameIndex::default(),
            occupancies: config.capacities.iter().map(|capacity| Occupancy::at(*capacity)).collect(),
            before: None,
            share: None,
            config,
        }
    }

    /// The place of a tenant.
    pub fn id_of(&mut self, name: Option<&str>) -> TenantId {
        self.names.id_of(name)
    }

    /// Takes the latest request; none where it does not count.
    pub(crate) fn take_share(&mut self) -> Option<TenantShare> {
        self.share.take()
    }

    /// Follows the latest request, a tenant's, that has taken its `pages` over.
    pub(crate) fn follow(
        &mut self,
        holders: &Holders,
        outcome: &Outcome,
        (tenant, pages): (TenantId, u32),
        counted: bool,
    ) {
        let order = self.config.order;
        self.occupancies.iter_mut().for_each(|occupancy| occupancy.follow(holders, pages, order));
        if counted && self.before.is_none() {
            self.before = Some(self.so_far(holders));
        }
        self.share = counted.then(|| TenantShare::of(outcome, tenant, &self.config));
    }

    pub(crate) fn renumber(&mut self, packed: &Packed) {
        self.occupancies.iter_mut().for_each(|occupancy| occupancy.renumber(packed));
    }

    /// Completes what was read back from a snapshot; whether it is what is requested and follows the list.
    pub(crate) fn resume(&mut self, config: TenantsConfig, holders: &Holders) -> bool {
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

    /// Bytes of memory held, nearly.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.names.memory_bytes()
            + self.occupancies.iter().map(|held| 2 * held.accounts() * size_of::<u128>()).sum::<usize>()
    }

    fn so_far(&self, holders: &Holders) -> Vec<Vec<u128>> {
        self.occupancies.iter().map(|occupancy| occupancy.so_far(holders)).collect()
    }

    /// The `most` tenants that hold the most, then all others together: what the requests of `tally` found, and
    /// what was held since the first request that counts.
    pub(crate) fn estimates(
        &self,
        holders: &Holders,
        tally: &TenantsTally,
        most: usize,
        (config, page_bytes): (&CacheConfig, Option<PageBytes>),
    ) -> Vec<TenantEstimate> {
        let Some(before) = &self.before else { return Vec::new() };
        let now = self.so_far(holders);
        let of = |at: usize| {
            let held = now.iter().enumerate().map(|(capacity, sums)| {
                let sum = |sums: Option<&Vec<u128>>| sums.and_then(|sums| sums.get(at)).copied().unwrap_or(0);
                sum(Some(sums)).saturating_sub(sum(before.get(capacity)))
            });
            let id = TenantId::at(at);
            let tally = tally.of(id).cloned().unwrap_or_else(|| TenantTally::new(self.config.shape()));
            Account { id, tally, page_milliseconds: held.collect() }
        };
        let figures = TenantFigures { config, page_bytes };
        ranked((0..self.names.len()).map(of).collect(), most, figures, |id| {
            self.names.name(id).map(str::to_owned)
        })
    }
}
