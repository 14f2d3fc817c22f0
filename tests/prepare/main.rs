//! Raw request logs to request events, with real tokenizers.
#![cfg(feature = "tokenize")]

#[path = "../kafka_support/mod.rs"]
#[allow(dead_code, reason = "each test program uses its part of what they share")]
mod kafka_support;
#[path = "../prepare_support/mod.rs"]
#[allow(dead_code, reason = "each test program uses its part of what they share")]
mod prepare_support;
#[path = "../registry_support/mod.rs"]
#[allow(dead_code, reason = "each test program uses its part of what they share")]
mod registry_support;
#[path = "../support/mod.rs"]
mod support;

mod answers;
mod apis;
mod cli;
mod dry_run;
mod logs;
mod python;
mod records;
mod requests;
