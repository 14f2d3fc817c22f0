//! A task's state, to be kept in a snapshot and taken up again.
//!
//! The decoder, the counts for metrics and everything the configuration says are left out: the first
//! holds nothing between records, the second were reported, the last is compared by fingerprint.

use super::arrivals::{Arrivals, RestoredArrivals, WrittenArrivals};
use super::latest::LatestEstimates;
use super::{PartitionTask, TaskConfig, pool_set_config};
use crate::dead_letter_policy::{DeadLetterPolicy, DeadLetterState, UnreadRun};
use crate::facts::RecordIdentity;
use crate::gaps::OffsetGap;
use crate::resume::Resume;
use kvset_core::estimate::Estimate;
use kvset_core::pool::set::{LogState, PoolSet, PoolSetImage, PoolSetRestoreError, Timeline};
use kvset_core::pool::{PoolImage, RestoredPool};
use kvset_formats::position::Partition;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A task's state, to be serialised into a snapshot.
#[derive(Debug, Serialize)]
pub struct TaskImage<'a> {
    log: &'a LogState,
    /// Offsets that could not be read and were passed, in order.
    gaps: &'a [OffsetGap],
    dead_letters: &'a DeadLetterState,
    /// In order of name, so that equal states have equal bytes.
    pools: Vec<(&'a str, PoolImage<'a>)>,
    /// Each pool's, in the same order.
    timelines: Vec<&'a Timeline>,
    latest: &'a BTreeMap<Box<str>, LatestEstimates>,
    /// Records that wait for earlier arrivals; nothing where no pool holds any back.
    arrivals: Option<WrittenArrivals<'a>>,
    /// Whose records could not be read, one after another.
    unread: &'a UnreadRun,
}

/// A task's state, read back from a snapshot.
#[derive(Debug, Deserialize)]
pub struct RestoredTask {
    log: LogState,
    gaps: Vec<OffsetGap>,
    dead_letters: DeadLetterState,
    pools: Vec<(Box<str>, RestoredPool)>,
    timelines: Vec<Timeline>,
    latest: BTreeMap<Box<str>, LatestEstimates>,
    arrivals: Option<RestoredArrivals>,
    unread: UnreadRun,
}

impl RestoredTask {
    /// Offsets that could not be read and were passed, in order.
    pub fn gaps(&self) -> &[OffsetGap] {
        &self.gaps
    }
}

/// Why a task cannot go on from a snapshot: it is rebuilt from the log then.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TaskRestoreError {
    /// The records that wait are missing, too many, or not those of its pools.
    #[error(
        "the records that the snapshot holds back are not those of its pools: rebuild the state from the log"
    )]
    Arrivals,
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
        let unreadable = |problem| TaskRestoreError::Estimate { pool: name.clone(), problem };
        estimates.extend(latest.read(name, windows).map_err(unreadable)?);
    }
    Ok(estimates)
}

impl PartitionTask {
    /// The state as it stands before [`PartitionTask::next_offset`].
    pub fn image(&self) -> TaskImage<'_> {
        let PoolSetImage { log, pools, timelines } = self.pools.image();
        TaskImage {
            log,
            gaps: &self.passed_gaps,
            dead_letters: self.policy.state(),
            pools,
            timelines,
            latest: &self.latest,
            arrivals: self.arrivals.as_ref().map(Arrivals::image),
            unread: &self.unread,
        }
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
        let RestoredTask { log, gaps, dead_letters, pools, timelines, latest, arrivals, unread } = image;
        let image = PoolSetImage { log, pools, timelines };
        let mut pools = PoolSet::restore(pool_set_config(&config, partition), image)?;
        if resume.warm_up {
            pools.lose_history();
        }
        read_latest(&pools, &latest)?;
        let policy = DeadLetterPolicy::resume(config.dead_letters, dead_letters);
        let task = Self::over(config, partition, resume, pools, policy);
        let arrivals = Arrivals::restore(&task.config, arrivals).ok_or(TaskRestoreError::Arrivals)?;
        Ok(Self { last_record, latest, passed_gaps: gaps, arrivals, unread, ..task })
    }
}
