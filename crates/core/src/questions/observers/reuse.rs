//! Time, tiers, tenants and the optimum alongside a pool's estimates.
//!
//! Windows that requests only come into count them; one that they leave again keeps what each adds, and counts it
//! when it is shown. Runs, for what can be known of a window only once it has ended, are kept in windows that end.

use super::{Lifetimes, Observation, ObservationFigures, ObservationTally};
use crate::questions::accepted::Accepted;
use crate::questions::accounts::{Accounts, AccountsConfig, AccountsShape, AccountsTally};
use crate::questions::counters::Counter;
use crate::questions::enabled::ObservedPool;
use crate::questions::optimum::ReuseLog;
use crate::questions::request_runs::{MAX_LOG_RUNS, MAX_WINDOW_RUNS, NumberedRequest, RequestRuns, RunLog};
use crate::questions::retention::{
    MOST_AGES, MOST_WINDOW_AGES, Retention, RetentionConfig, RetentionEstimate, RetentionFigures,
    RetentionShape, TtlCoverage,
};
use crate::questions::tenants::TenantEstimate;
use crate::questions::traffic::{Sights, TrafficEstimate, TrafficFigures};
use crate::request::labels::Label;
use crate::sizing::figures::{CapacityPoint, EvictionAge, Required};
use crate::units::PageCount;
use crate::units::heap::heap_bytes;
use crate::units::window::WindowKind;
use serde::{Deserialize, Serialize};

/// What is followed, by the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReuseRules {
    retention: Option<RetentionConfig>,
    tenants: Option<AccountsConfig>,
    /// Runs of the requests of each window that ends are kept, at most so many; none where this is 0.
    most_runs_of_window: usize,
    /// Runs of all requests are kept, because the log ends.
    keeps_log: bool,
}

impl ReuseRules {
    /// What the configuration asks for of capacities that can be known, in followed pages and ascending.
    pub fn of(config: ObservedPool<'_>, capacities: &[u64]) -> Self {
        let asked = &config.questions;
        let mut ttls = asked.ttls.clone();
        ttls.sort_unstable();
        let targets = || config.cache.target_ratios.clone();
        let needs_runs = asked.optimal || asked.traffic;
        let keeps_log = needs_runs && asked.is_of_finite_log();
        let has_windows = config.windows.iter().any(|window| *window != WindowKind::All);
        Self {
            retention: (!ttls.is_empty()).then(|| RetentionConfig {
                ttls,
                capacities: capacities.to_vec(),
                targets: targets(),
                most_ages: if asked.is_of_finite_log() { MOST_AGES } else { MOST_WINDOW_AGES },
            }),
            tenants: asked.tenants.map(|_| AccountsConfig {
                order: config.cache.profile.spec().order,
                capacities: capacities.to_vec(),
                targets: targets(),
            }),
            most_runs_of_window: match needs_runs {
                true if !keeps_log => MAX_WINDOW_RUNS,
                true if has_windows => MAX_LOG_RUNS,
                _ => 0,
            },
            keeps_log,
        }
    }

    /// Whether anything is followed.
    fn keeps_runs(&self) -> bool {
        self.keeps_log || self.most_runs_of_window > 0
    }

    pub(super) fn is_something(&self) -> bool {
        *self != Self::default()
    }

    /// How many of everything windows count: of retention, of tenants, and of runs at most.
    pub(super) fn shape(&self) -> (Option<RetentionShape>, Option<AccountsShape>, Option<usize>) {
        (
            self.retention.as_ref().map(RetentionConfig::shape),
            self.tenants.as_ref().map(AccountsConfig::shape),
            Some(self.most_runs_of_window).filter(|most| *most > 0),
        )
    }
}

/// What is followed.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReuseObserver {
    #[serde(skip)]
    rules: ReuseRules,
    lifetimes: Lifetimes,
    /// The runs of a log that ends, and how many of its requests only filled the cache.
    #[serde(skip)]
    log: Option<(RunLog, u32)>,
}

heap_bytes!(ReuseObserver { lifetimes, log; rules });

/// What a window says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReuseEstimates {
    /// One entry a time to live and kind.
    pub retention: Vec<RetentionEstimate>,
    /// One entry per target ratio.
    pub retention_required: Vec<Required<TtlCoverage>>,
    /// One entry a capacity that can be known.
    pub eviction_ages: Vec<EvictionAge>,
    /// Hits of the offline optimum, one entry a capacity that can be known.
    pub optimal: Vec<u64>,
    /// What passes between tiers.
    pub traffic: Option<TrafficEstimate>,
    /// The tenants that hold the most, and all others as one.
    pub tenants: Vec<TenantEstimate>,
}

impl ReuseEstimates {
    /// A curve with what is reported of each of its capacities.
    pub fn with_points(&self, mut points: Vec<CapacityPoint>) -> Vec<CapacityPoint> {
        for (point, age) in points.iter_mut().zip(&self.eviction_ages) {
            point.eviction_age_ms = Some(*age);
        }
        for (point, hits) in points.iter_mut().zip(&self.optimal) {
            point.optimal_page_hits = Some(*hits);
        }
        points
    }
}

impl ReuseObserver {
    /// What the configuration asks for; `None` where that is nothing.
    pub fn new(rules: ReuseRules, config: ObservedPool<'_>) -> Option<Self> {
        let retention = rules.retention.clone().map(Retention::new);
        let tenants = rules.tenants.clone().map(Accounts::new);
        let lifetimes = Lifetimes::new(config.cache.max_tracked_pages, retention, tenants);
        let lifetimes = if rules.keeps_runs() { lifetimes.with_sights() } else { lifetimes };
        let log = rules.keeps_log.then(|| (RunLog::new(MAX_LOG_RUNS), 0));
        rules.is_something().then_some(Self { rules, lifetimes, log })
    }

