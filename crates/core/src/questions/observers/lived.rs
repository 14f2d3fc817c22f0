//! Time, tiers, tenants and the optimum beside a pool's estimates.
//!
//! Windows that requests only come into count them; one that they leave again keeps what each adds, and counts it
//! when it is shown. Runs, for what can be told of a window only once it has ended, are kept in windows that end.

use super::BesideFigures;
use crate::estimate::CapacityPoint;
use crate::pool::config::PoolConfig;
use crate::questions::lifetimes::{Arrival, Lifetimes};
use crate::questions::measured::Accepted;
use crate::questions::optimum::ReuseLog;
use crate::questions::request_runs::{PassedLog, PassedShare};
use crate::questions::retention::{
    EvictionAge, Followed, MOST_WINDOW_AGES, RequiredTtlEstimate, Retention, RetentionConfig,
    RetentionEstimate, RetentionFigures, RetentionResult, RetentionShape, RetentionTally,
};
use crate::questions::tenants::{
    TenantEstimate, TenantShare, Tenants, TenantsConfig, TenantsShape, TenantsTally,
};
use crate::questions::tiers::{Sights, TrafficEstimate, TrafficFigures};
use crate::request::labels::Label;
use crate::units::PageCount;
use serde::{Deserialize, Serialize};

/// Most runs, and most requests, that a window keeps for the optimum and for what passes between tiers; of one with
/// more neither is told. 16 MB.
pub const MAX_WINDOW_RUNS: usize = 1 << 20;

/// What is followed, by the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LivedRules {
    retention: Option<RetentionConfig>,
    tenants: Option<TenantsConfig>,
    keeps_runs: bool,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LivedShape {
    retention: Option<RetentionShape>,
    tenants: Option<TenantsShape>,
    keeps_runs: bool,
}

impl LivedRules {
    /// What the configuration asks for of capacities that can be told, in followed pages and ascending.
    pub fn of(config: &PoolConfig, capacities: &[u64]) -> Self {
        let asked = &config.asked;
        let mut ttls = asked.ttls.clone();
        ttls.sort_unstable();
        let targets = || config.target_ratios.clone();
        Self {
            retention: (!ttls.is_empty()).then(|| RetentionConfig {
                ttls,
                capacities: capacities.to_vec(),
                targets: targets(),
                most_ages: MOST_WINDOW_AGES,
            }),
            tenants: asked.tenants.map(|_| TenantsConfig {
                order: config.profile.order(),
                capacities: capacities.to_vec(),
                targets: targets(),
            }),
            keeps_runs: asked.optimal || asked.traffic,
        }
    }

    /// How many of everything are counted.
    pub fn shape(&self) -> LivedShape {
        LivedShape {
            retention: self.retention.as_ref().map(RetentionConfig::shape),
            tenants: self.tenants.as_ref().map(TenantsConfig::shape),
            keeps_runs: self.keeps_runs,
        }
    }
}

impl LivedShape {
    /// The same of a window that never ends.
    pub fn without_end(self) -> Self {
        Self { keeps_runs: false, ..self }
    }

    /// Whether anything is counted.
    pub fn is_something(self) -> bool {
        self != Self::default()
    }

    /// Counts that hold nothing yet; `None` where nothing is counted.
    pub fn tally(self) -> Option<LivedTally> {
        self.is_something().then(|| LivedTally {
            retention: self.retention.map(RetentionTally::new),
            tenants: self.tenants.map(TenantsTally::new),
            runs: self.keeps_runs.then(PassedLog::default),
        })
    }
}

/// What is followed.
#[derive(Debug, Serialize, Deserialize)]
pub struct Lived {
    #[serde(skip)]
    rules: LivedRules,
    lifetimes: Lifetimes,
}

/// What one request adds to windows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LivedShare {
    retention: Option<Followed>,
    tenant: Option<TenantShare>,
    passed: Option<PassedShare>,
}

/// The counts over a set of requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LivedTally {
    retention: Option<RetentionTally>,
    tenants: Option<TenantsTally>,
    runs: Option<PassedLog>,
}

/// What a window says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LivedEstimates {
    /// One entry a time to live and kind.
    pub retention: Vec<RetentionEstimate>,
    /// One entry a target ratio.
    pub retention_required: Vec<RequiredTtlEstimate>,
    /// One entry a capacity that can be told.
    pub eviction_ages: Vec<EvictionAge>,
    /// Hits of the offline optimum, one entry a capacity that can be told.
    pub optimal: Vec<u64>,
    /// What passes between tiers.
    pub traffic: Option<TrafficEstimate>,
    /// The tenants that hold the most, and all others as one.
    pub tenants: Vec<TenantEstimate>,
}

