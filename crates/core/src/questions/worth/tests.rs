//! Worth by hand, and what must hold of any log.

use super::*;
use crate::questions::costs::{PrefillRate, Prices};
use crate::questions::counters::{Counter, Share};
use crate::questions::question::Horizon;
use crate::units::ratio::Ratio;
use proptest::prelude::*;

const DAY_MS: i64 = 86_400_000;

fn rate(text: &str) -> PrefillRate {
    text.parse().expect(text)
}

/// A request: its arrival, its prompt, and what unlimited capacity and each capacity find.
type FoundRequest = (i64, u64, u64, Vec<(u64, f64)>);

/// A tally of requests given by arrival, prompt, and what unlimited capacity and each capacity find.
fn tally(rate: &PrefillRate, requests: &[FoundRequest]) -> WorthTally {
    let shape = (requests[0].3.len(), Horizon::Endless);
    let mut tally = WorthTally::new(shape);
    for share in shares(rate, requests) {
        assert!(share.is_sound(shape));
        tally.add(&share);
    }
    assert!(tally.is_sound(shape));
    tally
}

fn shares(rate: &PrefillRate, requests: &[FoundRequest]) -> Vec<WorthShare> {
    let share = |(at, prompt, unlimited, found): &FoundRequest| {
        WorthShare::of(rate, *at, (*prompt, *unlimited), found.iter().copied())
    };
    requests.iter().map(share).collect()
}

fn basis<'a>(rate: &'a PrefillRate, prices: Prices, sizes: &'a [(u64, Option<u64>)]) -> WorthBasis<'a> {
    WorthBasis {
        rate,
        prices,
        below_a_day: 0.0,
        has_own_column: false,
        provisioned: None,
        sizes,
        recommended: Some(2),
        coverages: &[],
    }
}

const SIZES: [(u64, Option<u64>); 2] = [(1, Some(1 << 30)), (3, Some(3 << 30))];

fn found(tokens: u64) -> (u64, f64) {
    (tokens, 0.0)
}

/// Requests every half a day at a thousand tokens per second, by prompt and what the smaller and the larger cache find.
fn result(requests: &[(u64, u64, u64)], prices: Prices) -> WorthEstimate {
    let of = |(at, (prompt, less, more)): (usize, &(u64, u64, u64))| {
        let both = [*less, *more].map(|tokens| found(tokens.min(*prompt))).to_vec();
        (at as i64 * DAY_MS / 2, *prompt, *prompt, both)
    };
    let requests: Vec<_> = requests.iter().enumerate().map(of).collect();
    let rate = rate("1000");
    basis(&rate, prices, &SIZES).estimate(&tally(&rate, &requests)).expect("requests")
}

#[test]
fn what_a_tier_has_is_loaded_and_its_memory_is_paid() {
    // Of 1000 tokens 200 lie on the device and 500 below, which are loaded in 0.1 s; 300 are computed in 0.3 s.
    let found = (700, 0.1);
    let rate = rate("1000");
    let tally = tally(&rate, &[(0, 1000, 1000, vec![found]), (DAY_MS, 1000, 1000, vec![found])]);
    let prices = Prices { accelerator_hour: Some(3600.0), gib_hour: Some(1.0) };
    let sizes = [(1, Some(2 << 30))];
    let basis =
        WorthBasis { below_a_day: Prices::memory_a_day(8 << 30, 0.5), ..basis(&rate, prices, &sizes) };
    let at = basis.estimate(&tally).expect("requests").capacities[0];
    assert!((at.accelerator_hours - 0.6 / 3600.0).abs() < 1e-12);
    assert!((at.time_to_first_token.p50_ms - 400.0).abs() < 1e-6);
    assert!((at.memory_a_day.expect("a price") - (2.0 + 8.0 * 0.5) * 24.0).abs() < 1e-9);
    assert!((at.saved_a_day.expect("a price") - 1.4).abs() < 1e-9);
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
    assert_eq!(found.capacities[0].next_step_earns_a_gib_day, found.capacities[1].step_earns_a_gib_day);
    assert_eq!(found.capacities[1].next_step_earns_a_gib_day, None);
    assert!((found.capacities[1].memory_a_day.expect("a price") - 0.72).abs() < 1e-12);
    assert_eq!(found.best, None, "memory costs more than it saves");
    assert_eq!(found.recommended.and_then(|point| point.pages), Some(3));
    assert_eq!(found.capacities[1].time_to_first_token.p50_ms, 1000.0);
}

