//! Help shared by the integration tests. Each test binary uses a part of it.
#![allow(dead_code)]

pub mod program;
pub mod reference;
pub mod shared;
pub mod slow_hicache;
pub mod slow_hybrid;
pub mod slow_load;
pub mod slow_manager;
pub mod slow_offload;
pub mod slow_offloaded;
pub mod slow_over_host;
pub mod slow_sglang;
pub mod slow_states;
pub mod slow_stores;
pub mod slow_trtllm;
pub mod slow_windows;
