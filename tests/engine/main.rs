//! The engine and its profiles, against slow models, the paper's own figures and real engines' recorded answers.

#[path = "../support/mod.rs"]
mod support;

mod asked;
mod by_page;
mod copies;
mod far_labels;
mod golden_fast;
mod growth;
mod hicache;
mod hybrid;
mod hybrid_load;
mod live;
mod offload;
mod over_host;
mod paper;
mod recorded;
mod recording;
mod replayed_ranges;
mod sampling;
mod sglang;
mod sglang_load;
mod states;
mod stores;
mod stores_load;
mod tiers;
mod trtllm;
mod windows;
