//! Where to take up a partition: a pure decision over facts (docs/design.md, section 4).
//!
//! ```text
//!   log start          S = snapshot         C = committed            log end
//!      |-------------------|--------------------|----------------------|
//!                          '-- replayed, muted -'-- processed, published
//! ```
//!
//! The log is the truth and a snapshot a cache of it, so every decision replays from a point at or
//! before `C` and publishes from exactly `C` on.

use kvset_formats::position::{LogRange, NextOffset};
pub use kvset_formats::position::{LostHistory, StartFrom};
use std::fmt::Display;

/// What the log says about the last record a snapshot was built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastRecord {
    /// It is still there and the same.
    Same,
    /// Another record is at its offset: the topic was recreated or cut off.
    Different,
    /// It has expired or was compacted away, or the snapshot is of an empty log.
    Gone,
}

/// Whether a snapshot can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotHealth {
    /// Whole, of this configuration and this partition.
    Sound,
    /// Torn or rotten.
    Damaged,
    /// Written under another configuration, for another partition or in another format version.
    Foreign,
}

/// A snapshot that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotFacts {
    /// `S`: the state before this offset is in it.
    pub next_offset: NextOffset,
    /// Whether it can be read.
    pub health: SnapshotHealth,
    /// Whether it was built from this log.
    pub last_record: LastRecord,
}

/// Everything the decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct ResumeFacts<'a> {
    /// `C`: the group's stable committed offset, if it has one.
    pub committed: Option<NextOffset>,
    /// What the log holds.
    pub log: LogRange,
    /// Snapshots found, in any order.
    pub snapshots: &'a [SnapshotFacts],
    /// How far a state has come that stayed in memory when the partition was given up in order.
    pub parked: Option<NextOffset>,
    /// Where to begin without a committed offset.
    pub start: StartFrom,
    /// What to do where history is missing.
    pub lost_history: LostHistory,
}

/// Where the state comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Nothing was processed before.
    Fresh,
    /// The state that stayed in memory.
    Parked,
    /// The snapshot at this index of [`ResumeFacts::snapshots`].
    Snapshot(usize),
    /// No usable snapshot: every record that is left is processed again.
    Rebuild,
}

/// How to take up the partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resume {
    /// Where the state comes from.
    pub origin: Origin,
    /// First offset to process.
    pub replay_from: NextOffset,
    /// First offset whose outputs are published; those of earlier records are known to be out.
    pub publish_from: NextOffset,
    /// First offset that counts in windows; earlier records only warm the state up. 0 where all count.
    pub count_from: NextOffset,
    /// Records the state should hold are missing, so hits are under-counted.
    pub warm_up: bool,
    /// Indexes of snapshots that should be set aside, never to be tried again.
    pub set_aside: Vec<usize>,
    /// One line for the operator.
    pub explanation: String,
}

impl Resume {
    /// To process and publish everything from this offset on, with nothing missing.
    fn at(origin: Origin, at: NextOffset, explanation: String) -> Self {
        let set_aside = Vec::new();
        Self {
            origin,
            replay_from: at,
            publish_from: at,
            count_from: ALL,
            warm_up: false,
            set_aside,
            explanation,
        }
    }

    /// To begin at the first record of a log that nobody has read.
    pub fn from_start() -> Self {
        Self::at(Origin::Fresh, NextOffset(0), "starting at offset 0".to_owned())
    }
}

/// Why the partition is not taken up, with the way out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResumeRefusal {
    /// The log is shorter than what was processed of it, or holds other records.
    #[error(
        "the input log is not the one this group consumed: {evidence}; the topic was recreated or truncated. \
         Start over under a new group name, or reset the group's offsets and remove this partition's snapshots"
    )]
    OtherLog {
        /// What does not fit.
        evidence: String,
    },
    /// Records were deleted before they were processed, or before they could be replayed.
    #[error(
        "records {from} to {to} (exclusive) are needed and no longer in the log, which begins at {to}. \
         Set state.lost_history = \"rebuild\" to go on without them; estimates are then marked warm_up"
    )]
    HistoryLost {
        /// First offset needed.
        from: NextOffset,
        /// First offset there is.
        to: NextOffset,
    },
    /// Snapshots show progress of which the broker knows nothing.
    #[error(
        "a snapshot holds the state before offset {snapshot}, but the group has no committed offset: it expired, was \
         deleted, or went with its topic, which was created anew. Remove this partition's snapshots to start over, or \
         set the group's offset to {snapshot} where the log is the same as before"
    )]
    ProgressForgotten {
        /// `S` of the newest sound snapshot.
        snapshot: NextOffset,
    },
}

