//! A trace in memory, decoded once, to be replayed several times.
//!
//! Prompts that begin alike are kept as far as that once ([`PromptTree`]), so a log of sessions takes a small part of
//! what its page ids would. Tokens, where the trace has them or text, are kept themselves: pages are made of them at
//! each replay, of any size.

mod feed;
mod paging;

pub(super) use feed::LogFeed;
pub use kvset_core::request::prompts::{PromptPath, PromptTree};
pub use paging::check_page_size;

use super::ledger::EngineLedger;
use super::reading::{MAX_POOLS, UNNAMED, listed};
use super::{Replay, ReplayError, ReplayOptions, TraceFindings, WarmUp};
use kvset_core::engines::config::CacheConfig;
use kvset_core::estimate::config::PoolConfig;
use kvset_core::request::event::{CachedTokens, RequestEvent};
use kvset_core::request::labels::{Label, Labels};
use kvset_core::units::pages::{PageIds, Scope};
use kvset_core::units::{EventTime, PageSize};
use kvset_formats::trace::{
    self, CacheWrites, ItemGroup, ReadProgress, RowOrder, TimeFacts, TraceError, TraceItem, TraceRow,
};
use paging::Pager;
use std::collections::HashMap;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// Most ids that are kept: 2 GiB of them.
const MOST_IDS: usize = 1 << 28;

/// The requests of a trace, in the order in which they are replayed.
#[derive(Debug, Default)]
pub struct RequestLog {
    prompts: PromptTree,
    outputs: Vec<u64>,
    requests: Vec<LogEntry>,
    names: InternedNames,
    /// Whether ids are tokens.
    has_tokens: bool,
    findings: TraceFindings,
    ledger: EngineLedger,
}

/// One request.
#[derive(Debug, Clone)]
pub struct LogEntry {
    /// Its prompt.
    pub path: PromptPath,
    /// Leading ids of it that an earlier one had.
    pub known: usize,
    /// What its ids are unique within.
    pub scope: Scope,
    /// The file and the line that it stands in.
    pub file: u32,
    /// See `file`.
    pub line: u64,
    session: Option<u32>,
    pool: Option<u32>,
    labels: Labels<u32>,
    event_time: EventTime,
    page_size: Option<PageSize>,
    ids_chained: bool,
    are_tokens: bool,
    outputs: Range<usize>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    duration_ms: Option<u64>,
    cached_tokens: CachedTokens,
    cache_writes: Option<CacheWrites>,
}

impl LogEntry {
    /// Whether its ids are declared chained: tokens are, as pages are made of them.
    pub fn ids_chained(&self) -> bool {
        self.ids_chained
    }

    /// How many of its first `ids` ids are of full pages: all of them where they are tokens.
    pub fn whole_ids(&self, ids: usize) -> usize {
        let full = |tokens: u64| self.page_size.map_or(ids, |size| (tokens / u64::from(size.get())) as usize);
        if self.are_tokens { ids } else { self.input_tokens.map_or(ids, full).min(ids) }
    }
}

/// Names, each kept once.
#[derive(Debug, Default)]
struct InternedNames {
    names: Vec<Box<str>>,
    places: HashMap<Box<str>, u32>,
}

impl InternedNames {
    fn keep(&mut self, name: &str) -> u32 {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.names.len() as u32;
        self.names.push(name.into());
        self.places.insert(name.into(), place);
        place
    }

    fn get(&self, place: u32) -> &str {
        self.names.get(place as usize).map_or("", |name| name)
    }
}

impl RequestLog {
    /// No request yet, of a trace of which this was found.
    pub(super) fn of_findings(findings: TraceFindings) -> Self {
        Self { findings, ..Self::default() }
    }

