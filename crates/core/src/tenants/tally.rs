//! Every tenant's requests and what they find.

use super::names::{Names, TenantId};
use super::occupancy::Occupancy;
use super::result::{self, TenantResult};
use crate::lifetimes::{Holders, Packed};
use crate::needs::Needs;
use crate::outcome::Outcome;
use crate::pool_config::PoolConfig;
use crate::ratio::Ratio;
use crate::stack::Order;

/// What is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantsConfig {
    /// The order of pages within a request.
    pub order: Order,
    /// Capacities in followed pages, ascending.
    pub capacities: Vec<u64>,
    /// Shares of the reusable prefix that a request must find.
    pub targets: Vec<Ratio>,
}

/// The counts of one tenant, in followed pages.
#[derive(Debug, Clone, Default)]
pub(super) struct TenantTally {
    pub(super) requests: u64,
    pub(super) with_reuse: u64,
    pub(super) page_accesses: u64,
    pub(super) reusable: u64,
    /// Hits, one a capacity.
    pub(super) hits: Vec<u64>,
    /// One a target.
    pub(super) needs: Vec<Needs>,
}

impl TenantTally {
    fn add(&mut self, outcome: &Outcome, config: &TenantsConfig) {
        let reusable = outcome.reusable_prefix();
        self.requests += 1;
        self.page_accesses += outcome.page_accesses;
        self.reusable += reusable;
        self.hits.resize(config.capacities.len(), 0);
        for (hits, capacity) in self.hits.iter_mut().zip(&config.capacities) {
            *hits += outcome.hits_at(*capacity);
        }
        self.needs.resize_with(config.targets.len(), Needs::default);
        if reusable > 0 {
            self.with_reuse += 1;
            for (needs, target) in self.needs.iter_mut().zip(&config.targets) {
                needs.insert(outcome.need_of_prefix(target.ceil_of(reusable)));
            }
        }
    }

    /// Takes in another tenant's.
    pub(super) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.with_reuse += other.with_reuse;
        self.page_accesses += other.page_accesses;
        self.reusable += other.reusable;
        self.hits.resize(self.hits.len().max(other.hits.len()), 0);
        self.hits.iter_mut().zip(&other.hits).for_each(|(sum, hits)| *sum += hits);
        self.needs.resize_with(self.needs.len().max(other.needs.len()), Needs::default);
        for (needs, others) in self.needs.iter_mut().zip(&other.needs) {
            *needs = Needs::merged([&*needs, others].into_iter());
        }
    }
}

/// The tenants of a pool.
#[derive(Debug)]
pub struct Tenants {
    config: TenantsConfig,
    names: Names,
    /// One a tenant.
    tallies: Vec<TenantTally>,
    /// One a capacity.
    occupancies: Vec<Occupancy>,
    /// What each capacity had held as the first counted request had arrived.
    before: Option<Vec<Vec<u128>>>,
}

impl Tenants {
    /// Nobody seen yet.
    pub fn new(config: TenantsConfig) -> Self {
        Self {
            names: Names::default(),
            tallies: Vec::new(),
            occupancies: config.capacities.iter().map(|capacity| Occupancy::at(*capacity)).collect(),
            before: None,
            config,
        }
    }

    /// The place of a tenant.
    pub fn id_of(&mut self, name: Option<&str>) -> TenantId {
        self.names.id_of(name)
    }

    pub(crate) fn follow(&mut self, holders: &Holders, pages: u32) {
        let order = self.config.order;
        self.occupancies.iter_mut().for_each(|occupancy| occupancy.follow(holders, pages, order));
    }

    /// Counts the latest request for a tenant.
    pub(crate) fn count(&mut self, holders: &Holders, outcome: &Outcome, tenant: TenantId) {
        if self.before.is_none() {
            self.before = Some(self.so_far(holders));
        }
        self.tallies.resize_with(self.names.len(), TenantTally::default);
        self.tallies[tenant.index()].add(outcome, &self.config);
    }

    pub(crate) fn renumber(&mut self, packed: &Packed) {
        self.occupancies.iter_mut().for_each(|occupancy| occupancy.renumber(packed));
    }

    fn so_far(&self, holders: &Holders) -> Vec<Vec<u128>> {
        self.occupancies.iter().map(|occupancy| occupancy.so_far(holders)).collect()
    }

    /// The `most` tenants that hold the most, then all others together.
    pub(crate) fn result(&self, holders: &Holders, most: usize, config: &PoolConfig) -> Vec<TenantResult> {
        let Some(before) = &self.before else { return Vec::new() };
        let now = self.so_far(holders);
        let of = |at: usize| {
            let held = now.iter().enumerate().map(|(capacity, sums)| {
                let sum = |sums: Option<&Vec<u128>>| sums.and_then(|sums| sums.get(at)).copied().unwrap_or(0);
                sum(Some(sums)) - sum(before.get(capacity))
            });
            let mut tally = self.tallies.get(at).cloned().unwrap_or_default();
            tally.hits.resize(self.config.capacities.len(), 0);
            result::Account { id: TenantId(at as u32), tally, page_milliseconds: held.collect() }
        };
        result::ranked((0..self.names.len()).map(of).collect(), most, config, |id| {
            self.names.name(id).map(str::to_owned)
        })
    }
}
