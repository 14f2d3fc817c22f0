//! What is asked of a pool alongside its curve: whether its cache does as it should, routers, tiers, tenants, how long pages
//! live, what an emptied cache costs, and what perfect foresight would find.

pub mod answer_reuse;
pub mod enabled;
pub mod generated;
pub mod lifetimes;
pub mod measured;
pub mod observers;
pub mod optimum;
pub mod request_runs;
pub mod restarts;
pub mod retention;
pub mod routing;
pub mod tenants;
pub mod tiers;
pub mod worth;
