//! The report of a replay: its figures, its plots, its words.

#[path = "../report_support/mod.rs"]
mod report_support;
#[path = "../support/mod.rs"]
mod support;

mod html;
mod plots;
mod recorder;
mod traces;
