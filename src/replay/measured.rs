//! What a replay measures and routes beside its estimates (WHATIF 1 and 5).

use super::ReplayError;
use kvset_core::estimate::Estimate;
use kvset_core::event::RequestEvent;
use kvset_core::labels::Label;
use kvset_core::measured::{
    Agreed, CachedPages, Findings, Ledger, MIN_AGREEMENT, MeasuredOutcome, MeasuredTally, Seen, Verdict,
};
use kvset_core::outcome::Outcome;
use kvset_core::pool_config::PoolConfig;
use kvset_core::retention::Ttl;
use kvset_core::routing::{Arriving, RouterKind, RouterRun, RouterSpec, RoutingError, RoutingResult};
use kvset_core::tenants::Quota;
use kvset_core::units::{PageCount, PageSize};

/// What is asked for beside the estimates.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// Compare with the log's cached tokens even where no row carries any.
    pub measured: bool,
    /// Routers to try.
    pub routers: Vec<RouterSpec>,
    /// Times to live, ascending and different.
    pub ttls: Vec<Ttl>,
    /// What perfect foresight would find.
    pub optimal: bool,
    /// Attribution, with so many tenants told one by one.
    pub tenants: Option<usize>,
    /// Tokens prefilled a second, to compare loading with.
    pub prefill_rate: Option<f64>,
    /// Splits by quota to price.
    pub quotas: Vec<Quota>,
}

/// What the log's cached tokens say. Pages are whole pages: sampled counts are scaled up.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredResult {
    /// Requests that say what they found.
    pub requests: u64,
    /// Full pages in their cached tokens.
    pub cached_pages: u64,
    /// The capacity that most of them agree on; none without such requests.
    pub effective: Option<EffectiveCapacity>,
    /// Caches that served them, as far as the log says.
    pub replicas: u64,
    /// The capacity the ledger is drawn up at; none where neither one is given nor any agreed on.
    pub at: Option<LedgerCapacity>,
    /// From the best case to what happened.
    pub ledger: Ledger,
    /// Requests that found more than the log shows was ever there, and the pages they found too many.
    pub requests_beyond_log: u64,
    /// These pages.
    pub pages_beyond_log: u64,
    /// Restarts of replicas.
    pub restarts: Vec<RestartResult>,
    /// Why the hit rate is what it is; none without requests that say what they found.
    pub verdict: Option<Verdict>,
}

/// The capacity, of each replica, that most requests agree on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EffectiveCapacity {
    /// The smallest such capacity.
    pub pages_from: u64,
    /// The largest; `None` where no request sets an upper bound.
    pub pages_to: Option<u64>,
    /// Requests that agree, as a share of those measured.
    pub agreement: f64,
    /// The same, weighted by pages.
    pub agreement_by_pages: f64,
}

impl EffectiveCapacity {
    /// Whether enough requests agree for it to be one at all.
    fn is_one(self) -> bool {
        self.agreement.min(self.agreement_by_pages) >= MIN_AGREEMENT
    }
}

/// The capacity a ledger is drawn up at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerCapacity {
    /// All replicas together.
    pub total_pages: u64,
    /// Each of them.
    pub pages: u64,
    /// Whether it is what was given as the only capacity; else it is the effective one.
    pub provisioned: bool,
}

/// A restart of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestartResult {
    /// Its name, where the log has names.
    pub replica: Option<String>,
    /// The first request, counted from 0 among the accepted ones, that found nothing of what was there before.
    pub request: u64,
    /// When it arrived, in milliseconds.
    pub event_time_ms: i64,
    /// Requests that found nothing of what was there before.
    pub misses: u64,
}

/// Follows a replay.
#[derive(Debug)]
pub(super) struct Observer {
    asked: bool,
    tally: MeasuredTally,
    /// The caches that the log names, from the first request on that names one.
    logged: Option<RouterRun>,
    routers: Vec<RouterRun>,
}

/// A request that the pool has accepted.
pub(super) struct Accepted<'a> {
    pub(super) event: &'a RequestEvent<'a>,
    pub(super) session: Option<&'a str>,
    /// What the pool's own stack says of it.
    pub(super) outcome: &'a Outcome,
    pub(super) page_size: PageSize,
    /// Its number among the accepted ones.
    pub(super) index: u64,
    /// Whether it counts, or only fills the caches.
    pub(super) counted: bool,
}

impl Observer {
    /// An observer that has seen nothing.
    ///
    /// # Errors
    /// Something was asked for that the profile cannot tell.
    pub(super) fn new(beside: &Beside, config: &PoolConfig) -> Result<Self, ReplayError> {
        if config.is_pointwise() && (beside.measured || !beside.routers.is_empty()) {
            return Err(ReplayError::NoStack { engine: config.profile.name() });
        }
        let run = |spec: &RouterSpec| RouterRun::new(*spec, config);
        Ok(Self {
            asked: beside.measured,
            tally: MeasuredTally::default(),
            logged: None,
            routers: beside.routers.iter().map(run).collect(),
        })
    }

