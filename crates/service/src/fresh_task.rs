//! A task for tests that has seen nothing.

use crate::plan::task_config;
use kvset_formats::position::{NextOffset, Partition};
use kvset_pipeline::resume::{Origin, Resume};
use kvset_pipeline::task::PartitionTask;
use kvset_settings::Settings;
use std::sync::Arc;

/// A partition's task by the default settings, from the log's first record on.
pub(crate) fn fresh_task(partition: Partition) -> PartitionTask {
    let config = Arc::new(task_config(&Settings::default()).expect("usable settings"));
    let start = NextOffset(0);
    let resume = Resume {
        origin: Origin::Fresh,
        replay_from: start,
        publish_from: start,
        count_from: start,
        warm_up: false,
        set_aside: Vec::new(),
        explanation: String::new(),
    };
    PartitionTask::new(config, partition, &resume)
}
