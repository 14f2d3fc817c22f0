//! What a replay tells of time, of whose pages they are and of the best any policy could do.

use super::windowed::Windowed;
use super::{Beside, ReplayError};
use kvset_core::engines::one_pass::EngineRefusal;
use kvset_core::estimate::Estimate;
use kvset_core::estimate::exact_curve::FoundPages;
use kvset_core::pool::config::PoolConfig;
use kvset_core::questions::lifetimes::{Arrival, Backlog, Lifetimes};
use kvset_core::questions::optimum::{Future, ReuseLog};
use kvset_core::questions::retention::{
    MOST_AGES, Retention, RetentionConfig, RetentionResult, RetentionTally,
};
use kvset_core::questions::tenants::{
    QuotaResult, QuotaRun, TenantResult, Tenants, TenantsConfig, TenantsTally,
};
use kvset_core::request::event::RequestEvent;
use kvset_core::request::labels::Label;
use kvset_core::request::outcome::Outcome;
use kvset_core::units::{EventTime, PageCount, PageSize};
use kvset_core::windows::window::WindowKind;
use std::ops::Range;

/// What was asked for; the rest is empty.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LifetimesResult {
    /// Times to live, with the capacities of the curve that can be told.
    pub retention: Option<RetentionResult>,
    /// The same in each closed window but `all`.
    pub in_windows: Vec<WindowLifetimes>,
    /// The offline optimum.
    pub optimal: Option<OptimalResult>,
    /// Tenants, with the capacities of the curve that can be told.
    pub tenants: Vec<TenantResult>,
    /// Splits, at every capacity of the curve.
    pub quotas: Vec<QuotaResult>,
}

/// What was asked for, in one window.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowLifetimes {
    /// The window's kind.
    pub kind: WindowKind,
    /// Its start in milliseconds.
    pub start_ms: i64,
    /// Times to live.
    pub retention: Option<RetentionResult>,
    /// Hits that perfect foresight would have of what the window itself uses again, one a capacity of the curve; none
    /// where requests of other windows came between.
    pub optimal_page_hits: Option<Vec<Option<u64>>>,
}

/// What perfect foresight would find.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OptimalResult {
    /// Hits, one a capacity of the curve; `None` beyond the tracked bound, and where the stack forgot pages.
    pub page_hits: Vec<Option<u64>>,
    /// The recommended capacity beside the one that foresight would need.
    pub recommended: Option<OptimalCapacity>,
}

/// Two capacities with the same hits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OptimalCapacity {
    /// What the engine needs.
    pub pages: u64,
    /// What perfect foresight would need.
    pub optimal_pages: u64,
    /// The one over the other.
    pub times: f64,
}

/// Follows a replay.
#[derive(Debug)]
pub(super) struct LifetimesObserver {
    beside: Beside,
    /// Once the first request has told the capacities in pages.
    lifetimes: Option<Lifetimes>,
    /// Requests that these have yet to follow.
    backlog: Backlog,
    retention: Option<(RetentionConfig, RetentionTally)>,
    tenants: TenantsTally,
    windowed: Windowed,
    /// Closed windows, each with its requests where they are known.
    in_windows: Vec<(WindowLifetimes, Option<Range<u32>>)>,
    reuse: Option<ReuseLog>,
    quotas: Vec<QuotaRun>,
    /// Requests that only filled the cache, and all, so far.
    uncounted: u32,
    requests: u32,
    /// The same of those that were followed.
    followed: u32,
}

/// A request that the pool has accepted.
pub(super) struct Lived<'a> {
    pub(super) event: &'a RequestEvent<'a>,
    pub(super) outcome: &'a Outcome,
    pub(super) page_size: PageSize,
    /// Capacities of the curve that can be told, in followed pages, ascending.
    pub(super) thresholds: &'a [u64],
    pub(super) counted: bool,
}

impl LifetimesObserver {
    /// An observer that has seen nothing.
    ///
    /// # Errors
    /// Something was asked for that the profile cannot tell.
    pub(super) fn new(beside: &Beside, config: &PoolConfig) -> Result<Self, ReplayError> {
        if let Some(asked) = beside.needs_stack().filter(|_| config.is_pointwise()) {
            return Err(ReplayError::NoStack { asked, engine: config.profile.name() });
        }
        let in_windows = beside.optimal || !beside.ttls.is_empty();
        Ok(Self {
            lifetimes: None,
            backlog: Backlog::default(),
            retention: None,
            tenants: TenantsTally::default(),
            windowed: Windowed::new(if in_windows { &config.windows } else { &[] }),
            in_windows: Vec::new(),
            reuse: beside.optimal.then(ReuseLog::default),
            quotas: beside.quotas.iter().map(|quota| QuotaRun::new(quota.clone(), config)).collect(),
            beside: beside.clone(),
            uncounted: 0,
            requests: 0,
            followed: 0,
        })
    }

