//! Records that the client cannot read, and where they are.
//!
//! The client says that a batch cannot be read, and neither of which partition nor at which offset. So each partition
//! is tried by itself, from where it was read to.

use super::config::Connection;
use super::lookup::RecordLookup;
use super::member::UnreadableRecords;
use kvset_core::units::Offset;
use kvset_formats::position::{LogRange, NextOffset, Partition};
use kvset_pipeline::gaps::{GapError, OffsetGap};
use kvset_pipeline::publish::KafkaFailure;
use std::time::Duration;

/// Longest wait for a broker's answer while a place is looked for.
const ANSWER: Duration = Duration::from_secs(10);

/// Offsets of a range that are tried one by one, to find records between batches that cannot be read.
const TRIES: i64 = 256;

/// Looks for what cannot be read from these offsets on, partition by partition; `None` where all can.
pub(super) fn find(
    connection: &Connection,
    topic: &str,
    positions: impl IntoIterator<Item = (Partition, NextOffset)>,
) -> Result<Option<UnreadableRecords>, KafkaFailure> {
    let lookup = RecordLookup::open(connection, topic)?;
    for (partition, next) in positions {
        if let Some(reason) = lookup.unreadable(partition, Offset(next.0), ANSWER)? {
            return Ok(Some(UnreadableRecords { partition, offset: next.0, reason }));
        }
    }
    Ok(None)
}

/// Why there is nothing to pass.
#[derive(Debug, thiserror::Error)]
pub enum NoGap {
    /// The brokers.
    #[error(transparent)]
    Kafka(#[from] KafkaFailure),
    /// A record is there.
    #[error(
        "offset {offset} of {topic}/{partition} can be read: nothing there has to be passed; give the offset that \
         the service names"
    )]
    Readable {
        /// The topic.
        topic: String,
        /// The partition.
        partition: Partition,
        /// The offset.
        offset: i64,
    },
    /// No range.
    #[error(transparent)]
    Range(#[from] GapError),
}

/// The offsets that cannot be read from this one on, which is the first of them.
///
/// # Errors
/// [`NoGap`].
pub fn gap_at(
    connection: &Connection,
    topic: &str,
    partition: Partition,
    offset: i64,
    log: LogRange,
) -> Result<OffsetGap, NoGap> {
    let lookup = RecordLookup::open(connection, topic)?;
    let mut is_readable = |at: i64| -> Result<bool, KafkaFailure> {
        Ok(lookup.unreadable(partition, Offset(at), ANSWER)?.is_none())
    };
    if is_readable(offset)? {
        return Err(NoGap::Readable { topic: topic.to_owned(), partition, offset });
    }
    Ok(OffsetGap::new(offset, end_of_gap(offset, log.end.0, &mut is_readable)?)?)
}

/// The first offset after `start`, which cannot be read, from which on something can: at most `end`, the log's.
///
/// A batch that cannot be read fails at each of its offsets, so the end of one is found by halving. Behind it may be
/// one that can be read and then another that cannot: offsets in between are tried, all of them where they are few.
fn end_of_gap<E>(
    start: i64,
    end: i64,
    is_readable: &mut impl FnMut(i64) -> Result<bool, E>,
) -> Result<i64, E> {
    let (mut fails, mut step) = (start, 1);
    let mut works = end.max(start + 1);
    while fails + step < works {
        if is_readable(fails + step)? {
            works = fails + step;
        } else {
            fails += step;
            step *= 2;
        }
    }
    let stride = ((works - start) / TRIES).max(1);
    fails = start;
    while fails + stride < works {
        if is_readable(fails + stride)? {
            works = fails + stride;
        } else {
            fails += stride;
        }
    }
    while fails + 1 < works {
        let middle = fails + (works - fails) / 2;
        if is_readable(middle)? { works = middle } else { fails = middle }
    }
    Ok(works)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ops::Range;
    use std::slice;

    fn found(bad: &[Range<i64>], start: i64, end: i64) -> (i64, usize) {
        let mut tries = 0;
        let mut is_readable = |at: i64| {
            tries += 1;
            Ok::<_, ()>(!bad.iter().any(|batch| batch.contains(&at)))
        };
        (end_of_gap(start, end, &mut is_readable).expect("no brokers"), tries)
    }

    proptest! {
        #[test]
        fn the_end_is_that_of_the_batch_whatever_follows(
            start in 0i64..1000, length in 1i64..200, between in 8i64..40, next in 0i64..200, rest in 0i64..2000,
        ) {
            let end = start + length;
            let second = end + between..end + between + next;
            let log_end = second.end + rest;
            let (at, _) = found(&[start..end, second], start, log_end);
            prop_assert_eq!(at, end);
        }
    }

    #[test]
    fn a_log_that_ends_in_such_a_batch_is_passed_to_its_end_in_few_tries() {
        assert_eq!(found(slice::from_ref(&(7..5000)), 7, 5000).0, 5000);
        let (at, tries) = found(slice::from_ref(&(7..100_000)), 7, 10_000_000);
        assert!(at == 100_000 && tries < 400, "{at} after {tries}");
        assert_eq!(found(slice::from_ref(&(7..8)), 7, 8).0, 8);
    }
}
