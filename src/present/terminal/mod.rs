//! Documents on a terminal, estimates as they arrive, and progress.

mod estimates;
pub mod live;
mod plot;
mod progress;
mod screen;
mod sparkline;
mod table;

pub use estimates::{EstimateTable, answer_in_words, recommended, recommended_at, window};
pub use plot::curve;
pub use progress::TerminalProgress;
pub use screen::Terminal;
pub use sparkline::sparkline;
pub use table::{captioned, section, table};
