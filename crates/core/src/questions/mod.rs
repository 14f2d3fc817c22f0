//! What is asked of a pool alongside its curve: whether its cache does as it should, routers, tenants, what passes between
//! tiers, how long pages live, what perfect foresight would find, what the cache is worth, and what an emptied one costs.

pub mod answer_reuse;
pub mod counters;
pub mod enabled;
pub mod generated;
pub mod lifetimes;
pub mod measured;
pub mod observers;
pub mod optimum;
pub mod provisioned;
pub mod request_runs;
pub mod restarts;
pub mod retention;
pub mod routing;
pub mod tenants;
pub mod traffic;
pub mod worth;
