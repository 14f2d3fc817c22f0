//! What passes between the tiers of a plan.

use kvset_core::estimate::Estimate;
use kvset_core::pool::config::PoolConfig;
use kvset_core::questions::tiers::{Inclusion, TierEstimate, TierSpan, Traffic, TrafficLog};
use kvset_core::request::event::RequestEvent;
use kvset_core::request::outcome::Outcome;
use kvset_core::units::PageCount;
use kvset_core::units::ratio::Ratio;

/// Milliseconds of a day.
const DAY_MS: f64 = 86_400_000.0;

/// What passes between tiers over a whole trace. Pages are whole pages: sampled counts are scaled up.
#[derive(Debug, Clone, PartialEq)]
pub struct TrafficResult {
    /// From the first counted request to the last.
    pub span_ms: u64,
    /// One entry a tier below the first.
    pub tiers: Vec<TierTraffic>,
    /// Distinct pages that were touched only once, and all of them; `None` where the stack forgot some.
    pub touched_once: Option<(u64, u64)>,
    /// Tokens prefilled a second, where given.
    pub prefill_rate: Option<f64>,
}

impl TrafficResult {
    /// The bandwidth at which a page is loaded in the time it takes to prefill it; none without a rate.
    pub fn break_even_bytes_per_second(&self, page_size: u32, page_bytes: u64) -> Option<f64> {
        self.prefill_rate.map(|rate| rate * page_bytes as f64 / f64::from(page_size))
    }
}

/// One tier below the first.
#[derive(Debug, Clone, PartialEq)]
pub struct TierTraffic {
    /// Its name.
    pub name: String,
    /// How it relates to those above.
    pub inclusion: Inclusion,
    /// What it holds, in pages and, where they are known, bytes; those above first.
    pub sizes: Vec<(u64, Option<u64>)>,
    /// Pages read from it.
    pub read_pages: u64,
    /// Pages written to it.
    pub written_pages: u64,
    /// Pages written where it is inclusive instead of exclusive, and the other way round.
    pub written_otherwise: u64,
    /// Pages that a request reads: the median and the largest but for one request in a hundred.
    pub load_pages: (u64, u64),
    /// The busiest spans.
    pub peaks: Vec<BusiestSpan>,
    /// From the first request to the last.
    pub span_ms: u64,
    /// The same in days; none where that is no time.
    pub days: Option<f64>,
}

/// The busiest span of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusiestSpan {
    /// How long.
    pub span_ms: u64,
    /// Most pages read in one.
    pub read_pages: u64,
    /// Most pages written in one.
    pub written_pages: u64,
}

impl TierTraffic {
    /// How often the tier is written full in a day; none where it is empty or there is no time.
    pub fn drive_writes_a_day(&self) -> Option<f64> {
        let (own, _) = *self.sizes.last()?;
        let full = self.written_pages as f64 / own as f64;
        self.days.filter(|_| own > 0).map(|days| full / days)
    }

    /// Pages read a day.
    pub fn read_pages_a_day(&self) -> Option<f64> {
        self.days.map(|days| self.read_pages as f64 / days)
    }
}

/// Follows a replay with a plan.
#[derive(Debug)]
pub(super) struct TrafficObserver {
    log: TrafficLog,
    prefill_rate: Option<f64>,
    uncounted: usize,
}

impl TrafficObserver {
    /// An observer that has seen nothing; none where there is no second tier.
    pub(super) fn new(config: &PoolConfig, prefill_rate: Option<f64>) -> Option<Self> {
        let follows = config.tiers.len() > 1 && !config.is_pointwise();
        follows.then(|| Self { log: TrafficLog::default(), prefill_rate, uncounted: 0 })
    }

    pub(super) fn observe(&mut self, event: &RequestEvent<'_>, outcome: &Outcome, counted: bool) {
        self.log.observe(event.event_time, outcome);
        self.uncounted += usize::from(!counted);
    }

    /// What passes between the planned tiers; none where they have no sizes.
    pub(super) fn result(&self, config: &PoolConfig, whole: Option<&Estimate>) -> Option<TrafficResult> {
        let plan = whole?.plan.as_ref()?;
        if !self.log.is_complete() {
            return None;
        }
        let mut span_ms = 0;
        let mut tiers = Vec::new();
        for below in 1..plan.tiers.len() {
            let upto = &plan.tiers[..=below];
            let Some(span) = span_of(upto, config) else { break };
            let traffic = self.log.traffic(span, self.uncounted);
            span_ms = traffic.span_ms;
            tiers.push(tier(upto, &traffic, config.sample_rate)?);
        }
        let whole_of = |pages: u64| config.sample_rate.whole_of(pages);
        let touched_once = self.log.touched_once().map(|(once, all)| (whole_of(once), whole_of(all)));
        Some(TrafficResult { span_ms, tiers, touched_once, prefill_rate: self.prefill_rate })
    }
}

/// Where the last of these tiers lies; none where it or one above has no size.
fn span_of(tiers: &[TierEstimate], config: &PoolConfig) -> Option<TierSpan> {
    let [.., above, tier] = tiers else { return None };
    let followed = |pages: u64| config.held_shares().followed_of(PageCount(pages));
    Some(TierSpan {
        above: followed(above.planned.reach_pages?),
        own: followed(tier.planned.pages?),
        inclusion: tier.inclusion,
    })
}

fn tier(tiers: &[TierEstimate], traffic: &Traffic, rate: Ratio) -> Option<TierTraffic> {
    let last = tiers.last()?;
    let whole = |pages: u64| rate.whole_of(pages);
    let load = |thousandths| traffic.load(Ratio::per_mille(thousandths)).map_or(0, whole);
    let size = |tier: &TierEstimate| Some((tier.planned.pages?, tier.planned.bytes));
    let peaks = traffic.peaks.iter().map(|peak| BusiestSpan {
        span_ms: peak.span_ms,
        read_pages: whole(peak.read_pages),
        written_pages: whole(peak.written_pages),
    });
    Some(TierTraffic {
        name: last.name.clone(),
        inclusion: last.inclusion,
        sizes: tiers.iter().map(size).collect::<Option<_>>()?,
        read_pages: whole(traffic.read_pages),
        written_pages: whole(traffic.written_pages),
        written_otherwise: whole(traffic.written_otherwise),
        load_pages: (load(500), load(990)),
        peaks: peaks.collect(),
        span_ms: traffic.span_ms,
        days: (traffic.span_ms > 0).then(|| traffic.span_ms as f64 / DAY_MS),
    })
}
