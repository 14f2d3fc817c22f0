//! From what is requested to offsets: questions to the brokers.

use super::BackfillError;
use super::place::{BackfillPlaces, BackfillWarmUp, LogPlace, PlaceContext, RangeError, between};
use crate::backoff::{ANSWER, answered};
use crate::clock::SystemClock;
use kvset_core::units::{EventTime, Offset};
use kvset_formats::position::{LogRange, NextOffset, Partition};
use kvset_kafka::kafka::KafkaFailure;
use kvset_kafka::kafka::config::Connection;
use kvset_kafka::kafka::lookup::RecordLookup;
use kvset_kafka::kafka::offsets::{NotedOffset, Offsets};
use kvset_pipeline::gaps::OffsetGaps;
use kvset_pipeline::offset_range::OffsetRange;
use kvset_pipeline::task::TaskConfig;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

/// Most records in a row that cannot be decoded before a search takes them for the newest there are.
const MAX_UNREADABLE: usize = 100;

/// What is requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedRange {
    /// Where to begin to count.
    pub from: BackfillPlaces,
    /// Where to end.
    pub to: BackfillPlaces,
    /// What comes before.
    pub warm_up: BackfillWarmUp,
}

/// The log of one topic, to be asked.
pub(super) struct TopicLog<'a> {
    pub(super) connection: &'a Connection,
    pub(super) task: &'a TaskConfig,
    pub(super) partitions: NonZeroU32,
    /// The live group, whose committed offsets are read and never moved.
    pub(super) group: &'a str,
    pub(super) retry_for: Duration,
}

impl TopicLog<'_> {
    fn partitions(&self) -> Vec<Partition> {
        (0..self.partitions.get()).filter_map(|number| i32::try_from(number).ok()).map(Partition).collect()
    }

    /// What is committed and noted under this name.
    pub(super) fn noted(&self, group: &str) -> Result<Vec<(Partition, Option<NotedOffset>)>, KafkaFailure> {
        let (partitions, topic) = (self.partitions(), self.task.topic.as_str());
        let committed = |offsets: &Offsets| self.ask(|| offsets.noted(&partitions, ANSWER));
        // A killed process may have left a transaction open. Every note of a run is the same, so
        // there is no need to wait for it, unless it holds the first one.
        let seen = committed(&Offsets::undecided(self.connection, group, topic)?)?;
        if seen.iter().any(|(_, noted)| noted.is_some()) {
            return Ok(seen);
        }
        committed(&Offsets::open(self.connection, group, topic)?)
    }

    /// Offsets that cannot be read, as recorded for this group.
    pub(super) fn gaps(&self, group: &str) -> Result<BTreeMap<Partition, OffsetGaps>, KafkaFailure> {
        let noted = self.noted(group)?.into_iter();
        // Another note is of somebody else, and says nothing of gaps.
        Ok(noted.filter_map(|(partition, noted)| Some((partition, noted?.note.parse().ok()?))).collect())
    }

    fn ask<T>(&self, ask: impl Fn() -> Result<T, KafkaFailure>) -> Result<T, KafkaFailure> {
        answered(&SystemClock, self.retry_for, ask)
    }

    /// What to read of each partition that holds anything between the places.
    pub(super) fn offset_ranges(
        &self,
        range: &RequestedRange,
    ) -> Result<BTreeMap<Partition, OffsetRange>, BackfillError> {
        let topic = self.task.topic.as_str();
        self.check_names(range)?;
        let offsets = Offsets::open(self.connection, self.group, topic)?;
        let mut lookup = None;
        let mut offset_ranges = BTreeMap::new();
        for partition in self.partitions() {
            let Some(from) = range.from.of(partition) else { continue };
            let to = range.to.of(partition).unwrap_or(LogPlace::Latest);
            let log = self.ask(|| offsets.log_range(partition, ANSWER))?;
            let near_from = self.surroundings(&offsets, partition, log, from)?;
            let near_to = self.surroundings(&offsets, partition, log, to)?;
            let (count_from, end) = between(partition, (from, &near_from), (to, &near_to))?;
            if count_from == end {
                continue;
            }
            let begin = match range.warm_up {
                BackfillWarmUp::None => count_from,
                BackfillWarmUp::All => log.start,
                BackfillWarmUp::Offsets(count) => {
                    let count = i64::try_from(count).unwrap_or(i64::MAX);
                    NextOffset(count_from.0.saturating_sub(count)).max(log.start)
                }
                BackfillWarmUp::Time(span) => {
                    let lookup = match &mut lookup {
                        Some(lookup) => lookup,
                        None => lookup.insert(RecordLookup::open(self.connection, topic)?),
                    };
                    self.earlier(lookup, partition, log.start..count_from, span)?
                }
            };
            offset_ranges.insert(partition, OffsetRange { begin, count_from, end });
        }
        if offset_ranges.is_empty() {
            let (from, to) = (range.from.to_string(), range.to.to_string());
            return Err(RangeError::Empty { from, to, topic: topic.to_owned() }.into());
        }
        Ok(offset_ranges)
    }

    fn check_names(&self, range: &RequestedRange) -> Result<(), RangeError> {
        let named = range.from.named().chain(range.to.named());
        for partition in named {
            if i64::from(partition.0) >= i64::from(self.partitions.get()) {
                let (topic, last) = (self.task.topic.clone(), i64::from(self.partitions.get()) - 1);
                return Err(RangeError::NoSuchPartition { partition, topic, last });
            }
        }
        match range.to.named().find(|partition| range.from.of(*partition).is_none()) {
            Some(partition) => Err(RangeError::NotBegun(partition)),
            None => Ok(()),
        }
    }

    fn surroundings(
        &self,
        offsets: &Offsets,
        partition: Partition,
        log: LogRange,
        place: LogPlace,
    ) -> Result<PlaceContext, KafkaFailure> {
        let mut known = PlaceContext { log, moment: None, committed: None };
        match place {
            LogPlace::Moment(timestamp_ms) => {
                known.moment = self.ask(|| offsets.at(partition, timestamp_ms, ANSWER))?;
            }
            LogPlace::Committed => {
                let found = self.ask(|| offsets.committed(&[partition], ANSWER))?;
                known.committed = found.first().and_then(|(_, next)| *next);
            }
            LogPlace::Offset(_) | LogPlace::Earliest | LogPlace::Latest => {}
        }
        Ok(known)
    }

    /// The first offset of the range, which is taken to be in order of event time, whose record is no
    /// more than `span` earlier than the one after the range.
    fn earlier(
        &self,
        lookup: &RecordLookup,
        partition: Partition,
        range: std::ops::Range<NextOffset>,
        span: Duration,
    ) -> Result<NextOffset, KafkaFailure> {
        let mut decoder = self.task.decoder();
        let mut event_time = |at: NextOffset| {
            let mut offset = Offset(at.0);
            for _ in 0..MAX_UNREADABLE {
                let Some(record) = self.ask(|| lookup.record(partition, offset, ANSWER))? else { break };
                let payload = record.payload();
                // What is not known now is looked up again when the record is processed.
                drop(decoder.look_up(payload));
                if let Ok(decoded) = decoder.decode(record.key.as_deref(), payload) {
                    return Ok(Some((record.offset, decoded.event.event_time)));
                }
                offset = Offset(NextOffset::after(record.offset).0);
            }
            Ok(None)
        };
        let Some((_, first)) = event_time(range.end)? else { return Ok(range.end) };
        let span = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        first_at(range, EventTime(first.0.saturating_sub(span)), event_time)
    }
}