    pub(super) fn observe(&mut self, request: &Lived<'_>, config: &PoolConfig) -> Result<(), EngineRefusal> {
        for run in &mut self.quotas {
            run.observe(request.event, request.page_size, request.counted)?;
        }
        self.reuse.iter_mut().for_each(|reuse| reuse.observe(request.outcome));
        self.uncounted += u32::from(!request.counted);
        self.requests = self.requests.saturating_add(1);
        if !self.beside.follows_lifetimes() {
            self.add_to_windows(request.event.event_time, request.counted);
            return Ok(());
        }
        if self.lifetimes.is_none() {
            self.lifetimes = Some(self.start(request.thresholds, config));
        }
        let RequestEvent { event_time, labels, .. } = *request.event;
        let tenant = labels.get(Label::Tenant).copied();
        let arrival = Arrival { event_time, tenant, counted: request.counted };
        if self.backlog.push(&arrival, request.outcome) {
            self.follow();
        }
        Ok(())
    }

    /// Follows the requests that wait for it.
    pub(super) fn follow(&mut self) {
        let mut backlog = std::mem::take(&mut self.backlog);
        backlog.drain(|arrival, outcome| self.follow_one(arrival, outcome));
        self.backlog = backlog;
    }

    fn follow_one(&mut self, arrival: &Arrival<'_>, outcome: &Outcome) {
        let Some(lifetimes) = &mut self.lifetimes else { return };
        lifetimes.observe(arrival, outcome);
        if let (Some((_, tally)), Some(retention)) = (&mut self.retention, lifetimes.retention())
            && arrival.counted
        {
            tally.add(retention.followed());
        }
        if let Some(share) = lifetimes.tenants().and_then(Tenants::share) {
            self.tenants.add(share);
        }
        self.add_to_windows(arrival.event_time, arrival.counted);
    }

    fn add_to_windows(&mut self, event_time: EventTime, counted: bool) {
        if counted {
            let followed = self.lifetimes.as_ref().and_then(Lifetimes::retention).map(Retention::followed);
            let rules = self.retention.as_ref().map(|(rules, _)| rules);
            self.windowed.add(event_time, self.followed, followed.zip(rules));
        }
        self.followed = self.followed.saturating_add(1);
    }

    /// Takes in what the pool has closed.
    pub(super) fn close(&mut self, estimates: &[Estimate], config: &PoolConfig) {
        if estimates.is_empty() {
            return;
        }
        self.follow();
        let rules = self.retention.as_ref().map(|(rules, _)| rules);
        for estimate in estimates {
            let Some(closed) = self.windowed.close(estimate, self.requests, rules) else { continue };
            let retention = closed.tally.zip(rules).map(|(tally, rules)| {
                RetentionResult::of(&tally, rules, &config.coverages, config.sample_rate)
            });
            let (kind, start_ms) = (estimate.window, estimate.start_ms);
            let lifetimes = WindowLifetimes { kind, start_ms, retention, optimal_page_hits: None };
            self.in_windows.push((lifetimes, closed.requests));
        }
    }

    fn start(&mut self, thresholds: &[u64], config: &PoolConfig) -> Lifetimes {
        let mut capacities = thresholds.to_vec();
        capacities.dedup();
        let targets = config.target_ratios.clone();
        let rules =
            RetentionConfig { ttls: self.beside.ttls.clone(), capacities, targets, most_ages: MOST_AGES };
        let tenants = self.beside.tenants.map(|_| {
            Tenants::new(TenantsConfig {
                order: config.profile.order(),
                capacities: thresholds.to_vec(),
                targets: rules.targets.clone(),
            })
        });
        let retention = (!rules.ttls.is_empty()).then(|| Retention::new(rules.clone()));
        self.retention = retention.is_some().then(|| (rules.clone(), RetentionTally::new(rules.shape())));
        self.tenants = tenants.as_ref().map(|tenants| TenantsTally::new(tenants.shape())).unwrap_or_default();
        Lifetimes::new(config.max_tracked_pages, retention, tenants)
    }

    /// What was asked for, at the capacities of the curve.
    pub(super) fn result(
        &self,
        config: &PoolConfig,
        whole: Option<&Estimate>,
        found: Option<&FoundPages>,
    ) -> LifetimesResult {
        let points = whole.map(|all| all.capacities.as_slice()).unwrap_or_default();
        let totals: Vec<_> = points.iter().map(|point| PageCount(point.pages)).collect();
        let most = self.beside.tenants.unwrap_or(0);
        let optimal = self.reuse.as_ref().map(|reuse| self.optimal(reuse, &totals, config, whole, found));
        LifetimesResult {
            retention: self.retained(&totals, config),
            in_windows: self
                .in_windows
                .iter()
                .map(|window| self.in_window(window, &totals, config))
                .collect(),
            optimal,
            tenants: self.told_by_tenant(most, config),
            quotas: self.quotas.iter().map(|run| run.result(&totals, config)).collect(),
        }
    }

