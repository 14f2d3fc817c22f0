//! The ages at which several capacities evict: one row a request.
//!
//! A request adds an age to each capacity. Kept a row per request they lie side by side, and only where many have come
//! are they handed to the capacities, one column after the other.

use super::Ages;
use super::ages::{is_exact, narrow, widen};
use crate::units::heap::{HeapBytes, heap_bytes};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Rows kept before they are handed to the capacities.
const MOST_ROWS: usize = 256;

/// A capacity that drops nothing.
const NONE: u32 = u32::MAX;

/// An age a capacity, of one request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Option<u64>>", into = "Vec<Option<u64>>")]
pub(super) struct AgeRow(Vec<u32>);

impl HeapBytes for AgeRow {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

impl AgeRow {
    /// Reads the ages in milliseconds, ascending, of so many capacities; those behind drop nothing.
    pub(super) fn read(
        &mut self,
        ages_ms: impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + Clone,
        capacities: usize,
    ) {
        self.0.clear();
        if ages_ms.clone().next_back().is_none_or(is_exact) {
            self.0.extend(ages_ms.map(|age| age as u32));
        } else {
            self.0.extend(ages_ms.map(narrow));
        }
        self.0.resize(capacities, NONE);
    }

    /// Capacities.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl From<Vec<Option<u64>>> for AgeRow {
    fn from(ages_ms: Vec<Option<u64>>) -> Self {
        Self(ages_ms.into_iter().map(|age| age.map_or(NONE, narrow)).collect())
    }
}

impl From<AgeRow> for Vec<Option<u64>> {
    fn from(row: AgeRow) -> Self {
        let age_ms = |age: &u32| (*age != NONE).then(|| widen(u64::from(*age)));
        row.0.iter().map(age_ms).collect()
    }
}

/// One multiset of ages a capacity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<Ages>", into = "Vec<Ages>")]
pub(crate) struct AgeTable {
    columns: Vec<Ages>,
    /// Ages that came since, narrowed, one row a request.
    rows: Vec<u32>,
}

heap_bytes!(AgeTable { columns, rows });

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
    pub(crate) fn new(capacities: usize, most: u32) -> Self {
        vec![Ages::new(most); capacities].into()
    }

    /// Adds a request's.
    pub(super) fn add(&mut self, row: &AgeRow) {
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.extend_from_slice(&row.0);
        self.hand_over();
    }

    /// Adds a request's, of so many capacities one after the other the same; together they are those of all.
    pub(crate) fn add_runs(&mut self, runs: impl Iterator<Item = (usize, u64)>) {
        runs.for_each(|(capacities, age)| self.rows.extend(std::iter::repeat_n(narrow(age), capacities)));
        debug_assert!(self.rows.len().is_multiple_of(self.columns.len()));
        self.hand_over();
    }

    /// Moves the rows into the columns where there are many.
    fn hand_over(&mut self) {
        if self.rows.len() >= MOST_ROWS * self.columns.len() {
            self.transpose();
        }
    }

    /// The ages of each capacity.
    pub(crate) fn columns(&self) -> impl Iterator<Item = Cow<'_, Ages>> {
        self.columns.iter().enumerate().map(|(at, ages)| {
            let mut ages = Cow::Borrowed(ages);
            if !self.rows.is_empty() {
                insert_column(ages.to_mut(), &self.rows, (at, self.columns.len()));
            }
            ages
        })
    }

    /// The union of several of as many capacities.
    pub(crate) fn merged<'a>(parts: impl Iterator<Item = &'a Self>) -> Self {
        let parts: Vec<Vec<_>> = parts.map(|part| part.columns().collect()).collect();
        let capacities = parts.first().map_or(0, Vec::len);
        let column = |at: usize| Ages::merged(parts.iter().map(move |part| part[at].as_ref()));
        (0..capacities).map(column).collect::<Vec<_>>().into()
    }

    /// Merges what is pending, so that reading copies nothing.
    pub(crate) fn consolidate(&mut self) {
        self.transpose();
        self.columns.iter_mut().for_each(Ages::consolidate);
    }

    /// Whether nothing is pending.
    pub(crate) fn is_consolidated(&self) -> bool {
        self.rows.is_empty() && self.columns.iter().all(Ages::is_consolidated)
    }

    /// Whether this, read back from a snapshot, is of so many capacities.
    pub(crate) fn is_sound(&self, capacities: usize, most: u32) -> bool {
        self.columns.len() == capacities && self.columns.iter().all(|ages| ages.are_sound(most))
    }

    /// Moves the rows into the columns.
    fn transpose(&mut self) {
        let Self { columns, rows } = self;
        let capacities = columns.len();
        columns.iter_mut().enumerate().for_each(|(at, ages)| insert_column(ages, rows, (at, capacities)));
        rows.clear();
    }
}

/// Puts in what the rows say of one capacity out of so many.
fn insert_column(ages: &mut Ages, rows: &[u32], (at, capacities): (usize, usize)) {
    let mut column = [0; MOST_ROWS];
    for rows in rows.chunks(MOST_ROWS * capacities) {
        let mut told = 0;
        for row in rows.chunks_exact(capacities) {
            column[told] = row[at];
            told += usize::from(row[at] != NONE);
        }
        ages.insert_narrow(&column[..told]);
    }
}
