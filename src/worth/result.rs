//! What a cache is worth, as it is reported.

use super::tally::WorthTally;
use serde::Serialize;

/// A GiB.
const GIB: f64 = (1_u64 << 30) as f64;

pub(crate) const HOURS_A_DAY: f64 = 24.0;

const SECONDS_AN_HOUR: f64 = 3600.0;

const MS_A_DAY: f64 = 86_400_000.0;

/// What the operator pays, in one currency.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Prices {
    /// Of an accelerator for an hour: of as much as computes at the prefill rate.
    pub accelerator_hour: Option<f64>,
    /// Of a GiB of cache for an hour.
    pub gib_hour: Option<f64>,
}

/// A tier below the cache, at every capacity of that.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TierWorth {
    /// The tier, as it was written.
    pub tier: String,
    /// How large it is, where that is known in bytes.
    pub bytes: Option<u64>,
    /// Bytes loaded from it in a second. Without it loading is counted as taking no time.
    pub bandwidth: Option<u64>,
    /// Of a GiB of it for an hour. Without it the tier is counted as free.
    pub gib_hour: Option<f64>,
}

/// Time to the first token, without queueing: to load what tiers below have, and to compute what is missing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TimeToFirstToken {
    /// The median, in milliseconds.
    pub p50_ms: f64,
    /// Of a hundred requests 95 are not slower.
    pub p95_ms: f64,
    /// Of a hundred requests 99 are not slower.
    pub p99_ms: f64,
}

/// One size of the cache. Figures a day are absent where the log spans no time, money without its price.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WorthAt {
    /// The size; absent of unlimited capacity.
    pub pages: Option<u64>,
    /// The same in bytes, where a cost per token is known.
    pub bytes: Option<u64>,
    /// Prefill of the whole log.
    pub accelerator_hours: f64,
    /// The same a day.
    pub accelerator_hours_a_day: Option<f64>,
    /// What that costs a day.
    pub money_a_day: Option<f64>,
    /// What is saved a day, compared with no cache.
    pub saved_a_day: Option<f64>,
    /// What the cache itself costs a day, tiers below included.
    pub memory_a_day: Option<f64>,
    /// What a GiB of the step from the next smaller size earns a day.
    pub step_earns_a_gib_day: Option<f64>,
    /// Time to the first token.
    pub time_to_first_token: TimeToFirstToken,
}

/// What a cache is worth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorthResult {
    /// Tokens that a worker computes a second, as given.
    pub prefill_rate: String,
    /// Prices, as given.
    pub prices: Prices,
    /// Tiers below, from the fastest, as given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<TierWorth>,
    /// Days from the first to the last request.
    pub days: f64,
    /// Without a cache.
    pub without_cache: WorthAt,
    /// With one that evicts nothing.
    pub unlimited: WorthAt,
    /// At each capacity of the curve, ascending.
    pub capacities: Vec<WorthAt>,
    /// The smallest of these that is as large as what is recommended.
    pub recommended: Option<WorthAt>,
    /// That of these which saves the most beyond its own price: the next step costs more than it earns.
    pub best: Option<WorthAt>,
}