    /// Follows a request; what it adds to windows takes the room of another one's.
    pub fn observe(&mut self, request: &Accepted<'_>, share: &mut Observation) {
        let Accepted { event, outcome, index, counted, .. } = *request;
        let distinct = self.lifetimes.sights().map(Sights::distinct);
        let tenant = event.labels.get(Label::Tenant).copied();
        self.lifetimes.observe(event.event_time, tenant, counted, outcome);
        let at = self.lifetimes.now();
        // A request's pages are counted in 32 bits everywhere.
        let new_pages = outcome.new_pages as u32;
        let passed = distinct.map(|distinct| NumberedRequest { number: index, at, distinct, new_pages });
        if let Some(((log, uncounted), passed)) = self.log.as_mut().zip(passed) {
            log.observe(passed, outcome);
            *uncounted += u32::from(!counted);
        }
        let passed = passed.filter(|_| counted && self.rules.most_runs_of_window > 0);
        share.runs = passed.map(|passed| Box::new(RequestRuns::of(passed, outcome)));
        self.lifetimes.hand_over(&mut share.retention, &mut share.tenants);
    }

    /// What the requests of a window say; of a log that ends the whole log does, where its window keeps no runs.
    pub fn estimates(&self, figures: &ObservationFigures<'_>, tally: &ObservationTally) -> ReuseEstimates {
        let config = figures.measured.config;
        let retention = self.rules.retention.as_ref().zip(tally.retention.as_deref());
        let retention = retention.map(|(rules, tally)| RetentionFigures {
            tally,
            rules,
            coverages: &config.coverages,
            sample_rate: config.sample_rate,
            page_bytes: figures.measured.page_bytes,
            page_accesses: figures.page_accesses,
            prompts: figures.prompts,
            totals: figures.totals,
        });
        let of_window = tally.runs.as_deref().map(|runs| (runs, 0));
        let runs = of_window.or(self.log.as_ref().map(|(log, uncounted)| (log, *uncounted)));
        ReuseEstimates {
            retention: retention.map(|figures| figures.points()).unwrap_or_default(),
            retention_required: retention.map(|figures| figures.required()).unwrap_or_default(),
            eviction_ages: retention.map(|figures| figures.tally.eviction_ages()).unwrap_or_default(),
            optimal: runs
                .filter(|_| figures.questions.optimal)
                .map(|runs| optimal(runs, figures))
                .unwrap_or_default(),
            traffic: runs.filter(|_| figures.questions.traffic).and_then(|runs| self.traffic(runs, figures)),
            tenants: self.tenants(figures, tally.tenants.as_deref()),
        }
    }

    /// The fewest pages with which perfect foresight would have so many hits over a log that ends, in followed pages;
    /// `None` where not all of it could be kept.
    pub fn least_capacity(&self, hits: u64) -> Option<u64> {
        let (log, uncounted) = self.log.as_ref()?;
        ReuseLog::of(log)?.within_window().least_capacity(hits, 1 + uncounted)
    }

    fn traffic(
        &self,
        (log, uncounted): (&RunLog, u32),
        figures: &ObservationFigures<'_>,
    ) -> Option<TrafficEstimate> {
        let traffic = TrafficFigures {
            config: figures.measured.config,
            page_size: Some(figures.measured.page_size),
            page_bytes: figures.measured.page_bytes,
            prefill_rate: figures.questions.prefill_rate,
            tiers: figures.tiers?,
        };
        traffic.estimate(log, uncounted as usize, self.lifetimes.sights().and_then(Sights::touched_once))
    }

    fn tenants(
        &self,
        figures: &ObservationFigures<'_>,
        tally: Option<&AccountsTally>,
    ) -> Vec<TenantEstimate> {
        let config = figures.measured.config;
        let (Some(most), Some(tally)) = (figures.questions.tenants, tally) else { return Vec::new() };
        self.lifetimes.by_tenant(tally, most as usize, (config, figures.measured.page_bytes))
    }

    /// Completes what was read back from a snapshot; whether it is what is requested and can go on.
    pub fn resume(&mut self, rules: ReuseRules, config: ObservedPool<'_>) -> bool {
        let (retention, tenants) = (rules.retention.clone(), rules.tenants.clone());
        let sound = self.lifetimes.sights().is_some() == rules.keeps_runs()
            && self.lifetimes.resume(config.cache.max_tracked_pages, retention, tenants);
        self.rules = rules;
        sound
    }
}

/// What perfect foresight finds of what these requests themselves use again, but for what the first `uncounted` of them
/// find; nothing where requests of other windows came between.
fn optimal((log, uncounted): (&RunLog, u32), figures: &ObservationFigures<'_>) -> Vec<u64> {
    let config = figures.measured.config;
    let Some(reuse) = ReuseLog::of(log) else { return Vec::new() };
    let followed = figures.totals.iter().map(|total: &PageCount| config.followed_pages(*total));
    let followed: Vec<u64> = followed.take_while(|pages| *pages <= config.max_tracked_pages.0).collect();
    let hits = reuse.within_window().curve(&followed, 1 + uncounted).into_iter();
    hits.map(|hits| config.sample_rate.whole_of(hits)).collect()
}
