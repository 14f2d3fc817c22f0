//! A task for tests that has seen nothing.

use crate::plan::task_config;
use kvset_formats::position::Partition;
use kvset_pipeline::resume::Resume;
use kvset_pipeline::task::PartitionTask;
use kvset_settings::Settings;
use std::sync::Arc;

/// A partition's task by the default settings, from the log's first record on.
pub(crate) fn fresh_task(partition: Partition) -> PartitionTask {
    let config = Arc::new(task_config(&Settings::default()).expect("usable settings"));
    PartitionTask::new(config, partition, &Resume::from_start())
}