    /// Reads the traces of the options. Prompts of tokens are kept as tokens.
    ///
    /// # Errors
    /// They cannot be read, have several pools, or take more memory than they may.
    pub fn read(
        options: &ReplayOptions,
        progress: &mut dyn FnMut(ReadProgress),
    ) -> Result<Self, ReplayError> {
        let mut order = if options.has_stream() { RowOrder::Arrival } else { RowOrder::Expected };
        loop {
            match Self::read_in(options, order, progress) {
                Err(ReplayError::Trace(TraceError::ReadAgain)) => order = RowOrder::Arrival,
                Err(error) => return Err(error),
                Ok(log) => break log.checked(options),
            }
        }
    }

    fn read_in(
        options: &ReplayOptions,
        order: RowOrder,
        progress: &mut dyn FnMut(ReadProgress),
    ) -> Result<Self, ReplayError> {
        let read = trace::ReadOptions { keeps_tokens: true, ..options.read_in(order) };
        let mut reader = trace::open_ahead(&options.traces, &read, options.threads, &[])?;
        let mut log = Self::default();
        let (mut ids, mut others) = (Vec::new(), Vec::new());
        loop {
            let ItemGroup { items, .. } = reader.next_items()?;
            if items.is_empty() {
                break;
            }
            for item in items {
                match item {
                    TraceItem::Request(row) if options.replays(&row) => log.take(&row, &mut ids)?,
                    TraceItem::Request(row) => note(&mut others, row.pool),
                    TraceItem::Refused(error) => {
                        let place = || format!("{}, line {}", error.file, error.line);
                        log.ledger.refuse(place, &error.fault);
                    }
                }
            }
            progress(reader.progress());
        }
        progress(reader.progress());
        log.findings = reader.findings();
        match &options.pool_name {
            Some(wanted) if log.requests.is_empty() => {
                Err(ReplayError::NoSuchPool { wanted: wanted.clone(), names: listed(&others) })
            }
            _ => Ok(log),
        }
    }

    pub(super) fn take(&mut self, row: &TraceRow<'_>, ids: &mut Vec<u64>) -> Result<(), ReplayError> {
        let event = &row.event;
        ids.clear();
        ids.extend(event.page_ids.iter());
        let (path, known) = self.prompts.add(event.scope, ids);
        let from = self.outputs.len();
        self.outputs.extend(event.output_page_ids.iter());
        if self.prompts.kept() + self.outputs.len() > MOST_IDS {
            return Err(ReplayError::TooManyIds { most: MOST_IDS });
        }
        self.has_tokens |= row.are_tokens;
        let mut name = |name: &str| self.names.keep(name);
        self.requests.push(LogEntry {
            path,
            known,
            scope: event.scope,
            file: name(row.file),
            line: row.line,
            session: row.session.map(&mut name),
            pool: row.pool.map(&mut name),
            labels: event.labels.map(&mut name),
            event_time: event.event_time,
            page_size: event.page_size,
            ids_chained: event.ids_chained,
            are_tokens: row.are_tokens,
            outputs: from..self.outputs.len(),
            input_tokens: event.input_tokens,
            output_tokens: event.output_tokens,
            duration_ms: event.duration_ms,
            cached_tokens: event.cached_tokens,
            cache_writes: row.cache_writes,
        });
        Ok(())
    }

    fn checked(self, options: &ReplayOptions) -> Result<Self, ReplayError> {
        let mut pools: Vec<Box<str>> = Vec::new();
        self.requests.iter().for_each(|request| note(&mut pools, request.pool.map(|at| self.names.get(at))));
        if pools.len() > 1 {
            return Err(ReplayError::SeveralPools {
                asked: "replaying one log several times",
                names: listed(&pools),
            });
        }
        self.ledger.check(options.skip_bad_rows)?;
        if self.requests.is_empty() && (self.ledger.rejected > 0 || !self.findings.passed_over.is_empty()) {
            let passed_over = self.findings.passed_over.clone();
            let (rejected, first) = (self.ledger.rejected, self.ledger.bad_rows.clone());
            return Err(ReplayError::NoRequest { rejected, passed_over, first });
        }
        Ok(self)
    }

