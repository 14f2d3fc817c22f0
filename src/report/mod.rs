//! The report: plots as SVG, and one self-contained HTML page for people who size caches.
//!
//! Pure: a report is a function of [`ReportInput`] alone, so the same input gives the same bytes.
//! Nothing in a report is fetched when it is opened, and no script runs in it.
//!
//! ```text
//! input -> headline, caveats, plot::{curve, history, distribution} -> page (HTML)
//! ```

mod caveats;
mod comparison;
mod headline;
mod input;
mod markup;
pub mod measured;
mod page;
mod parts;
mod plan;
pub mod plot;
mod question_sections;
pub mod questions;
mod recorder;
mod routing;
mod section;
mod table;
mod theme;
pub(crate) mod words;

pub use caveats::{Caveat, caveats};
pub use headline::{Headline, headline};
pub use input::{
    Caveats, Distribution, History, HistoryPoint, OtherEnd, PoolReport, ReportInput, RequirementStep,
    WindowRow,
};
pub(crate) use markup::Markup;
pub use page::{render, section};
pub use plot::{Plot, PlotError};
pub use question_sections::QuestionSections;
pub use recorder::{EstimateHistory, HistoryRecorder};
pub use section::{Page, Section};
pub use table::Table;
pub(crate) use table::spread_sizes;
pub use theme::stylesheet;
