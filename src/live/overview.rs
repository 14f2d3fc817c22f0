//! How the service stands, as `/api/v1/pools` says it and the page shows it.

use kvset_core::engines::profile::Profile;
use kvset_core::units::window::WindowKind;
use serde::Serialize;

/// How the service stands.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Overview {
    /// Version of the program.
    pub version: &'static str,
    /// Pools that are shown, by name.
    pub pools: Vec<PoolState>,
    /// Pools with state beyond `http.max_pool_labels`, of which nothing more is kept.
    pub pools_not_shown: u64,
    /// Partitions this instance works on.
    pub partitions: Vec<PartitionState>,
    /// What an operator should look at.
    pub problems: Vec<OverviewProblem>,
}

/// One pool. What only an estimate tells is absent until a window has closed and was committed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoolState {
    pub pool: String,
    /// Input partition the pool lives in.
    pub partition: i32,
    /// Records of its partition that wait in the log.
    pub lag_records: Option<u64>,
    /// Requests accepted since this process took the pool up.
    pub requests: u64,
    /// Prompt pages accessed since this process took the pool up.
    pub page_accesses: u64,
    /// Of these requests, those that came after a window they belong to was closed.
    pub late_records: u64,
    /// Event time up to which the pool's windows are closed.
    pub watermark_ms: Option<i64>,
    /// Event time at which the pool's next window closes; absent while none is open.
    pub next_close_ms: Option<i64>,
    /// Memory of the pool's state at the last closed window, in bytes.
    pub engine_bytes: Option<u64>,
    pub engine: Option<Profile>,
    /// Tokens per page.
    pub page_size: Option<u32>,
    /// Bytes per page; absent where no cost per token is configured too.
    pub page_bytes: Option<u64>,
    pub tracked_pages: Option<u64>,
    pub accumulated_pages: Option<u64>,
    /// Kinds of window with an estimate.
    pub windows: Vec<WindowKind>,
}

/// One partition of the input topic.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartitionState {
    pub partition: i32,
    /// Everything before this offset was processed.
    pub next_offset: Option<i64>,
    /// Records that wait in the log; absent while its end is not known.
    pub lag_records: Option<u64>,
    /// Records that were read and are held back for requests that arrived earlier.
    pub waiting_records: u64,
    /// Event time up to which windows are closed: the lower median of the pools active last.
    pub watermark_ms: Option<i64>,
    /// Event time at which the next window closes; absent while none is open.
    pub next_close_ms: Option<i64>,
    /// Everything before this offset was published before; while it is not reached, the state is catching up.
    pub publish_from: i64,
    /// Pools with state.
    pub pools: u64,
    /// The state is catching up with what was published before.
    pub restoring: bool,
    /// Time since the last good snapshot of this process; absent before the first one.
    pub snapshot_age_ms: Option<u64>,
    /// Every record before this offset is in that snapshot.
    pub snapshot_next_offset: Option<i64>,
    pub snapshot_bytes: Option<u64>,
}

/// Something an operator should look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OverviewProblem {
    /// Stable name of the kind of problem.
    pub code: &'static str,
    /// What is wrong, in words.
    pub message: String,
    pub partition: Option<i32>,
    pub pool: Option<String>,
}

impl OverviewProblem {
    /// One of a pool.
    pub fn of_pool(code: &'static str, pool: &str, message: impl Into<String>) -> Self {
        Self { pool: Some(pool.to_owned()), ..Self::general(code, message) }
    }

    /// One of the whole instance.
    pub fn general(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), partition: None, pool: None }
    }

    /// One of a partition.
    pub fn of_partition(code: &'static str, partition: i32, message: impl Into<String>) -> Self {
        Self { partition: Some(partition), ..Self::general(code, message) }
    }
}
