//! What a run keeps alongside each committed offset, so that it goes on within the bounds it began with.

use kvset_formats::position::{NextOffset, Partition};
use kvset_kafka::kafka::offsets::NotedOffset;
use kvset_pipeline::offset_range::OffsetRange;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Written by this version; others are not understood.
const VERSION: u32 = 1;

/// The note, as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    version: u32,
    /// Digest of everything the run was requested.
    run: String,
    begin: i64,
    from: i64,
    to: i64,
}

/// Why a run cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// It is not the run that was requested.
    #[error(
        "this run id was used with another range, output topic or configuration, or with --report and without: repeat the command it began \
         with, or choose another --run-id"
    )]
    OtherRun,
    /// Somebody else wrote it.
    #[error(
        "the offset committed for partition {0} carries no note of a backfill that this version understands: \
         choose another --run-id"
    )]
    Unreadable(Partition),
}

/// The note of one partition of a run.
pub(super) fn write(run: u64, offset_range: &OffsetRange) -> Result<String, serde_json::Error> {
    let OffsetRange { begin, count_from, end } = offset_range;
    let (begin, from, to) = (begin.0, count_from.0, end.0);
    serde_json::to_string(&Note { version: VERSION, run: format!("{run:016x}"), begin, from, to })
}

/// How far a run has come that began before; empty where it did not.
pub(super) fn read(
    run: u64,
    found: Vec<(Partition, Option<NotedOffset>)>,
) -> Result<BTreeMap<Partition, (OffsetRange, NextOffset)>, NoteError> {
    let mut begun = BTreeMap::new();
    for (partition, noted) in found {
        let Some(NotedOffset { next, note }) = noted else { continue };
        let note: Note = serde_json::from_str(&note).map_err(|_| NoteError::Unreadable(partition))?;
        if note.version != VERSION {
            return Err(NoteError::Unreadable(partition));
        }
        if note.run != format!("{run:016x}") {
            return Err(NoteError::OtherRun);
        }
        let (begin, count_from, end) = (NextOffset(note.begin), NextOffset(note.from), NextOffset(note.to));
        begun.insert(partition, (OffsetRange { begin, count_from, end }, next));
    }
    Ok(begun)
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Partition = Partition(3);

    fn found(note: &str) -> Vec<(Partition, Option<NotedOffset>)> {
        vec![(P, Some(NotedOffset { next: NextOffset(7), note: note.to_owned() })), (Partition(4), None)]
    }

    #[test]
    fn a_run_goes_on_within_the_bounds_it_began_with() {
        let offset_range =
            OffsetRange { begin: NextOffset(1), count_from: NextOffset(5), end: NextOffset(9) };
        let note = write(77, &offset_range).expect("JSON");
        assert_eq!(note, r#"{"version":1,"run":"000000000000004d","begin":1,"from":5,"to":9}"#);
        assert_eq!(read(77, found(&note)), Ok(BTreeMap::from([(P, (offset_range, NextOffset(7)))])));
        assert_eq!(read(78, found(&note)), Err(NoteError::OtherRun));
        assert_eq!(read(77, vec![(P, None)]), Ok(BTreeMap::new()));
    }

    #[test]
    fn notes_of_others_are_not_taken_for_ones_own() {
        for note in ["", "{}", r#"{"version":2,"run":"000000000000004d","begin":1,"from":5,"to":9}"#] {
            assert_eq!(read(77, found(note)), Err(NoteError::Unreadable(P)), "{note}");
        }
    }
}
