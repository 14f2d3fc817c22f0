//! The live page and its API, in a browser too, and that all outputs give one answer.

#[path = "../live_support/mod.rs"]
mod live_support;

mod api;
mod arrivals;
mod demo;
mod one_answer;
mod page;
