//! A task's state, to be kept in a snapshot and taken up again.
//!
//! The decoder, the counts for metrics and everything the configuration says are left out: the first
//! holds nothing between records, the second were reported, the last is compared by fingerprint.

use super::latest::{LatestEstimates, NotKept};
use super::{PartitionTask, TaskConfig, pool_set_config};
use crate::dead_letter_policy::{DeadLetterPolicy, DeadLetterState};
use crate::facts::RecordIdentity;
use crate::resume::Resume;
use kvset_core::estimate::Estimate;
use kvset_core::pool::{PoolImage, RestoredPool};
use kvset_core::pool_set::{History, PoolSet, PoolSetImage, PoolSetRestoreError, RestoredPoolSet};
use kvset_core::windows::Watermark;
use kvset_formats::position::Partition;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A task's state, to be serialised into a snapshot.
#[derive(Debug, Serialize)]
pub struct TaskImage<'a> {
    watermark: Watermark,
    history: History,
    dead_letters: &'a DeadLetterState,
    /// In order of name, so that equal states have equal bytes.
    pools: Vec<(&'a str, PoolImage<'a>)>,
    latest: &'a BTreeMap<Box<str>, LatestEstimates>,
}

/// A task's state, read back from a snapshot of format version 3.
#[derive(Debug, Deserialize)]
pub struct RestoredTask {
    watermark: Watermark,
    history: History,
    dead_letters: DeadLetterState,
    pools: Vec<(Box<str>, RestoredPool)>,
    latest: BTreeMap<Box<str>, LatestEstimates>,
}

/// The same of format versions 1 and 2, which kept no estimates.
#[derive(Debug, Deserialize)]
pub struct RestoredTaskV2 {
    watermark: Watermark,
    history: History,
    dead_letters: DeadLetterState,
    pools: Vec<(Box<str>, RestoredPool)>,
}

impl From<RestoredTaskV2> for RestoredTask {
    /// Nothing is shown until a window closes.
    fn from(old: RestoredTaskV2) -> Self {
        let RestoredTaskV2 { watermark, history, dead_letters, pools } = old;
        Self { watermark, history, dead_letters, pools, latest: BTreeMap::new() }
    }
}

#[cfg(feature = "test-support")]
impl RestoredTask {
    /// The same without a pool, for frozen snapshots of an engine whose rules were mended since.
    pub fn without(mut self, pool: &str) -> Self {
        self.pools.retain(|(name, _)| **name != *pool);
        self.latest.remove(pool);
        self
    }
}

/// Why a task cannot go on from a snapshot: it is rebuilt from the log then.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TaskRestoreError {
    /// The pools' state does not fit their configuration.
    #[error(transparent)]
    PoolSet(#[from] PoolSetRestoreError),
    /// An estimate that was kept is none, or not its pool's.
    #[error(
        "the newest estimate of pool {pool} cannot be read from the snapshot: {problem}; rebuild the state from the log"
    )]
    Estimate {
        /// The pool.
        pool: Box<str>,
        /// What is wrong.
        problem: Box<str>,
    },
}

/// The estimates that were kept, pool by pool in order of name.
pub(super) fn read_latest(
    pools: &PoolSet,
    latest: &BTreeMap<Box<str>, LatestEstimates>,
) -> Result<Vec<Estimate>, TaskRestoreError> {
    let mut estimates = Vec::new();
    for (name, latest) in latest {
        let windows = pools.get(name).map_or(&[][..], |pool| &pool.config().windows[..]);
        let unreadable = |problem: NotKept| TaskRestoreError::Estimate {
            pool: name.clone(),
            problem: problem.to_string().into(),
        };
        estimates.extend(latest.read(name, windows).map_err(unreadable)?);
    }
    Ok(estimates)
}

impl PartitionTask {
    /// The state as it stands before [`PartitionTask::next_offset`].
    pub fn image(&self) -> TaskImage<'_> {
        let PoolSetImage { watermark, history, pools } = self.pools.image();
        TaskImage { watermark, history, dead_letters: self.policy.state(), pools, latest: &self.latest }
    }

    /// The last record in the state; `None` before the first one.
    pub fn last_record(&self) -> Option<RecordIdentity> {
        self.last_record
    }

    /// A task that goes on where another of the same configuration was when its image was taken, with
    /// records from [`Resume::replay_from`] on. `last_record` is the last one in the image.
    ///
    /// # Errors
    /// [`TaskRestoreError`] where the image is not of this configuration.
    pub fn restore(
        config: Arc<TaskConfig>,
        partition: Partition,
        resume: &Resume,
        last_record: Option<RecordIdentity>,
        image: RestoredTask,
    ) -> Result<Self, TaskRestoreError> {
        let RestoredTask { watermark, history, dead_letters, pools, latest } = image;
        let history = if resume.warm_up { History::Missing } else { history };
        let image = RestoredPoolSet { watermark, history, pools };
        let pools = PoolSet::restore(pool_set_config(&config, partition), image)?;
        read_latest(&pools, &latest)?;
        let policy = DeadLetterPolicy::resume(config.dead_letters, dead_letters);
        let task = Self::over(config, partition, resume, pools, policy);
        Ok(Self { last_record, latest, ..task })
    }
}
