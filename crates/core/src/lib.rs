//! The pure core: pages, stack distances, required capacity, windows, coverage, curves.
//!
//! Each room imports only those named before it:
//!
//! - [`units`]: pages, bytes, ratios, times and kinds of windows; page ids and how they are hashed.
//! - [`request`]: one request as it arrives, and what it found.
//! - [`stack`]: LRU stack distances of every capacity, in one pass.
//! - [`engines`]: caches as serving engines keep them, with their rules and the tiers below; how a cache is configured.
//! - [`families`]: what of a log is independent of the rest: how certain a figure is, what more traffic would need.
//! - [`sizing`]: from counts to sizes: curve, coverage, requirement, recommendation, plan, trend.
//! - [`questions`]: what is asked of a pool alongside its curve.
//! - [`windows`]: event time, and what is counted by window.
//! - [`estimate`]: the published result of a window, and everything that shapes it.
//! - [`pool`]: puts these together; a set of pools.
//!
//! Nothing in here names a broker, a runtime, a file or a clock; `tests/repository/architecture.rs` keeps it so.
//! Everything is a pure function of (configuration, requests in order).
//!
//! # An estimator of your own
//!
//! A router or an engine that wants to know how much cache its traffic needs keeps a
//! [`PoolSet`](pool::set::PoolSet) and gives it each request once, in the order in which prompts are looked up. Pages
//! come as ids that are chained: each is a hash of its page's tokens and of every page before it. A request costs a
//! few look-ups, however long it is.
//!
//! ```
//! use kvset_core::engines::config::CacheConfig;
//! use kvset_core::estimate::config::PoolConfig;
//! use kvset_core::pool::set::{PoolConfigs, PoolHistory, PoolRecord, PoolSet, PoolSetConfig};
//! use kvset_core::request::event::RequestEvent;
//! use kvset_core::units::{EventTime, Offset, PageCount, PageSize, heap::HeapBytes, pages::PageIds};
//!
//! let cache = CacheConfig {
//!     page_size: PageSize::new(16),
//!     kv_bytes_per_token: Some(131_072.0),
//!     // Bounds memory, at some ten bytes a page: more than this is never recommended.
//!     max_tracked_pages: PageCount(1 << 20),
//!     ..CacheConfig::default()
//! };
//! let pools = PoolConfigs::new(PoolConfig { cache, min_requests: 100, ..PoolConfig::default() }, [])?;
//! let config = PoolSetConfig {
//!     pools: pools.into(),
//!     partition: 0,
//!     max_pools: 8,
//!     idle_timeout_ms: None,
//!     forget_after_ms: None,
//!     put_aside_after_ms: None,
//! };
//! let (mut set, mut closed) = (PoolSet::new(config, PoolHistory::Whole), Vec::new());
//! for at in 0..200 {
//!     // Four conversations by turns, each a page longer than at its last turn.
//!     let ids: Vec<u64> = (0..=at / 4).map(|page| page as u64 * 4 + at as u64 % 4).collect();
//!     let event_time = EventTime(at * 1000);
//!     let event = RequestEvent { event_time, page_ids: PageIds::from_slice(&ids), ..RequestEvent::default() };
//!     set.observe(PoolRecord::in_order("llama", &event, Offset(at), true), &mut closed)?;
//! }
//! let now = set.provisional(Offset(200));
//! let acted_on = now.iter().find(|estimate| estimate.act_on).and_then(|estimate| estimate.recommendation());
//! assert_eq!(acted_on.and_then(|entry| entry.pages), Some(197), "four conversations, but for their last pages");
//! assert!(closed.iter().all(|estimate| estimate.pool == "llama"), "of windows that are over");
//! assert!(set.heap_bytes() < 4 << 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Stable as the program's own formats are: what is named in this example, the fields of
//! [`Estimate`](estimate::Estimate) and of the configuration. They change with a minor version and an entry of the
//! changelog. All else that is public serves the program's other crates, and may change with any version.
// Bad input, a bad disk or a bad broker is an error with a name, never a panic.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

#[cfg(not(target_endian = "little"))]
compile_error!("kvset reads packed little-endian page ids in place and needs a little-endian target");

pub mod engines;
pub mod estimate;
pub mod families;
pub mod pool;
pub mod questions;
pub mod request;
pub mod sizing;
pub mod stack;
pub mod units;
pub mod windows;
