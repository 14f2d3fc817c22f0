//! The ages at which several capacities evict: one row a request.
//!
//! A request adds an age to each capacity. Kept a row a request they lie side by side, and only where many have come
//! are they handed to the capacities, one column after the other.

use super::Ages;
use super::ages::narrow;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Rows kept before they are handed to the capacities.
const MOST_ROWS: usize = 256;

/// A capacity that drops nothing.
const NONE: u32 = u32::MAX;

/// One multiset of ages a capacity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Ages>", into = "Vec<Ages>")]
pub(super) struct AgeTable {
    columns: Vec<Ages>,
    /// Ages that came since, narrowed, one row a request.
    rows: Vec<u32>,
}

impl From<Vec<Ages>> for AgeTable {
    fn from(columns: Vec<Ages>) -> Self {
        Self { columns, rows: Vec::new() }
    }
}

impl From<AgeTable> for Vec<Ages> {
    fn from(mut table: AgeTable) -> Self {
        table.transpose();
        table.columns
    }
}

impl AgeTable {
    /// No ages yet at so many capacities, of which so many different ones are kept.
    pub(super) fn new(capacities: usize, most: u32) -> Self {
        vec![Ages::new(most); capacities].into()
    }

    /// Adds a request's: one entry a capacity, none where that drops nothing.
    pub(super) fn add(&mut self, ages_ms: &[Option<u64>]) {
        debug_assert_eq!(ages_ms.len(), self.columns.len());
        self.rows.extend(ages_ms.iter().map(|age| age.map_or(NONE, narrow)));
        if self.rows.len() >= MOST_ROWS * self.columns.len() {
            self.transpose();
        }
    }

    /// The ages of each capacity.
    pub(super) fn columns(&self) -> Cow<'_, [Ages]> {
        if self.rows.is_empty() {
            return Cow::Borrowed(&self.columns);
        }
        Cow::Owned(self.clone().into())
    }

    /// The union of several of as many capacities.
    pub(super) fn merged<'a>(parts: impl Iterator<Item = &'a Self>) -> Self {
        let parts: Vec<_> = parts.map(Self::columns).collect();
        let capacities = parts.first().map_or(0, |part| part.len());
        let column = |at: usize| Ages::merged(parts.iter().map(move |part| &part[at]));
        (0..capacities).map(column).collect::<Vec<_>>().into()
    }

    /// Merges what is pending, so that reading copies nothing.
    pub(super) fn consolidate(&mut self) {
        self.transpose();
        self.columns.iter_mut().for_each(Ages::consolidate);
    }

    /// Whether nothing is pending.
    pub(super) fn is_consolidated(&self) -> bool {
        self.rows.is_empty() && self.columns.iter().all(Ages::is_consolidated)
    }

    /// Whether this, read back from a snapshot, is of so many capacities.
    pub(super) fn is_sound(&self, capacities: usize, most: u32) -> bool {
        self.columns.len() == capacities && self.columns.iter().all(|ages| ages.are_sound(most))
    }

    /// Bytes of memory held, nearly.
    pub(super) fn memory_bytes(&self) -> usize {
        let columns = self.columns.iter().map(|ages| size_of::<Ages>() + ages.memory_bytes());
        columns.sum::<usize>() + self.rows.capacity() * size_of::<u32>()
    }

    /// Hands the rows to the capacities.
    fn transpose(&mut self) {
        let Self { columns, rows } = self;
        let capacities = columns.len();
        for (at, ages) in columns.iter_mut().enumerate() {
            let column = rows.iter().skip(at).step_by(capacities);
            column.filter(|age| **age != NONE).for_each(|age| ages.insert_narrow(*age));
        }
        rows.clear();
    }
}