#[test]
fn the_best_size_is_the_one_behind_which_a_step_costs_more_than_it_earns() {
    let prices = Prices { accelerator_hour: Some(3600.0), gib_hour: Some(0.02) };
    let found = result(&[(1000, 1000, 1000), (1000, 1000, 1000), (1000, 0, 100)], prices);
    let best = found.best.and_then(|point| point.pages);
    assert_eq!(best, Some(1), "the next two earn 0.1 and cost 0.96 a day");
}

#[test]
fn nothing_is_reported_in_money_without_a_price() {
    let found = result(&[(1000, 0, 0), (2000, 0, 1000)], Prices::default());
    assert_eq!((found.without_cache.money_a_day, found.best), (None, None));
    assert!(found.without_cache.accelerator_hours_a_day.is_some());
}

/// What is provisioned is counted at exactly, and the steps before and behind it are those to its neighbours.
#[test]
fn what_is_provisioned_has_figures_of_its_own_between_those_of_the_curve() {
    let (rate, prices) = (rate("1000"), Prices { accelerator_hour: Some(3600.0), gib_hour: None });
    let at = |ms| (ms, 1000, 1000, vec![found(400), found(100), found(900)]);
    let tally = tally(&rate, &[at(0), at(DAY_MS)]);
    let coverages = [(Ratio::per_mille(990), Some(2)), (Ratio::per_mille(999), None)];
    let basis = |provisioned: u64| WorthBasis {
        has_own_column: true,
        provisioned: Some((provisioned, Some(provisioned << 30))),
        coverages: &coverages,
        ..basis(&rate, prices, &SIZES)
    };
    let worth = basis(2).estimate(&tally).expect("requests");
    let own = worth.provisioned.expect("counted");
    assert_eq!((own.pages, own.saved_a_day), (Some(2), Some(0.8)));
    assert!((own.step_earns_a_gib_day.expect("a step") - 0.6).abs() < 1e-12);
    assert!((own.next_step_earns_a_gib_day.expect("a step") - 1.0).abs() < 1e-12);
    assert_eq!(worth.capacities.len(), 2);
    let at_coverage: Vec<_> =
        worth.coverages.iter().map(|entry| entry.worth.and_then(|at| at.pages)).collect();
    assert_eq!(at_coverage, [Some(3), None]);
    // One of the curve is that of the curve.
    let worth = basis(3).estimate(&tally).expect("requests");
    assert_eq!(worth.provisioned, Some(worth.capacities[1]));
}

