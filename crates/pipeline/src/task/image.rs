//! A task's state, to be kept in a snapshot and taken up again.
//!
//! The decoder, the counts for metrics and everything the configuration says are left out: the first
//! holds nothing between records, the second were reported, the last is compared by fingerprint.

use super::{Counts, History, PartitionTask, TaskConfig};
use crate::facts::RecordIdentity;
use crate::pools::Deadlines;
use crate::resume::Resume;
use kvset_core::pool::{Pool, PoolImage, RestoreError, RestoredPool};
use kvset_core::units::EventTime;
use kvset_core::windows::Watermark;
use kvset_formats::codec::{DeadLetterPolicy, DeadLetterState};
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
}

/// A task's state, read back from a snapshot.
#[derive(Debug, Deserialize)]
pub struct RestoredTask {
    watermark: Watermark,
    history: History,
    dead_letters: DeadLetterState,
    pools: Vec<(Box<str>, RestoredPool)>,
}

/// Why a task cannot go on from a snapshot: it is rebuilt from the log then.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TaskRestoreError {
    /// A pool's state does not fit its configuration.
    #[error(transparent)]
    Pool(#[from] RestoreError),
    /// The pools are not in the order, or the number, that this program writes.
    #[error("the snapshot's pools are out of order or more than max_pools: rebuild the state from the log")]
    Pools,
    /// A pool waits for a watermark that the task has passed.
    #[error("a window of the snapshot was due before it was taken: rebuild the state from the log")]
    Overdue,
}

impl PartitionTask {
    /// The state as it stands before [`PartitionTask::next_offset`].
    pub fn image(&self) -> TaskImage<'_> {
        let pools = self.names.iter().map(|(name, index)| (&**name, self.pools[*index].image()));
        TaskImage {
            watermark: self.watermark,
            history: self.history,
            dead_letters: self.policy.state(),
            pools: pools.collect(),
        }
    }

    /// The last record in the state; `None` before the first one.
    pub fn last_record(&self) -> Option<RecordIdentity> {
        self.last_record
    }

    /// A task that goes on where another of the same configuration was when its image was taken, to
    /// be fed from [`Resume::replay_from`] on. `last_record` is the last one in the image.
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
        let in_order = image.pools.is_sorted_by(|(one, _), (next, _)| one < next);
        if !in_order || image.pools.len() > config.max_pools {
            return Err(TaskRestoreError::Pools);
        }
        let watermark = image.watermark.time();
        let mut pools = Vec::with_capacity(image.pools.len());
        let (mut names, mut deadlines) = (BTreeMap::new(), Deadlines::default());
        for (index, (name, pool)) in image.pools.into_iter().enumerate() {
            let pool = Pool::restore(&*name, partition.0, Arc::clone(config.pools.of(&name)), pool)?;
            let (due, waiting) = (pool.next_deadline(), |due: &EventTime| Some(*due) > watermark);
            // What the watermark reached was handed out before the image was taken, but for windows that
            // end with time itself.
            if due.is_some_and(|due| !waiting(&due) && due.0 < i64::MAX) {
                return Err(TaskRestoreError::Overdue);
            }
            deadlines.set(index, due.filter(waiting));
            pools.push(pool);
            names.insert(name, index);
        }
        Ok(Self {
            decoder: super::decoder(&config),
            policy: DeadLetterPolicy::resume(config.dead_letters, image.dead_letters),
            watermark: image.watermark,
            config,
            partition,
            deadlines,
            next: resume.replay_from,
            publish_from: resume.publish_from,
            count_from: resume.count_from,
            last_record,
            history: if resume.warm_up { History::Missing } else { image.history },
            counts: Counts::default(),
            pages: vec![0; pools.len()],
            new_pools: pools.iter().map(|pool| pool.name().to_owned()).collect(),
            names,
            pools,
            closed: Vec::new(),
        })
    }
}
