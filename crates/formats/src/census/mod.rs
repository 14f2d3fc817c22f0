//! What of a log nobody read: a field is read, or known to be of no consequence, or counted and named.
//!
//! No list says which fields a reader takes. A field that could matter ([`rules`]) is taken out of a row, and the row
//! is read once more: what was read without it is what was read with it where nobody reads it. So this holds for
//! every format, and for those to come. Only what could matter is tried, in a row or two of a [`RowSample`], so that
//! a log whose fields are known costs little.

mod caches;
mod candidate;
mod contradictions;
mod front;
mod lists;
mod lookups;
mod pages;
mod partial;
mod rules;
mod sample;
mod scan;
mod scopes;
mod sentences;
mod shares;
mod splits;
mod times;
mod together;
mod trial;
mod unshown;
mod words;

pub use rules::UnreadKind;
pub use sample::RowSample;

use crate::row_values::RowValue;
use candidate::{Candidate, note};
use contradictions::contradictions;
use kvset_core::request::event::RequestEvent;
use kvset_core::request::labels::Label;
use partial::partial;
use serde_json::Value;
use splits::uncounted;
use std::collections::{BTreeMap, HashMap};
use together::{answers_within, look_nothing_up};
use trial::Rows;
use xxhash_rust::xxh3::xxh3_64;

/// Finds fields in rows as they stand.
type FindFields = fn(&mut dyn Iterator<Item = &Value>) -> Vec<UnreadField>;

/// What rows say by several fields together, whether or not these are read.
const WHOLE_ROWS: [FindFields; 5] = [partial, contradictions, answers_within, look_nothing_up, uncounted];

/// Fields that are named one by one.
const SHOWN: usize = 6;

/// What reading a row gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowReading {
    /// A digest of its requests with all that was read of them.
    pub digest: u64,
    /// Whether one of them states what a cache found.
    pub has_cached: bool,
    /// The tokens that they state in all.
    pub cached_tokens: u64,
    /// Whether one of them names the cache that served it.
    pub has_replica: bool,
    /// When the last of them came, in milliseconds, where one says so.
    pub time: Option<i64>,
    /// Whether prompts of its format may be texts.
    pub may_be_text: bool,
    /// The tokens of the longest prompt.
    pub longest: u64,
    /// How many requests it has, and a digest of the pool of the last one.
    pub requests: u64,
    pub pool: u64,
}

impl RowReading {
    /// Notes what a request of the row states.
    pub fn note(&mut self, pool: &str, event: &RequestEvent<'_>) {
        self.requests += 1;
        self.longest = self.longest.max(event.input_tokens.unwrap_or_default());
        self.pool = xxh3_64(pool.as_bytes());
        if let Some(tokens) = event.cached_tokens.stated() {
            self.has_cached = true;
            self.cached_tokens = self.cached_tokens.saturating_add(tokens);
        }
        self.time = Some(event.event_time.0).filter(|time| *time != 0).or(self.time);
        self.has_replica |= event.labels.get(Label::Replica).is_some();
    }
}

/// A field that could matter and was not read.
#[derive(Debug, Clone, PartialEq)]
pub struct UnreadField {
    /// Where it lies in a row.
    pub path: String,
    pub kind: UnreadKind,
    /// Rows that have it, of so many: rows that are spread over the log, where one of these has it.
    pub rows: u64,
    pub of: u64,
    /// How many different values it has there.
    pub values: usize,
    /// Which values it has in how many rows, where they part the log.
    pub said: String,
    /// The share of the traffic that it says was kept.
    pub share: Option<f64>,
    /// The share of the cached tokens that the rows which have it state, where rows state any.
    pub cached_share: Option<f64>,
}

/// The fields of a log that could matter and were not read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FieldCensus {
    /// Rows that were looked at.
    pub rows: u64,
    /// Those that touch most rows first.
    pub unread: Vec<UnreadField>,
    /// Those that name several models: they matter where requests seem to stand there twice.
    pub models: Vec<UnreadField>,
}

