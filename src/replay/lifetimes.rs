//! What a replay tells of time, of whose pages they are and of the best any policy could do (WHATIF 2, 4 and 6).

use super::windowed::Windowed;
use super::{Beside, ReplayError};
use crate::replay::counted::CountedCurve;
use kvset_core::engine::EngineRefusal;
use kvset_core::estimate::Estimate;
use kvset_core::event::RequestEvent;
use kvset_core::labels::Label;
use kvset_core::lifetimes::{Arrival, Lifetimes};
use kvset_core::optimum::{Future, ReuseLog};
use kvset_core::outcome::Outcome;
use kvset_core::pool_config::PoolConfig;
use kvset_core::retention::{Retention, RetentionConfig, RetentionResult, RetentionTally};
use kvset_core::tenants::{QuotaResult, QuotaRun, TenantResult, Tenants, TenantsConfig};
use kvset_core::units::{PageCount, PageSize};
use kvset_core::window::WindowKind;

/// What was asked for; the rest is empty.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LifetimesResult {
    /// Times to live, with the capacities of the curve that can be told.
    pub retention: Option<RetentionResult>,
    /// The times to live in each closed window, by its kind and start in milliseconds.
    pub in_windows: Vec<(WindowKind, i64, RetentionResult)>,
    /// The offline optimum.
    pub optimal: Option<OptimalResult>,
    /// Tenants, with the capacities of the curve that can be told.
    pub tenants: Vec<TenantResult>,
    /// Splits, at every capacity of the curve.
    pub quotas: Vec<QuotaResult>,
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
    retention: Option<(RetentionConfig, RetentionTally)>,
    windowed: Windowed,
    in_windows: Vec<(WindowKind, i64, RetentionResult)>,
    reuse: Option<ReuseLog>,
    quotas: Vec<QuotaRun>,
    /// Requests that only filled the cache, so far.
    uncounted: u32,
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
        let asks = beside.optimal || beside.follows_lifetimes() || !beside.quotas.is_empty();
        if config.is_pointwise() && asks {
            return Err(ReplayError::NoStack { engine: config.profile.name() });
        }
        Ok(Self {
            lifetimes: None,
            retention: None,
            windowed: Windowed::new(&config.windows),
            in_windows: Vec::new(),
            reuse: beside.optimal.then(ReuseLog::default),
            quotas: beside.quotas.iter().map(|quota| QuotaRun::new(quota.clone(), config)).collect(),
            beside: beside.clone(),
            uncounted: 0,
        })
    }

    pub(super) fn observe(&mut self, request: &Lived<'_>, config: &PoolConfig) -> Result<(), EngineRefusal> {
        for run in &mut self.quotas {
            run.observe(request.event, request.page_size, request.counted)?;
        }
        self.reuse.iter_mut().for_each(|reuse| reuse.observe(request.outcome));
        self.uncounted += u32::from(!request.counted);
        if self.beside.follows_lifetimes() {
            self.follow(request, config);
        }
        Ok(())
    }

    fn follow(&mut self, request: &Lived<'_>, config: &PoolConfig) {
        if self.lifetimes.is_none() {
            self.lifetimes = Some(self.start(request.thresholds, config));
        }
        let Some(lifetimes) = &mut self.lifetimes else { return };
        let RequestEvent { event_time, labels, .. } = *request.event;
        let tenant = labels.get(Label::Tenant).copied();
        lifetimes.observe(&Arrival { event_time, tenant, counted: request.counted }, request.outcome);
        if let (Some((rules, tally)), Some(retention)) = (&mut self.retention, lifetimes.retention())
            && request.counted
        {
            tally.add(retention.followed(), rules);
            self.windowed.add(event_time, retention.followed(), rules);
        }
    }

    /// Takes in what the pool has closed.
    pub(super) fn close(&mut self, estimates: &[Estimate], config: &PoolConfig) {
        let Some((rules, _)) = &self.retention else { return };
        for estimate in estimates {
            let Some(tally) = self.windowed.close(estimate, rules) else { continue };
            let result = RetentionResult::of(&tally, rules, &config.coverages, config.sample_rate);
            self.in_windows.push((estimate.window, estimate.start_ms, result));
        }
    }

    fn start(&mut self, thresholds: &[u64], config: &PoolConfig) -> Lifetimes {
        let mut capacities = thresholds.to_vec();
        capacities.dedup();
        let targets = config.target_ratios.clone();
        let rules = RetentionConfig { ttls: self.beside.ttls.clone(), capacities, targets };
        let tenants = self.beside.tenants.map(|_| {
            Tenants::new(TenantsConfig {
                order: config.profile.order(),
                capacities: thresholds.to_vec(),
                targets: rules.targets.clone(),
            })
        });
        let retention = (!rules.ttls.is_empty()).then(|| Retention::new(rules.clone()));
        self.retention = retention.is_some().then(|| (rules.clone(), RetentionTally::new(&rules)));
        Lifetimes::new(config.max_tracked_pages, retention, tenants)
    }

    /// What was asked for, at the capacities of the curve.
    pub(super) fn result(
        &self,
        config: &PoolConfig,
        whole: Option<&Estimate>,
        curve: Option<&CountedCurve>,
    ) -> LifetimesResult {
        let points = whole.map(|all| all.capacities.as_slice()).unwrap_or_default();
        let totals: Vec<_> = points.iter().map(|point| PageCount(point.pages)).collect();
        let most = self.beside.tenants.unwrap_or(0);
        let optimal = self.reuse.as_ref().map(|reuse| self.optimal(reuse, &totals, config, whole, curve));
        LifetimesResult {
            retention: self.retained(&totals, config),
            in_windows: self.in_windows.clone(),
            optimal,
            tenants: self.lifetimes.iter().flat_map(|lifetimes| lifetimes.tenants(most, config)).collect(),
            quotas: self.quotas.iter().map(|run| run.result(&totals, config)).collect(),
        }
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
        curve: Option<&CountedCurve>,
    ) -> OptimalResult {
        if !reuse.is_complete() {
            return OptimalResult { page_hits: vec![None; totals.len()], recommended: None };
        }
        let future = reuse.future(0..reuse.requests());
        let followed: Vec<u64> =
            totals.iter().map(|total| config.held_shares().followed_of(*total)).collect();
        let told = followed.iter().take_while(|pages| **pages <= config.max_tracked_pages.0).count();
        let hits = future.curve(&followed[..told], self.uncounted);
        let hits = hits.into_iter().map(|hits| Some(config.sample_rate.whole_of(hits)));
        OptimalResult {
            page_hits: hits.chain(std::iter::repeat(None)).take(totals.len()).collect(),
            recommended: whole.zip(curve).and_then(|(whole, curve)| {
                let pages = whole.basis().answer()?.pages?;
                self.beside_recommended(&future, pages, config, curve)
            }),
        }
    }

    /// What foresight would need for the hits of a capacity.
    fn beside_recommended(
        &self,
        future: &Future<'_>,
        pages: u64,
        config: &PoolConfig,
        curve: &CountedCurve,
    ) -> Option<OptimalCapacity> {
        let followed = config.held_shares().followed_of(PageCount(pages));
        let least = future.least_capacity(curve.hits_at(followed), self.uncounted)?;
        (least > 0).then(|| OptimalCapacity {
            pages,
            optimal_pages: config.nominal_pages(least),
            times: followed as f64 / least as f64,
        })
    }
}

impl Beside {
    /// Whether it takes following when pages were touched last.
    fn follows_lifetimes(&self) -> bool {
        !self.ttls.is_empty() || self.tenants.is_some()
    }
}
