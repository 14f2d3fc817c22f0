//! What a task did since it was last read.

use super::{PoolActivity, PoolRefusals, PoolTime};
use kvset_core::estimate::Estimate;
use kvset_core::units::window::WindowKind;
use kvset_formats::codec::ErrorCode;
use std::collections::BTreeMap;

/// What was done, for metrics.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskCounts {
    /// Records processed, refused ones and replayed ones included.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Accepted records, pool by pool.
    pub pools: Vec<(String, PoolActivity)>,
    /// Pools that were forgotten to make room for others.
    pub forgotten: Vec<String>,
    /// Records that wait for earlier arrivals, as things stand.
    pub waiting: u64,
    /// Records processed muted, whose outputs were published before.
    pub replayed: u64,
    /// Records without a value that were passed: tombstones, which say nothing to a log of requests.
    pub tombstones: u64,
    /// Refused records by code, handed out as dead letters.
    pub refused: BTreeMap<ErrorCode, u64>,
    /// Offset of the last of them, by code.
    pub refused_at: BTreeMap<ErrorCode, i64>,
    /// A state was rebuilt of far fewer records than there are offsets: how many of both.
    pub thin_rebuild: Option<(u64, u64)>,
    /// Of pools of which something was refused, or is no longer, how that stands.
    pub refused_pools: Vec<(String, PoolRefusals)>,
    /// The newest final estimate of every pool and window that closed, muted ones too.
    pub latest: BTreeMap<(String, WindowKind), Estimate>,
    /// Memory of the pools that closed a window, in bytes.
    pub memory: BTreeMap<String, u64>,
    /// Requests that still own pages, of the pools that closed a window.
    pub tracked_requests: BTreeMap<String, u64>,
}

impl TaskCounts {
    /// How far event time has got in the pools that were active, in one.
    pub fn time(&self) -> Option<PoolTime> {
        PoolTime::of_all(self.pools.iter().filter_map(|(_, activity)| activity.time))
    }
}
