//! Compact events among records that wait.
//!
//! A compact event names pages that an earlier record of the log listed. Where records are taken in the order of arrivals,
//! that one may have its turn later: its pages are read where it waits.

use super::PartitionTask;
use super::arrivals::Arrivals;
use kvset_core::pool::set::{PoolRecord, PoolSet};
use kvset_core::request::event::{KnownPrefix, RequestEvent};
use kvset_core::stack::UnknownPrefix;
use kvset_core::units::pages::{PageIds, Scope};

/// What a waiting record adds to a prefix: the last ids of it, and what of it the record names in turn.
struct Listed {
    ids: Vec<u64>,
    before: Option<KnownPrefix>,
    offset: i64,
}

impl Arrivals {
    /// The last pages of a prefix that a record before `offset` lists, one of those that wait; of several the latest.
    fn listed(&self, pool: &str, scope: Scope, prefix: KnownPrefix, offset: i64) -> Option<Listed> {
        let earlier = self.records_of(pool).filter(|record| record.offset() < offset);
        let found = earlier.filter_map(|record| {
            let RequestEvent { page_ids, known_prefix, scope: own, ids_chained, .. } =
                self.decoded(record)?.event;
            let before = known_prefix.map_or(0, |prefix| prefix.pages.get());
            let last = prefix.pages.get().checked_sub(before + 1)? as usize;
            let is_prefix = ids_chained && own == scope && page_ids.get(last) == Some(prefix.last_id);
            let ids = || page_ids.first(last + 1).iter().collect();
            is_prefix.then(|| Listed { ids: ids(), before: known_prefix, offset: record.offset() })
        });
        found.max_by_key(|listed| listed.offset)
    }

    /// Writes the ids of a prefix that a record at `offset` names; whether it is known.
    fn resolve(&self, pools: &mut PoolSet, record: &PoolRecord<'_>, ids: &mut Vec<u64>) -> bool {
        let (pool, scope) = (record.pool, record.event.scope);
        let (mut named, mut offset, mut parts) = (record.event.known_prefix, record.offset.0, Vec::new());
        ids.clear();
        while let Some(prefix) = named {
            match pools.resolve(pool, scope, prefix, ids) {
                Ok(()) => break,
                Err(UnknownPrefix::NotHeld { .. }) => {}
                Err(_) => return false,
            }
            ids.clear();
            let Some(listed) = self.listed(pool, scope, prefix, offset) else { return false };
            // Each lies before the one that names it, so this ends.
            (named, offset) = (listed.before, listed.offset);
            parts.push(listed.ids);
        }
        ids.extend(parts.into_iter().rev().flatten());
        true
    }
}

impl PartitionTask {
    /// The record's event, completed where it is compact and the pages that it names are known; what is not is refused by its
    /// pool. `ids` keeps them.
    pub(super) fn completed<'e>(
        &mut self,
        record: &PoolRecord<'e>,
        ids: &'e mut Vec<u64>,
    ) -> RequestEvent<'e> {
        let Self { arrivals, pools, .. } = self;
        let Some(arrivals) = arrivals.as_ref().filter(|_| record.event.known_prefix.is_some()) else {
            return *record.event;
        };
        if !arrivals.resolve(pools, record, ids) {
            return *record.event;
        }
        ids.extend(record.event.page_ids.iter());
        RequestEvent { page_ids: PageIds::from_slice(ids), known_prefix: None, ..*record.event }
    }
}
