//! Attribution to tenants: whose pages the cache holds, for how long, and what each tenant gets from it.
//!
//! [`accounts`](super::accounts) follow and count it; here is what an estimate says of it.

mod estimate;
#[cfg(test)]
mod tests;

pub use estimate::TenantEstimate;
