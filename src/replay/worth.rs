//! What a cache is worth: its own, and that of replicas behind routers, while a log is replayed.

use super::ReplayOptions;
use super::below::Tiers;
use kvset_core::engines::bank::CacheBank;
use kvset_core::estimate::Estimate;
use kvset_core::pool::Pool;
use kvset_core::questions::costs::{PrefillCosts, PrefillRate, Prices};
use kvset_core::questions::counters::Counter;
use kvset_core::questions::question::{Horizon, Question, QuestionFigures};
use kvset_core::questions::routing::{RouterKind, RouterSpec};
use kvset_core::questions::worth::{
    TierWorth, WorthBasis, WorthEstimate, WorthObserver, WorthShare, WorthTally,
};
use kvset_core::request::event::RequestEvent;
use kvset_core::stack::needs::Needs;
use kvset_core::units::capacity::CapacitySpec;
use serde::Serialize;

/// What the pool's cache is worth, with the tiers below it, while a log is replayed.
#[derive(Debug)]
pub(super) struct CacheWorth {
    question: PrefillCosts,
    /// From the first request that counts on.
    counted: Option<(WorthObserver, WorthTally)>,
}

impl CacheWorth {
    /// Nothing yet; `None` where it is not known how fast prompts are computed.
    pub(super) fn new(options: &ReplayOptions) -> Option<Self> {
        let prefill_rate = options.extras.prefill_rate.clone()?;
        let question = PrefillCosts { prefill_rate, prices: options.extras.prices };
        Some(Self { question, counted: None })
    }

    /// Takes the request in that the pool, and the tiers below it, took last.
    pub(super) fn observe(&mut self, pool: &Pool, event: &RequestEvent<'_>, below: Option<&Tiers>) {
        let (Some(page_size), Some((outcome, curve))) = (pool.page_size(), pool.last_request()) else {
            return;
        };
        let none = CacheBank::default();
        let own = pool.caches().unwrap_or(&none);
        let question = &self.question;
        let (observer, tally) = self.counted.get_or_insert_with(|| {
            let observer = WorthObserver::at(
                question.clone(),
                pool.config().observed().provisioned(),
                curve.thresholds(),
            );
            // Tiers are modelled below the capacities alone.
            let observer = if below.is_some() { observer.without_own_column() } else { observer };
            let tally = WorthTally::new((observer.columns(), Horizon::Finite));
            (observer, tally)
        });
        let config = pool.config().observed().provisioned();
        let served = |place: usize| below.map_or((0, 0.0), |below| below.served(place));
        tally.add(&observer.observe((event, outcome), own, (config, page_size), served));
    }

    /// What it came to, by the estimate of the whole log.
    pub(super) fn result(&self, pool: &Pool, whole: &Estimate, tiers: Vec<TierWorth>) -> Option<WorthResult> {
        let (observer, tally) = self.counted.as_ref()?;
        let figures = QuestionFigures {
            config: pool.config().observed().provisioned(),
            page_size: pool.page_size()?,
            page_bytes: pool.page_bytes(),
            totals: &[],
            page_accesses: whole.page_accesses,
            prompts: whole.prompts(),
            tiers: None,
            required: &whole.required,
            capacities: &whole.capacities,
            recommended: &whole.recommended,
            below_a_day: TierWorth::memory_a_day(&tiers),
            room: &Needs::default(),
            during: whole.start_ms..whole.end_ms,
        };
        Some(WorthResult { estimate: observer.answer(tally, &figures)?, tiers })
    }
}

/// What a cache with tiers below is worth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorthResult {
    /// The figures.
    #[serde(flatten)]
    pub estimate: WorthEstimate,
    /// Tiers below, from the fastest, as given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierWorth>,
}

/// What the replicas behind a router are worth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoutedWorth {
    /// The router, with what differs from the default: `hash:4:session`.
    pub router: String,
    /// Its replicas together, at every total capacity.
    #[serde(flatten)]
    pub worth: WorthEstimate,
}

/// What replicas are worth, while a log is replayed.
#[derive(Debug)]
pub(super) struct RoutedTally {
    spec: RouterSpec,
    rate: PrefillRate,
    /// From the first request that counts on.
    tally: Option<WorthTally>,
}

impl RoutedTally {
    /// One for each router that is asked about; none where it is not known how fast prompts are computed.
    pub(super) fn all(options: &ReplayOptions) -> Vec<Self> {
        let of = |spec: &RouterSpec| {
            let rate = options.extras.prefill_rate.clone()?;
            Some(Self { spec: *spec, rate, tally: None })
        };
        options.pool.questions.routers.iter().filter_map(of).collect()
    }

    /// Takes the request in that the pool took last; `at` is the router's place.
    pub(super) fn observe(&mut self, at: usize, pool: &Pool, event: &RequestEvent<'_>) {
        let share = pool.last_routed().get(at).and_then(Option::as_ref);
        let (Some(share), Some(page_size), Some((outcome, _))) =
            (share, pool.page_size(), pool.last_request())
        else {
            return;
        };
        let (page, replicas) = (u64::from(page_size.get()), self.spec.replicas.max(1) as u64);
        let prompt = event.input_tokens.unwrap_or(outcome.page_accesses * page);
        let found = |total: u64| (share.hits_at(total / replicas) * page, 0.0);
        let totals = totals(self.spec, pool);
        let shape = (totals.len(), Horizon::Finite);
        let tally = self.tally.get_or_insert_with(|| WorthTally::new(shape));
        let tokens = (prompt, share.reusable() * page);
        tally.add(&WorthShare::of(&self.rate, event.event_time.0, tokens, totals.into_iter().map(found)));
    }

    /// What it came to; `None` of the replicas that the log names, whose number is not known before its end.
    pub(super) fn result(&self, pool: &Pool, prices: Prices) -> Option<RoutedWorth> {
        let bytes = |pages: u64| pool.page_bytes().map(|bytes| bytes.0 * pages);
        let sizes: Vec<_> = totals(self.spec, pool).into_iter().map(|pages| (pages, bytes(pages))).collect();
        let basis = WorthBasis {
            rate: &self.rate,
            prices,
            below_a_day: 0.0,
            has_own_column: false,
            provisioned: None,
            sizes: &sizes,
            recommended: None,
            coverages: &[],
        };
        let worth = basis.estimate(self.tally.as_ref()?);
        let worth = worth.filter(|_| self.spec.kind != RouterKind::Logged)?;
        Some(RoutedWorth { router: self.spec.written(), worth })
    }
}

/// The total capacities that a router is reported at, in pages; none before the first request.
fn totals(spec: RouterSpec, pool: &Pool) -> Vec<u64> {
    match spec.kind {
        RouterKind::Precise(rules) => {
            let only = CapacitySpec { label: None, size: rules.at };
            only.pages(pool.page_bytes()).into_iter().map(|pages| pages.0).collect()
        }
        _ => pool.last_request().map(|(_, curve)| curve.thresholds().to_vec()).unwrap_or_default(),
    }
}
