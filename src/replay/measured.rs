//! What a replay measures and routes beside its estimates.

use super::ReplayError;
use super::below::Below;
use crate::worth::{PrefillRate, Prices};
use kvset_core::engines::bank::CacheBank;
use kvset_core::engines::rules::EngineRules;
use kvset_core::estimate::Estimate;
use kvset_core::pool::config::PoolConfig;
use kvset_core::questions::measured::{
    Accepted, Counts, MeasuredCaches, MeasuredEstimate, MeasuredFigures, MeasuredTally, PointCaches,
    PointError, PointTally,
};
use kvset_core::questions::observers::provisioned;
use kvset_core::questions::retention::Ttl;
use kvset_core::questions::routing::{
    HashBy, RoutedCaches, RouterEstimate, RouterKind, RouterRun, RouterSpec, RoutingError,
};
use kvset_core::questions::tenants::Quota;
use kvset_core::request::event::CachedTokens;
use kvset_core::request::labels::Label;
use kvset_core::request::outcome::Need;
use kvset_core::units::capacity::CapacitySpec;
use kvset_core::units::{PageBytes, PageCount, PageSize};

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
    /// Tokens prefilled a second: what a cache is worth, and what loading compares with.
    pub prefill_rate: Option<PrefillRate>,
    /// What accelerators and memory cost.
    pub prices: Prices,
    /// Splits by quota to price.
    pub quotas: Vec<Quota>,
    /// Tiers under the engine's own cache, from the fastest, and what their engines are told.
    pub below: Vec<Below>,
    /// See `below`.
    pub below_rules: EngineRules,
}

/// Follows a replay.
#[derive(Debug)]
pub(super) struct Observer {
    asked: bool,
    /// Whether requests are expected to say what they found: because somebody asked, or the first one does. Known from
    /// that one on.
    is_expected: Option<bool>,
    tally: MeasuredTally,
    caches: MeasuredCaches,
    /// Of an engine that is modelled a capacity at a time, from the first request on.
    points: Option<(PointCaches, PointTally)>,
    routers: Vec<RouterRun>,
    /// Whether a row named its session, and its tenant.
    named: (bool, bool),
}

/// What the trace's pool is, at its end.
pub(super) struct Ended<'a> {
    pub(super) config: &'a PoolConfig,
    pub(super) page_size: Option<PageSize>,
    pub(super) page_bytes: Option<PageBytes>,
    /// What all caches hold together, as the caller said.
    pub(super) provisioned: Option<&'a CapacitySpec>,
    pub(super) whole: Option<&'a Estimate>,
}

impl Observer {
    /// An observer that has seen nothing.
    ///
    /// # Errors
    /// Something was asked for that the profile cannot tell.
    pub(super) fn new(beside: &Beside, config: &PoolConfig) -> Result<Self, ReplayError> {
        if config.is_pointwise() && !beside.routers.is_empty() {
            return Err(ReplayError::NoStack { asked: "--router", engine: config.profile.name() });
        }
        beside.routers.iter().try_for_each(|spec| spec.check(config.kv_bytes_per_token.is_some()))?;
        let run = |spec: &RouterSpec| RouterRun::new(RoutedCaches::apart(*spec, config), config);
        Ok(Self {
            asked: beside.measured,
            is_expected: None,
            tally: MeasuredTally::default(),
            caches: MeasuredCaches::apart(),
            points: None,
            routers: beside.routers.iter().map(run).collect(),
            named: (false, false),
        })
    }

    pub(super) fn observe(
        &mut self,
        request: &Accepted<'_>,
        config: &PoolConfig,
    ) -> Result<(), RoutingError> {
        self.named.0 |= request.session.is_some();
        self.named.1 |= request.event.labels.get(Label::Tenant).is_some();
        for run in &mut self.routers {
            run.observe(&request.arriving(), request.page_size, config, request.engine, request.counted)?;
        }
        if self.is_expected.is_none() && !self.expects(request) {
            self.caches = MeasuredCaches::apart().unexpected();
        }
        if let Some(measured) = self.caches.observe(request, config)? {
            self.tally.add(&measured);
        }
        Ok(())
    }

