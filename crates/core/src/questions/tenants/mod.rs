//! Attribution to tenants: whose pages the cache holds, for how long, and what each tenant gets from it.
//!
//! [`accounts`](super::accounts) follow and count it; here is what an estimate says of it.

mod estimate;
#[cfg(test)]
mod tests;

use crate::questions::needs::QuestionNeeds;

pub use estimate::TenantEstimate;

/// What reporting tenants needs.
pub const NEEDS: QuestionNeeds = QuestionNeeds {
    setting: "tenants",
    revision: 0,
    one_stack: true,
    few_capacities: true,
    each_request: true,
};
