//! What the rows of a log hold, counted while they are replayed.
//!
//! Every count has a bound: names and rows are compared by 64-bit digests, of which so many are kept.

use super::repeats::Repeats;
use crate::replay::{EngineLedger, RowCensus, TraceFindings};
use kvset_core::request::event::CachedTokens;
use kvset_core::request::labels::Label;
use kvset_core::units::pages::Scope;
use kvset_formats::trace::TraceRow;
use std::collections::{BTreeMap, HashSet};
use xxhash_rust::xxh3::xxh3_64;

/// Most different names that are counted, of each kind.
const MOST_NAMES: usize = 1 << 20;
/// Names that are shown.
const SHOWN_NAMES: usize = 4;
/// Most page sizes that are counted apart.
const MOST_PAGE_SIZES: usize = 64;
/// Gaps that are kept, the longest.
const SHOWN_GAPS: usize = 3;

/// The rows of a log.
#[derive(Debug, Default)]
pub struct Census {
    /// Requests that were read; the pool may refuse some of them.
    pub requests: u64,
    pub pages: PageFacts,
    /// Requests that state the tokens of their prompt, and those that state the tokens of their output.
    pub with_input_tokens: u64,
    pub with_output_tokens: u64,
    pub cached: CachedFacts,
    pub arrivals: ArrivalFacts,
    pub replicas: NameCounts,
    pub sessions: NameCounts,
    pub tenants: NameCounts,
    /// Schemes of page ids.
    pub id_schemes: NameCounts,
    /// Requests whose ids are unique within something, and of how many such.
    pub scopes: NameCounts,
    pub repeats: Repeats,
    /// What the reader found; defaults where the log could not be read to its end.
    pub findings: TraceFindings,
    /// What the pool made of the rows.
    pub ledger: EngineLedger,
    /// Whether the log was read to its end.
    pub is_whole: bool,
}

/// Page ids.
#[derive(Debug, Default)]
pub struct PageFacts {
    /// Requests by the size of their pages, in tokens.
    pub sizes: BTreeMap<u32, u64>,
    /// Requests whose ids are declared chained, or were chained where they were made of tokens.
    pub chained: u64,
    /// Requests whose prompts fill no page.
    pub without: u64,
    /// Requests that list the pages of their outputs.
    pub with_outputs: u64,
    /// The largest of the last ids of prompts.
    pub largest_id: u64,
}

/// Cached tokens.
#[derive(Debug, Default)]
pub struct CachedFacts {
    /// Requests that state them, and those of a usage that leaves them out.
    pub stated: u64,
    pub left_out: u64,
    /// Of those that state them: zero, and no whole number of pages.
    pub zero: u64,
    pub broken_pages: u64,
    /// Their sum, and that of the prompts of the same requests.
    pub tokens: u64,
    pub prompt_tokens: u64,
}

/// Times of arrival, in milliseconds.
#[derive(Debug, Default)]
pub struct ArrivalFacts {
    /// Requests that state how long they took.
    pub with_duration: u64,
    /// Requests that arrived before an earlier one had ended.
    pub overlapping: u64,
    /// The longest times from one arrival to the next, longest first, each behind the arrival that it follows.
    pub gaps: Vec<(i64, u64)>,
    latest_end: i64,
    latest: Option<i64>,
}

/// Names of one kind.
#[derive(Debug, Default)]
pub struct NameCounts {
    /// Requests that have one.
    pub requests: u64,
    /// The first of them.
    pub shown: Vec<String>,
    digests: HashSet<u64>,
}

impl NameCounts {
    /// Different names; at most so many are counted.
    pub fn count(&self) -> u64 {
        self.digests.len() as u64
    }

    fn add(&mut self, name: Option<&str>) {
        let Some(name) = name else { return };
        if self.add_digest(xxh3_64(name.as_bytes())) && self.shown.len() < SHOWN_NAMES {
            self.shown.push(name.to_owned());
        }
    }

