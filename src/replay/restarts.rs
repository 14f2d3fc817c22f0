//! `--restarts`: what an emptied cache costs, counted while a log is replayed.

use super::{ReplayError, ReplayOptions};
use crate::present::document::{Section, Table};
use crate::worth::restarts::{self, HourClock, RestartsLog, RestartsResult};
use kvset_core::estimate::Estimate;
use kvset_core::pool::Pool;
use kvset_core::questions::costs::{PrefillCosts, PrefillRate, Prices};
use kvset_core::questions::question::{QuestionFigures, QuestionPool};
use kvset_core::questions::restarts::{RestartsObserver, RestartsRequest};
use kvset_core::questions::sizes::ReportedSize;
use kvset_core::request::event::RequestEvent;
use kvset_core::units::PageCount;
use kvset_core::units::capacity::CapacitySpec;
use kvset_formats::trace::{TimeFacts, TraceClock};

/// The restarts of one pool.
#[derive(Debug)]
pub(super) struct ReplayRestarts {
    rate: Option<PrefillRate>,
    prices: Prices,
    provisioned: Option<CapacitySpec>,
    max_tracked_pages: u64,
    /// From the first request on.
    log: Option<RestartsLog>,
}

impl ReplayRestarts {
    /// Nothing yet; none where nobody asks for it.
    pub(super) fn new(options: &ReplayOptions) -> Option<Self> {
        options.extras.restarts.then(|| Self {
            rate: options.extras.prefill_rate.clone(),
            prices: options.extras.prices,
            provisioned: options.provisioned.clone(),
            max_tracked_pages: options.pool.cache.max_tracked_pages.0,
            log: None,
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
        let log = match &mut self.log {
            Some(log) => log,
            none => {
                let provisioned = provisioned_pages(self.provisioned.as_ref(), pool);
                let most = self.max_tracked_pages;
                if let Some(pages) = provisioned.filter(|pages| *pages > most) {
                    return Err(ReplayError::RestartsBeyond { pages, most });
                }
                let prices = self.prices;
                let worth = self.rate.clone().map(|prefill_rate| PrefillCosts { prefill_rate, prices });
                let capacities = curve.thresholds();
                let cache = pool.config().observed().provisioned();
                let followed = QuestionPool { cache, costs: worth.as_ref(), capacities, page_size };
                let observer = RestartsObserver::at(followed);
                none.insert(RestartsLog::new(observer, capacities.len()))
            }
        };
        Ok(log.add(RestartsRequest::of(event, number, page_size, outcome), counted)?)
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
        let (Some(pool), Some(whole), Some(log)) = (pool, whole, self.log) else { return Ok(None) };
        let Some(page_size) = pool.page_size() else { return Ok(None) };
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
        let sizes = ReportedSize::all(&QuestionFigures {
            config: pool.config().observed().provisioned(),
            page_size,
            page_bytes: pool.page_bytes(),
            capacities: &whole.capacities,
            recommended: &whole.recommended,
            below_a_day: 0.0,
        });
        Ok(Some(log.result(&sizes, clock)))
    }
}

fn provisioned_pages(provisioned: Option<&CapacitySpec>, pool: &Pool) -> Option<u64> {
    provisioned?.pages(pool.page_bytes()).map(|PageCount(pages)| pages)
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