    /// The same of an engine that is modelled at these capacities, in followed pages, by its own caches.
    pub(super) fn observe_points(
        &mut self,
        request: &Accepted<'_>,
        caches: &CacheBank,
        capacities: &[Need],
        config: &PoolConfig,
    ) -> Result<(), PointError> {
        let is_expected = self.expects(request);
        if self.points.is_none() && !is_expected && request.event.cached_tokens == CachedTokens::Unstated {
            return Ok(());
        }
        let fresh = || {
            let points = PointCaches::new(capacities.to_vec());
            let points = if is_expected { points } else { points.unexpected() };
            (points, PointTally::new(capacities.len()))
        };
        let (points, tally) = self.points.get_or_insert_with(fresh);
        points.observe(request, caches, config)?.iter().for_each(|share| tally.add(share));
        Ok(())
    }

    /// Whether requests are expected to say what they found, by this one or the first one before it.
    fn expects(&mut self, request: &Accepted<'_>) -> bool {
        let states = request.event.cached_tokens != CachedTokens::Unstated;
        *self.is_expected.get_or_insert(self.asked || states)
    }

    /// What the measured requests add up to.
    fn counts(&self) -> &Counts {
        self.points.as_ref().map_or(self.tally.counts(), |(_, tally)| tally.counts())
    }

    /// How a log was taken whose usages all leave the cached tokens out, where nobody asks for them to be zeros.
    pub(super) fn never_stated(&self) -> Option<String> {
        let counts = self.counts();
        let is_unclear = !self.asked && !counts.state_something() && counts.taken_as_zero > 0;
        is_unclear.then(|| {
            format!(
                "none of {} requests with a usage states its cached tokens, which is taken as not measured: nothing was \
                 cached, or the engine does not report them (vLLM: --enable-prompt-tokens-details, SGLang: \
                 --enable-cache-report); --measured takes them as zeros",
                counts.taken_as_zero
            )
        })
    }

    /// What the cached tokens say; `None` where no request states any and nothing was asked.
    pub(super) fn measured(&self, ended: &Ended<'_>) -> Option<MeasuredEstimate> {
        if !self.counts().state_something() && !self.asked {
            return None;
        }
        let given = ended.provisioned.and_then(|spec| spec.pages(ended.page_bytes));
        let figures = MeasuredFigures {
            config: ended.config,
            // Without a page size there was no request, and nothing to count in tokens.
            page_size: ended.page_size.or(PageSize::new(1))?,
            page_bytes: ended.page_bytes,
            provisioned: given.or_else(|| provisioned(ended.config, ended.page_bytes)),
            during: i64::MIN..i64::MAX,
        };
        Some(match &self.points {
            Some((caches, tally)) => figures.estimate_of_points(tally, caches, 0),
            None => figures.estimate(&self.tally, &self.caches, 0),
        })
    }

    /// What each router gives at the capacities of the curve.
    ///
    /// # Errors
    /// One goes by a name that no row has.
    pub(super) fn routing(&self, ended: &Ended<'_>) -> Result<Vec<RouterEstimate>, ReplayError> {
        self.routers.iter().try_for_each(|run| self.check_names(run.router().spec()))?;
        let capacities = ended.whole.map(|all| all.capacities.as_slice()).unwrap_or_default();
        let totals: Vec<_> = capacities.iter().map(|point| PageCount(point.pages)).collect();
        // Without a page size there was no request, and nothing to count in tokens.
        let Some(page_size) = ended.page_size.or(PageSize::new(1)) else { return Ok(Vec::new()) };
        let result = |run: &RouterRun| {
            RouterEstimate::of(&run.result(&totals, ended.config), page_size, ended.page_bytes)
        };
        Ok(self.routers.iter().map(result).collect())
    }

    fn check_names(&self, spec: RouterSpec) -> Result<(), ReplayError> {
        let (by, is_named) = match spec.kind {
            RouterKind::Hash(HashBy::Session) => ("session", self.named.0),
            RouterKind::Hash(HashBy::Tenant) => ("tenant", self.named.1),
            _ => return Ok(()),
        };
        match is_named {
            true => Ok(()),
            false => Err(ReplayError::Unnamed { router: spec.written(), by }),
        }
    }
}
