//! What a cache is worth: that of replicas behind routers, while a log is replayed, and the section of a report.

use super::ReplayOptions;
use crate::present::document::{Cell, MOST_SIZES, Section, Table, spread};
use crate::present::questions::{WorthCurve, climbing};
use crate::worth::{
    FoundTokens, HOURS_A_DAY, Prices, WorthAt, WorthResult, WorthTally, WorthTooLarge, words,
};
use kvset_core::pool::Pool;
use kvset_core::questions::routing::{RouterKind, RouterSpec};
use kvset_core::units::capacity::CapacitySpec;
use serde::Serialize;

/// What the replicas behind a router are worth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoutedWorth {
    /// The router, with what differs from the default: `hash:4:session`.
    pub router: String,
    /// Its replicas together, at every total capacity.
    #[serde(flatten)]
    pub worth: WorthResult,
}

/// The same while a log is replayed.
#[derive(Debug)]
pub(super) struct RoutedTally {
    spec: RouterSpec,
    tally: WorthTally,
}

impl RoutedTally {
    /// One for each router that is asked about; none where it is not known how fast prompts are computed.
    pub(super) fn all(options: &ReplayOptions) -> Vec<Self> {
        let of = |spec: &RouterSpec| {
            let rate = options.extras.prefill_rate.clone()?;
            Some(Self { spec: *spec, tally: WorthTally::new(rate) })
        };
        options.pool.questions.routers.iter().filter_map(of).collect()
    }

    /// Takes the request in that the pool took last, with a prompt of so many tokens; `at` is the router's place.
    pub(super) fn add(
        &mut self,
        at: usize,
        pool: &Pool,
        (arrival_ms, prompt): (i64, u64),
    ) -> Result<(), WorthTooLarge> {
        let share = pool.last_routed().get(at).and_then(Option::as_ref);
        let (Some(share), Some(page_size)) = (share, pool.page_size()) else { return Ok(()) };
        let (page, replicas) = (u64::from(page_size.get()), self.spec.replicas.max(1) as u64);
        let found =
            |total: u64| FoundTokens { tokens: share.hits_at(total / replicas) * page, load_seconds: 0.0 };
        let totals = totals(self.spec, pool);
        self.tally.add(arrival_ms, prompt, share.reusable() * page, totals.into_iter().map(found))
    }

    /// What it came to; `None` of the replicas that the log names, whose number is not known before its end.
    pub(super) fn result(&self, pool: &Pool, prices: Prices) -> Option<RoutedWorth> {
        let bytes = |pages: u64| pool.page_bytes().map(|bytes| bytes.0 * pages);
        let sizes: Vec<_> = totals(self.spec, pool).into_iter().map(|pages| (pages, bytes(pages))).collect();
        let worth = WorthResult::of(&self.tally, &sizes, prices, Vec::new(), None);
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

/// What the next GiB earns against its price, where both are known.
pub(super) fn curve(worth: &WorthResult, page_bytes: u64) -> Option<WorthCurve> {
    let step = |at: &WorthAt| Some((at.pages?, at.step_earns_a_gib_day?));
    let steps: Vec<_> = worth.capacities.iter().filter_map(step).collect();
    let price = worth.prices.gib_hour? * HOURS_A_DAY;
    let best = worth.best.as_ref().and_then(|best| best.pages);
    (!steps.is_empty()).then_some(WorthCurve { steps, price, best, page_bytes })
}

/// The section: without a cache, at capacities of the curve, and without limit. All capacities are shown where they were
/// `named`.
pub(super) fn section(worth: &WorthResult, named: bool) -> Section {
    let columns = [
        "cache",
        "accelerator-hours",
        "cost a day",
        "saved a day",
        "memory a day",
        "a GiB more earns",
        "TTFT p50",
        "p95",
        "p99",
    ];
    let caption = format!("At {} tokens a second", worth.prefill_rate);
    let mut table = Table::new(caption, columns).spare(&["accelerator-hours", "p50", "memory a day"]);
    let money = |amount: Option<f64>| Cell::known(amount, |amount| Cell::Figure(words::money(amount)));
    let mut row = |name: String, at: &WorthAt| {
        let time =
            [at.time_to_first_token.p50_ms, at.time_to_first_token.p95_ms, at.time_to_first_token.p99_ms];
        let money = [at.money_a_day, at.saved_a_day, at.memory_a_day, at.step_earns_a_gib_day].map(money);
        let hours = [name.into(), Cell::Figure(words::hours(at.accelerator_hours))];
        let time = time.map(|ms| Cell::Figure(words::milliseconds(ms)));
        table.row(hours.into_iter().chain(money).chain(time));
    };
    row("none".to_owned(), &worth.without_cache);
    let saved = |at: &WorthAt| worth.without_cache.accelerator_hours - at.accelerator_hours;
    match named {
        true => worth.capacities.iter().for_each(|at| row(words::size(at), at)),
        false => {
            spread(climbing(&worth.capacities, saved), MOST_SIZES).for_each(|at| row(words::size(at), at))
        }
    }
    row("unlimited".to_owned(), &worth.unlimited);
    Section {
        title: "What the cache is worth".to_owned(),
        sentences: words::sentences(worth),
        tables: vec![table],
    }
}
