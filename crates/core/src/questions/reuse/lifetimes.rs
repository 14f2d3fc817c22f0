//! What follows how long pages live, and on whose behalf: times to live, tenants, and which pages are used again.

use crate::engines::config::CacheConfig;
use crate::questions::accounts::{AccountId, AccountShare, Accounts, AccountsConfig, AccountsTally};
use crate::questions::lifetimes::{HandedPages, Holders};
use crate::questions::retention::{Retention, RetentionConfig, RetentionShare};
use crate::questions::tenants::TenantEstimate;
use crate::questions::traffic::Sights;
use crate::request::outcome::Outcome;
use crate::units::heap::heap_bytes;
use crate::units::{EventTime, PageBytes, PageCount};
use serde::{Deserialize, Serialize};

/// One pool's lifetimes.
#[derive(Debug, Serialize, Deserialize)]
pub struct Lifetimes {
    holders: Holders,
    retention: Option<Retention>,
    tenants: Option<Accounts>,
    /// Where it is asked which pages are used again.
    sights: Option<Sights>,
    /// What the latest request adds to its tenant's account, where it counts.
    #[serde(skip)]
    tenant_share: Option<AccountShare>,
}

heap_bytes!(Lifetimes { holders, retention, tenants, sights, tenant_share });

impl Lifetimes {
    /// Nothing seen yet, of a stack that remembers `bound` (followed) pages.
    pub fn new(bound: PageCount, retention: Option<Retention>, tenants: Option<Accounts>) -> Self {
        Self { holders: Holders::new(bound), retention, tenants, sights: None, tenant_share: None }
    }

    /// The same, of which it is asked which pages are used again.
    pub fn with_sights(self) -> Self {
        Self { sights: Some(Sights::default()), ..self }
    }

    /// Follows a request; every one of the stack's must come, in order.
    pub fn observe(&mut self, event_time: EventTime, tenant: Option<&str>, counted: bool, outcome: &Outcome) {
        self.pack_if_crowded();
        let Self { holders, retention, tenants, sights, tenant_share } = self;
        holders.advance(event_time);
        retention.iter_mut().for_each(|retention| retention.advance(holders));
        let tenant = tenants.as_mut().map(|tenants| tenants.id_of(tenant));
        let pages = holders.take(outcome, tenant.map_or(0, AccountId::account));
        *tenant_share = tenants
            .as_mut()
            .zip(tenant)
            .map(|(tenants, tenant)| tenants.follow(holders, outcome, (tenant, pages), counted));
        tenant_share.take_if(|_| !counted);
        retention.iter_mut().for_each(|retention| retention.follow(holders, outcome, pages));
        if let Some(sights) = sights {
            let place = |taken: &HandedPages| taken.from.map(|place| place as usize);
            holders.taken().iter().for_each(|taken| sights.take(place(taken), taken.pages));
            sights.arrive(outcome.new_pages);
        }
        holders.forget_beyond_bound(|place, pages, age_ms| {
            retention.iter_mut().for_each(|retention| retention.forget(place, pages, age_ms));
        });
        retention.iter_mut().for_each(Retention::mark_beyond_bound);
    }

    /// Hands over what the latest request adds to windows, for whatever lies there already.
    pub(crate) fn hand_over(
        &mut self,
        retention: &mut Option<RetentionShare>,
        tenant: &mut Option<AccountShare>,
    ) {
        if let Some(own) = &mut self.retention {
            own.exchange(retention.get_or_insert_default());
        }
        *tenant = self.tenant_share.take();
    }

    /// Which pages are used again, where that is followed.
    pub fn sights(&self) -> Option<&Sights> {
        self.sights.as_ref()
    }

    /// The latest event time so far.
    pub fn now(&self) -> EventTime {
        self.holders.now()
    }

    /// The `most` tenants that hold the most, and all others as one: what the requests of `tally` found, and what
    /// was held since the first request that counts. Empty where tenants are not followed.
    pub fn by_tenant(
        &self,
        tally: &AccountsTally,
        most: usize,
        (config, page_bytes): (&CacheConfig, Option<PageBytes>),
    ) -> Vec<TenantEstimate> {
        let ranked = self.tenants.iter().flat_map(|tenants| tenants.ranked(&self.holders, tally, most));
        ranked.map(|account| TenantEstimate::of(&account, config, page_bytes)).collect()
    }

    /// Completes what was read back from a snapshot; whether it is what is requested and can go on.
    pub fn resume(
        &mut self,
        bound: PageCount,
        retention: Option<RetentionConfig>,
        tenants: Option<AccountsConfig>,
    ) -> bool {
        let Self { holders, retention: own_retention, tenants: own_tenants, sights, .. } = self;
        holders.resume(bound)
            && sights.as_ref().is_none_or(|sights| sights.requests() == holders.entries().len())
            && match (own_retention, retention) {
                (Some(own), Some(config)) => own.resume(config, holders),
                (own, config) => own.is_none() && config.is_none(),
            }
            && match (own_tenants, tenants) {
                (Some(own), Some(config)) => own.resume(config, holders),
                (own, config) => own.is_none() && config.is_none(),
            }
    }

    fn pack_if_crowded(&mut self) {
        if !self.holders.is_crowded() {
            return;
        }
        let packed = self.holders.pack();
        self.retention.iter_mut().for_each(|retention| retention.renumber(&packed, &self.holders));
        self.tenants.iter_mut().for_each(|tenants| tenants.renumber(&packed));
        let stays = |place| packed.place(place) < packed.place(place + 1);
        self.sights.iter_mut().for_each(|sights| sights.retain(stays));
    }
}
