//! Documents as HTML: one self-contained page for people who size caches, and a pool's part of it for the live page.

mod comparison;
mod page;
mod parts;

pub use page::{render, section};
