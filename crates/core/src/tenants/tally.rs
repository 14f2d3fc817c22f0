//! Every tenant's requests and what they find.

use super::names::{Names, TenantId};
use super::occupancy::Occupancy;
use super::result::{self, TenantResult};
use crate::lifetimes::{Holders, Packed};
use crate::needs::Needs;
use crate::outcome::{Need, Outcome};
use crate::pool_config::PoolConfig;
use crate::ratio::Ratio;
use crate::stack::Order;
use crate::units::is_countable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

impl TenantsConfig {
    /// How many of everything are counted.
    pub fn shape(&self) -> TenantsShape {
        TenantsShape { capacities: self.capacities.len(), targets: self.targets.len() }
    }

    /// What stands there until a snapshot that was read back is completed.
    fn unknown() -> Self {
        Self { order: Order::RootFirst, capacities: Vec::new(), targets: Vec::new() }
    }
}

/// How many of everything are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TenantsShape {
    /// Capacities.
    pub capacities: usize,
    /// Target ratios.
    pub targets: usize,
}

/// One request as every window counts it, in followed pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantShare {
    tenant: TenantId,
    page_accesses: u64,
    reusable: u64,
    /// Hits, one a capacity.
    hits: Vec<u64>,
    /// Required capacity, one a target; empty where nothing is reusable.
    needs: Vec<Need>,
}

impl TenantShare {
    /// What a request found for a tenant.
    fn of(outcome: &Outcome, tenant: TenantId, config: &TenantsConfig) -> Self {
        let reusable = outcome.reusable_prefix();
        let need = |target: &Ratio| outcome.need_of_prefix(target.ceil_of(reusable));
        Self {
            tenant,
            page_accesses: outcome.page_accesses,
            reusable,
            hits: config.capacities.iter().map(|capacity| outcome.hits_at(*capacity)).collect(),
            needs: if reusable == 0 { Vec::new() } else { config.targets.iter().map(need).collect() },
        }
    }

    /// Whether this, read back from a snapshot, can be counted.
    pub fn is_sound(&self, shape: TenantsShape) -> bool {
        self.tenant.is_possible()
            && self.hits.len() == shape.capacities
            && self.needs.len() == if self.reusable == 0 { 0 } else { shape.targets }
            && self.hits.iter().chain([&self.page_accesses]).all(|count| is_countable(*count))
            && self.reusable <= self.page_accesses
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + (self.hits.len() + self.needs.len()) * size_of::<u64>()
    }
}

/// The counts of one tenant, in followed pages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    pub(super) fn new(shape: TenantsShape) -> Self {
        Self {
            hits: vec![0; shape.capacities],
            needs: vec![Needs::default(); shape.targets],
            ..Self::default()
        }
    }

    fn add(&mut self, share: &TenantShare) {
        self.requests += 1;
        self.with_reuse += u64::from(share.reusable > 0);
        self.page_accesses += share.page_accesses;
        self.reusable += share.reusable;
        self.hits.iter_mut().zip(&share.hits).for_each(|(sum, hits)| *sum += hits);
        self.needs.iter_mut().zip(&share.needs).for_each(|(needs, need)| needs.insert(*need));
    }

    /// Takes in another tenant's.
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

    fn is_sound(&self, shape: TenantsShape) -> bool {
        let counts = [self.requests, self.page_accesses];
        (self.hits.len(), self.needs.len()) == (shape.capacities, shape.targets)
            && counts.iter().chain(&self.hits).all(|count| is_countable(*count))
            && self.reusable <= self.page_accesses
            && self.with_reuse <= self.requests
            && self.needs.iter().all(Needs::is_sound)
    }
}

/// The counts of every tenant over a set of requests.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TenantsTally {
    shape: TenantsShape,
    tenants: BTreeMap<TenantId, TenantTally>,
}

impl TenantsTally {
    /// Nothing counted yet.
    pub fn new(shape: TenantsShape) -> Self {
        Self { shape, tenants: BTreeMap::new() }
    }

    /// Takes a request in.
    pub fn add(&mut self, share: &TenantShare) {
        let fresh = || TenantTally::new(self.shape);
        self.tenants.entry(share.tenant).or_insert_with(fresh).add(share);
    }

    /// The union of several of one shape.
    pub fn merged<'a>(parts: impl Iterator<Item = &'a Self>) -> Option<Self> {
        parts.fold(None, |sum, part| {
            let mut sum = sum.unwrap_or_else(|| Self::new(part.shape));
            for (tenant, tally) in &part.tenants {
                let fresh = || TenantTally::new(part.shape);
                sum.tenants.entry(*tenant).or_insert_with(fresh).merge(tally);
            }
            Some(sum)
        })
    }

    /// Whether this, read back from a snapshot, counts what the shape says.
    pub fn is_sound(&self, shape: TenantsShape) -> bool {
        self.shape == shape
            && self.tenants.iter().all(|(tenant, tally)| tenant.is_possible() && tally.is_sound(shape))
    }

    /// Merges what is pending, so that reading copies nothing.
    pub fn consolidate(&mut self) {
        self.tenants.values_mut().flat_map(|tally| &mut tally.needs).for_each(Needs::consolidate);
    }

    /// Whether nothing is pending.
    pub fn is_consolidated(&self) -> bool {
        self.tenants.values().flat_map(|tally| &tally.needs).all(Needs::is_consolidated)
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> usize {
        let held = self.tenants.values().map(|tally| {
            let needs = tally.needs.iter().map(|needs| size_of::<Needs>() + needs.memory_bytes());
            size_of::<TenantTally>() + tally.hits.len() * size_of::<u64>() + needs.sum::<usize>()
        });
        held.sum()
    }
}

/// The tenants of a pool.
#[derive(Debug, Serialize, Deserialize)]
pub struct Tenants {
    /// By the pool's configuration.
    #[serde(skip, default = "TenantsConfig::unknown")]
    config: TenantsConfig,
    names: Names,
    /// One a capacity.
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
            names: Names::default(),
            occupancies: config.capacities.iter().map(|capacity| Occupancy::at(*capacity)).collect(),
            before: None,
            share: None,
            config,
        }
    }

    /// How many of everything are counted.
    pub fn shape(&self) -> TenantsShape {
        self.config.shape()
    }

    /// The place of a tenant.
    pub fn id_of(&mut self, name: Option<&str>) -> TenantId {
        self.names.id_of(name)
    }

    /// The latest request; none where it does not count.
    pub fn share(&self) -> Option<&TenantShare> {
        self.share.as_ref()
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

    /// Completes what was read back from a snapshot; whether it is what is asked for and follows the list.
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
    pub(crate) fn result(
        &self,
        holders: &Holders,
        tally: &TenantsTally,
        most: usize,
        config: &PoolConfig,
    ) -> Vec<TenantResult> {
        let Some(before) = &self.before else { return Vec::new() };
        let now = self.so_far(holders);
        let of = |at: usize| {
            let held = now.iter().enumerate().map(|(capacity, sums)| {
                let sum = |sums: Option<&Vec<u128>>| sums.and_then(|sums| sums.get(at)).copied().unwrap_or(0);
                sum(Some(sums)).saturating_sub(sum(before.get(capacity)))
            });
            let id = TenantId::at(at);
            let tally = tally.tenants.get(&id).cloned().unwrap_or_else(|| TenantTally::new(self.shape()));
            result::Account { id, tally, page_milliseconds: held.collect() }
        };
        result::ranked((0..self.names.len()).map(of).collect(), most, config, |id| {
            self.names.name(id).map(str::to_owned)
        })
    }
}