/// Refuses a topic that has another id than it had when its partitions were taken up: it was created anew since. Topics
/// of brokers that give them no ids pass.
///
/// # Errors
/// [`ResumeRefusal::OtherLog`].
pub fn check_same_topic<I: PartialEq + Display>(
    before: Option<&I>,
    now: Option<&I>,
) -> Result<(), ResumeRefusal> {
    match (before, now) {
        (Some(before), Some(now)) if before != now => {
            let evidence = format!("the topic's id was {before} when this process began, and is {now}");
            Err(ResumeRefusal::OtherLog { evidence })
        }
        _ => Ok(()),
    }
}

/// Every record counts.
const ALL: NextOffset = NextOffset(0);

/// Decides where to take up a partition.
pub fn decide(facts: &ResumeFacts<'_>) -> Result<Resume, ResumeRefusal> {
    check_same_log(facts)?;
    let set_aside = damaged(facts);
    let mut resume = match facts.committed {
        None => fresh(facts)?,
        Some(committed) if is_parked_at(facts, committed) => unpark(committed),
        Some(committed) => match newest_usable(facts, committed) {
            Some(index) => restore(facts, index, committed)?,
            None => rebuild(facts, committed)?,
        },
    };
    if let Some(parked) = facts.parked.filter(|_| resume.origin != Origin::Parked) {
        resume.explanation += &format!("; the state kept in memory is at {parked} and is dropped");
    }
    if !set_aside.is_empty() {
        resume.explanation += &format!("; {} damaged snapshot(s) set aside", set_aside.len());
    }
    Ok(Resume { set_aside, ..resume })
}

/// Decides where a stage without state takes up a partition: where the group left it.
///
/// # Errors
/// [`ResumeRefusal`], as for [`decide`].
pub fn decide_stateless(facts: &ResumeFacts<'_>) -> Result<Resume, ResumeRefusal> {
    check_same_log(facts)?;
    let Some(committed) = facts.committed else {
        let fresh = fresh(facts)?;
        let explanation = format!("new group: starting at offset {}", fresh.replay_from);
        return Ok(Resume { explanation, warm_up: false, ..fresh });
    };
    let gap = history_lost(facts, committed)?;
    let at = committed.max(facts.log.start);
    let explanation = match gap {
        true => format!("records {committed} to {at} are gone: going on from there"),
        false => format!("going on at the committed offset {at}"),
    };
    Ok(Resume::at(Origin::Fresh, at, explanation))
}

/// Refuses a log that cannot be the one the group consumed.
fn check_same_log(facts: &ResumeFacts<'_>) -> Result<(), ResumeRefusal> {
    let LogRange { end, .. } = facts.log;
    if let Some(committed) = facts.committed.filter(|committed| *committed > end) {
        let evidence = format!("committed offset {committed} is past the log's end {end}");
        return Err(ResumeRefusal::OtherLog { evidence });
    }
    let sound = facts.snapshots.iter().filter(|snapshot| snapshot.health == SnapshotHealth::Sound);
    for snapshot in sound {
        let at = snapshot.next_offset;
        if snapshot.last_record == LastRecord::Different {
            let evidence =
                format!("the record before offset {at} differs from the one a snapshot was built from");
            return Err(ResumeRefusal::OtherLog { evidence });
        }
        if at > end {
            let evidence = format!("a snapshot at offset {at} is past the log's end {end}");
            return Err(ResumeRefusal::OtherLog { evidence });
        }
    }
    Ok(())
}

fn damaged(facts: &ResumeFacts<'_>) -> Vec<usize> {
    let all = facts.snapshots.iter().enumerate();
    all.filter(|(_, snapshot)| snapshot.health == SnapshotHealth::Damaged).map(|(index, _)| index).collect()
}

