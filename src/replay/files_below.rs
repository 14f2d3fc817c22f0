//! Files behind vLLM's tier in host memory (its secondary tier `fs`): what both find together, and how the files grow.
//!
//! Each chunk that is stored in host memory is written to a file as well, and no file is ever removed. What the files alone
//! have is read into host memory first. So both find together what host memory without a limit would find, as long as host
//! memory holds a prompt (docs/engines.md, vLLM's tier in host memory).

use kvset_core::engines::below::Chain;
use kvset_core::request::event::RequestEvent;
use kvset_core::units::EventTime;
use serde::Serialize;

/// Most moments at which the size of the files is kept while they grow.
const MOST_MOMENTS: usize = 512;

/// Moments that a result has at most.
const SHOWN_MOMENTS: i64 = 8;

/// Follows the files under one capacity of the engine.
#[derive(Debug)]
pub(super) struct FilesBelow {
    /// A tier without a limit.
    tier: Chain,
    page_hits: u64,
    first: Option<EventTime>,
    /// When the files had how many pages: of so many requests one.
    moments: Vec<FilesAt>,
    stride: u64,
    requests: u64,
    last: FilesAt,
}

/// What the files of a secondary tier come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FilesResult {
    /// Pages that host memory or the files had, and the engine had not.
    pub page_hits: u64,
    /// Pages that the files hold in the end.
    pub pages: u64,
    /// What they held as time went by, in the order of time.
    pub growth: Vec<FilesAt>,
}

/// The size of the files at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FilesAt {
    /// Since the first request.
    pub after_ms: i64,
    /// Pages that they hold.
    pub pages: u64,
}

impl FilesBelow {
    /// Files that hold nothing, by the rules of a tier without a limit.
    pub(super) fn new(tier: Chain) -> Self {
        Self {
            tier,
            page_hits: 0,
            first: None,
            moments: Vec::new(),
            stride: 1,
            requests: 0,
            last: FilesAt::default(),
        }
    }

    /// Serves a request of which the engine found so many leading pages.
    pub(super) fn observe(&mut self, event: &RequestEvent<'_>, above: u64, counted: bool) {
        let found: u64 = self.tier.request(event, above).iter().sum();
        self.page_hits += if counted { found } else { 0 };
        // What is written stays.
        let pages = self.last.pages + self.tier.last_writes().iter().sum::<u64>();
        let first = *self.first.get_or_insert(event.event_time);
        // Requests may come out of order.
        let after_ms = event.event_time.0.saturating_sub(first.0).max(self.last.after_ms);
        self.last = FilesAt { after_ms, pages };
        if self.requests.is_multiple_of(self.stride) {
            if self.moments.len() == MOST_MOMENTS {
                let mut index = 0;
                self.moments.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.stride *= 2;
            }
            self.moments.push(self.last);
        }
        self.requests += 1;
    }

    pub(super) fn result(&self) -> FilesResult {
        let last = self.last;
        let at = |moment: i64| {
            let after_ms =
                (i128::from(last.after_ms) * i128::from(moment) / i128::from(SHOWN_MOMENTS)) as i64;
            let count = self.moments.partition_point(|seen| seen.after_ms <= after_ms);
            let pages = count.checked_sub(1).map_or(0, |index| self.moments[index].pages);
            FilesAt { after_ms, pages }
        };
        let growth = (1..SHOWN_MOMENTS).map(at).chain([last]);
        let mut growth: Vec<FilesAt> = growth.collect();
        growth.dedup_by_key(|moment| moment.after_ms);
        FilesResult { page_hits: self.page_hits, pages: last.pages, growth }
    }
}
