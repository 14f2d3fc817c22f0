//! `--restarts`: what an emptied cache costs, counted while a log is replayed.

use super::{ReplayError, ReplayOptions};
use crate::present::document::{Section, Table};
use crate::worth::restarts::{self, FoundPages, HourClock, RestartsResult, RestartsSize, RestartsTally};
use kvset_core::estimate::Estimate;
use kvset_core::pool::Pool;
use kvset_core::questions::worth::{PrefillRate, Prices};
use kvset_core::request::event::RequestEvent;
use kvset_core::units::PageCount;
use kvset_core::units::capacity::CapacitySpec;
use kvset_formats::trace::{TimeFacts, TraceClock};

/// The restarts of one pool.
#[derive(Debug)]
pub(super) struct Restarts {
    rate: Option<PrefillRate>,
    prices: Prices,
    provisioned: Option<CapacitySpec>,
    max_tracked_pages: u64,
    /// From the first request on.
    tally: Option<RestartsTally>,
}

impl Restarts {
    /// Nothing yet; none where nobody asks for it.
    pub(super) fn new(options: &ReplayOptions) -> Option<Self> {
        options.extras.restarts.then(|| Self {
            rate: options.extras.prefill_rate.clone(),
            prices: options.extras.prices,
            provisioned: options.provisioned.clone(),
            max_tracked_pages: options.pool.max_tracked_pages.0,
            tally: None,
        })
    }

    /// Takes the request in that the pool took last, its number `number`.
    pub(super) fn observe(
        &mut self,
        pool: &Pool,
        event: &RequestEvent<'_>,
        (number, counted): (u64, bool),
    ) -> Result<(), ReplayError> {
        let (Some(page_size), Some((outcome, curve))) = (pool.page_size(), pool.last_request()) else {
            return Ok(());
        };
        let page_tokens = u64::from(page_size.get());
        let tally = match &mut self.tally {
            Some(tally) => tally,
            none => {
                let provisioned = provisioned_pages(self.provisioned.as_ref(), pool);
                let most = self.max_tracked_pages;
                if let Some(pages) = provisioned.filter(|pages| *pages > most) {
                    return Err(ReplayError::RestartsBeyond { pages, most });
                }
                let sizes = curve.thresholds().iter().copied().chain(provisioned).collect();
                none.insert(RestartsTally::new(self.rate.clone(), page_tokens, sizes))
            }
        };
        let request = FoundPages {
            arrival_ms: event.event_time.0,
            number,
            counted,
            prompt_tokens: event.input_tokens.unwrap_or(outcome.page_accesses * page_tokens),
            outcome,
        };
        Ok(tally.add(request)?)
    }

    /// What they come to, at what is provisioned and what is recommended.
    ///
    /// # Errors
    /// The log does not say in which hours requests came.
    pub(super) fn result(
        self,
        pool: Option<&Pool>,
        whole: Option<&Estimate>,
        times: &TimeFacts,
    ) -> Result<Option<RestartsResult>, ReplayError> {
        let (Some(pool), Some(whole), Some(tally)) = (pool, whole, self.tally) else { return Ok(None) };
        let clock = match times.clock {
            Some(TraceClock::Epoch) => HourClock::Utc,
            Some(TraceClock::Start) => HourClock::Start,
            Some(TraceClock::Sessions) => {
                return Err(ReplayError::NoHours("each session has a clock of its own"));
            }
            Some(TraceClock::Mixed) => {
                return Err(ReplayError::NoHours("times of several clocks are mixed"));
            }
            None => return Err(ReplayError::NoHours("no row says when its request came")),
        };
        let provisioned = provisioned_pages(self.provisioned.as_ref(), pool);
        let sizes = sizes(pool, whole, provisioned);
        Ok(Some(RestartsResult::of(tally, &sizes, clock, self.prices)))
    }
}

fn provisioned_pages(provisioned: Option<&CapacitySpec>, pool: &Pool) -> Option<u64> {
    provisioned?.pages(pool.page_bytes()).map(|PageCount(pages)| pages)
}

/// What is provisioned, then what is recommended; where there is neither, the largest size of the curve.
fn sizes(pool: &Pool, whole: &Estimate, provisioned: Option<u64>) -> Vec<RestartsSize> {
    let curve = || whole.capacities.iter().filter(|point| !point.beyond_bound).map(|point| point.pages);
    let enough = whole.recommendation().and_then(|found| found.pages);
    let recommended = enough.and_then(|enough| curve().find(|pages| *pages >= enough));
    let mut all: Vec<u64> = provisioned.into_iter().chain(recommended).collect();
    all.dedup();
    if all.is_empty() {
        all.extend(curve().next_back());
    }
    let size = |pages: u64| RestartsSize {
        pages,
        bytes: pool.page_bytes().map(|bytes| bytes.0 * pages),
        is_provisioned: provisioned == Some(pages),
        is_recommended: recommended == Some(pages),
    };
    all.into_iter().map(size).collect()
}

/// The section of a report.
pub(super) fn section(result: &RestartsResult) -> Section {
    let mut tables = Vec::new();
    for at in &result.sizes {
        let mut table =
            Table::new(restarts::size(at), restarts::columns()).spare(&["days", "of the worst day"]);
        restarts::rows(at).for_each(|cells| table.row(cells));
        tables.extend(table.unless_empty());
    }
    Section { title: restarts::title(result), sentences: restarts::sentences(result), tables }
}
