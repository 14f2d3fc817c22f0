//! What of a log nobody read: a field is read, or known to be of no consequence, or counted and named.
//!
//! No list says which fields a reader takes. A field that could matter ([`rules`]) is taken out of a row, and the row
//! is read once more: what was read without it is what was read with it where nobody reads it. So this holds for
//! every format, and for those to come. Only what could matter is tried, in a row or two of a [`RowSample`], so that
//! a log whose fields are known costs little.

mod caches;
mod contradictions;
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
mod unshown;
mod words;

pub use rules::UnreadKind;
pub use sample::RowSample;

use crate::row_values::{RowValue, walk};
use caches::cache_named_in;
use contradictions::contradictions;
use kvset_core::request::event::RequestEvent;
use kvset_core::request::labels::Label;
use pages::says_more;
use partial::partial;
use rules::{is_of_answer, is_of_computed, is_share, kind_of};
use serde_json::Value;
use shares::share_of;
use splits::{splits, unanswered, uncounted};
use std::collections::{BTreeMap, HashMap, HashSet};
use times::{LONG_BEFORE_MS, moment_at, says_arrival};
use together::{answers_within, look_nothing_up};
use xxhash_rust::xxh3::xxh3_64;

/// Different fields that are told apart.
const MAX_FIELDS: usize = 512;
/// Rows that a field is tried in.
const TRIED_IN: usize = 3;
/// Fields that are tried.
const MAX_TRIED: usize = 96;
/// Different values of a field that are told apart.
const MAX_VALUES: usize = 64;
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
    /// How many requests it has, and a digest of the pool of the last one.
    pub requests: u64,
    pub pool: u64,
}

