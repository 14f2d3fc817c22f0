//! What follows a pool's pages for all that is asked of their lives, and what a window says of it.
//!
//! Windows that requests only come into count them; one that they leave again keeps what each adds, and counts it
//! when it is shown. Runs, for what can be known of a window only once it has ended, are kept in windows that end.

use super::Lifetimes;
use crate::engines::one_pass::Engine;
use crate::questions::accounts::{Accounts, AccountsConfig, AccountsTally};
use crate::questions::counters::{Counter, Share, counted};
use crate::questions::optimum::ReuseLog;
use crate::questions::question::{
    Accepted, Answerable, Horizon, Question, QuestionFigures, QuestionNeeds, QuestionPool, QuestionsError,
    check_list,
};
use crate::questions::request_runs::{MAX_LOG_RUNS, MAX_WINDOW_RUNS, NumberedRequest, RequestRuns, RunLog};
use crate::questions::retention::{
    MAX_TTLS, MOST_AGES, MOST_WINDOW_AGES, Retention, RetentionConfig, RetentionEstimate, RetentionFigures,
    RetentionTally, Ttl, TtlCoverage,
};
use crate::questions::tenants::TenantEstimate;
use crate::questions::traffic::{Sights, TrafficEstimate, TrafficFigures};
use crate::request::labels::Label;
use crate::sizing::figures::{CapacityPoint, EvictionAge, Required};
use crate::units::PageCount;
use crate::units::heap::heap_bytes;
use crate::units::window::WindowKind;
use serde::{Deserialize, Serialize};

/// Most tenants reported one by one.
pub const MAX_TOLD_TENANTS: u32 = 100;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ReuseSetting {
    /// What keeping pages for so long would give, at most 16 different ones.
    pub ttls: Vec<Ttl>,
    /// Who holds the cache: so many tenants one by one, at most 100, and the others as one.
    pub tenants: Option<u32>,
    /// What perfect foresight would find in windows that end.
    pub optimal: bool,
    /// What passes between the planned tiers in windows that end.
    pub traffic: bool,
    /// Tokens that one worker prefills a second, to compare loading with.
    pub prefill_rate: Option<f64>,
}

impl ReuseSetting {
    fn needs_runs(&self) -> bool {
        self.optimal || self.traffic
    }
}

counted! {
    ReuseShare, ReuseShape, ReuseTally {
        /// Times to live.
        retention: Option<RetentionTally>,
        /// Who holds the cache.
        tenants: Option<AccountsTally>,
        /// The runs of requests: for the optimum, and for what passes between tiers.
        runs: Option<RunLog>,
    }
}

impl ReuseShape {
    /// The same in a window that never ends.
    pub fn without_end(self) -> Self {
        Self { runs: None, ..self }
    }
}

/// What is followed.
#[derive(Debug)]
pub struct ReuseObserver {
    asked: ReuseSetting,
    retention: Option<RetentionConfig>,
    tenants: Option<AccountsConfig>,
    /// The stack remembers so many followed pages.
    bound: PageCount,
    /// Runs of the requests of each window that ends are kept, at most so many; none where this is 0.
    most_runs_of_window: usize,
    lifetimes: Lifetimes,
    /// The runs of a log that ends, and how many of its requests only filled the cache.
    log: Option<(RunLog, u32)>,
}

heap_bytes!(ReuseObserver { lifetimes, log; asked, retention, tenants, bound, most_runs_of_window });

/// What a window says.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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

impl Question for ReuseObserver {
    type Setting = ReuseSetting;
    type Kept = Lifetimes;
    type Tally = ReuseTally;
    type Answer = ReuseEstimates;

    const NEEDS: QuestionNeeds = QuestionNeeds::all("ttls");

    fn needs(asked: &ReuseSetting, _: Horizon) -> Vec<QuestionNeeds> {
        let each = [
            (!asked.ttls.is_empty(), Self::NEEDS),
            (asked.tenants.is_some(), QuestionNeeds::all("tenants")),
            (asked.optimal, QuestionNeeds::all("optimal")),
            (asked.traffic, QuestionNeeds { few_capacities: false, ..QuestionNeeds::all("traffic") }),
        ];
        each.into_iter().filter_map(|(is_enabled, needs)| is_enabled.then_some(needs)).collect()
    }

    fn check(asked: &ReuseSetting, pool: &Answerable<'_>) -> Result<(), QuestionsError> {
        let ReuseSetting { ttls, tenants, traffic, prefill_rate, .. } = asked;
        if pool.horizon == Horizon::Endless {
            check_list("ttls", ttls.iter().map(Ttl::to_string), MAX_TTLS)?;
            if let Some(most) = tenants.filter(|most| !(1..=MAX_TOLD_TENANTS).contains(most)) {
                return Err(QuestionsError::Tenants(most));
            }
        }
        if *traffic && pool.tiers < 2 {
            return Err(QuestionsError::TooFewTiers(pool.tiers));
        }
        match prefill_rate.filter(|rate| !*traffic || !rate.is_finite() || *rate <= 0.0) {
            Some(rate) => Err(QuestionsError::PrefillRate(rate)),
            None => Ok(()),
        }
    }

