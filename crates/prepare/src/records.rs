//! A record of a raw log, and what becomes of it.

use kvset_formats::codec::{ErrorCode, SourceRecord};
use kvset_formats::output::OutputRecord;
use kvset_formats::placeholders::Placeholders;
use kvset_formats::position::Partition;
use kvset_formats::stated::StatedPrompts;
use kvset_formats::time::TimeForm;
use kvset_formats::trace::CacheWrites;

/// What became of a record.
#[derive(Debug, Default)]
pub struct PreparedRecord {
    /// The partition it came of.
    pub partition: Partition,
    /// Its request events in the order of its prompts, or its dead letter.
    pub outputs: Vec<OutputRecord>,
    /// Why it was refused, or the first of its requests that was.
    pub refused: Option<ErrorCode>,
    /// How many of its requests were refused; of a record with one request, that one.
    pub refused_requests: u64,
    /// Why it was passed over: it is of no request that a cache served.
    pub passed_over: Option<&'static str>,
    /// Requests, tokens and pages by pool: those of its first event first.
    pub shares: Vec<(String, PoolShare)>,
    /// Prompt tokens that were written to the provider's cache, where the log of a preset counts them.
    pub cache_writes: Option<CacheWrites>,
    /// Prompts whose tokens the record states.
    pub stated: StatedPrompts,
    /// Requests of token ids, and those with placeholders of media among them.
    pub placeholders: Placeholders,
    /// When the first and the last of its requests came, in milliseconds of event time.
    pub arrivals: Option<(i64, i64)>,
    /// How the record writes that; nothing where it is the stamp of the record.
    pub time_form: Option<TimeForm>,
}

impl PreparedRecord {
    /// Why a record without a value is passed over.
    pub const TOMBSTONE: &str = "tombstone";

    /// Nothing yet, of a record of this partition.
    pub(super) fn of(partition: Partition) -> Self {
        Self { partition, ..Self::default() }
    }

    /// Notes when one of its requests came.
    pub(super) fn note_arrival(&mut self, (first, last): (i64, i64)) {
        let (earliest, latest) = self.arrivals.get_or_insert((first, last));
        (*earliest, *latest) = ((*earliest).min(first), (*latest).max(last));
    }

    /// What became of it in this pool, so far.
    pub(super) fn share(&mut self, pool: &str) -> &mut PoolShare {
        let at = self.shares.iter().position(|(known, _)| known == pool).unwrap_or_else(|| {
            self.shares.push((pool.to_owned(), PoolShare::default()));
            self.shares.len() - 1
        });
        &mut self.shares[at].1
    }

    /// What became of it in all pools.
    pub fn total(&self) -> PoolShare {
        let mut total = PoolShare::default();
        self.shares.iter().for_each(|(_, share)| total.add(*share));
        total
    }

    /// Adds what became of a further request of the record.
    pub(super) fn add(&mut self, one: Self) {
        self.outputs.extend(one.outputs);
        one.arrivals.into_iter().for_each(|arrivals| self.note_arrival(arrivals));
        self.time_form = one.time_form.or(self.time_form);
        self.stated.add(&one.stated);
        self.placeholders.add(&one.placeholders);
        if let Some(writes) = one.cache_writes {
            self.cache_writes.get_or_insert_default().add(&writes);
        }
        one.shares.iter().for_each(|(pool, share)| self.share(pool).add(*share));
    }

    /// Whether at least as many of its requests were refused as became events.
    pub fn is_mostly_refused(&self) -> bool {
        self.refused.is_some() && self.refused_requests >= self.total().requests
    }
}

/// What became of a record, as far as it is of one pool.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct PoolShare {
    /// Request events.
    pub requests: u64,
    /// Prompt tokens, where they are known.
    pub tokens: u64,
    /// Pages whose ids went out, listed or named.
    pub pages: u64,
}

impl PoolShare {
    /// Adds what another record comes to.
    pub fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.tokens += other.tokens;
        self.pages += other.pages;
    }
}

/// A record of a raw log.
#[derive(Clone)]
pub struct RawRecord<'r> {
    /// Where it is, its key and its value.
    pub source: SourceRecord<'r>,
    /// Its headers.
    pub headers: Vec<(&'r str, &'r [u8])>,
}
