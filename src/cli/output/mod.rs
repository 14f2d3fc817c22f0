//! Output for people: numbers, tables, progress, sparklines.

mod estimates;
pub mod live;
mod number;
pub mod plan;
mod progress;
pub mod required;
mod result;
pub mod routing;
mod sparkline;
mod table;

pub use estimates::{EstimateTable, recommended, trend_mark};
pub use number::{bytes, decimal, known, percent, share_name, thousands};
pub use progress::Progress;
pub use result::{json, print};
pub use sparkline::sparkline;
pub use table::{Column, Sheet};
