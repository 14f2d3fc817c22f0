//! Output for people: numbers, tables, progress, sparklines.

mod estimates;
pub mod live;
mod number;
pub mod plan;
mod plot;
mod progress;
pub mod required;
pub mod restarts;
mod result;
pub mod retention;
pub mod routing;
mod screen;
mod sparkline;
mod table;
pub mod tenants;
pub mod traffic;
pub mod worth;

pub use estimates::{EstimateTable, answer_in_words, recommended, recommended_at, trend_mark, window};
pub use number::{bytes, capacity, decimal, known, percent, share_name, thousands};
pub use plot::CurvePlot;
pub use progress::Progress;
pub use result::{json, print};
pub use screen::Terminal;
pub use sparkline::sparkline;
pub use table::{Column, Sheet};