impl LivedEstimates {
    /// A curve with what is told of each of its capacities.
    pub fn beside_points(&self, mut points: Vec<CapacityPoint>) -> Vec<CapacityPoint> {
        for (point, age) in points.iter_mut().zip(&self.eviction_ages) {
            point.eviction_age_ms = Some(*age);
        }
        for (point, hits) in points.iter_mut().zip(&self.optimal) {
            point.optimal_page_hits = Some(*hits);
        }
        points
    }
}

impl Lived {
    /// What the configuration asks for; `None` where that is nothing.
    pub fn new(rules: LivedRules, config: &PoolConfig) -> Option<Self> {
        let retention = rules.retention.clone().map(Retention::new);
        let tenants = rules.tenants.clone().map(Tenants::new);
        let lifetimes = Lifetimes::new(config.max_tracked_pages, retention, tenants);
        let lifetimes = if rules.keeps_runs { lifetimes.with_sights() } else { lifetimes };
        rules.shape().is_something().then_some(Self { rules, lifetimes })
    }

    /// Follows a request; gives what it adds to windows.
    pub fn observe(&mut self, request: &Accepted<'_>) -> LivedShare {
        let Accepted { event, outcome, index, counted, .. } = *request;
        let distinct = self.lifetimes.sights().map(Sights::distinct);
        let tenant = event.labels.get(Label::Tenant).copied();
        self.lifetimes.observe(&Arrival { event_time: event.event_time, tenant, counted }, outcome);
        let now = self.lifetimes.now();
        LivedShare {
            retention: self.lifetimes.retention().map(|retention| retention.followed().clone()),
            tenant: self.lifetimes.tenants().and_then(Tenants::share).cloned(),
            passed: distinct.map(|distinct| PassedShare::of(outcome, index, now, distinct)),
        }
    }

    /// What the requests of a window say.
    pub fn estimates(&self, figures: &BesideFigures<'_>, tally: &LivedTally) -> LivedEstimates {
        let config = figures.measured.config;
        let retained =
            self.rules.retention.as_ref().zip(tally.retention.as_ref()).map(|(rules, tally)| {
                RetentionResult::of(tally, rules, &config.coverages, config.sample_rate)
            });
        let retained = retained.unwrap_or_default();
        let told_by = RetentionFigures {
            page_bytes: figures.measured.page_bytes,
            page_accesses: figures.page_accesses,
            prompts: figures.prompts,
            totals: figures.totals,
        };
        let runs = tally.runs.as_ref();
        LivedEstimates {
            retention: told_by.points(&retained),
            retention_required: RequiredTtlEstimate::of(&retained),
            eviction_ages: retained.eviction_ages,
            optimal: runs
                .filter(|_| config.asked.optimal)
                .map(|log| optimal(log, figures))
                .unwrap_or_default(),
            traffic: runs.filter(|_| config.asked.traffic).and_then(|log| self.traffic(log, figures)),
            tenants: self.tenants(figures, tally),
        }
    }

    fn traffic(&self, log: &PassedLog, figures: &BesideFigures<'_>) -> Option<TrafficEstimate> {
        let traffic = TrafficFigures {
            config: figures.measured.config,
            page_size: Some(figures.measured.page_size),
            page_bytes: figures.measured.page_bytes,
            prefill_rate: figures.measured.config.asked.prefill_rate,
            tiers: figures.tiers?,
        };
        traffic.estimate(log, 0, self.lifetimes.sights().and_then(Sights::touched_once))
    }

    fn tenants(&self, figures: &BesideFigures<'_>, tally: &LivedTally) -> Vec<TenantEstimate> {
        let config = figures.measured.config;
        let (Some(most), Some(tally)) = (config.asked.tenants, &tally.tenants) else { return Vec::new() };
        let told = self.lifetimes.told_by_tenant(tally, most as usize, config);
        told.iter().map(|tenant| TenantEstimate::of(tenant, figures.measured.page_bytes)).collect()
    }

