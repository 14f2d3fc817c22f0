//! Fields that could matter by their names and values, before anybody has tried whether they are read.

use super::caches::cache_named_in;
use super::front::named_in;
use super::rules::{UnreadKind, kind_of};
use super::shares::share_of;
use crate::row_values::{FRONT, RowValue, walk};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use xxhash_rust::xxh3::xxh3_64;

/// Different fields that are told apart.
const MAX_FIELDS: usize = 512;
/// Different values of a field that are told apart.
const MAX_VALUES: usize = 64;
/// Rows that a field is tried in.
const TRIED_IN: usize = 3;

/// A field that could matter.
pub(super) struct Candidate {
    pub kind: UnreadKind,
    /// The rows that have it, and of each a digest of all that it has there.
    pub rows: Vec<usize>,
    pub digests: Vec<u64>,
    /// Those that it is tried in.
    pub tried_in: Vec<usize>,
    pub share: Option<f64>,
    is_positive: bool,
    pub said: String,
}

/// Candidates by where they lie and why they could matter: one field may have values of two kinds.
pub(super) type Candidates = BTreeMap<(String, UnreadKind), Candidate>;

/// Adds what a row has.
pub(super) fn note(row: &RowValue<'_>, number: usize, candidates: &mut Candidates) {
    walk(&row.value, &mut |path, value| {
        let Some(kind) = kind_of(path, value) else { return };
        let key = (path.to_owned(), kind);
        if candidates.len() < MAX_FIELDS || candidates.contains_key(&key) {
            candidates.entry(key).or_insert_with(|| Candidate::of(kind)).add(number, path, value);
        }
    });
    for (kind, named) in named_in(row.before) {
        let candidate = candidates.entry((FRONT.to_owned(), kind)).or_insert_with(|| Candidate::of(kind));
        candidate.add(number, FRONT, &Value::from(named));
    }
}

impl Candidate {
    fn of(kind: UnreadKind) -> Self {
        Self {
            kind,
            rows: Vec::new(),
            digests: Vec::new(),
            tried_in: Vec::new(),
            share: None,
            is_positive: false,
            said: String::new(),
        }
    }

    /// Adds a value of a row: a list of several has them all in each row.
    fn add(&mut self, number: usize, path: &str, value: &Value) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let is_whole = self.kind != UnreadKind::Cache && (value.is_array() || value.is_object());
        let named = cache_named_in(path, value).unwrap_or_else(|| text.clone());
        let digest = if is_whole { 0 } else { xxh3_64(named.as_bytes()) };
        match self.digests.last_mut().filter(|_| self.rows.last() == Some(&number)) {
            Some(known) => *known = known.wrapping_add(digest),
            None => {
                self.rows.push(number);
                self.digests.push(digest);
            }
        }
        self.share = share_of(path, value).or(self.share);
        // Of a text of pairs it is not known.
        self.is_positive |= text.parse::<f64>().map_or(value.is_string(), |number| number > 0.0);
    }

    /// How many different values rows have there.
    pub fn values(&self) -> usize {
        self.digests.iter().collect::<HashSet<_>>().len()
    }

    /// Whether many rows have it, and all have one value.
    pub fn is_constant(&self) -> bool {
        const MANY: usize = 8;
        self.rows.len() >= MANY && self.values() == 1
    }

    /// How many rows have it.
    pub fn count(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Chooses the rows that it is tried in, by the lengths of all: each is read once more for it, so the first short
    /// ones.
    pub fn choose(&mut self, lengths: &[usize]) {
        const SHORT: usize = 8 << 10;
        self.tried_in.clone_from(&self.rows);
        self.tried_in.sort_by_key(|row| lengths[*row] / SHORT);
        self.tried_in.truncate(TRIED_IN);
    }

    /// Whether it could change an answer over so many rows: a name does where there are several, and few.
    pub fn matters(&self, rows: u64) -> bool {
        /// Rows of which a name may be another in each.
        const FEW_ROWS: u64 = 8;
        let values = self.values() as u64;
        let is_few = values * 2 <= self.count() || self.count() < FEW_ROWS;
        match self.kind {
            UnreadKind::Cache | UnreadKind::Owner | UnreadKind::Model | UnreadKind::Answering => {
                values > 1 && values <= MAX_VALUES as u64 && is_few
            }
            UnreadKind::Adapter => values + u64::from(self.count() < rows) > 1,
            UnreadKind::CachedTokens => self.is_positive,
            UnreadKind::Time => values > 1 && self.count() * 2 >= rows,
            _ => true,
        }
    }
}
