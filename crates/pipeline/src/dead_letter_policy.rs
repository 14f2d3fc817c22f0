//! When refused records are no longer exceptions: limits in a row and as a share.
//!
//! Without them a broken producer drains its topic into the dead letters unnoticed.

use kvset_core::units::ratio::Ratio;
use kvset_formats::codec::{ErrorCode, SourceRecord};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use xxhash_rust::xxh3::xxh3_64;

/// How many refusals are tolerated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadLetterLimits {
    /// Most refused records in a row; one more stops the partition. 0 stops at the first.
    pub max_consecutive: u32,
    /// Largest share of refused records among the last `share_window`, counted in whole records and
    /// rounded up; 1 tolerates any share.
    pub max_share: Ratio,
    /// Records the share is taken over, 1 to 1,048,576; it is not judged before that many were seen.
    pub share_window: u32,
}

impl DeadLetterLimits {
    /// Largest window: its state takes a bit per record.
    pub const MAX_SHARE_WINDOW: u32 = 1 << 20;
}

/// Refusals passed a limit: reading on would only move the topic into the dead letters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeadLetterLimit {
    /// Too many in a row.
    #[error(
        "{count} records in a row were refused, the last one as {code} at offset {offset} of {topic}/{partition} \
         (limit {limit}): producer and pipeline disagree about the format; look at the dead letters, correct \
         the producer or the input settings, or raise max_consecutive"
    )]
    Consecutive {
        /// Refused in a row.
        count: u32,
        /// Tolerated in a row.
        limit: u32,
        /// Code of the last refusal.
        code: ErrorCode,
        /// Topic of the last refusal.
        topic: String,
        /// Its partition.
        partition: i32,
        /// Its offset.
        offset: i64,
    },
    /// Too many among the last records.
    #[error(
        "{count} of the last {window} records were refused, the last one as {code} at offset {offset} of \
         {topic}/{partition} (limit {limit}): look at the dead letters, correct the producers, or raise max_share"
    )]
    Share {
        /// Refused within the window.
        count: u32,
        /// Tolerated within the window.
        limit: u32,
        /// Records in the window.
        window: u32,
        /// Code of the last refusal.
        code: ErrorCode,
        /// Topic of the last refusal.
        topic: String,
        /// Its partition.
        partition: i32,
        /// Its offset.
        offset: i64,
    },
}

/// What the policy remembers of one partition; part of its snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetterState {
    consecutive: u32,
    window: u32,
    seen: u32,
    cursor: u32,
    refused: u32,
    /// A bit for each of the last `window` records, set where it was refused.
    flags: Vec<u64>,
}

impl DeadLetterState {
    fn new(window: u32) -> Self {
        let flags = vec![0; window.div_ceil(64) as usize];
        Self { consecutive: 0, window, seen: 0, cursor: 0, refused: 0, flags }
    }

    fn is_consistent(&self) -> bool {
        let set: u32 = self.flags.iter().map(|word| word.count_ones()).sum();
        (1..=DeadLetterLimits::MAX_SHARE_WINDOW).contains(&self.window)
            && self.flags.len() == self.window.div_ceil(64) as usize
            && self.cursor < self.window
            && self.seen <= self.window
            && self.refused == set
            && set <= self.seen
    }

    /// Moves the window one record on.
    fn push(&mut self, refused: bool) {
        let (word, bit) = ((self.cursor / 64) as usize, 1u64 << (self.cursor % 64));
        self.refused -= u32::from(self.flags[word] & bit != 0);
        self.refused += u32::from(refused);
        self.flags[word] = if refused { self.flags[word] | bit } else { self.flags[word] & !bit };
        self.cursor = (self.cursor + 1) % self.window;
        self.seen = (self.seen + 1).min(self.window);
        self.consecutive = if refused { self.consecutive.saturating_add(1) } else { 0 };
    }
}

/// Records that could not be read, one after another, from the second on that was refused in a row: how many, and
/// hashes of their pools' names. Part of a partition's snapshot, in which a single refused record takes no room.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadRun {
    records: u32,
    pools: BTreeSet<u64>,
}