    pub(super) fn observe(
        &mut self,
        request: &Accepted<'_>,
        config: &PoolConfig,
    ) -> Result<(), RoutingError> {
        if config.is_pointwise() {
            return Ok(());
        }
        let arriving = Arriving { event: request.event, session: request.session };
        for run in &mut self.routers {
            run.observe(&arriving, request.page_size, config, request.counted)?;
        }
        if self.logged.is_none() && request.event.labels.get(Label::Replica).is_some() {
            let spec = RouterSpec { kind: RouterKind::Logged, replicas: 0 };
            self.logged = Some(RouterRun::new(spec, config));
        }
        let logged = self.logged.as_mut();
        let routed = logged.map(|run| run.observe(&arriving, request.page_size, config, request.counted));
        let routed = routed.transpose()?;
        let (partial, rate) = (config.include_partial_page, config.sample_rate);
        let cached = CachedPages::of(request.event, request.page_size, partial, rate);
        let Some(cached) = cached.filter(|_| request.counted) else { return Ok(()) };
        let number = routed.map_or(request.index, |routed| routed.number);
        let (index, event_time) = (request.index, request.event.event_time);
        self.tally.observe(&MeasuredOutcome {
            cached,
            shared: request.outcome,
            routed: routed.map(|routed| routed.outcome),
            replica: routed.map_or(0, |routed| routed.replica),
            seen: Seen { number, index, event_time },
        });
        Ok(())
    }

    /// What the cached tokens say; `None` where no request carries any and nothing was asked.
    pub(super) fn measured(&self, config: &PoolConfig, whole: Option<&Estimate>) -> Option<MeasuredResult> {
        if self.tally.requests() == 0 && !self.asked {
            return None;
        }
        let agreed = self.tally.consensus().find();
        let replicas = self.logged.as_ref().map_or(1, |run| run.router().replicas().max(1) as u64);
        let at = ledger_capacity(agreed, replicas, config, whole);
        let followed = |pages: u64| config.held_shares().followed_of(PageCount(pages));
        let (all, each) = at.map_or((0, 0), |at| (followed(at.total_pages), followed(at.pages)));
        let ledger = scaled(self.tally.ledger(all, each, config.max_tracked_pages.0), config);
        let effective = agreed.map(|agreed| self.effective(agreed, config));
        // Where there is no capacity, nothing tells a restart from a cache that is too small.
        let told = agreed.filter(|_| effective.is_some_and(|effective| effective.is_one()));
        let restarts = told.map(|agreed| self.restarts(agreed.from)).unwrap_or_default();
        let (requests_beyond_log, pages_beyond_log) = self.tally.beyond_log();
        let findings = effective.map(|effective| Findings {
            ledger,
            agreement: effective.agreement,
            agreement_by_pages: effective.agreement_by_pages,
            pages_beyond_log: config.sample_rate.whole_of(pages_beyond_log),
            restarts: restarts.len() as u64,
        });
        Some(MeasuredResult {
            requests: self.tally.requests(),
            cached_pages: self.tally.cached_pages(),
            effective,
            replicas,
            at,
            ledger,
            requests_beyond_log,
            pages_beyond_log: config.sample_rate.whole_of(pages_beyond_log),
            restarts,
            verdict: findings.as_ref().map(Verdict::of),
        })
    }

    /// What each router gives at the capacities of the curve.
    pub(super) fn routing(&self, config: &PoolConfig, whole: Option<&Estimate>) -> Vec<RoutingResult> {
        let capacities = whole.map(|all| all.capacities.as_slice()).unwrap_or_default();
        let totals: Vec<_> = capacities.iter().map(|point| PageCount(point.pages)).collect();
        self.routers.iter().map(|run| run.result(&totals, config)).collect()
    }

    fn effective(&self, agreed: Agreed, config: &PoolConfig) -> EffectiveCapacity {
        let share = |part: u64, all: u64| if all == 0 { 1.0 } else { part as f64 / all as f64 };
        let consensus = self.tally.consensus();
        EffectiveCapacity {
            pages_from: config.nominal_pages(agreed.from),
            pages_to: agreed.to.map(|to| config.nominal_pages(to)),
            agreement: share(agreed.requests, consensus.requests()),
            agreement_by_pages: share(agreed.pages, consensus.pages()),
        }
    }

    fn restarts(&self, each: u64) -> Vec<RestartResult> {
        let name = |replica| self.logged.as_ref().and_then(|run| run.router().name(replica));
        let found = self.tally.restarts(each).into_iter();
        let told = found.map(|found| RestartResult {
            replica: name(found.replica).map(str::to_owned),
            request: found.restart.first.index,
            event_time_ms: found.restart.first.event_time.0,
            misses: found.restart.misses,
        });
        told.collect()
    }
}

/// The only capacity given, split over the replicas; else the smallest that most requests agree on.
fn ledger_capacity(
    agreed: Option<Agreed>,
    replicas: u64,
    config: &PoolConfig,
    whole: Option<&Estimate>,
) -> Option<LedgerCapacity> {
    let given = whole.filter(|_| config.capacities.len() == 1).and_then(|all| all.capacities.first());
    if let Some(point) = given {
        let total_pages = point.pages;
        return Some(LedgerCapacity { total_pages, pages: total_pages / replicas, provisioned: true });
    }
    let pages = config.nominal_pages(agreed?.from);
    Some(LedgerCapacity { total_pages: pages.saturating_mul(replicas), pages, provisioned: false })
}

/// A sample's ledger in whole pages.
fn scaled(ledger: Ledger, config: &PoolConfig) -> Ledger {
    let whole = |pages: u64| config.sample_rate.whole_of(pages);
    Ledger {
        page_accesses: whole(ledger.page_accesses),
        unlimited: whole(ledger.unlimited),
        shared: ledger.shared.map(whole),
        routed: ledger.routed.map(whole),
        measured: whole(ledger.measured),
    }
}