/// Longer than three minutes a time keeps 24 bits, as it would in 32 bits of floating point.
#[test]
fn long_times_keep_24_bits() {
    let rate = rate("0.37");
    let tally = tally(&rate, &[(0, 1 << 30, 0, Vec::new())]);
    let seconds = rate.seconds(0, 1 << 30);
    let worth = basis(&rate, Prices::default(), &[]).estimate(&tally).expect("a request");
    let told = worth.without_cache.time_to_first_token.p50_ms / 1000.0;
    assert!((told - seconds).abs() <= seconds / f64::from(1 << 24), "{told} of {seconds}");
    assert_eq!(worth.days, 0.0);
    assert_eq!(worth.without_cache.accelerator_hours_a_day, None, "it spans no time");
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
            prop_assert!(two[0].accelerator_hours >= two[1].accelerator_hours);
            prop_assert!(two[0].time_to_first_token.p95_ms >= two[1].time_to_first_token.p95_ms);
        }
        for point in all {
            let sum = point.money_a_day.expect("a price") + point.saved_a_day.expect("a price");
            prop_assert!((sum - found.without_cache.money_a_day.expect("a price")).abs() < 1e-6);
        }
    }

    /// Parts of a log add up to the log, in any order, and none of the figures changes its meaning with the currency.
    #[test]
    fn parts_are_merged_to_the_whole_and_money_scales_with_its_price(
        requests in prop::collection::vec(
            (-1_000_000i64..1_000_000, 0u64..90_000, prop::array::uniform2(0u64..90_000)), 2..60),
        cut in 0usize..60,
        factor in 1u32..1000,
    ) {
        let rate = rate("9000@0,1500.5@20000,700@70000");
        let of = |(at, prompt, tokens): &(i64, u64, [u64; 2])| {
            (*at, *prompt, *prompt, tokens.map(|tokens| found(tokens.min(*prompt))).to_vec())
        };
        let requests: Vec<_> = requests.iter().map(of).collect();
        let shape = (2, Horizon::Endless);
        let count = |shares: &[WorthShare]| {
            let mut tally = WorthTally::new(shape);
            shares.iter().for_each(|share| tally.add(share));
            tally
        };
        let shares = shares(&rate, &requests);
        let (one, other) = shares.split_at(cut.min(shares.len()));
        let (one, other, mut whole) = (count(one), count(other), count(&shares));
        let price = |price: f64| Prices { accelerator_hour: Some(price), gib_hour: Some(price) };
        let estimate = |tally: &WorthTally, prices| basis(&rate, prices, &SIZES).estimate(tally).expect("requests");
        let worth = estimate(&whole, price(1.0));
        for parts in [[&one, &other], [&other, &one]] {
            let sum = WorthTally::merged(parts.into_iter()).expect("two");
            prop_assert!(sum.is_sound(shape));
            prop_assert_eq!(&estimate(&sum, price(1.0)), &worth);
        }
        whole.consolidate();
        let bytes = postcard::to_allocvec(&whole).expect("memory");
        let read: WorthTally = postcard::from_bytes(&bytes).expect("what was written");
        prop_assert_eq!(&estimate(&read, price(1.0)), &worth);
        let dearer = estimate(&whole, price(f64::from(factor)));
        for (at, other) in worth.capacities.iter().zip(&dearer.capacities) {
            prop_assert_eq!(at.accelerator_hours, other.accelerator_hours);
            prop_assert_eq!(at.time_to_first_token, other.time_to_first_token);
            for (one, other) in [
                (at.money_a_day, other.money_a_day),
                (at.memory_a_day, other.memory_a_day),
                (at.step_earns_a_gib_day, other.step_earns_a_gib_day),
            ] {
                prop_assert_eq!(one.is_some(), other.is_some());
                let (one, other) = (one.unwrap_or(0.0) * f64::from(factor), other.unwrap_or(0.0));
                prop_assert!((one - other).abs() <= 1e-9 * one.abs().max(1e-6), "{} {}", one, other);
            }
        }
        // Quantiles are those of the single requests, to a ten-millionth of a second below three minutes and to 24
        // bits above.
        let mut times: Vec<f64> = requests.iter()
            .map(|(_, prompt, _, found)| rate.seconds(found[0].0, *prompt)).collect();
        times.sort_by(f64::total_cmp);
        for (share, told) in [(500, worth.capacities[0].time_to_first_token.p50_ms), (950, worth.capacities[0].time_to_first_token.p95_ms)] {
            let rank = (share * times.len()).div_ceil(1000).max(1);
            let expected = times[rank - 1] * 1000.0;
            prop_assert!((told - expected).abs() <= 6e-5 + expected * 1.2e-7, "{} {}", told, expected);
        }
    }
}