impl UnreadRun {
    /// What records stand for that name no pool: anybody's.
    const ANYBODY: u64 = 0;
    /// Most pools that are known to be in it. Those beyond are left out: new names that somebody invents are no
    /// reason to hold a partition of which another pool can be read.
    const MAX_POOLS: usize = 1 << 14;

    /// A record of this pool, or of nobody knows whom, could not be read.
    pub fn add(&mut self, pool: Option<&str>) {
        self.records = self.records.saturating_add(1);
        if pool.is_none() || self.pools.len() < Self::MAX_POOLS {
            self.pools.insert(pool.map_or(Self::ANYBODY, |pool| xxh3_64(pool.as_bytes())));
        }
    }

    /// A record was read.
    pub fn end(&mut self) {
        self.records = 0;
        self.pools.clear();
    }

    /// How many there are.
    pub fn records(&self) -> u32 {
        self.records
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Whether all of these pools are in it, so that nothing is left that could be read.
    pub fn is_of_all<'p>(&self, mut pools: impl Iterator<Item = &'p str>) -> bool {
        self.pools.contains(&Self::ANYBODY)
            || pools.all(|pool| self.pools.contains(&xxh3_64(pool.as_bytes())))
    }
}

/// Watches the refusals of one partition. A pure function of the records seen, so a replay from a
/// snapshot stops where the first run stopped.
#[derive(Debug, Clone)]
pub struct DeadLetterPolicy {
    limits: DeadLetterLimits,
    state: DeadLetterState,
}

impl DeadLetterPolicy {
    /// A policy that has seen nothing.
    pub fn new(limits: DeadLetterLimits) -> Self {
        let window = limits.share_window.clamp(1, DeadLetterLimits::MAX_SHARE_WINDOW);
        Self { limits, state: DeadLetterState::new(window) }
    }

    /// A policy that goes on from a snapshot. A state of another window size (or one that
    /// contradicts itself) keeps only the count in a row: the share is judged afresh.
    pub fn resume(limits: DeadLetterLimits, state: DeadLetterState) -> Self {
        let mut policy = Self::new(limits);
        if state.window == policy.state.window && state.is_consistent() {
            policy.state = state;
        } else {
            policy.state.consecutive = state.consecutive;
        }
        policy
    }

    /// What to keep in the snapshot.
    pub fn state(&self) -> &DeadLetterState {
        &self.state
    }

    /// Notes a record that was accepted.
    pub fn accept(&mut self) {
        self.state.push(false);
    }

    /// Notes a record that was refused; one whose code says nothing of the format counts towards no limit, or a single
    /// pool's clock could stop all others.
    ///
    /// # Errors
    /// The limit that is now passed; the record is counted all the same.
    pub fn refuse(&mut self, record: &SourceRecord<'_>, code: ErrorCode) -> Result<(), DeadLetterLimit> {
        if !code.is_of_format() {
            return Ok(());
        }
        self.count_refused();
        let (topic, partition, offset) = (|| record.topic.to_owned(), record.partition, record.offset);
        let (count, limit) = (self.state.consecutive, self.limits.max_consecutive);
        if count > limit {
            return Err(DeadLetterLimit::Consecutive {
                count,
                limit,
                code,
                topic: topic(),
                partition,
                offset,
            });
        }
        let (count, window, limit) = (self.state.refused, self.state.window, self.most_refused());
        if self.is_share_passed() {
            return Err(DeadLetterLimit::Share {
                count,
                limit,
                window,
                code,
                topic: topic(),
                partition,
                offset,
            });
        }
        Ok(())
    }

    /// Whether the last record was refused.
    pub fn is_in_row(&self) -> bool {
        self.state.consecutive > 0
    }

    /// Notes a record that was refused, whatever its code.
    pub fn count_refused(&mut self) {
        self.state.push(true);
    }

    /// Whether a limit is passed as things stand.
    pub fn is_over_limit(&self) -> bool {
        self.state.consecutive > self.limits.max_consecutive || self.is_share_passed()
    }

    fn is_share_passed(&self) -> bool {
        self.state.seen == self.state.window && self.state.refused > self.most_refused()
    }

