//! How results are shown: one document of sections, to a terminal and as HTML.
//!
//! What is shown is a function of its facts alone, so the same input gives the same bytes. Nothing in a page is fetched
//! when it is opened, and no script runs in a report.
//!
//! ```text
//! words <- document <- questions <- pool <- plots <- html, terminal
//! ```

pub mod document;
pub mod html;
pub(crate) mod markup;
pub mod plots;
pub mod pool;
pub mod questions;
pub mod terminal;
mod theme;
pub(crate) mod words;

pub use theme::stylesheet;
