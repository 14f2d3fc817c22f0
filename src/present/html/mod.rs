//! Documents as HTML: one self-contained page for people who size caches, and a pool's part of it for the live page.

mod comparison;
mod page;
mod section;

pub use page::{render, section};
pub(crate) use section::table;