    /// The requests in their order.
    pub fn requests(&self) -> &[LogEntry] {
        &self.requests
    }

    /// Their prompts.
    pub fn prompts(&self) -> &PromptTree {
        &self.prompts
    }

    /// Whether prompts are tokens, of which pages of any size can be made.
    pub fn has_tokens(&self) -> bool {
        self.has_tokens
    }

    /// The trace file that a request stands in.
    pub fn file(&self, request: &LogEntry) -> &str {
        self.names.get(request.file)
    }

    /// A hash of the name of a request's session, where it has one.
    pub(super) fn session_hash(&self, request: &LogEntry) -> Option<u64> {
        request.session.map(|name| name_hash(self.names.get(name)))
    }

    /// A label of a request.
    pub(super) fn label(&self, request: &LogEntry, label: Label) -> Option<&str> {
        request.labels.get(label).map(|name| self.names.get(*name))
    }

    /// When a request came.
    pub(super) fn time_of(&self, request: &LogEntry) -> EventTime {
        request.event_time
    }

    /// The ids of a request's answer.
    pub(super) fn outputs_of(&self, request: &LogEntry) -> &[u64] {
        &self.outputs[request.outputs.clone()]
    }

    /// What was found of the trace.
    pub(super) fn findings(&self) -> &TraceFindings {
        &self.findings
    }

    /// When the requests came.
    pub(super) fn times(&self) -> &TimeFacts {
        &self.findings.times
    }

