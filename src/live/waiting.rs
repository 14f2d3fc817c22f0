//! What a page that shows no estimate waits for, in words.

use super::api::Filter;
use super::overview::{Overview, PartitionState, PoolState};
use crate::present::words;

/// Longest name of a pool that is shown, in characters.
const MAX_NAME: usize = 60;

/// What the estimate requested waits for; it is a sentence or two.
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
        return match partitions.iter().map(|place| place.waiting_records).sum() {
            0 => "Waiting for the first record of the input.".to_owned(),
            held => held_back(held),
        };
    }
    let wanted = |pool: &&PoolState| filter.pool.as_ref().is_none_or(|name| *name == pool.pool);
    // The pool whose next window is nearest to its end.
    let left = |pool: &&PoolState| Some(pool.next_close_ms?.saturating_sub(pool.watermark_ms?));
    match overview.pools.iter().filter(wanted).filter(|pool| left(pool).is_some()).min_by_key(left) {
        Some(pool) => closing(pool),
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

/// Records came, and none was taken yet.
fn held_back(records: u64) -> String {
    format!(
        "{} came. They are taken in the order in which their requests arrived, once no earlier one can follow: as soon as \
         records say so (complete_before), else estimate.hold_back after their arrival (5 minutes where it is left \
         out), and estimates follow then.",
        words::counted(records, "record", "records")
    )
}

/// A window is open, and only newer records close it.
fn closing(pool: &PoolState) -> String {
    let time = |ms: Option<i64>| ms.map_or_else(|| "unknown".to_owned(), words::clock);
    format!(
        "Waiting for records: a window of pool {} closes once its event time, less its lateness, reaches {} UTC; it \
         stands at {}. Records move it, the clock does not.",
        words::short_name(&pool.pool, MAX_NAME),
        time(pool.next_close_ms),
        time(pool.watermark_ms)
    )
}
