//! What a page that shows no estimate waits for, in words.

use super::api::Filter;
use super::overview::{Overview, PartitionState};
use crate::report::words;

/// What the estimate asked for waits for; it is a sentence or two.
pub(super) fn waiting(overview: &Overview, filter: &Filter) -> String {
    let asked = overview.pools.iter().find(|pool| filter.pool.as_ref() == Some(&pool.pool));
    let partitions: Vec<&PartitionState> = match asked {
        Some(pool) => overview.partitions.iter().filter(|place| place.partition == pool.partition).collect(),
        None => overview.partitions.iter().collect(),
    };
    if partitions.is_empty() {
        return "Waiting for the consumer group to assign partitions to this instance.".to_owned();
    }
    if let Some(place) = partitions.iter().find(|place| place.restoring) {
        return catching_up(place);
    }
    if partitions.iter().all(|place| place.watermark_ms.is_none()) {
        return "Waiting for the first record of the input topic.".to_owned();
    }
    // The partition whose next window is nearest to its end.
    let left = |place: &&&PartitionState| Some(place.next_close_ms?.saturating_sub(place.watermark_ms?));
    match partitions.iter().filter(|place| left(place).is_some()).min_by_key(left) {
        Some(place) => closing(place),
        None => "Waiting for a record that opens a window.".to_owned(),
    }
}

/// The state is being brought to where results were published.
fn catching_up(place: &PartitionState) -> String {
    let next = place.next_offset.unwrap_or(0);
    let left = u64::try_from(place.publish_from.saturating_sub(next)).unwrap_or(0);
    format!(
        "Waiting for partition {} to catch up with what was published before: {} to go.",
        place.partition,
        words::counted(left, "offset", "offsets")
    )
}

/// A window is open, and only newer records close it.
fn closing(place: &PartitionState) -> String {
    let time = |ms: Option<i64>| ms.map_or_else(|| "unknown".to_owned(), words::clock);
    format!(
        "Waiting for records: a window of partition {} closes once its event time, less the allowed lateness, \
         reaches {} UTC; it stands at {}. Records move it, the clock does not.",
        place.partition,
        time(place.next_close_ms),
        time(place.watermark_ms)
    )
}