    /// Most refused records in a window. A share of at most 1 of a u32 is a u32.
    fn most_refused(&self) -> u32 {
        self.limits.max_share.ceil_of(u64::from(self.state.window)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RECORD: SourceRecord<'static> = SourceRecord {
        schema_header: None,
        topic: "requests",
        partition: 3,
        offset: 77,
        timestamp_ms: None,
        key: None,
        value: None,
    };

    fn limits(max_consecutive: u32, max_share: &str, share_window: u32) -> DeadLetterLimits {
        DeadLetterLimits { max_consecutive, max_share: max_share.parse().expect("a share"), share_window }
    }

    fn step(policy: &mut DeadLetterPolicy, refused: bool) -> Result<(), DeadLetterLimit> {
        if refused {
            return policy.refuse(&RECORD, ErrorCode::Undecodable);
        }
        policy.accept();
        Ok(())
    }

    proptest! {
        #[test]
        fn stops_exactly_where_a_list_of_all_records_says_and_survives_snapshots(
            records in prop::collection::vec(prop::bool::weighted(0.4), 0..400),
            max_consecutive in 0u32..8,
            share in prop::sample::select(vec!["0", "0.1", "0.333", "0.5", "1"]),
            window in 1u32..130,
        ) {
            let limits = limits(max_consecutive, share, window);
            let mut policy = DeadLetterPolicy::new(limits);
            for end in 1..=records.len() {
                let stopped = step(&mut policy, records[end - 1]);
                let row = records[..end].iter().rev().take_while(|refused| **refused).count();
                let last = &records[end.saturating_sub(window as usize)..end];
                let refused = last.iter().filter(|refused| **refused).count() as u64;
                let expected = records[end - 1]
                    && (row > max_consecutive as usize
                        || (end >= window as usize && refused > limits.max_share.ceil_of(u64::from(window))));
                prop_assert_eq!(stopped.is_err(), expected);
                let text = serde_json::to_string(policy.state()).unwrap();
                let state: DeadLetterState = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(&state, policy.state());
                policy = DeadLetterPolicy::resume(limits, state);
            }
        }
    }

    /// A pool whose clock was ahead stopped the others of its partition.
    #[test]
    fn a_clock_that_is_ahead_stops_nobody() {
        let mut policy = DeadLetterPolicy::new(limits(0, "0", 2));
        (0..10).for_each(|_| policy.refuse(&RECORD, ErrorCode::EventTimeAhead).expect("its own trouble"));
        assert!(step(&mut policy, true).is_err());
    }

    #[test]
    fn the_error_names_what_where_and_what_to_do() {
        let mut policy = DeadLetterPolicy::new(limits(0, "1", 10));
        let text = step(&mut policy, true).unwrap_err().to_string();
        for part in ["1 records in a row", "undecodable", "offset 77 of requests/3", "max_consecutive"] {
            assert!(text.contains(part), "`{text}` lacks `{part}`");
        }
    }

    #[test]
    fn a_state_that_contradicts_itself_cannot_make_it_panic() {
        let rotten =
            DeadLetterState { consecutive: 2, window: 10, seen: 3, cursor: 99, refused: 7, flags: vec![] };
        let mut policy = DeadLetterPolicy::resume(limits(2, "0.5", 10), rotten);
        assert!(step(&mut policy, true).is_err(), "the count in a row is kept");
        assert!((0..100).all(|_| step(&mut policy, false).is_ok()));
    }

    /// From the 257th name on they counted as anybody's, and a partition of which another pool could be read was held.
    #[test]
    fn newcomers_of_many_names_that_cannot_be_read_are_not_everybody() {
        let mut run = UnreadRun::default();
        (0..20_000).for_each(|name| run.add(Some(&format!("new-{name}"))));
        assert_eq!(run.records(), 20_000);
        assert!(!run.is_of_all(["good"].into_iter()));
        assert!(run.is_of_all(["new-0", "new-9999"].into_iter()));
        run.add(None);
        assert!(run.is_of_all(["good"].into_iter()), "nobody knows whose that is");
    }
}