/// The first offset of a range in order of event time whose record is not before `time`; the range's end
/// where there is none. `event_time` gives the next record's offset and time.
fn first_at<E>(
    range: std::ops::Range<NextOffset>,
    time: EventTime,
    mut event_time: impl FnMut(NextOffset) -> Result<Option<(i64, EventTime)>, E>,
) -> Result<NextOffset, E> {
    let (mut low, mut high) = (range.start.0, range.end.0);
    while low < high {
        let middle = low + (high - low) / 2;
        match event_time(NextOffset(middle))? {
            Some((offset, found)) if offset < high && found < time => low = offset + 1,
            _ => high = middle,
        }
    }
    Ok(NextOffset(low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    proptest! {
        #[test]
        fn the_search_finds_what_a_scan_finds(
            steps in prop::collection::vec((1i64..4, 0i64..5), 0..40),
            start in 0i64..30, length in 0i64..60, time in 0i64..100,
        ) {
            // Offsets with gaps, event times in order.
            let mut log = Vec::new();
            let (mut offset, mut at) = (0, 0);
            for (gap, later) in steps {
                (offset, at) = (offset + gap, at + later);
                log.push((offset, EventTime(at)));
            }
            let range = NextOffset(start)..NextOffset(start + length);
            let next = |from: NextOffset| {
                Ok::<_, Infallible>(log.iter().find(|(offset, _)| *offset >= from.0).copied())
            };
            let Ok(found) = first_at(range.clone(), EventTime(time), next);
            // What lies before it in the range is earlier, what lies in the rest of it is not.
            prop_assert!(range.start <= found && found <= range.end);
            for (offset, at) in log.iter().filter(|(offset, _)| range.contains(&NextOffset(*offset))) {
                prop_assert_eq!(*offset >= found.0, at.0 >= time);
            }
        }
    }
}
