//! What the commands take, print and refuse.

#[path = "../support/mod.rs"]
mod support;

mod config;
mod doctor;
mod generate;
mod health;
mod measured_week;
mod memory_split;
mod model;
mod model_cost;
mod model_figures;
mod operations;
mod page_lru;
mod prefixes;
mod replay_draft_head;
mod replay_empty;
mod replay_engines;
mod replay_hicache;
mod replay_lifetimes;
mod replay_measured;
mod replay_plan;
mod replay_sampling;
mod replica_files;
mod report_engines;
mod restarts;
mod sglang_log;
mod tune;
mod tune_planted;
mod usage;
mod worth;
