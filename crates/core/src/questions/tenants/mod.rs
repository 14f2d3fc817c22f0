//! Attribution: whose pages the cache holds, for how long, and what each tenant gets from it.
//!
//! A page is its last toucher's. What a capacity holds are the youngest pages of the stack, so one pointer a
//! capacity tells when pages leave it: with their last toucher's age they are accounted to that tenant, once, as
//! they are taken over or dropped. Sums over all tenants are the pool's.

mod accounts;
mod estimate;
mod followed;
mod names;
mod occupancy;
mod quota;
mod tally;
#[cfg(test)]
mod tests;

pub use estimate::{OTHER, TenantCoverage, TenantEstimate, TenantRequired};
pub use followed::Tenants;
pub use names::TenantId;
pub use quota::{Quota, QuotaError, QuotaPoint, QuotaResult, QuotaRun};
pub use tally::{TenantShare, TenantsConfig, TenantsShape, TenantsTally};

/// Most tenants distinguished; later ones are accounted together.
pub const MAX_TENANTS: usize = 4096;
