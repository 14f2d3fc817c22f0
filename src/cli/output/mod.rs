//! Output for people: numbers, tables, progress, sparklines.

mod estimates;
mod number;
mod progress;
mod sparkline;
mod table;

pub use estimates::{EstimateTable, recommended, trend_mark};
pub use number::{bytes, decimal, percent, thousands};
pub use progress::Progress;
pub use sparkline::sparkline;
pub use table::{Column, Sheet};