impl RowReading {
    /// Notes what a request of the row states.
    pub fn note(&mut self, pool: &str, event: &RequestEvent<'_>) {
        self.requests += 1;
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

/// A field that could matter.
struct Candidate {
    kind: UnreadKind,
    /// The rows that have it, and of each a digest of all that it has there.
    rows: Vec<usize>,
    digests: Vec<u64>,
    /// Those that it is tried in.
    tried_in: Vec<usize>,
    share: Option<f64>,
    is_positive: bool,
    said: String,
}

/// Rows under census, and what reads one.
struct Rows<'r, 'f> {
    rows: Vec<RowValue<'r>>,
    /// How many of them are spread over the log: the first ones.
    spread: usize,
    readings: HashMap<usize, Option<RowReading>>,
    read: &'f mut dyn FnMut(&[u8]) -> Option<RowReading>,
}

impl FieldCensus {
    /// Looks at these rows. `read` reads a row by itself; nothing where it has no request.
    pub fn take(sample: &RowSample, read: &mut dyn FnMut(&[u8]) -> Option<RowReading>) -> Self {
        let (mut candidates, mut values, mut lengths) = (BTreeMap::new(), Vec::new(), Vec::new());
        for bytes in sample.rows() {
            let Some(row) = RowValue::of(bytes) else { continue };
            note(&row, values.len(), &mut candidates);
            values.push(row);
            lengths.push(bytes.len());
        }
        let count = values.len() as u64;
        let spread = sample.spread_rows().min(values.len());
        candidates.retain(|_, candidate: &mut Candidate| candidate.matters(count));
        candidates.values_mut().for_each(|candidate| candidate.choose(&lengths));
        let mut rows = Rows { rows: values, spread, readings: HashMap::new(), read };
        let mut unread = rows.unread(candidates);
        let parted = rows.parted(&unread);
        unread.extend(parted);
        unread.extend(rows.of_whole_rows(partial));
        unread.extend(rows.of_whole_rows(contradictions));
        unread.extend(rows.of_whole_rows(answers_within));
        unread.extend(rows.of_whole_rows(look_nothing_up));
        unread.extend(rows.of_whole_rows(uncounted));
        unread.extend(rows.rest_of_pages());
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

/// Candidates by where they lie and why they could matter: one field may have values of two kinds.
type Candidates = BTreeMap<(String, UnreadKind), Candidate>;

/// Adds what a row has.
fn note(row: &RowValue<'_>, number: usize, candidates: &mut Candidates) {
    walk(&row.value, &mut |path, value| {
        let Some(kind) = kind_of(path, value) else { return };
        let key = (path.to_owned(), kind);
        if candidates.len() < MAX_FIELDS || candidates.contains_key(&key) {
            candidates.entry(key).or_insert_with(|| Candidate::of(kind)).add(number, path, value);
        }
    });
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
    fn values(&self) -> usize {
        self.digests.iter().collect::<HashSet<_>>().len()
    }

    /// Whether many rows have it, and all have one value.
    fn is_constant(&self) -> bool {
        const MANY: usize = 8;
        self.rows.len() >= MANY && self.values() == 1
    }

    /// How many rows have it.
    fn count(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Chooses the rows that it is tried in, by the lengths of all: each is read once more for it, so the first short
    /// ones.
    fn choose(&mut self, lengths: &[usize]) {
        const SHORT: usize = 8 << 10;
        self.tried_in.clone_from(&self.rows);
        self.tried_in.sort_by_key(|row| lengths[*row] / SHORT);
        self.tried_in.truncate(TRIED_IN);
    }

    /// Whether it could change an answer over so many rows: a name does where there are several, and few.
    fn matters(&self, rows: u64) -> bool {
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

impl Rows<'_, '_> {
    fn reading(&mut self, row: usize) -> Option<RowReading> {
        if let Some(known) = self.readings.get(&row) {
            return *known;
        }
        let reading = (self.read)(&self.rows[row].written(None));
        self.readings.insert(row, reading);
        reading
    }

    /// Whether a field is read in one of its rows; nothing where none of them has a request.
    fn is_read(&mut self, path: &str, rows: &[usize]) -> Option<bool> {
        let mut is_told = None;
        for row in rows {
            let Some(with) = self.reading(*row) else { continue };
            let without = (self.read)(&self.rows[*row].written(Some(path)));
            if without.is_none_or(|without| without.digest != with.digest) {
                return Some(true);
            }
            is_told = Some(false);
        }
        is_told
    }

    fn unread(&mut self, candidates: Candidates) -> Vec<UnreadField> {
        let (mut read, mut unread) = (Vec::new(), Vec::new());
        for ((path, _), candidate) in candidates.into_iter().take(MAX_TRIED) {
            match self.is_read(&path, &candidate.tried_in) {
                Some(true) => read.push((path, candidate.kind)),
                Some(false) => unread.push((path, candidate)),
                None => {}
            }
        }
        let is_of_tokens = read.iter().any(|(_, kind)| *kind == UnreadKind::Integers);
        let may_be_text = self.readings.values().flatten().any(|reading| reading.may_be_text);
        let is_of_text = may_be_text && !is_of_tokens;
        let names_adapter = read.iter().any(|(_, kind)| *kind == UnreadKind::Adapter);
        let is_of_pages = read.iter().any(|(path, kind)| {
            let words = words::words(path);
            *kind == UnreadKind::Integers
                && words
                    .iter()
                    .any(|word| ["hash", "page", "block", "chunk"].iter().any(|part| word.starts_with(part)))
        });
        unread.retain(|(path, candidate)| {
            let has = |row: &usize, held: fn(&RowReading) -> bool| {
                self.readings.get(row).is_some_and(|reading| reading.as_ref().is_some_and(held))
            };
            match candidate.kind {
                UnreadKind::Text | UnreadKind::Functions if is_of_known_tools(path, &self.rows[..1]) => false,
                // Alongside what was asked it is what was answered.
                UnreadKind::Text
                    if path == "content" && self.stands_beside(path, candidate, &["messages"]) =>
                {
                    false
                }
                UnreadKind::Text | UnreadKind::Functions => {
                    is_of_text && !self.is_said_elsewhere(path, candidate, &read)
                }
                UnreadKind::Integers => !is_of_pages && !self.is_said_elsewhere(path, candidate, &read),
                // One that was set aside is read, and told of by itself.
                UnreadKind::CachedTokens if path == "cached_tokens" => false,
                UnreadKind::CachedTokens
                    if is_of_computed(path) && !self.is_less_than_a_prompt(path, candidate) =>
                {
                    false
                }
                // A gauge of the whole engine says nothing of a request.
                UnreadKind::CachedTokens if candidate.is_constant() && is_share(path) => false,
                UnreadKind::CachedTokens => {
                    !candidate.tried_in.iter().any(|row| has(row, |reading| reading.has_cached))
                }
                // Of a broker's records, not of a cache.
                UnreadKind::Cache
                    if words::any(&words::words(path), &["partition"])
                        && self.stands_beside(path, candidate, &["offset", "topic"]) =>
                {
                    false
                }
                UnreadKind::Cache => {
                    !candidate.tried_in.iter().any(|row| has(row, |reading| reading.has_replica))
                }
                UnreadKind::Adapter => !names_adapter,
                // Its gateway's cache is another.
                UnreadKind::NoLookup => {
                    !candidate.tried_in.iter().any(|row| has(row, |reading| reading.cached_tokens > 0))
                }
                UnreadKind::Media => !is_of_pages,
                UnreadKind::Added => is_of_text && !self.describes_tools(path, candidate),
                UnreadKind::Time => !self.has_time() || says_arrival(path),
                _ => true,
            }
        });
        unread.retain(|(_, candidate)| {
            candidate.kind != UnreadKind::AnswerCache
                || !self.says_what_a_cache_of_pages_found(|row| candidate.rows.binary_search(&row).is_ok())
        });
        unread
            .retain(|(_, candidate)| candidate.kind != UnreadKind::Answering || self.parts_a_pool(candidate));
        let has_time = self.has_time();
        unread.retain_mut(|(path, candidate)| {
            let is_of_arrival = candidate.kind == UnreadKind::Time && has_time;
            if is_of_arrival && self.lies_long_before(path, candidate) {
                candidate.said.push_str("and lies a minute and more before the time that was read");
            }
            !is_of_arrival || !candidate.said.is_empty()
        });
        // One tells when requests came.
        let mut tells_time = false;
        unread.retain(|(_, candidate)| {
            candidate.kind != UnreadKind::Time || !std::mem::replace(&mut tells_time, true)
        });
        let of_spread = |candidate: &Candidate| {
            let own = candidate.rows.partition_point(|row| *row < self.spread) as u64;
            if own > 0 { (own, self.spread as u64) } else { (candidate.count(), self.rows.len() as u64) }
        };
        let counts: Vec<_> = unread.iter().map(|(_, candidate)| of_spread(candidate)).collect();
        let unread: Vec<_> = unread
            .into_iter()
            .zip(counts)
            .map(|((path, candidate), (rows, of))| UnreadField {
                path,
                kind: candidate.kind,
                rows,
                of,
                values: candidate.values(),
                share: candidate.share,
                cached_share: self.cached_share(&candidate),
                said: candidate.said,
            })
            .collect();
        unread
    }

    /// Whether one of the rows that were read says when it came.
    fn has_time(&self) -> bool {
        self.readings.values().flatten().any(|reading| reading.time.is_some())
    }

    /// Whether a field has a time of its own in nearly every row, long before the one that was read.
    fn lies_long_before(&mut self, path: &str, candidate: &Candidate) -> bool {
        const FEWEST: usize = 8;
        let rows = candidate.rows.len();
        if rows < FEWEST || candidate.values() * 10 < rows * 9 {
            return false;
        }
        let is_before = |row: &&usize| {
            let read = self.reading(**row).and_then(|reading| reading.time);
            let own = moment_at(&self.rows[**row].value, path);
            own.zip(read).is_some_and(|(own, read)| own.saturating_add(LONG_BEFORE_MS) <= read)
        };
        candidate.rows.iter().filter(is_before).count() * 10 >= rows * 9
    }

    /// What is found in rows as they stand, counted over those that are spread over the log where one of them has it.
    fn of_whole_rows(
        &self,
        find: fn(&mut dyn Iterator<Item = &Value>) -> Vec<UnreadField>,
    ) -> Vec<UnreadField> {
        let mut fields = find(&mut self.rows.iter().map(|row| &row.value));
        let of_spread = find(&mut self.rows[..self.spread].iter().map(|row| &row.value));
        for field in of_spread {
            let known = fields.iter_mut().find(|all| all.path == field.path && all.said == field.said);
            known.into_iter().for_each(|known| *known = field.clone());
        }
        fields
    }

    /// The fields that part the rows with requests by what became of these, other than those that were found.
    fn parted(&mut self, found: &[UnreadField]) -> Vec<UnreadField> {
        let all = || self.rows.iter().map(|row| &row.value);
        // Each row is read for it.
        if splits(all().enumerate()).is_empty() && unanswered(all()).is_none() {
            return Vec::new();
        }
        let served: Vec<_> = (0..self.rows.len()).filter(|row| self.reading(*row).is_some()).collect();
        let of = |rows: &[usize]| splits(rows.iter().map(|row| (*row, &self.rows[*row].value)));
        // A row that is kept for a rare value says nothing of how rare it is.
        let (spread, mut parting) = (served.partition_point(|row| *row < self.spread), of(&served));
        for split in of(&served[..spread]) {
            parting.iter_mut().filter(|all| all.field.path == split.field.path).for_each(|all| {
                all.field = split.field.clone();
            });
        }
        let without_answer = unanswered(served.iter().map(|row| &self.rows[*row].value));
        let mut parted = Vec::new();
        for split in parting.into_iter().take(MAX_TRIED) {
            let is_found = found.iter().any(|field| field.path == split.field.path);
            let is_of_pages = split.is_of_cache()
                && (self.says_what_a_cache_of_pages_found(|row| split.others.binary_search(&row).is_ok())
                    || self
                        .says_what_a_cache_of_pages_found(|row| split.others.binary_search(&row).is_err()));
            if !is_found && !is_of_pages && self.is_read(&split.field.path, &[split.row]) == Some(false) {
                parted.push(split.field);
            }
        }
        let is_told = found.iter().any(|field| field.kind == UnreadKind::NotComputed) || !parted.is_empty();
        parted.extend(without_answer.filter(|_| !is_told));
        parted
    }

    /// Whether requests of one pool have several of a field's values.
    fn parts_a_pool(&mut self, candidate: &Candidate) -> bool {
        let mut values = HashMap::new();
        candidate.rows.iter().zip(&candidate.digests).any(|(row, digest)| {
            let pool = self.reading(*row).map(|reading| reading.pool);
            pool.is_some_and(|pool| values.insert(pool, *digest).is_some_and(|known| known != *digest))
        })
    }

    /// What the objects around several requests say of those that are not there: where every one of them does.
    fn rest_of_pages(&mut self) -> Vec<UnreadField> {
        let more = |value: &Value, rows: u64| {
            let mut said = BTreeMap::new();
            walk(value, &mut |path, value| {
                said.extend(says_more(path, value, rows).map(|what| (path.to_owned(), what)));
            });
            said
        };
        // Each row is read for it.
        let may_say = (0..self.rows.len()).filter(|row| !more(&self.rows[*row].value, 1).is_empty());
        let may_say: Vec<_> = may_say.collect();
        let requests: u64 =
            may_say.iter().filter_map(|row| self.reading(*row)).map(|reading| reading.requests).sum();
        let pages = may_say.len() as u64;
        if pages == 0 || pages < self.rows.len() as u64 || requests < 2 * pages {
            return Vec::new();
        }
        let mut said = more(&self.rows[may_say[0]].value, requests);
        may_say[1..].iter().for_each(|row| {
            let other = more(&self.rows[*row].value, requests);
            said.retain(|path, _| other.contains_key(path));
        });
        let told = said.into_iter().map(|(path, what)| UnreadField {
            said: format!("{what}, and it holds {requests}"),
            ..UnreadField::counted(path, UnreadKind::Rest, (pages, pages))
        });
        told.collect()
    }

    /// Whether rows that have a field have one of these right beside it.
    fn stands_beside(&self, path: &str, candidate: &Candidate, names: &[&str]) -> bool {
        let around = path.rfind('.').map_or("", |at| &path[..=at]);
        candidate.tried_in.iter().all(|row| {
            let mut is_there = false;
            walk(&self.rows[*row].value, &mut |here, _| {
                is_there |= here.strip_prefix(around).is_some_and(|name| names.contains(&name));
            });
            is_there
        })
    }

    /// Whether a field only names tools, in rows that describe them.
    fn describes_tools(&self, path: &str, candidate: &Candidate) -> bool {
        let names_tools = words::any(&words::words(path), &["tool", "toolset"]);
        names_tools
            && candidate.tried_in.iter().all(|row| {
                let mut has_tools = false;
                walk(&self.rows[*row].value, &mut |here, value| {
                    let is_list = value.as_array().is_some_and(|items| !items.is_empty());
                    has_tools |= is_list && here.rsplit('.').next() == Some("tools");
                });
                has_tools
            })
    }

    /// Whether a field counts fewer tokens than another of its row says that the prompt has.
    fn is_less_than_a_prompt(&self, path: &str, candidate: &Candidate) -> bool {
        candidate.rows.iter().any(|row| {
            let (mut own, mut prompt) = (None, None);
            walk(&self.rows[*row].value, &mut |here, value| {
                let last = words::words(here.rsplit('.').next().unwrap_or_default());
                let is_of_prompt =
                    words::any(&last, &["prompt", "input"]) && words::any(&last, &["tokens", "toks"]);
                match value.as_f64() {
                    Some(number) if here == path => own = Some(number),
                    Some(number) if is_of_prompt => {
                        prompt = Some(prompt.map_or(number, |known: f64| known.max(number)))
                    }
                    _ => {}
                }
            });
            own.zip(prompt).is_some_and(|(own, prompt): (f64, f64)| own < prompt)
        })
    }

    /// Whether rows that speak of a hit are those that state cached tokens: then it is the engine's word.
    fn says_what_a_cache_of_pages_found(&mut self, says_hit: impl Fn(usize) -> bool) -> bool {
        /// Of so many rows one may be otherwise: a hit may be of less than a page.
        const OTHERWISE: u64 = 10;
        let (mut stating, mut otherwise) = (0u64, 0u64);
        for row in 0..self.rows.len() {
            let Some(reading) = self.reading(row).filter(|reading| reading.has_cached) else { continue };
            stating += 1;
            otherwise += u64::from(says_hit(row) != (reading.cached_tokens > 0));
        }
        stating > 0 && otherwise * OTHERWISE <= stating
    }

    /// The share of the cached tokens that rows state which say that no engine computed them.
    fn cached_share(&mut self, candidate: &Candidate) -> Option<f64> {
        if !matches!(candidate.kind, UnreadKind::AnswerCache | UnreadKind::NotComputed) {
            return None;
        }
        let (mut all, mut own) = (0, 0);
        for row in 0..self.rows.len() {
            let cached = self.reading(row).map_or(0, |reading| reading.cached_tokens);
            all += cached;
            own += if candidate.rows.binary_search(&row).is_ok() { cached } else { 0 };
        }
        (own > 0).then(|| own as f64 / all as f64)
    }

    /// Whether what a field holds stands in what was read or in an answer, or around all of that.
    fn is_said_elsewhere(&self, path: &str, candidate: &Candidate, read: &[(String, UnreadKind)]) -> bool {
        candidate.tried_in.iter().all(|row| {
            let (mut own, mut others) = (Vec::new(), Vec::new());
            walk(&self.rows[*row].value, &mut |here, value| {
                let text = value.as_str().map_or_else(|| value.to_string(), |text| text.trim().to_owned());
                if here == path {
                    // The short ones beside it would not be named by themselves.
                    own.extend((kind_of(here, value) == Some(candidate.kind)).then_some(text));
                } else if read.iter().any(|(known, _)| known == here) || is_of_answer(here) {
                    others.push(text);
                }
            });
            let is_within = |own: &str| others.iter().any(|other| other.contains(own));
            let held = |own: &str| {
                others.iter().filter(|other| own.contains(other.as_str())).map(String::len).sum::<usize>()
            };
            let says = |own: &String| is_within(own) || held(own) * 2 >= own.len();
            own.iter().all(says)
        })
    }
}

/// Whether a field is, or lies in, the tools of a request with messages: its API knows them, and its engine or its
/// chat template shows none.
fn is_of_known_tools(path: &str, rows: &[RowValue<'_>]) -> bool {
    let is_whole_name = |(around, behind): &(&str, &str)| {
        (around.is_empty() || around.ends_with('.')) && (behind.is_empty() || behind.starts_with(['.', '[']))
    };
    let Some((around, _)) = path.split_once("tools").filter(is_whole_name) else { return false };
    rows.iter().any(|row| {
        let mut has_messages = false;
        walk(&row.value, &mut |path, _| has_messages |= path.strip_prefix(around) == Some("messages"));
        has_messages
    })
}

impl UnreadField {
    /// A field that so many of the rows have.
    fn counted(path: String, kind: UnreadKind, (rows, of): (u64, u64)) -> Self {
        Self { path, kind, rows, of, values: 0, said: String::new(), share: None, cached_share: None }
    }
}
