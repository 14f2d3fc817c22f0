//! `kvset run --folder`: a folder of event files as the log, on real files and with the real program.

#[path = "../kafka_support/mod.rs"]
#[allow(dead_code, reason = "each test program uses its part of what they share")]
mod kafka_support;
#[path = "../support/program.rs"]
mod program;

mod bench;
mod equality;
mod files;
mod hanging;
mod kills;
mod refusals;