/// The newest sound snapshot at or before `limit`. One past the committed offset holds records
/// whose outputs were never published, so it is passed over.
fn newest_usable(facts: &ResumeFacts<'_>, limit: NextOffset) -> Option<usize> {
    let all = facts.snapshots.iter().enumerate();
    let usable =
        all.filter(|(_, snapshot)| snapshot.health == SnapshotHealth::Sound && snapshot.next_offset <= limit);
    usable.max_by_key(|(_, snapshot)| snapshot.next_offset).map(|(index, _)| index)
}

fn fresh(facts: &ResumeFacts<'_>) -> Result<Resume, ResumeRefusal> {
    if let Some(index) = newest_usable(facts, facts.log.end) {
        return Err(ResumeRefusal::ProgressForgotten { snapshot: facts.snapshots[index].next_offset });
    }
    let (at, name) = match facts.start {
        StartFrom::Earliest => (facts.log.start, "earliest"),
        StartFrom::Latest => (facts.log.end, "latest"),
    };
    let explanation = format!("new group: starting at offset {at} ({name}){}", cold(at));
    Ok(Resume { warm_up: at.0 > 0, ..Resume::at(Origin::Fresh, at, explanation) })
}

/// Whether nobody worked on the partition since it was given up: only then is the state in memory worth
/// more than a snapshot, which is compared with the log.
fn is_parked_at(facts: &ResumeFacts<'_>, committed: NextOffset) -> bool {
    facts.parked == Some(committed) && committed >= facts.log.start
}

fn unpark(at: NextOffset) -> Resume {
    let explanation = format!("state kept in memory is at the committed offset {at}: nothing to restore");
    // The state itself knows what counts.
    Resume::at(Origin::Parked, at, explanation)
}

fn restore(facts: &ResumeFacts<'_>, index: usize, committed: NextOffset) -> Result<Resume, ResumeRefusal> {
    let snapshot = facts.snapshots[index].next_offset;
    let gap = history_lost(facts, snapshot)?;
    let (replay_from, publish_from) = (snapshot.max(facts.log.start), committed.max(facts.log.start));
    let explanation = match (gap, publish_from.0 - snapshot.0) {
        (true, _) => format!(
            "snapshot at {snapshot}, records up to {replay_from} are gone: going on from there, marked warm_up"
        ),
        (false, 0) => format!("snapshot at {snapshot} is at the committed offset: nothing to replay"),
        (false, behind) => format!(
            "snapshot at {snapshot}: replaying {behind} offsets muted up to the committed offset {committed}"
        ),
    };
    let origin = Origin::Snapshot(index);
    Ok(Resume {
        origin,
        replay_from,
        publish_from,
        count_from: ALL,
        warm_up: gap,
        set_aside: Vec::new(),
        explanation,
    })
}

fn rebuild(facts: &ResumeFacts<'_>, committed: NextOffset) -> Result<Resume, ResumeRefusal> {
    let gap = history_lost(facts, committed)?;
    let replay_from = facts.log.start;
    let publish_from = committed.max(replay_from);
    let explanation = match (gap, publish_from.0 - replay_from.0) {
        (true, _) => format!(
            "no usable snapshot, and records {committed} to {replay_from} are gone: starting from there{}",
            cold(replay_from)
        ),
        (false, behind) => format!(
            "no usable snapshot: rebuilding from {replay_from}, {behind} offsets muted up to the committed \
             offset {committed}{}",
            cold(replay_from)
        ),
    };
    let warm_up = replay_from.0 > 0;
    Ok(Resume {
        origin: Origin::Rebuild,
        replay_from,
        publish_from,
        count_from: ALL,
        warm_up,
        set_aside: Vec::new(),
        explanation,
    })
}

/// Whether the log begins after the first record needed, if the policy lets that pass.
fn history_lost(facts: &ResumeFacts<'_>, needed: NextOffset) -> Result<bool, ResumeRefusal> {
    let start = facts.log.start;
    match facts.lost_history {
        _ if needed >= start => Ok(false),
        LostHistory::Rebuild => Ok(true),
        LostHistory::Refuse => Err(ResumeRefusal::HistoryLost { from: needed, to: start }),
    }
}

/// A remark where the state begins after the log once did.
fn cold(from: NextOffset) -> &'static str {
    if from.0 > 0 { ", marked warm_up since earlier records are not in it" } else { "" }
}

#[cfg(test)]
mod tests;
