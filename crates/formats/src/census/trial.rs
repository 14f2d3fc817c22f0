//! Whether a field is read: it is taken out of a row, and the row is read once more.

use super::candidate::{Candidate, Candidates};
use super::rules::{UnreadKind, is_of_answer, is_of_computed, is_share, kind_of};
use super::splits::{splits, unanswered};
use super::times::{LONG_BEFORE_MS, moment_at, says_arrival};
use super::{FindFields, RowReading, UnreadField, words};
use crate::row_values::{RowValue, walk};
use serde_json::Value;
use std::collections::HashMap;

/// Fields that are tried.
const MAX_TRIED: usize = 96;

/// Rows under census, and what reads one.
pub(super) struct Rows<'r, 'f> {
    pub rows: Vec<RowValue<'r>>,
    /// How many of them are spread over the log: the first ones.
    pub spread: usize,
    pub readings: HashMap<usize, Option<RowReading>>,
    pub read: &'f mut dyn FnMut(&[u8]) -> Option<RowReading>,
}

impl Rows<'_, '_> {
    pub fn reading(&mut self, row: usize) -> Option<RowReading> {
        if let Some(known) = self.readings.get(&row) {
            return *known;
        }
        let reading = (self.read)(&self.rows[row].written(None));
        self.readings.insert(row, reading);
        reading
    }

    /// Whether a field is read in one of its rows; nothing where none of them has a request.
    fn is_read(&mut self, path: &str, rows: &[usize]) -> Option<bool> {
        let mut found = None;
        for row in rows {
            let Some(with) = self.reading(*row) else { continue };
            let without = (self.read)(&self.rows[*row].written(Some(path)));
            if without.is_none_or(|without| without.digest != with.digest) {
                return Some(true);
            }
            found = Some(false);
        }
        found
    }

    /// The candidates that nobody reads, and that could matter in a log like this one.
    pub fn unread(&mut self, candidates: Candidates) -> Vec<UnreadField> {
        let (mut read, mut unread) = (Vec::new(), Vec::new());
        for ((path, _), candidate) in candidates.into_iter().take(MAX_TRIED) {
            match self.is_read(&path, &candidate.tried_in) {
                Some(true) => read.push((path, candidate.kind)),
                Some(false) => unread.push((path, candidate)),
                None => {}
            }
        }
        let read =
            CensusRead { may_be_text: self.readings.values().flatten().any(|row| row.may_be_text), read };
        unread.retain_mut(|(path, candidate)| self.could_matter(path, candidate, &read));
        // One says when requests came.
        let mut says_time = false;
        unread.retain(|(_, candidate)| {
            candidate.kind != UnreadKind::Time || !std::mem::replace(&mut says_time, true)
        });
        unread.into_iter().map(|(path, candidate)| self.field(path, candidate)).collect()
    }

    /// Whether a field that nobody reads could matter beside those that are read.
    fn could_matter(&mut self, path: &str, candidate: &mut Candidate, read: &CensusRead) -> bool {
        let words = words::words(path);
        match candidate.kind {
            UnreadKind::Text | UnreadKind::Functions => {
                // Alongside what was asked, a content is what was answered.
                let is_answer = candidate.kind == UnreadKind::Text
                    && path == "content"
                    && self.has_sibling(path, candidate, &["messages"]);
                read.is_of_text()
                    && !is_answer
                    && !self.is_of_known_tools(path)
                    && !self.is_said_elsewhere(path, candidate, read)
            }
            UnreadKind::Integers => !read.is_of_pages() && !self.is_said_elsewhere(path, candidate, read),
            // One that was set aside is read, and told of by itself; a gauge of the whole engine says nothing of a
            // request.
            UnreadKind::CachedTokens => {
                let is_gauge = candidate.is_constant() && is_share(path);
                let is_of_prompt = !is_of_computed(path) || self.is_less_than_a_prompt(path, candidate);
                path != "cached_tokens"
                    && is_of_prompt
                    && !is_gauge
                    && !self.any_tried(candidate, |reading| reading.has_cached)
            }
            UnreadKind::Cache => {
                let is_of_broker = words::any(&words, &["partition"])
                    && self.has_sibling(path, candidate, &["offset", "topic"]);
                !is_of_broker && !self.any_tried(candidate, |reading| reading.has_replica)
            }
            UnreadKind::Adapter => !read.has(UnreadKind::Adapter),
            // Its gateway's cache is another.
            UnreadKind::NoLookup => !self.any_tried(candidate, |reading| reading.cached_tokens > 0),
            UnreadKind::Limit => {
                let longer = self.exceeding(path, candidate);
                candidate.said = longer.map_or_else(String::new, |(tokens, most)| {
                    format!("{tokens} tokens where {most} are allowed")
                });
                longer.is_some()
            }
            UnreadKind::Media => !read.is_of_pages(),
            UnreadKind::Added => {
                let names_tools = words::any(&words, &["tool", "toolset"]);
                read.is_of_text() && !(names_tools && self.describe_tools(candidate))
            }
            UnreadKind::AnswerCache => {
                !self.says_what_a_cache_of_pages_found(|row| candidate.rows.binary_search(&row).is_ok())
            }
            UnreadKind::Answering => self.parts_a_pool(candidate),
            UnreadKind::Time if self.has_time() => {
                let is_long_before = says_arrival(path) && self.lies_long_before(path, candidate);
                if is_long_before {
                    candidate.said.push_str("and lies a minute and more before the time that was read");
                }
                is_long_before
            }
            _ => true,
        }
    }

