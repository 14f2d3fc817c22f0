//! Facts a resume decision is made from: which partition, which configuration, which records.
//!
//! Pure values; stores and brokers fill them in, the decision only compares them.

use super::resume::LastRecord;
use kvset_core::units::Offset;
use kvset_formats::position::NextOffset;
use serde::{Deserialize, Serialize};
use std::fmt;
use xxhash_rust::xxh3::Xxh3;

/// One partition of one topic.
///
/// The topic's name is checked to be one Kafka allows, so that it is safe as part of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct PartitionId {
    topic: Box<str>,
    partition: i32,
}

/// Why a topic and a number name no partition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPartition {
    /// Kafka refuses such a name too.
    #[error(
        "a topic's name has 1 to 249 letters, digits, dots, underscores or hyphens and is not `.` or `..`; \
         this one has {length} bytes: correct the topic's name"
    )]
    Topic {
        /// Bytes of the name.
        length: usize,
    },
    /// Partitions are numbered from 0.
    #[error("partition {0} does not exist: partitions are numbered from 0")]
    Number(i32),
}

impl PartitionId {
    /// Longest topic name Kafka allows, in bytes.
    pub const MAX_TOPIC_BYTES: usize = 249;

    /// Names a partition.
    ///
    /// # Errors
    /// [`InvalidPartition`] for a name Kafka would refuse and for a negative number.
    pub fn new(topic: &str, partition: i32) -> Result<Self, InvalidPartition> {
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let fits = (1..=Self::MAX_TOPIC_BYTES).contains(&topic.len());
        if !fits || !topic.bytes().all(is_legal) || topic == "." || topic == ".." {
            return Err(InvalidPartition::Topic { length: topic.len() });
        }
        if partition < 0 {
            return Err(InvalidPartition::Number(partition));
        }
        Ok(Self { topic: topic.into(), partition })
    }

    /// Reads `topic-partition`, the form [`Display`](fmt::Display) writes; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let (topic, digits) = text.rsplit_once('-')?;
        let id = Self::new(topic, digits.parse().ok()?).ok()?;
        (id.to_string() == text).then_some(id)
    }

    /// The topic's name.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The partition's number, never negative.
    pub fn partition(&self) -> i32 {
        self.partition
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// A hash of everything in the configuration that shapes results: state made under another one
/// means something else and is rebuilt, never reinterpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(pub u64);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What tells a record from another one that came to stand at its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RecordIdentity {
    /// The record's own offset.
    pub offset: Offset,
    /// The record's time stamp as the broker keeps it, milliseconds since the Unix epoch; -1 for none.
    pub timestamp_ms: i64,
    /// Hash of key and payload.
    pub digest: u64,
}

impl RecordIdentity {
    /// The identity of a record with these bytes; an absent key differs from an empty one.
    pub fn of(offset: Offset, timestamp_ms: i64, key: Option<&[u8]>, payload: Option<&[u8]>) -> Self {
        let mut hasher = Xxh3::new();
        for part in [key, payload] {
            // The length goes first, so that bytes cannot move from the key to the payload unseen.
            let length = part.map_or(u64::MAX, |bytes| bytes.len() as u64);
            hasher.update(&length.to_le_bytes());
            hasher.update(part.unwrap_or_default());
        }
        Self { offset, timestamp_ms, digest: hasher.digest() }
    }
}

/// What a snapshot says of the log it was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotFact {
    /// Every record before this offset is in the state, and no other.
    pub next_offset: NextOffset,
    /// The configuration the state was made under.
    pub fingerprint: Fingerprint,
    /// The last record in the state; `None` when it has seen none.
    pub last_record: Option<RecordIdentity>,
}

impl SnapshotFact {
    /// Compares the state's last record with the one the log holds at its offset, `None` when the log
    /// holds none there.
    pub fn last_record_in_log(&self, found: Option<&RecordIdentity>) -> LastRecord {
        match (self.last_record, found) {
            (Some(expected), Some(found)) if found.offset == expected.offset => {
                if *found == expected {
                    LastRecord::Same
                } else {
                    LastRecord::Different
                }
            }
            _ => LastRecord::Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_read_back_as_written_and_a_hostile_topic_is_refused() {
        for (topic, partition) in [("requests", 0), ("a-1", 2), ("x.y_z-", i32::MAX)] {
            let id = PartitionId::new(topic, partition).expect("a legal name");
            assert_eq!(PartitionId::parse(&id.to_string()), Some(id));
        }
        let long = "t".repeat(250);
        for topic in ["", ".", "..", "../etc", "a/b", "a b", "a\0", &long] {
            let refused = PartitionId::new(topic, 0);
            assert_eq!(refused, Err(InvalidPartition::Topic { length: topic.len() }));
        }
        assert_eq!(PartitionId::new("a", -1), Err(InvalidPartition::Number(-1)));
        for text in ["a", "a-", "a-+1", "a-01", "a-99999999999"] {
            assert_eq!(PartitionId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_record_is_told_from_any_other_one() {
        let identity = |key, payload| RecordIdentity::of(Offset(7), 5, key, payload);
        let records = [
            identity(None, None),
            identity(Some(&b""[..]), None),
            identity(None, Some(&b""[..])),
            identity(Some(&b"ab"[..]), Some(&b"c"[..])),
            identity(Some(&b"a"[..]), Some(&b"bc"[..])),
        ];
        for (at, record) in records.iter().enumerate() {
            assert!(!records[..at].contains(record));
        }
    }

    #[test]
    fn another_record_at_the_last_ones_offset_is_noticed() {
        let last = RecordIdentity::of(Offset(7), 5, None, Some(b"x"));
        let (next_offset, fingerprint) = (NextOffset(9), Fingerprint(1));
        let fact = SnapshotFact { next_offset, fingerprint, last_record: Some(last) };
        assert_eq!(fact.last_record_in_log(Some(&last)), LastRecord::Same);
        for other in [RecordIdentity { timestamp_ms: 6, ..last }, RecordIdentity { digest: 0, ..last }] {
            assert_eq!(fact.last_record_in_log(Some(&other)), LastRecord::Different);
        }
        let elsewhere = RecordIdentity { offset: Offset(8), ..last };
        assert_eq!(fact.last_record_in_log(Some(&elsewhere)), LastRecord::Gone);
        assert_eq!(fact.last_record_in_log(None), LastRecord::Gone);
        let empty = SnapshotFact { last_record: None, ..fact };
        assert_eq!(empty.last_record_in_log(Some(&last)), LastRecord::Gone);
    }
}
