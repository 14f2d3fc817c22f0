//! Which groups have written to an output topic: two that write under the same keys hide each other's records.

use super::config::Connection;
use super::lookup::RecordLookup;
use super::offsets::Offsets;
use super::sink::{GROUP_HEADER, OutputTopic};
use kvset_core::units::Offset;
use kvset_formats::position::Partition;
use kvset_pipeline::publish::KafkaFailure;
use std::collections::BTreeSet;
use std::time::Duration;

/// Most partitions that are looked at.
const PARTITIONS: i32 = 8;
/// How far from the end of a partition the record lies that is looked at: behind it may be the marks of transactions.
const BACK: i64 = 8;

/// The other groups that made the newest estimates of some partitions of this topic, as `group` sees it.
///
/// # Errors
/// The brokers do not answer within `timeout`, or refuse.
pub fn other_groups(
    connection: &Connection,
    group: &str,
    topic: &OutputTopic,
    timeout: Duration,
) -> Result<BTreeSet<String>, KafkaFailure> {
    let offsets = Offsets::open(connection, group, &topic.name)?;
    let lookup = RecordLookup::open(connection, &topic.name)?;
    let mut others = BTreeSet::new();
    let partitions = i32::try_from(topic.partitions.get()).unwrap_or(PARTITIONS).min(PARTITIONS);
    for partition in (0..partitions).map(Partition) {
        let range = offsets.log_range(partition, timeout)?;
        if range.start >= range.end {
            continue;
        }
        let at = Offset(range.start.0.max(range.end.0.saturating_sub(BACK)));
        let record = lookup.record(partition, at, timeout)?;
        let headers = record.into_iter().flat_map(|record| record.headers);
        let named = headers.filter(|(name, _)| name == GROUP_HEADER);
        others.extend(named.map(|(_, value)| String::from_utf8_lossy(&value).into_owned()));
    }
    others.remove(group);
    Ok(others)
}

/// That these groups wrote to the topic, too, and what to do.
pub fn shared_topic(topic: &str, group: &str, others: &BTreeSet<String>) -> String {
    let others = others.iter().map(|other| format!("`{other}`")).collect::<Vec<_>>().join(", ");
    format!(
        "topic `{topic}` (output.topic) holds estimates of group {others}: if that still runs, the two write under the same \
         keys, and compaction keeps one of them. Give group `{group}` an output.topic of its own, or stop the other"
    )
}