    /// Whether it is a new one.
    fn add_digest(&mut self, digest: u64) -> bool {
        self.requests += 1;
        self.digests.len() < MOST_NAMES && self.digests.insert(digest)
    }
}

impl ArrivalFacts {
    fn add(&mut self, arrival: i64, duration_ms: Option<u64>) {
        if let Some(latest) = self.latest {
            self.overlapping += u64::from(arrival < self.latest_end);
            self.note_gap(latest, arrival);
        }
        self.latest = self.latest.max(Some(arrival));
        if let Some(duration) = duration_ms {
            self.with_duration += 1;
            let end = arrival.saturating_add(i64::try_from(duration).unwrap_or(i64::MAX));
            self.latest_end = self.latest_end.max(end);
        }
    }

    fn note_gap(&mut self, from_ms: i64, to_ms: i64) {
        let Ok(length_ms) = u64::try_from(to_ms.saturating_sub(from_ms)) else { return };
        let at = self.gaps.partition_point(|(_, longer_ms)| *longer_ms >= length_ms);
        if at < SHOWN_GAPS {
            self.gaps.truncate(SHOWN_GAPS - 1);
            self.gaps.insert(at, (from_ms, length_ms));
        }
    }
}

impl CachedFacts {
    fn add(&mut self, row: &TraceRow<'_>) {
        let event = &row.event;
        let page = event.page_size.map(|size| u64::from(size.get()));
        match event.cached_tokens {
            CachedTokens::Unstated => {}
            CachedTokens::LeftOut => self.left_out += 1,
            CachedTokens::Stated(tokens) => {
                self.stated += 1;
                self.zero += u64::from(tokens == 0);
                self.broken_pages += u64::from(page.is_some_and(|page| tokens % page != 0));
                let prompt = event.input_tokens.or_else(|| page.map(|page| event.prompt_pages() * page));
                self.tokens = self.tokens.saturating_add(tokens);
                self.prompt_tokens = self.prompt_tokens.saturating_add(prompt.unwrap_or(tokens));
            }
        }
    }
}

impl PageFacts {
    fn add(&mut self, row: &TraceRow<'_>) {
        let event = &row.event;
        if let Some(size) = event.page_size
            && (self.sizes.len() < MOST_PAGE_SIZES || self.sizes.contains_key(&size.get()))
        {
            *self.sizes.entry(size.get()).or_default() += 1;
        }
        self.chained += u64::from(event.ids_chained);
        self.without += u64::from(event.page_ids.is_empty());
        self.with_outputs += u64::from(!event.output_page_ids.is_empty());
        let last = event.page_ids.len().checked_sub(1).and_then(|last| event.page_ids.get(last));
        self.largest_id = self.largest_id.max(last.unwrap_or(0));
    }
}

impl RowCensus for Census {
    fn start_over(&mut self) {
        *self = Self::default();
    }

    fn row(&mut self, row: &TraceRow<'_>) {
        let event = &row.event;
        self.requests += 1;
        self.pages.add(row);
        self.with_input_tokens += u64::from(event.input_tokens.is_some());
        self.with_output_tokens += u64::from(event.output_tokens.is_some());
        self.cached.add(row);
        self.arrivals.add(event.event_time.0, event.duration_ms);
        self.replicas.add(event.labels.get(Label::Replica).copied());
        self.tenants.add(event.labels.get(Label::Tenant).copied());
        self.id_schemes.add(event.labels.get(Label::IdScheme).copied());
        self.sessions.add(row.session);
        if event.scope != Scope::GLOBAL {
            self.scopes.add_digest(event.scope.value());
        }
        self.repeats.add(row);
    }

    fn end(&mut self, findings: &TraceFindings, ledger: &EngineLedger) {
        (self.findings, self.ledger, self.is_whole) = (findings.clone(), ledger.clone(), true);
    }
}
