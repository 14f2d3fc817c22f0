//! What tenants' requests find, counted.

use super::names::TenantId;
use crate::questions::counters::{Counter, Share};
use crate::request::outcome::{Need, Outcome};
use crate::stack::Order;
use crate::stack::needs::Needs;
use crate::units::is_countable;
use crate::units::ratio::Ratio;
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
    pub(super) fn unknown() -> Self {
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
    /// Hits, one per capacity.
    hits: Vec<u64>,
    /// Required capacity, one a target; empty where nothing is reusable.
    needs: Vec<Need>,
}

impl TenantShare {
    /// What a request found for a tenant.
    pub(super) fn of(outcome: &Outcome, tenant: TenantId, config: &TenantsConfig) -> Self {
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
}

/// The counts of one tenant, in followed pages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TenantTally {
    pub(super) requests: u64,
    pub(super) with_reuse: u64,
    pub(super) page_accesses: u64,
    pub(super) reusable: u64,
    /// Hits, one per capacity.
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
    /// The counts of a tenant.
    pub(super) fn of(&self, tenant: TenantId) -> Option<&TenantTally> {
        self.tenants.get(&tenant)
    }
}

impl Share for TenantShare {
    type Shape = TenantsShape;

    fn is_sound(&self, shape: TenantsShape) -> bool {
        self.tenant.is_possible()
            && self.hits.len() == shape.capacities
            && self.needs.len() == if self.reusable == 0 { 0 } else { shape.targets }
            && self.hits.iter().chain([&self.page_accesses]).all(|count| is_countable(*count))
            && self.reusable <= self.page_accesses
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + (self.hits.len() + self.needs.len()) * size_of::<u64>()
    }
}

impl Counter for TenantsTally {
    type Share = TenantShare;

    fn new(shape: TenantsShape) -> Self {
        Self { shape, tenants: BTreeMap::new() }
    }

    fn add(&mut self, share: &TenantShare) {
        let fresh = || TenantTally::new(self.shape);
        self.tenants.entry(share.tenant).or_insert_with(fresh).add(share);
    }

    fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        parts.fold(None, |sum, part| {
            let mut sum = sum.unwrap_or_else(|| Self::new(part.shape));
            for (tenant, tally) in &part.tenants {
                let fresh = || TenantTally::new(part.shape);
                sum.tenants.entry(*tenant).or_insert_with(fresh).merge(tally);
            }
            Some(sum)
        })
    }

    fn is_sound(&self, shape: TenantsShape) -> bool {
        self.shape == shape
            && self.tenants.iter().all(|(tenant, tally)| tenant.is_possible() && tally.is_sound(shape))
    }

    fn consolidate(&mut self) {
        self.tenants.values_mut().flat_map(|tally| &mut tally.needs).for_each(Needs::consolidate);
    }

    fn is_consolidated(&self) -> bool {
        self.tenants.values().flat_map(|tally| &tally.needs).all(Needs::is_consolidated)
    }

    fn memory_bytes(&self) -> usize {
        let held = self.tenants.values().map(|tally| {
            let needs = tally.needs.iter().map(|needs| size_of::<Needs>() + needs.memory_bytes());
            size_of::<TenantTally>() + tally.hits.len() * size_of::<u64>() + needs.sum::<usize>()
        });
        held.sum()
    }
}
