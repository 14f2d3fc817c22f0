//! Offsets of a partition that cannot be read, and that an operator has decided to pass.
//!
//! They are kept as a note with the group's committed offset, so every member knows them and every commit keeps them.

use kvset_formats::codec::{DeadLetter, DecodeError, ErrorCode, Provenance, SourceRecord};
use kvset_formats::output::{Destination, OutputRecord};
use kvset_formats::position::Partition;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A run of offsets that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffsetGap {
    /// The first of them.
    pub start: i64,
    /// The first one after them.
    pub end: i64,
}

/// All of one partition: ascending, apart from each other, none empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OffsetGaps(Vec<OffsetGap>);

/// What a note of gaps begins with.
const NOTE: &str = "kvset gaps ";
/// Longest note, in bytes: what brokers keep with an offset by default.
const MAX_NOTE_BYTES: usize = 4096;

/// Why gaps cannot be recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GapError {
    /// There is nothing between the offsets.
    #[error("offsets {start} to {end} (exclusive) are no range: expected 0 <= start < end")]
    Empty {
        /// The first.
        start: i64,
        /// The one after the last.
        end: i64,
    },
    /// A broker would not keep so long a note.
    #[error(
        "the partition has too many gaps: their list takes {bytes} bytes, and brokers keep {MAX_NOTE_BYTES}"
    )]
    TooMany {
        /// Bytes of the note.
        bytes: usize,
    },
    /// The note is somebody else's.
    #[error(
        "the note with the committed offset is not one of gaps: reset the group's offset, which removes it"
    )]
    Foreign,
}

impl OffsetGap {
    /// The offsets from `start` to before `end`.
    ///
    /// # Errors
    /// [`GapError::Empty`].
    pub fn new(start: i64, end: i64) -> Result<Self, GapError> {
        if start < 0 || start >= end {
            return Err(GapError::Empty { start, end });
        }
        Ok(Self { start, end })
    }
}

impl fmt::Display for OffsetGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.start, self.end.saturating_sub(1))
    }
}

impl OffsetGaps {
    /// Adds a gap; those it touches become one with it.
    pub fn insert(&mut self, gap: OffsetGap) {
        let apart = |other: &OffsetGap| other.end < gap.start || other.start > gap.end;
        let touched = self.0.iter().filter(|other| !apart(other));
        let start = touched.clone().map(|other| other.start).min().unwrap_or(gap.start).min(gap.start);
        let end = touched.map(|other| other.end).max().unwrap_or(gap.end).max(gap.end);
        self.0.retain(apart);
        let at = self.0.partition_point(|other| other.start < start);
        self.0.insert(at, OffsetGap { start, end });
    }

    /// The gap that a reader meets first from this offset on. One may begin behind it: offsets before a gap may have
    /// been compacted away since it was recorded.
    pub fn from(&self, offset: i64) -> Option<OffsetGap> {
        self.0.iter().copied().find(|gap| gap.end > offset)
    }

    /// Whether this offset is in one of them.
    pub fn contain(&self, offset: i64) -> bool {
        self.from(offset).is_some_and(|gap| gap.start <= offset)
    }

    /// The gaps that begin at or after `next`, or reach beyond it, and end at or before `offset`: what is passed
    /// between a record before `next` and the one at `offset`.
    pub fn passed(&self, next: i64, offset: i64) -> impl Iterator<Item = OffsetGap> {
        self.0.iter().copied().filter(move |gap| gap.end > next && gap.end <= offset)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = OffsetGap> {
        self.0.iter().copied()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The note that keeps them; empty for none.
    ///
    /// # Errors
    /// [`GapError::TooMany`].
    pub fn note(&self) -> Result<String, GapError> {
        if self.is_empty() {
            return Ok(String::new());
        }
        let gaps: Vec<String> = self.0.iter().map(OffsetGap::to_string).collect();
        let note = format!("{NOTE}{}", gaps.join(","));
        if note.len() > MAX_NOTE_BYTES { Err(GapError::TooMany { bytes: note.len() }) } else { Ok(note) }
    }
}

impl FromStr for OffsetGaps {
    type Err = GapError;

    /// Reads a note; the empty one, which an offset has without any, as no gaps.
    fn from_str(note: &str) -> Result<Self, GapError> {
        if note.is_empty() {
            return Ok(Self::default());
        }
        let mut gaps = Self::default();
        for gap in note.strip_prefix(NOTE).ok_or(GapError::Foreign)?.split(',') {
            let (first, last) = gap.split_once('-').ok_or(GapError::Foreign)?;
            let offset = |text: &str| text.parse::<i64>().map_err(|_| GapError::Foreign);
            gaps.insert(OffsetGap::new(offset(first)?, offset(last)?.saturating_add(1))?);
        }
        Ok(gaps)
    }
}

/// What is said on the dead-letter topic in place of records that could not be read, as of the first of them.
pub fn gap_letter(topic: &str, partition: Partition, gap: OffsetGap, by: Provenance<'_>) -> OutputRecord {
    let error =
        DecodeError::new(ErrorCode::Unreadable, format!("offsets {gap} could not be read and were passed"));
    let record = SourceRecord {
        schema_header: None,
        topic,
        partition: partition.0,
        offset: gap.start,
        timestamp_ms: None,
        key: None,
        value: None,
    };
    let DeadLetter { key, value, mut headers } = DeadLetter::new(record, &error, by);
    headers.push((DeadLetter::LAST_OFFSET, gap.end.saturating_sub(1).to_string()));
    OutputRecord {
        destination: Destination::DeadLetters,
        partition,
        window: None,
        key,
        value,
        headers,
        placed_by: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn gaps_are_the_offsets_they_were_made_of_and_their_note_keeps_them(
            ranges in prop::collection::vec((0i64..60, 1i64..8), 0..8),
            next in 0i64..70,
            offset in 0i64..80,
        ) {
            let (mut gaps, mut model) = (OffsetGaps::default(), BTreeSet::new());
            for (start, length) in ranges {
                gaps.insert(OffsetGap::new(start, start + length).expect("not empty"));
                model.extend(start..start + length);
            }
            let members: BTreeSet<i64> = gaps.iter().flat_map(|gap| gap.start..gap.end).collect();
            prop_assert_eq!(&members, &model);
            let list: Vec<_> = gaps.iter().collect();
            prop_assert!(list.windows(2).all(|pair| pair[0].end < pair[1].start), "apart: {:?}", list);
            let first = model.range(offset..).next().copied();
            prop_assert_eq!(gaps.from(offset).map(|gap| gap.start.max(offset)), first);
            prop_assert_eq!(gaps.note().expect("few").parse::<OffsetGaps>().expect("its own"), gaps.clone());
            let passed: Vec<_> = gaps.passed(next, offset).collect();
            let expected: Vec<_> =
                list.iter().copied().filter(|gap| gap.end > next && gap.end <= offset).collect();
            prop_assert_eq!(passed, expected);
        }
    }

    #[test]
    fn what_is_no_note_of_gaps_is_refused() {
        for note in
            ["7", "kvset gaps ", "kvset gaps 7", "kvset gaps 9-7", "kvset gaps -1-7", "kvset gaps 1-x"]
        {
            assert!(note.parse::<OffsetGaps>().is_err(), "{note}");
        }
        let mut gaps = OffsetGaps::default();
        (0..1000).for_each(|at| gaps.insert(OffsetGap::new(10 * at, 10 * at + 1).expect("one")));
        assert!(matches!(gaps.note(), Err(GapError::TooMany { .. })));
    }
}
