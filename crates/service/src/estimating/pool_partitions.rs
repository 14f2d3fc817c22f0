//! Where each pool is, to notice one in two partitions.

use crate::events::{Observer, ServiceEvent, split_pool};
use kvset_formats::position::Partition;
use std::collections::BTreeMap;

/// Most pools whose partition is remembered.
const MAX_KNOWN: usize = 100_000;

/// The partition each pool was first seen in.
#[derive(Debug, Default)]
pub(crate) struct PoolPartitions(BTreeMap<String, Partition>);

impl PoolPartitions {
    /// Pools a partition shows for the first time.
    pub(crate) fn note(&mut self, partition: Partition, names: &[String], observer: &dyn Observer) {
        for name in names {
            match self.0.get(name) {
                Some(first) if *first != partition => {
                    let (first, second) = (*first, partition);
                    let why = split_pool(first, second);
                    tracing::warn!(pool = %name, partition = partition.0, "pool `{name}` is split. {why}");
                    observer.on(&ServiceEvent::SplitPool { pool: name, first, second });
                }
                Some(_) => {}
                None if self.0.len() < MAX_KNOWN => {
                    self.0.insert(name.clone(), partition);
                    observer.on(&ServiceEvent::NewPool { partition, pool: name });
                }
                None => {}
            }
        }
    }

    /// A partition has forgotten these pools.
    pub(crate) fn forget_pools(&mut self, partition: Partition, names: &[String]) {
        for name in names {
            if self.0.get(name) == Some(&partition) {
                self.0.remove(name);
            }
        }
    }

    /// A partition was given up.
    pub(crate) fn forget(&mut self, partition: Partition) {
        self.0.retain(|_, home| *home != partition);
    }
}