    fn new(asked: &ReuseSetting, pool: QuestionPool<'_>) -> Option<Self> {
        let (cache, is_of_log) = (pool.cache.cache, pool.horizon == Horizon::Finite);
        let targets = || cache.target_ratios.clone();
        let retention = (!asked.ttls.is_empty()).then(|| {
            let mut ttls = asked.ttls.clone();
            ttls.sort_unstable();
            let most_ages = if is_of_log { MOST_AGES } else { MOST_WINDOW_AGES };
            RetentionConfig { ttls, capacities: pool.capacities.to_vec(), targets: targets(), most_ages }
        });
        let tenants = asked.tenants.map(|_| AccountsConfig {
            order: cache.profile.spec().order,
            capacities: pool.capacities.to_vec(),
            targets: targets(),
        });
        let bound = cache.max_tracked_pages;
        let (ages, accounts) = (retention.clone().map(Retention::new), tenants.clone().map(Accounts::new));
        let lifetimes = Lifetimes::new(bound, ages, accounts);
        let keeps_log = asked.needs_runs() && is_of_log;
        let has_windows = pool.windows.iter().any(|window| *window != WindowKind::All);
        let is_something = retention.is_some() || tenants.is_some() || asked.needs_runs();
        is_something.then(|| Self {
            retention,
            tenants,
            bound,
            most_runs_of_window: match asked.needs_runs() {
                true if !is_of_log => MAX_WINDOW_RUNS,
                true if has_windows => MAX_LOG_RUNS,
                _ => 0,
            },
            lifetimes: if asked.needs_runs() { lifetimes.with_sights() } else { lifetimes },
            log: keeps_log.then(|| (RunLog::new(MAX_LOG_RUNS), 0)),
            asked: asked.clone(),
        })
    }

    fn shape(&self) -> ReuseShape {
        ReuseShape {
            retention: self.retention.as_ref().map(RetentionConfig::shape),
            tenants: self.tenants.as_ref().map(AccountsConfig::shape),
            runs: Some(self.most_runs_of_window).filter(|most| *most > 0),
        }
    }

    fn follow(&mut self, request: &Accepted<'_>, room: &mut ReuseShare) {
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
        let passed = passed.filter(|_| counted && self.most_runs_of_window > 0);
        room.runs = passed.map(|passed| RequestRuns::of(passed, outcome));
        self.lifetimes.hand_over(&mut room.retention, &mut room.tenants);
    }

    fn kept(&self) -> &Lifetimes {
        &self.lifetimes
    }

    fn resumed(self, mut kept: Lifetimes, _: QuestionPool<'_>, _: &Engine) -> Option<Self> {
        let is_sound = kept.sights().is_some() == self.lifetimes.sights().is_some()
            && kept.resume(self.bound, self.retention.clone(), self.tenants.clone());
        is_sound.then_some(Self { lifetimes: kept, ..self })
    }

    /// Of a log that ends the whole log says it, where its window keeps no runs.
    fn answer(&self, tally: &ReuseTally, figures: &QuestionFigures<'_>) -> ReuseEstimates {
        let config = figures.config.cache;
        let retention = self.retention.as_ref().zip(tally.retention.as_ref());
        let retention = retention.map(|(rules, tally)| RetentionFigures {
            tally,
            rules,
            coverages: &config.coverages,
            sample_rate: config.sample_rate,
            page_bytes: figures.page_bytes,
            page_accesses: figures.page_accesses,
            prompts: figures.prompts,
            totals: figures.totals,
        });
        let of_window = tally.runs.as_ref().map(|runs| (runs, 0));
        let runs = of_window.or(self.log.as_ref().map(|(log, uncounted)| (log, *uncounted)));
        let optimal = runs.filter(|_| self.asked.optimal).map(|runs| optimal(runs, figures));
        ReuseEstimates {
            retention: retention.map(|figures| figures.points()).unwrap_or_default(),
            retention_required: retention.map(|figures| figures.required()).unwrap_or_default(),
            eviction_ages: retention.map(|figures| figures.tally.eviction_ages()).unwrap_or_default(),
            optimal: optimal.unwrap_or_default(),
            traffic: runs.filter(|_| self.asked.traffic).and_then(|runs| self.traffic(runs, figures)),
            tenants: self.tenants(figures, tally.tenants.as_ref()),
        }
    }
}

impl ReuseObserver {
    /// The fewest pages with which perfect foresight would have so many hits over a log that ends, in followed pages;
    /// `None` where not all of it could be kept.
    pub fn least_capacity(&self, hits: u64) -> Option<u64> {
        let (log, uncounted) = self.log.as_ref()?;
        ReuseLog::of(log)?.within_window().least_capacity(hits, 1 + uncounted)
    }

    fn traffic(
        &self,
        (log, uncounted): (&RunLog, u32),
        figures: &QuestionFigures<'_>,
    ) -> Option<TrafficEstimate> {
        let traffic = TrafficFigures {
            config: figures.config.cache,
            page_size: Some(figures.page_size),
            page_bytes: figures.page_bytes,
            prefill_rate: self.asked.prefill_rate,
            tiers: figures.tiers?,
        };
        traffic.estimate(log, uncounted as usize, self.lifetimes.sights().and_then(Sights::touched_once))
    }

    fn tenants(&self, figures: &QuestionFigures<'_>, tally: Option<&AccountsTally>) -> Vec<TenantEstimate> {
        let (Some(most), Some(tally)) = (self.asked.tenants, tally) else { return Vec::new() };
        self.lifetimes.by_tenant(tally, most as usize, (figures.config.cache, figures.page_bytes))
    }
}

/// What perfect foresight finds of what these requests themselves use again, but for what the first `uncounted` of them
/// find; nothing where requests of other windows came between.
fn optimal((log, uncounted): (&RunLog, u32), figures: &QuestionFigures<'_>) -> Vec<u64> {
    let config = figures.config.cache;
    let Some(reuse) = ReuseLog::of(log) else { return Vec::new() };
    let followed = figures.totals.iter().map(|total: &PageCount| config.followed_pages(*total));
    let followed: Vec<u64> = followed.take_while(|pages| *pages <= config.max_tracked_pages.0).collect();
    let hits = reuse.within_window().curve(&followed, 1 + uncounted).into_iter();
    hits.map(|hits| config.sample_rate.whole_of(hits)).collect()
}