    /// The row of a request of a log of pages, but for the ids of its prompt.
    pub(super) fn row_of(&self, request: &LogEntry) -> TraceRow<'_> {
        let (page_size, ids_chained) = (request.page_size, request.ids_chained);
        let outputs = self.outputs_of(request);
        self.row(request, paging::Pages { page_size, ids: &[], outputs, tokens_behind: &[], ids_chained })
    }

    /// Rows that were passed over.
    pub fn rejected_rows(&self) -> u64 {
        self.ledger.rejected
    }

    /// What the reader had to assume about the trace.
    pub fn notes(&self) -> &[String] {
        &self.findings.notes
    }

    /// Tokens per page at which the log is replayed: of the first request, where it has page ids.
    pub fn page_size(&self, options: &ReplayOptions) -> Option<PageSize> {
        match self.has_tokens {
            true => Some(options.read.page_size.unwrap_or(trace::DEFAULT_PAGE_SIZE)),
            false => self.requests.first().and_then(|request| request.page_size),
        }
    }

    /// What the log has besides prompts, for whom it matters.
    pub fn facts(&self) -> LogFacts {
        let any = |is: &dyn Fn(&LogEntry) -> bool| self.requests.iter().any(is);
        LogFacts {
            has_durations: any(&|request| request.duration_ms.is_some()),
            has_sessions: any(&|request| request.session.is_some()),
            span_ms: match (self.requests.first(), self.requests.last()) {
                (Some(first), Some(last)) => {
                    last.event_time.0.saturating_sub(first.event_time.0).max(0) as u64
                }
                _ => 0,
            },
        }
    }

    /// Replays the log as [`replay`](super::replay) replays its trace, on this thread; at `page_size`, where that is
    /// given, in place of its own. `mend` may change the ids of a request before pages are made of them.
    ///
    /// # Errors
    /// [`ReplayError`]; rows that the pool refuses are among them unless the options pass over these.
    pub fn replay(
        &self,
        options: &ReplayOptions,
        page_size: Option<PageSize>,
        mend: &dyn Fn(usize, &mut Vec<u64>),
    ) -> Result<Replay, ReplayError> {
        let pool = PoolConfig {
            cache: CacheConfig {
                page_size: page_size.or(options.pool.cache.page_size),
                ..options.pool.cache.clone()
            },
            ..options.pool.clone()
        };
        let mut feed = LogFeed::new(options, &pool)?;
        let warm_up = self.warm_up(options);
        let mut pager =
            Pager::new(page_size.or_else(|| self.page_size(options)), options.looks_at_tokens_behind());
        let mut ids = Vec::new();
        for (at, request) in self.requests.iter().enumerate() {
            self.prompts.read(request.path, &mut ids);
            mend(at, &mut ids);
            let tokens = ids.len() as u64;
            let paged = pager.page(request, &ids, &self.outputs[request.outputs.clone()]);
            let mut row = self.row(request, paged);
            if request.are_tokens {
                row.event.input_tokens = Some(tokens);
            }
            let counts = feed.accepted() >= warm_up;
            feed.take(row, counts)?;
        }
        let mut done = feed.finish(options, &self.findings)?;
        done.rejected_rows += self.ledger.rejected;
        Ok(done)
    }

    /// Leading requests that only warm the cache.
    pub(super) fn warm_up(&self, options: &ReplayOptions) -> u64 {
        match options.warm_up {
            WarmUp::Requests(count) => count,
            WarmUp::Share(share) => share.share_of(self.requests.len() as u64),
        }
    }

    /// The log with pages in place of tokens.
    pub(super) fn in_pages(self, options: &ReplayOptions) -> Self {
        if !self.has_tokens {
            return self;
        }
        let mut pager = Pager::new(self.page_size(options), false);
        let mut pages = Self { findings: self.findings, ledger: self.ledger, ..Self::default() };
        let mut ids = Vec::new();
        for request in self.requests {
            self.prompts.read(request.path, &mut ids);
            let paged = pager.page(&request, &ids, &self.outputs[request.outputs.clone()]);
            let (path, known) = pages.prompts.add(request.scope, paged.ids);
            let from = pages.outputs.len();
            pages.outputs.extend(paged.outputs);
            let (page_size, ids_chained) = (paged.page_size, paged.ids_chained);
            pages.requests.push(LogEntry {
                path,
                known,
                page_size,
                ids_chained,
                outputs: from..pages.outputs.len(),
                input_tokens: if request.are_tokens { Some(ids.len() as u64) } else { request.input_tokens },
                are_tokens: false,
                ..request
            });
        }
        pages.names = self.names;
        pages
    }

    fn row<'a>(&'a self, request: &LogEntry, paged: paging::Pages<'a>) -> TraceRow<'a> {
        let event = RequestEvent {
            event_time: request.event_time,
            page_size: paged.page_size,
            scope: request.scope,
            page_ids: PageIds::from_slice(paged.ids),
            ids_chained: paged.ids_chained,
            output_page_ids: PageIds::from_slice(paged.outputs),
            tokens_behind: PageIds::from_slice(paged.tokens_behind),
            input_tokens: request.input_tokens,
            output_tokens: request.output_tokens,
            duration_ms: request.duration_ms,
            cached_tokens: request.cached_tokens,
            labels: request.labels.each_ref().map(|name| self.names.get(*name)),
            ..RequestEvent::default()
        };
        TraceRow {
            event,
            cache_writes: request.cache_writes,
            session: request.session.map(|name| self.names.get(name)),
            pool: request.pool.map(|name| self.names.get(name)),
            request_id: None,
            file: self.names.get(request.file),
            line: request.line,
            are_tokens: false,
        }
    }
}

/// A hash of a name.
pub(super) fn name_hash(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

/// What a log says besides its prompts.
#[derive(Debug, Clone, Copy)]
pub struct LogFacts {
    /// A request says how long it took.
    pub has_durations: bool,
    /// A request names its session.
    pub has_sessions: bool,
    /// From the first request to the last one, in milliseconds.
    pub span_ms: u64,
}

/// Notes the name of a pool, the first few of them.
fn note(names: &mut Vec<Box<str>>, name: Option<&str>) {
    let name = name.unwrap_or(UNNAMED);
    if names.len() < MAX_POOLS && names.iter().all(|known| **known != *name) {
        names.push(Box::from(name));
    }
}