    /// Completes what was read back from a snapshot; whether it is what is asked for and can go on.
    pub fn resume(&mut self, rules: LivedRules, config: &PoolConfig) -> bool {
        let (retention, tenants) = (rules.retention.clone(), rules.tenants.clone());
        let sound = self.lifetimes.sights().is_some() == rules.keeps_runs
            && self.lifetimes.resume(config.max_tracked_pages, retention, tenants);
        self.rules = rules;
        sound
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> u64 {
        self.lifetimes.memory_bytes() as u64
    }
}

/// What perfect foresight finds of what a window itself uses again; nothing where requests of other windows came
/// between.
fn optimal(log: &PassedLog, figures: &BesideFigures<'_>) -> Vec<u64> {
    let config = figures.measured.config;
    let Some(reuse) = ReuseLog::of_window(log) else { return Vec::new() };
    let followed = figures.totals.iter().map(|total: &PageCount| config.held_shares().followed_of(*total));
    let followed: Vec<u64> = followed.take_while(|pages| *pages <= config.max_tracked_pages.0).collect();
    let hits = reuse.within_window().curve(&followed, 0).into_iter();
    hits.map(|hits| config.sample_rate.whole_of(hits)).collect()
}

impl LivedShare {
    /// Whether this, read back from a snapshot, is a share of what is counted.
    pub fn is_sound(&self, shape: LivedShape) -> bool {
        let retention = match (&self.retention, shape.retention) {
            (Some(followed), Some(shape)) => followed.is_sound(shape),
            (followed, shape) => followed.is_none() && shape.is_none(),
        };
        let tenant = match (&self.tenant, shape.tenants) {
            (Some(share), Some(shape)) => share.is_sound(shape),
            (share, shape) => share.is_none() && shape.is_none(),
        };
        retention
            && tenant
            && self.passed.is_some() == shape.keeps_runs
            && self.passed.iter().all(PassedShare::is_sound)
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> usize {
        self.retention.as_ref().map_or(0, Followed::memory_bytes)
            + self.tenant.as_ref().map_or(0, TenantShare::memory_bytes)
            + self.passed.as_ref().map_or(0, PassedShare::memory_bytes)
    }
}

impl LivedTally {
    /// Takes a request in.
    pub fn add(&mut self, share: &LivedShare) {
        if let Some((tally, followed)) = self.retention.as_mut().zip(share.retention.as_ref()) {
            tally.add(followed);
        }
        if let Some((tally, tenant)) = self.tenants.as_mut().zip(share.tenant.as_ref()) {
            tally.add(tenant);
        }
        if let Some((runs, passed)) = self.runs.as_mut().zip(share.passed.as_ref()) {
            runs.add(passed, MAX_WINDOW_RUNS);
        }
    }

    /// The union of several of one shape.
    pub fn merged<'a>(parts: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        parts.clone().next()?;
        let runs = || parts.clone().filter_map(|part| part.runs.as_ref());
        Some(Self {
            retention: RetentionTally::merged(parts.clone().filter_map(|part| part.retention.as_ref())),
            tenants: TenantsTally::merged(parts.clone().filter_map(|part| part.tenants.as_ref())),
            runs: runs().next().map(|_| PassedLog::merged(runs())),
        })
    }

    /// Whether nothing is pending.
    pub fn is_consolidated(&self) -> bool {
        self.retention.iter().all(RetentionTally::is_consolidated)
            && self.tenants.iter().all(TenantsTally::is_consolidated)
    }

    /// Merges what is pending, so that reading copies nothing.
    pub fn consolidate(&mut self) {
        self.retention.iter_mut().for_each(RetentionTally::consolidate);
        self.tenants.iter_mut().for_each(TenantsTally::consolidate);
    }

    /// Whether this, read back from a snapshot, counts what the shape says and can be added to.
    pub fn is_sound(&self, shape: LivedShape) -> bool {
        let retention = match (&self.retention, shape.retention) {
            (Some(tally), Some(shape)) => tally.is_sound(shape),
            (tally, shape) => tally.is_none() && shape.is_none(),
        };
        let tenants = match (&self.tenants, shape.tenants) {
            (Some(tally), Some(shape)) => tally.is_sound(shape),
            (tally, shape) => tally.is_none() && shape.is_none(),
        };
        retention
            && tenants
            && self.runs.is_some() == shape.keeps_runs
            && self.runs.iter().all(PassedLog::is_sound)
    }

    /// Bytes of memory held, nearly.
    pub fn memory_bytes(&self) -> usize {
        self.retention.as_ref().map_or(0, RetentionTally::memory_bytes)
            + self.tenants.as_ref().map_or(0, TenantsTally::memory_bytes)
            + self.runs.as_ref().map_or(0, PassedLog::memory_bytes)
    }
}
