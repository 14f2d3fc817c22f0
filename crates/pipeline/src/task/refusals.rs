//! Whose records are refused. A pool's refusals are its own trouble: they are counted and told, and stop nobody.

use super::PartitionTask;
use crate::dead_letter_policy::{DeadLetterLimit, DeadLetterLimits, DeadLetterPolicy};
use kvset_formats::codec::{DecodeError, ErrorCode, SourceRecord};
use std::collections::BTreeMap;

/// Most pools whose refusals are counted apart: whoever invents names has one of them refused, not all memory.
const MAX_POOLS: usize = 256;

/// A record that was refused.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RefusedRecord {
    /// Why.
    pub(super) error: DecodeError,
    /// Whether it could be read as a request, which its pool or this task does not take.
    pub(super) is_read: bool,
    /// Whose it is, as far as its value says.
    pub(super) pool: Option<Box<str>>,
}

impl RefusedRecord {
    /// One that could not be read, whose value names this pool at most.
    pub(super) fn unread(error: DecodeError, pool: Option<&str>) -> Self {
        Self { error, is_read: false, pool: pool.map(Box::from) }
    }

    /// One that could be read, of this pool.
    pub(super) fn of(pool: &str, error: DecodeError) -> Self {
        Self { error, is_read: true, pool: Some(pool.into()) }
    }
}

/// What was refused of one pool since this process took it up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolRefusals {
    /// Records in all.
    pub records: u64,
    /// Why the last one was.
    pub code: ErrorCode,
    /// Its offset.
    pub offset: i64,
    /// Whether they are too many in a row, or too large a share of the pool's records.
    pub is_over_limit: bool,
}

/// What was refused, pool by pool, of those that were refused anything.
#[derive(Debug)]
pub(super) struct RefusalsByPool {
    limits: DeadLetterLimits,
    pools: BTreeMap<Box<str>, RefusingPool>,
}

#[derive(Debug)]
struct RefusingPool {
    policy: DeadLetterPolicy,
    refused: PoolRefusals,
    /// Whether there is something to tell.
    is_news: bool,
}

impl RefusalsByPool {
    pub(super) fn new(limits: DeadLetterLimits) -> Self {
        Self { limits, pools: BTreeMap::new() }
    }

    /// A record of this pool was taken. What is counted in a row begins anew.
    pub(super) fn accept(&mut self, pool: &str) {
        if self.pools.is_empty() {
            return;
        }
        let Some(known) = self.pools.get_mut(pool) else { return };
        known.policy.accept();
        let is_over_limit = known.policy.is_over_limit();
        known.is_news |= std::mem::replace(&mut known.refused.is_over_limit, is_over_limit) != is_over_limit;
    }

    /// A record of this pool was refused.
    pub(super) fn refuse(&mut self, pool: &str, offset: i64, code: ErrorCode) {
        let records = 0;
        if !self.pools.contains_key(pool) && self.pools.len() < MAX_POOLS {
            let refused = PoolRefusals { records, code, offset, is_over_limit: false };
            let policy = DeadLetterPolicy::new(self.limits);
            self.pools.insert(pool.into(), RefusingPool { policy, refused, is_news: true });
        }
        let Some(known) = self.pools.get_mut(pool) else { return };
        let records = known.refused.records + 1;
        known.policy.count_refused();
        let is_over_limit = known.policy.is_over_limit();
        known.refused = PoolRefusals { records, code, offset, is_over_limit };
        known.is_news = true;
    }

    /// The pools of which there is something to tell since this was last requested.
    pub(super) fn take_news(&mut self) -> Vec<(String, PoolRefusals)> {
        let news = self.pools.iter_mut().filter_map(|(pool, known)| {
            std::mem::take(&mut known.is_news).then(|| (pool.to_string(), known.refused.clone()))
        });
        news.collect()
    }

    /// The task has forgotten a pool.
    pub(super) fn forget(&mut self, pool: &str) {
        self.pools.remove(pool);
    }
}

impl PartitionTask {
    /// Counts a refused record: of its pool, and where it could not be read, of the partition. `pool` is whose its
    /// value says that it is, else its key does.
    ///
    /// # Errors
    /// Too many in a row cannot be read, and all pools of the partition are among them: it is to be held. As long as
    /// one is not, what the others send is their own trouble.
    pub(super) fn note_refused(
        &mut self,
        record: &SourceRecord<'_>,
        code: ErrorCode,
        is_read: bool,
        pool: Option<&str>,
    ) -> Result<(), DeadLetterLimit> {
        let named = pool.or_else(|| self.config.limits.pool_of_key(record.key));
        if let Some(named) = named {
            self.refusals.refuse(named, record.offset, code);
        }
        let is_in_row = self.policy.is_in_row();
        // What all of them together come to stops nobody.
        drop(self.policy.refuse(record, code));
        if is_read {
            self.unread.end();
            return Ok(());
        }
        if is_in_row {
            self.unread.add(named);
        }
        // The first of them is not among those.
        let (count, limit) =
            (self.unread.records().saturating_add(1), self.config.dead_letters.max_consecutive);
        if count <= limit || !self.unread.is_of_all(self.heard_of()) {
            return Ok(());
        }
        let (topic, partition, offset) = (record.topic.to_owned(), record.partition, record.offset);
        Err(DeadLetterLimit::Consecutive { count, limit, code, topic, partition, offset })
    }

    /// The pools that have had a record accepted.
    fn heard_of(&self) -> impl Iterator<Item = &str> {
        self.times().map(|(name, _)| name)
    }
}