impl WorthResult {
    /// What a tally came to. `sizes` are its capacities, ascending, in pages and bytes.
    pub fn of(
        tally: &WorthTally,
        sizes: &[(u64, Option<u64>)],
        prices: Prices,
        tiers: Vec<TierWorth>,
        recommended_pages: Option<u64>,
    ) -> Option<Self> {
        if tally.requests() == 0 {
            return None;
        }
        let days = tally.span_ms() as f64 / MS_A_DAY;
        let price = |bytes: u64, gib_hour: f64| bytes as f64 / GIB * gib_hour * HOURS_A_DAY;
        let below: f64 = tiers.iter().filter_map(|tier| Some(price(tier.bytes?, tier.gib_hour?))).sum();
        let seconds: Vec<f64> = tally.seconds().collect();
        let hours = |column: usize| seconds.get(column).copied().unwrap_or(0.0) / SECONDS_AN_HOUR;
        let a_day = |amount: f64| (days > 0.0).then(|| amount / days);
        let money = |column: usize| Some(a_day(hours(column))? * prices.accelerator_hour?);
        let at = |column: usize, size: Option<(u64, Option<u64>)>| {
            let [p50_ms, p95_ms, p99_ms] =
                tally.quantiles(column, [500, 950, 990]).map(|seconds| seconds * 1000.0);
            let bytes = size.and_then(|(_, bytes)| bytes);
            WorthAt {
                pages: size.map(|(pages, _)| pages),
                bytes,
                accelerator_hours: hours(column),
                accelerator_hours_a_day: a_day(hours(column)),
                money_a_day: money(column),
                saved_a_day: money(0).zip(money(column)).map(|(without, with)| without - with),
                memory_a_day: bytes
                    .zip(prices.gib_hour)
                    .map(|(bytes, gib_hour)| price(bytes, gib_hour) + below),
                step_earns_a_gib_day: None,
                time_to_first_token: TimeToFirstToken { p50_ms, p95_ms, p99_ms },
            }
        };
        let mut capacities: Vec<WorthAt> =
            sizes.iter().enumerate().map(|(place, size)| at(place + 2, Some(*size))).collect();
        let mut before = (0.0, 0);
        for point in &mut capacities {
            if let (Some(saved), Some(bytes)) = (point.saved_a_day, point.bytes) {
                let gib = (bytes.saturating_sub(before.1)) as f64 / GIB;
                point.step_earns_a_gib_day = (gib > 0.0).then(|| (saved - before.0) / gib);
                before = (saved, bytes);
            }
        }
        let net = |point: &WorthAt| Some(point.saved_a_day? - point.memory_a_day?);
        let mut best: Option<(f64, WorthAt)> = None;
        for point in &capacities {
            if let Some(net) = net(point).filter(|net| *net > 0.0 && best.is_none_or(|(most, _)| *net > most))
            {
                best = Some((net, *point));
            }
        }
        let enough =
            |pages: u64| capacities.iter().find(|point| point.pages.is_some_and(|own| own >= pages)).copied();
        Some(Self {
            prefill_rate: tally.rate().to_string(),
            prices,
            days,
            without_cache: WorthAt {
                memory_a_day: prices.gib_hour.map(|_| 0.0),
                ..at(0, Some((0, Some(0))))
            },
            unlimited: at(1, None),
            recommended: recommended_pages.and_then(enough),
            best: best.map(|(_, point)| point),
            capacities,
            tiers,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::FoundTokens;
    use super::*;
    use proptest::prelude::*;

    fn result(requests: &[(u64, u64, u64)], prices: Prices) -> WorthResult {
        let mut tally = WorthTally::new("1000".parse().expect("a rate"));
        for (at, (prompt, less, more)) in requests.iter().enumerate() {
            let found =
                [*less, *more].map(|tokens| FoundTokens { tokens: tokens.min(*prompt), load_seconds: 0.0 });
            tally.add(at as i64 * 43_200_000, *prompt, *prompt, found.into_iter()).expect("few");
        }
        WorthResult::of(&tally, &[(1, Some(1 << 30)), (3, Some(3 << 30))], prices, Vec::new(), Some(2))
            .expect("requests")
    }

    #[test]
    fn what_a_tier_has_is_loaded_and_its_memory_is_paid() {
        let mut tally = WorthTally::new("1000".parse().expect("a rate"));
        // Of 1000 tokens 200 lie on the device and 500 below, which are loaded in 0.1 s; 300 are computed in 0.3 s.
        let found = FoundTokens { tokens: 700, load_seconds: 0.1 };
        tally.add(0, 1000, 1000, [found].into_iter()).expect("few");
        tally.add(86_400_000, 1000, 1000, [found].into_iter()).expect("few");
        let tier =
            TierWorth { tier: "t".to_owned(), bytes: Some(8 << 30), bandwidth: Some(1), gib_hour: Some(0.5) };
        let prices = Prices { accelerator_hour: Some(3600.0), gib_hour: Some(1.0) };
        let worth =
            WorthResult::of(&tally, &[(1, Some(2 << 30))], prices, vec![tier], None).expect("requests");
        let at = worth.capacities[0];
        assert!((at.accelerator_hours - 0.6 / 3600.0).abs() < 1e-9);
        assert!((at.time_to_first_token.p50_ms - 400.0).abs() < 0.01);
        assert!((at.memory_a_day.expect("a price") - (2.0 + 8.0 * 0.5) * 24.0).abs() < 1e-9);
        assert!((at.saved_a_day.expect("a price") - 1.4).abs() < 1e-6);
    }

    #[test]
    fn figures_are_those_computed_by_hand() {
        let prices = Prices { accelerator_hour: Some(3.6), gib_hour: Some(0.01) };
        // One day from the first to the last of three requests; 1 ms and 0.001 of the currency a token.
        let found = result(&[(1000, 0, 0), (2000, 0, 1000), (3000, 1000, 2000)], prices);
        assert_eq!(found.days, 1.0);
        assert!((found.without_cache.accelerator_hours - 6.0 / 3600.0).abs() < 1e-12);
        assert!((found.without_cache.money_a_day.expect("a price") - 0.006).abs() < 1e-12);
        let saved: Vec<f64> = found.capacities.iter().filter_map(|point| point.saved_a_day).collect();
        assert!((saved[0] - 0.001).abs() < 1e-12 && (saved[1] - 0.003).abs() < 1e-12, "{saved:?}");
        // Two GiB more earn 0.002 more.
        assert!((found.capacities[1].step_earns_a_gib_day.expect("a step") - 0.001).abs() < 1e-12);
        assert!((found.capacities[1].memory_a_day.expect("a price") - 0.72).abs() < 1e-12);
        assert_eq!(found.best, None, "memory costs more than it saves");
        assert_eq!(found.recommended.and_then(|point| point.pages), Some(3));
        assert_eq!(found.capacities[1].time_to_first_token.p50_ms, 1000.0);
    }

    #[test]
    fn the_best_size_is_the_one_behind_which_a_step_costs_more_than_it_earns() {
        let prices = Prices { accelerator_hour: Some(3600.0), gib_hour: Some(0.02) };
        let found = result(&[(1000, 1000, 1000), (1000, 1000, 1000), (1000, 0, 100)], prices);
        assert_eq!(
            found.best.and_then(|point| point.pages),
            Some(1),
            "the next two earn 0.1 and cost 0.96 a day"
        );
    }

    #[test]
    fn nothing_is_reported_in_money_without_a_price() {
        let found = result(&[(1000, 0, 0), (2000, 0, 1000)], Prices::default());
        assert_eq!((found.without_cache.money_a_day, found.best), (None, None));
        assert!(found.without_cache.accelerator_hours_a_day.is_some());
    }

    proptest! {
        #[test]
        fn more_hits_never_take_longer_and_what_is_saved_adds_up(
            requests in prop::collection::vec((0u64..100_000, 0u64..50_000, 0u64..50_000), 2..40),
        ) {
            let ordered: Vec<_> = requests.iter().map(|(prompt, a, b)| (*prompt, *a.min(b), *a.max(b))).collect();
            let found = result(&ordered, Prices { accelerator_hour: Some(2.0), gib_hour: None });
            let all: Vec<&WorthAt> = [&found.without_cache].into_iter().chain(&found.capacities).chain([&found.unlimited]).collect();
            for two in all.windows(2) {
                prop_assert!(two[0].accelerator_hours + 1e-9 >= two[1].accelerator_hours);
                prop_assert!(two[0].time_to_first_token.p95_ms + 1e-3 >= two[1].time_to_first_token.p95_ms);
            }
            for point in all {
                let sum = point.money_a_day.expect("a price") + point.saved_a_day.expect("a price");
                prop_assert!((sum - found.without_cache.money_a_day.expect("a price")).abs() < 1e-6);
            }
        }
    }
}