impl FieldCensus {
    /// Looks at these rows. `read` reads a row by itself; nothing where it has no request.
    pub fn take(sample: &RowSample, read: &mut dyn FnMut(&[u8]) -> Option<RowReading>) -> Self {
        let values: Vec<_> = sample.rows().filter_map(RowValue::of).collect();
        let spread = sample.spread_rows().min(values.len());
        let mut rows = Rows { rows: values, spread, readings: HashMap::new(), read };
        let rest = rows.rest_of_pages();
        rows.split_lists();
        let (mut candidates, count) = (BTreeMap::new(), rows.rows.len() as u64);
        rows.rows.iter().enumerate().for_each(|(number, row)| note(row, number, &mut candidates));
        candidates.retain(|_, candidate: &mut Candidate| candidate.matters(count));
        let lengths: Vec<_> = rows.rows.iter().map(|row| row.bytes).collect();
        candidates.values_mut().for_each(|candidate| candidate.choose(&lengths));
        let mut unread = rows.unread(candidates);
        let parted = rows.parted(&unread);
        unread.extend(parted);
        WHOLE_ROWS.iter().for_each(|find| unread.extend(rows.of_whole_rows(*find)));
        unread.extend(rest);
        unread.sort_by_key(|field| (std::cmp::Reverse(field.rows), field.kind));
        let (models, unread) = unread.into_iter().partition(|field| field.kind == UnreadKind::Model);
        Self { rows: count, unread, models }
    }

    /// Adds what another file has.
    pub fn merge(&mut self, other: Self) {
        self.rows += other.rows;
        merge_fields(&mut self.unread, other.unread);
        merge_fields(&mut self.models, other.models);
        self.unread.sort_by_key(|field| (std::cmp::Reverse(field.rows), field.kind));
    }

    /// What could change the answer by itself, in a few words: the prompts, the requests or the caches are not those of
    /// the engine.
    pub fn doubt(&self) -> Option<String> {
        let doubts = self.unread.iter().filter_map(|field| Some((field, field.kind.doubt()?)));
        // Of a hundred and more rows one alone changes little.
        let mut much = doubts.filter(|(field, (one_in, _))| field.rows * one_in >= field.of);
        much.next().map(|(_, (_, what))| what.to_owned())
    }

    /// Whether a field that was not read counts what a cache had.
    pub fn counts_cached(&self) -> bool {
        self.unread.iter().any(|field| field.kind == UnreadKind::CachedTokens)
    }

    /// The same where the prompts are known to be whole: a text beside them is no part of them.
    pub fn beside_whole_prompts(mut self) -> Self {
        self.unread.retain(|field| !field.kind.is_of_prompts());
        self
    }

    /// A sentence on each field, and how many more there are.
    pub fn sentences(&self) -> Vec<String> {
        let mut said: Vec<_> = self.unread.iter().take(SHOWN).map(UnreadField::sentence).collect();
        let more: Vec<_> = self.unread.iter().skip(SHOWN).map(|field| format!("`{}`", field.path)).collect();
        if !more.is_empty() {
            said.push(format!("not read either, and each could matter: {}", more.join(", ")));
        }
        said
    }
}

fn merge_fields(fields: &mut Vec<UnreadField>, others: Vec<UnreadField>) {
    for field in others {
        match fields.iter_mut().find(|known| (&known.path, known.kind) == (&field.path, field.kind)) {
            Some(known) => {
                known.rows += field.rows;
                known.of += field.of;
                known.values = known.values.max(field.values);
            }
            None => fields.push(field),
        }
    }
}

impl UnreadField {
    /// A field that so many of the rows have.
    fn counted(path: String, kind: UnreadKind, (rows, of): (u64, u64)) -> Self {
        Self { path, kind, rows, of, values: 0, said: String::new(), share: None, cached_share: None }
    }
}
