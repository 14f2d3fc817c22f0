//! Attribution to tenants: whose pages the cache holds, for how long, and what each tenant gets from it.
//!
//! [`accounts`](super::accounts) follow and count it; here is what an estimate says of it, and what a split by quota costs.

mod estimate;
mod quota;
#[cfg(test)]
mod tests;

pub use estimate::TenantEstimate;
pub use quota::{Quota, QuotaResult, QuotaRun};
