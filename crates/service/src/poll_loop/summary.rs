//! What a run came to.

use kvset_formats::position::{NextOffset, Partition};
use std::collections::BTreeMap;

/// What a run came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records processed.
    pub records: u64,
    /// Results committed: estimates, or prepared request events.
    pub results: u64,
    /// Dead letters committed.
    pub dead_letters: u64,
    /// Commits.
    pub commits: u64,
    /// The committed next offset of every partition this process worked on.
    pub next_offsets: BTreeMap<Partition, NextOffset>,
}

impl Summary {
    pub(crate) fn add(&mut self, life: &Self) {
        self.records += life.records;
        self.results += life.results;
        self.dead_letters += life.dead_letters;
        self.commits += life.commits;
        self.next_offsets.extend(life.next_offsets.iter().map(|(partition, next)| (*partition, *next)));
    }
}
