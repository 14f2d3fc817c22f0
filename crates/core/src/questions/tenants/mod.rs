//! Attribution to tenants: whose pages the cache holds, for how long, and what each tenant gets from it.
//!
//! [`accounts`](super::accounts) follow and count it; here is what an estimate says of it, and what a split by quota costs.

mod estimate;
mod quota;
#[cfg(test)]
mod tests;

use crate::questions::needs::QuestionNeeds;

pub use estimate::TenantEstimate;
pub use quota::{Quota, QuotaResult, QuotaRun};

/// What reporting tenants needs.
pub const NEEDS: QuestionNeeds = QuestionNeeds {
    setting: "tenants",
    revision: 0,
    one_stack: true,
    few_capacities: true,
    each_request: true,
};
