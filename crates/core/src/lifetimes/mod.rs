//! How long pages live in the stack, and on whose behalf: what follows from when each run was touched last
//! (WHATIF 2 and 6).

mod boundary;
mod holders;
#[cfg(test)]
pub(crate) mod model;

pub(crate) use boundary::Boundary;
pub(crate) use holders::{Holders, Packed};

use crate::outcome::Outcome;
use crate::pool_config::PoolConfig;
use crate::retention::Retention;
use crate::tenants::{TenantId, TenantResult, Tenants};
use crate::units::{EventTime, PageCount};

/// One pool's lifetimes.
#[derive(Debug)]
pub struct Lifetimes {
    holders: Holders,
    retention: Option<Retention>,
    tenants: Option<Tenants>,
}

/// A request as lifetimes see it.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// When it came.
    pub event_time: EventTime,
    /// On whose behalf.
    pub tenant: Option<&'a str>,
    /// Whether it counts, or only moves pages.
    pub counted: bool,
}

impl Lifetimes {
    /// Nothing seen yet, of a stack that remembers `bound` (followed) pages.
    pub fn new(bound: PageCount, retention: Option<Retention>, tenants: Option<Tenants>) -> Self {
        Self { holders: Holders::new(bound), retention, tenants }
    }

    /// Follows a request; every one of the stack's must come, in order.
    pub fn observe(&mut self, arrival: &Arrival<'_>, outcome: &Outcome) {
        self.pack_if_crowded();
        let Self { holders, retention, tenants } = self;
        holders.advance(arrival.event_time);
        retention.iter_mut().for_each(|retention| retention.advance(holders));
        let tenant = tenants.as_mut().map(|tenants| tenants.id_of(arrival.tenant));
        let pages = holders.take(outcome, tenant.map_or(0, TenantId::account));
        if let Some((tenants, tenant)) = tenants.as_mut().zip(tenant) {
            tenants.follow(holders, pages);
            if arrival.counted {
                tenants.count(holders, outcome, tenant);
            }
        }
        retention.iter_mut().for_each(|retention| retention.follow(holders, outcome, pages));
        holders.forget_beyond_bound(|place, pages, age_ms| {
            retention.iter_mut().for_each(|retention| retention.forget(place, pages, age_ms));
        });
        retention.iter_mut().for_each(Retention::mark_beyond_bound);
    }

    /// Retention, where it is followed.
    pub fn retention(&self) -> Option<&Retention> {
        self.retention.as_ref()
    }

    /// The `most` tenants that hold the most, and all others as one; empty where tenants are not followed.
    pub fn tenants(&self, most: usize, config: &PoolConfig) -> Vec<TenantResult> {
        self.tenants.as_ref().map(|tenants| tenants.result(&self.holders, most, config)).unwrap_or_default()
    }

    fn pack_if_crowded(&mut self) {
        let is_crowded = self.retention.as_ref().is_some_and(Retention::is_crowded);
        if !is_crowded && !self.holders.is_crowded() {
            return;
        }
        let packed = self.holders.pack();
        self.retention.iter_mut().for_each(|retention| retention.renumber(&packed));
        self.tenants.iter_mut().for_each(|tenants| tenants.renumber(&packed));
    }
}