    fn told_by_tenant(&self, most: usize, config: &PoolConfig) -> Vec<TenantResult> {
        let told = |lifetimes: &Lifetimes| lifetimes.told_by_tenant(&self.tenants, most, config);
        self.lifetimes.as_ref().map(told).unwrap_or_default()
    }

    /// Retention with one entry a capacity of the curve: some may be the same in followed pages.
    fn retained(&self, totals: &[PageCount], config: &PoolConfig) -> Option<RetentionResult> {
        let (rules, tally) = self.retention.as_ref()?;
        let mut result = RetentionResult::of(tally, rules, &config.coverages, config.sample_rate);
        let place = |total: &PageCount| {
            rules.capacities.binary_search(&config.held_shares().followed_of(*total)).ok()
        };
        let places: Vec<usize> = totals.iter().map_while(place).collect();
        for point in result.points.iter_mut().filter(|point| !point.capacities.is_empty()) {
            point.capacities = places.iter().map(|place| point.capacities[*place]).collect();
        }
        result.eviction_ages = places.iter().map(|place| result.eviction_ages[*place]).collect();
        Some(result)
    }

    fn optimal(
        &self,
        reuse: &ReuseLog,
        totals: &[PageCount],
        config: &PoolConfig,
        whole: Option<&Estimate>,
        found: Option<&FoundPages>,
    ) -> OptimalResult {
        if !reuse.is_complete() {
            return OptimalResult { page_hits: vec![None; totals.len()], recommended: None };
        }
        let future = reuse.future(0..reuse.requests());
        OptimalResult {
            page_hits: optimal_hits(&future, totals, self.uncounted, config),
            recommended: whole.zip(found).and_then(|(whole, found)| {
                let pages = whole.recommendation()?.so_far()?;
                self.beside_recommended(&future, pages, config, found)
            }),
        }
    }

    /// What was asked for in a window, with what foresight would find there.
    fn in_window(
        &self,
        (window, requests): &(WindowLifetimes, Option<Range<u32>>),
        totals: &[PageCount],
        config: &PoolConfig,
    ) -> WindowLifetimes {
        let reuse = self.reuse.as_ref().filter(|reuse| reuse.is_complete());
        let optimal_page_hits = reuse.zip(requests.as_ref()).map(|(reuse, requests)| {
            optimal_hits(&reuse.future(requests.clone()), totals, requests.start, config)
        });
        WindowLifetimes { optimal_page_hits, ..window.clone() }
    }

    /// What foresight would need for the hits of a capacity.
    fn beside_recommended(
        &self,
        future: &Future<'_>,
        pages: u64,
        config: &PoolConfig,
        found: &FoundPages,
    ) -> Option<OptimalCapacity> {
        let followed = config.held_shares().followed_of(PageCount(pages));
        let least = future.least_capacity(found.hits_at(followed), self.uncounted)?;
        (least > 0).then(|| OptimalCapacity {
            pages,
            optimal_pages: config.nominal_pages(least),
            times: followed as f64 / least as f64,
        })
    }
}

/// Hits of the requests from `counted` on, one a capacity; `None` beyond the tracked bound.
fn optimal_hits(
    future: &Future<'_>,
    totals: &[PageCount],
    counted: u32,
    config: &PoolConfig,
) -> Vec<Option<u64>> {
    let followed: Vec<u64> = totals.iter().map(|total| config.held_shares().followed_of(*total)).collect();
    let told = followed.iter().take_while(|pages| **pages <= config.max_tracked_pages.0).count();
    let hits = future.curve(&followed[..told], counted).into_iter();
    let hits = hits.map(|hits| Some(config.sample_rate.whole_of(hits)));
    hits.chain(std::iter::repeat(None)).take(totals.len()).collect()
}

impl Beside {
    /// The first option that needs one stack for all capacities, of those that are followed here.
    fn needs_stack(&self) -> Option<&'static str> {
        let asked = [
            ("--ttl", !self.ttls.is_empty()),
            ("--optimal", self.optimal),
            ("--tenants", self.tenants.is_some()),
            ("--quota", !self.quotas.is_empty()),
        ];
        asked.into_iter().find(|(_, asked)| *asked).map(|(option, _)| option)
    }

    /// Whether it takes following when pages were touched last.
    fn follows_lifetimes(&self) -> bool {
        !self.ttls.is_empty() || self.tenants.is_some()
    }
}
