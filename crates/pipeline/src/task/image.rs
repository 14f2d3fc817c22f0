//! A task's state, to be kept in a snapshot and taken up again.
//!
//! The decoder, the counts for metrics and everything the configuration says are left out: the first
//! holds nothing between records, the second were reported, the last is compared by fingerprint.

use super::{PartitionTask, TaskConfig, pool_set_config};
use crate::dead_letter_policy::{DeadLetterPolicy, DeadLetterState};
use crate::facts::RecordIdentity;
use crate::resume::Resume;
use kvset_core::pool::{PoolImage, RestoredPool};
use kvset_core::pool_set::{History, PoolSet, PoolSetImage, PoolSetRestoreError, RestoredPoolSet};
use kvset_core::windows::Watermark;
use kvset_formats::position::Partition;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A task's state, to be serialised into a snapshot.
#[derive(Debug, Serialize)]
pub struct TaskImage<'a> {
    watermark: Watermark,
    history: History,
    dead_letters: &'a DeadLetterState,
    /// In order of name, so that equal states have equal bytes.
    pools: Vec<(&'a str, PoolImage<'a>)>,
}

/// A task's state, read back from a snapshot.
#[derive(Debug, Deserialize)]
pub struct RestoredTask {
    watermark: Watermark,
    history: History,
    dead_letters: DeadLetterState,
    pools: Vec<(Box<str>, RestoredPool)>,
}

impl PartitionTask {
    /// The state as it stands before [`PartitionTask::next_offset`].
    pub fn image(&self) -> TaskImage<'_> {
        let PoolSetImage { watermark, history, pools } = self.pools.image();
        TaskImage { watermark, history, dead_letters: self.policy.state(), pools }
    }

    /// The last record in the state; `None` before the first one.
    pub fn last_record(&self) -> Option<RecordIdentity> {
        self.last_record
    }

    /// A task that goes on where another of the same configuration was when its image was taken, with
    /// records from [`Resume::replay_from`] on. `last_record` is the last one in the image.
    ///
    /// # Errors
    /// [`PoolSetRestoreError`] where the image is not of this configuration.
    pub fn restore(
        config: Arc<TaskConfig>,
        partition: Partition,
        resume: &Resume,
        last_record: Option<RecordIdentity>,
        image: RestoredTask,
    ) -> Result<Self, PoolSetRestoreError> {
        let RestoredTask { watermark, history, dead_letters, pools } = image;
        let history = if resume.warm_up { History::Missing } else { history };
        let image = RestoredPoolSet { watermark, history, pools };
        let pools = PoolSet::restore(pool_set_config(&config, partition), image)?;
        let policy = DeadLetterPolicy::resume(config.dead_letters, dead_letters);
        let task = Self::over(config, partition, resume, pools, policy);
        Ok(Self { last_record, ..task })
    }
}
