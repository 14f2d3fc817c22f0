//! Where in the input things are. Only *next* offsets are kept and named so: an offset that says
//! "everything before this was processed" cannot be confused with the last record's own.

use std::fmt;

/// A partition of the input topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(pub i32);

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The offset of the record to be processed next: everything before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextOffset(pub i64);

impl NextOffset {
    /// What comes next once the record at `offset` is done.
    pub fn after(offset: i64) -> Self {
        Self(offset.saturating_add(1))
    }
}

impl fmt::Display for NextOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Numbers the assignments of partitions to this process. Work of an earlier assignment has lost
/// its right to publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The assignment after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// What a partition's log holds now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRange {
    /// Offset of the oldest record that is still there.
    pub start: NextOffset,
    /// Offset the next record will get (for committed records: the last stable offset).
    pub end: NextOffset,
}

/// What to do where records that the state depends on are no longer in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostHistory {
    /// Stop and say so.
    Refuse,
    /// Go on with what is left and mark the output `warm_up`.
    Rebuild,
}

/// Where a group without a committed offset begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartFrom {
    /// At the oldest record that is still there.
    Earliest,
    /// At records that arrive from now on.
    Latest,
}