    /// What is said of a field: in how many of the rows that are spread over the log, where one of these has it.
    fn field(&mut self, path: String, candidate: Candidate) -> UnreadField {
        let own = candidate.rows.partition_point(|row| *row < self.spread) as u64;
        let (rows, of) =
            if own > 0 { (own, self.spread as u64) } else { (candidate.count(), self.rows.len() as u64) };
        UnreadField {
            path,
            kind: candidate.kind,
            rows,
            of,
            values: candidate.values(),
            share: candidate.share,
            cached_share: self.cached_share(&candidate),
            said: candidate.said,
        }
    }

    /// Whether what was read of one of the rows that a field was tried in is so.
    fn any_tried(&self, candidate: &Candidate, is_so: fn(&RowReading) -> bool) -> bool {
        let readings = candidate.tried_in.iter().filter_map(|row| self.readings.get(row)?.as_ref());
        readings.into_iter().any(is_so)
    }

    /// Whether one of the rows that were read says when it came.
    fn has_time(&self) -> bool {
        self.readings.values().flatten().any(|reading| reading.time.is_some())
    }

    /// A prompt that has more tokens than a field of its row says is the most.
    fn exceeding(&mut self, path: &str, candidate: &Candidate) -> Option<(u64, u64)> {
        const ROWS: usize = 64;
        candidate.rows.iter().take(ROWS).find_map(|row| {
            let mut most = None;
            walk(&self.rows[*row].value, &mut |here, value| {
                most = most.or(value.as_u64().filter(|_| here == path))
            });
            // A token has a byte at least.
            let most = most.filter(|most| *most > 0 && *most < self.rows[*row].bytes as u64)?;
            let tokens = self.reading(*row)?.longest;
            (tokens > most).then_some((tokens, most))
        })
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
    pub fn of_whole_rows(&self, find: FindFields) -> Vec<UnreadField> {
        let mut fields = find(&mut self.rows.iter().map(|row| &row.value));
        let of_spread = find(&mut self.rows[..self.spread].iter().map(|row| &row.value));
        for field in of_spread {
            let known = fields.iter_mut().find(|all| all.path == field.path && all.said == field.said);
            known.into_iter().for_each(|known| *known = field.clone());
        }
        fields
    }

    /// The fields that part the rows with requests by what became of these, other than those that were found.
    pub fn parted(&mut self, found: &[UnreadField]) -> Vec<UnreadField> {
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
        let is_named = found.iter().any(|field| field.kind == UnreadKind::NotComputed) || !parted.is_empty();
        parted.extend(without_answer.filter(|_| !is_named));
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

    /// Whether the rows that a field was tried in have one of these fields right beside it.
    fn has_sibling(&self, path: &str, candidate: &Candidate, names: &[&str]) -> bool {
        let around = path.rfind('.').map_or("", |at| &path[..=at]);
        let is_sibling =
            |here: &str, _: &Value| here.strip_prefix(around).is_some_and(|name| names.contains(&name));
        candidate.tried_in.iter().all(|row| any_field(&self.rows[*row], is_sibling))
    }

    /// Whether the rows that a field was tried in describe their tools.
    fn describe_tools(&self, candidate: &Candidate) -> bool {
        let lists_tools = |here: &str, value: &Value| {
            here.rsplit('.').next() == Some("tools")
                && value.as_array().is_some_and(|items| !items.is_empty())
        };
        candidate.tried_in.iter().all(|row| any_field(&self.rows[*row], lists_tools))
    }

    /// Whether a field is, or lies in, the tools of a request with messages: its API knows them, and its engine or its
    /// chat template shows none.
    fn is_of_known_tools(&self, path: &str) -> bool {
        let is_whole_name = |(around, behind): &(&str, &str)| {
            (around.is_empty() || around.ends_with('.'))
                && (behind.is_empty() || behind.starts_with(['.', '[']))
        };
        let Some((around, _)) = path.split_once("tools").filter(is_whole_name) else { return false };
        let has_messages = |here: &str, _: &Value| here.strip_prefix(around) == Some("messages");
        self.rows.first().is_some_and(|row| any_field(row, has_messages))
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
    fn is_said_elsewhere(&self, path: &str, candidate: &Candidate, read: &CensusRead) -> bool {
        candidate.tried_in.iter().all(|row| {
            let (mut own, mut others) = (Vec::new(), Vec::new());
            walk(&self.rows[*row].value, &mut |here, value| {
                let text = value.as_str().map_or_else(|| value.to_string(), |text| text.trim().to_owned());
                if here == path {
                    // The short ones beside it would not be named by themselves.
                    own.extend((kind_of(here, value) == Some(candidate.kind)).then_some(text));
                } else if read.read.iter().any(|(known, _)| known == here) || is_of_answer(here) {
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

/// Whether a field of a row is so.
fn any_field(row: &RowValue<'_>, is_so: impl Fn(&str, &Value) -> bool) -> bool {
    let mut found = false;
    walk(&row.value, &mut |path, value| found |= is_so(path, value));
    found
}

/// The fields that are read, and what the log is of by them.
struct CensusRead {
    read: Vec<(String, UnreadKind)>,
    /// Whether prompts of its format may be texts.
    may_be_text: bool,
}

impl CensusRead {
    fn has(&self, kind: UnreadKind) -> bool {
        self.read.iter().any(|(_, read)| *read == kind)
    }

    fn is_of_text(&self) -> bool {
        self.may_be_text && !self.has(UnreadKind::Integers)
    }

    /// Whether a list of whole numbers is of pages by its name.
    fn is_of_pages(&self) -> bool {
        const PAGES: [&str; 4] = ["hash", "page", "block", "chunk"];
        let lists = self.read.iter().filter(|(_, kind)| *kind == UnreadKind::Integers);
        lists
            .flat_map(|(path, _)| words::words(path))
            .any(|word| PAGES.iter().any(|page| word.starts_with(page)))
    }
}
