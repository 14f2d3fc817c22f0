//! What the service shows of itself over HTTP: a page for people, JSON for programs.
//!
//! [`Board`] watches the service and keeps the latest committed estimates, bounded. The page is made on
//! the server with the report's plots; a small script swaps in what has changed.
//!
//! ```text
//! service events -> board -> api (JSON) | page (HTML) -> routes -> telemetry's server
//! ```

mod api;
mod board;
mod condition;
mod overview;
mod page;
mod routes;
mod stillness;
mod waiting;

pub use board::Board;
pub use overview::{Overview, OverviewProblem, PartitionState, PoolState};
pub use routes::{LiveFacts, router};
