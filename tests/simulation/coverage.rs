//! What must have happened in the lives of a run for their outcome to mean anything.

use crate::world::Tally;
use std::collections::BTreeMap;

/// Every step of the protocol: a process died right before and right after each.
const STEPS: [&str; 24] = [
    "poll",
    "committed",
    "log range",
    "identity",
    "assign",
    "unassign",
    "pause",
    "resume",
    "leave",
    "work",
    "begin",
    "send",
    "offsets",
    "commit",
    "commit again",
    "abort",
    "disk: list",
    "disk: open",
    "disk: create directory",
    "disk: write",
    "disk: sync",
    "disk: rename",
    "disk: sync directory",
    "disk: remove",
];

/// Everything else that goes wrong, or must go right.
const KINDS: [(&str, &[&str]); 26] = [
    ("records that wait", &["in a state that goes on"]),
    ("crash within", &["disk: write"]),
    ("killed", &["between two steps"]),
    ("stalled before", &["poll", "assign", "unassign", "offsets", "commit", "abort", "work"]),
    ("power failure", &["host"]),
    ("disk full", &["disk: create directory", "disk: write", "disk: sync", "disk: rename"]),
    ("disk error", &["disk: list", "disk: open", "disk: write", "disk: sync", "disk: sync directory"]),
    ("rotten file", &["bit flipped", "cut off"]),
    ("slow disk", &["finish"]),
    ("snapshot", &["saved", "failed", "set aside"]),
    ("lost reply", &["commit carried out", "commit not carried out", "offsets"]),
    ("passing failure", &["poll", "committed", "log range", "send", "offsets", "commit", "abort"]),
    ("abortable failure", &["send", "offsets", "commit"]),
    ("fatal failure", &["send", "offsets", "commit"]),
    ("spent client", &["send", "offsets", "commit"]),
    ("fenced", &["member", "send", "offsets", "commit"]),
    ("refused offsets", &["held under another name", "no longer a member", "rebalance in progress"]),
    ("waited for", &["an undecided transaction"]),
    ("commit failed", &["abortable", "fatal", "migrated"]),
    ("rebalance", &["expelled", "joined again unnoticed", "lost", "revoked"]),
    ("retention", &["log start moved"]),
    ("refused", &["lost history", "recreated topic"]),
    (
        "resume",
        &[
            "fresh",
            "snapshot at the committed offset",
            "snapshot and muted replay",
            "muted rebuild",
            "state kept in memory",
            "with lost history",
        ],
    ),
    ("process ended", &["brokers", "fenced", "publishing"]),
    ("life", &["came to its end", "clean stop", "replaced while running"]),
    (
        "kind of life",
        &[
            "exactly once",
            "at least once",
            "eager rebalances",
            "cooperative rebalances",
            "shared store",
            "a store a host",
            "static members",
            "dynamic members",
            "retention",
            "a log kept whole",
        ],
    ),
];

/// What never happened and should have.
pub fn missing(tally: &Tally) -> Vec<(&'static str, &'static str)> {
    let crashes = STEPS.iter().flat_map(|step| [("crash before", *step), ("crash after", *step)]);
    let others = KINDS.iter().flat_map(|(kind, places)| places.iter().map(|place| (*kind, *place)));
    crashes.chain(others).filter(|kind| !tally.contains_key(kind)).collect()
}

/// The count, for whoever wants to know what was tried.
pub fn print(tally: &Tally) {
    let mut by_kind: BTreeMap<&str, Vec<(&str, u64)>> = BTreeMap::new();
    for ((kind, place), times) in tally {
        by_kind.entry(kind).or_default().push((place, *times));
    }
    for (kind, places) in by_kind {
        println!("{kind}: {}", places.iter().map(|(_, times)| times).sum::<u64>());
        places.iter().for_each(|(place, times)| println!("  {times:>9}  {place}"));
    }
}
