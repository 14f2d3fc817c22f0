//! Tier plans, convergence and hysteresis: worked cases, and properties against obvious models.

use kvset::core::request::outcome::Run;
use kvset::core::sizing::curve::PromptTokens;
use kvset::core::sizing::exact_curve::{FoundCurve, FoundPages, FoundRun};
use kvset::core::sizing::tiers::{
    CapacityUnit, Convergence, Hysteresis, Inclusion, NextUnit, Purchase, Settled, TierConfig, cost, plan,
};
use kvset::core::units::PageCount;
use kvset::core::units::ratio::Ratio;
use proptest::prelude::*;

fn ratio(text: &str) -> Ratio {
    text.parse().expect("a share")
}

fn tier(
    name: &str,
    inclusion: Inclusion,
    unit: (u64, u64),
    unit_price: Option<f64>,
) -> TierConfig<CapacityUnit> {
    let unit = CapacityUnit::new(unit.0, unit.1).expect("not zero");
    TierConfig { name: name.to_owned(), coverage: ratio("0.9"), inclusion, unit, unit_price }
}

/// Hits that grow with every page up to 1000, of 2000 accesses.
fn straight<T>(read: impl FnOnce(&FoundCurve<'_>) -> T) -> T {
    let mut found = FoundPages::default();
    let run = Run { pages: 1000, need: 1, step: 1, last_touched_by: 0 };
    found.add(&FoundRun::of(&run).expect("within the bound"));
    read(&FoundCurve {
        found: &found,
        page_accesses: 2000,
        prompts: PromptTokens::default(),
        sample_rate: Ratio::ONE,
        bound: PageCount(1 << 32),
    })
}

fn plan_of(
    tiers: &[TierConfig<CapacityUnit>],
    required: &[Option<u64>],
    pinned: u64,
) -> Vec<(Purchase, Option<NextUnit>)> {
    let required: Vec<_> = required.iter().map(|pages| pages.map(PageCount)).collect();
    straight(|curve| plan(tiers, &required, Some(PageCount(pinned)), curve))
}

#[test]
fn an_exclusive_tier_adds_and_an_inclusive_one_repeats() {
    let gpu = tier("hbm", Inclusion::Exclusive, (100, 1), Some(8.0));
    let exclusive = [gpu.clone(), tier("dram", Inclusion::Exclusive, (50, 1), Some(1.0))];
    let planned = plan_of(&exclusive, &[Some(180), Some(520)], 0);
    let [(hbm, _), (dram, _)] = &planned[..] else { panic!("two tiers") };
    assert_eq!((hbm.units, hbm.reach_pages), (Some(2), Some(200)));
    assert_eq!((dram.units, dram.pages, dram.reach_pages), (Some(7), Some(350), Some(550)));
    assert_eq!((hbm.hit_rate, dram.hit_rate), (Some(0.1), Some(0.275)), "read at C1 and at C1 + C2");
    assert_eq!(dram.relative_prefill_throughput, Some(1.0 / (1.0 - 0.275)));
    assert_eq!(cost(&planned), Some(2.0 * 8.0 + 7.0));

    let inclusive = [gpu, tier("dram", Inclusion::Inclusive, (50, 1), Some(1.0))];
    let planned = plan_of(&inclusive, &[Some(180), Some(520)], 0);
    let (dram, _) = &planned[1];
    assert_eq!((dram.units, dram.reach_pages), (Some(11), Some(550)));
    assert_eq!(dram.hit_rate, Some(0.275), "read at C2");
    let reached = plan_of(&inclusive, &[Some(180), Some(200)], 0);
    assert_eq!((reached[1].0.units, reached[1].0.reach_pages), (Some(0), Some(200)));
}

#[test]
fn the_next_unit_is_read_off_the_curve() {
    let tiers = [tier("hbm", Inclusion::Exclusive, (100, 1), None)];
    let planned = plan_of(&tiers, &[Some(950)], 0);
    assert_eq!((cost(&planned), planned[0].0.cost), (None, None), "no price, no cost");
    let next = planned[0].1.expect("a number");
    assert_eq!((next.reach_pages, next.hit_rate_gain), (PageCount(1100), Some(0.0)), "the curve is flat");
    let next = plan_of(&tiers, &[Some(1)], 0)[0].1.expect("a number");
    assert_eq!(next.hit_rate_gain, Some(0.05));
}

#[test]
fn pinned_pages_take_room_in_the_first_tier_and_reach_nothing() {
    let tiers = [
        tier("hbm", Inclusion::Exclusive, (100, 1), None),
        tier("dram", Inclusion::Exclusive, (100, 1), None),
    ];
    let planned = plan_of(&tiers, &[Some(180), Some(400)], 30);
    assert_eq!((planned[0].0.units, planned[0].0.reach_pages), (Some(3), Some(270)));
    assert_eq!((planned[1].0.units, planned[1].0.reach_pages), (Some(2), Some(470)));
}

#[test]
fn beyond_the_bound_there_is_no_number_here_or_below() {
    let tiers = [
        tier("hbm", Inclusion::Exclusive, (100, 1), Some(1.0)),
        tier("dram", Inclusion::Exclusive, (100, 1), Some(1.0)),
        tier("disk", Inclusion::Exclusive, (100, 1), Some(1.0)),
    ];
    let planned = plan_of(&tiers, &[Some(50), None, Some(900)], 0);
    assert_eq!(planned.iter().map(|(tier, _)| tier.units).collect::<Vec<_>>(), [Some(1), None, None]);
    assert_eq!(cost(&planned), None);
    assert_eq!(cost(&plan_of(&[], &[], 0)), None);
}

#[test]
fn a_growing_requirement_is_not_converged_and_says_how_fast_it_grows() {
    let mut growing = Convergence::new(3, ratio("0.05"));
    assert_eq!(growing.observe(Some(PageCount(100)), false).status, Settled::NotConverged);
    assert_eq!(growing.observe(Some(PageCount(110)), false).growth_per_window, None, "too few steps");
    let verdict = growing.observe(Some(PageCount(120)), false);
    assert_eq!((verdict.status, verdict.growth_per_window), (Settled::NotConverged, Some(0.1)));
    assert_eq!(growing.observe(Some(PageCount(1)), true), verdict, "a window that warms up changes nothing");
    growing.observe(Some(PageCount(121)), false);
    let verdict = growing.observe(Some(PageCount(126)), false);
    assert_eq!((verdict.status, verdict.steps), (Settled::Converged, 3), "6 is 5 % of 120");
    assert_eq!(growing.observe(None, false).status, Settled::NotConverged);
    assert_eq!(growing.verdict().growth_per_window, None, "beyond the bound there is no rate");
    assert_eq!(Settled::NotConverged.with_growth(Some(0.031)), "not converged, +3.1 % per step");
    assert_eq!(Settled::NotConverged.with_growth(None), "not converged");
    assert_eq!(Settled::Converged.with_growth(Some(0.01)), "converged");
}

#[test]
fn only_a_large_rise_does_not_wait() {
    let mut held = Hysteresis::new(ratio("0.1"), 3);
    let mut observe = |pages: u64, warm_up| {
        let (pages, changed) = held.observe(Some(PageCount(pages)), warm_up);
        (pages.map(|pages| pages.0), changed)
    };
    assert_eq!(observe(1000, true), (Some(1000), true), "the first is taken");
    assert_eq!(observe(1100, false), (Some(1000), false), "10 % is not more than 10 %");
    assert_eq!(observe(1050, false), (Some(1000), false));
    assert_eq!(observe(1020, false), (Some(1100), true), "held for three steps: the largest of them");
    assert_eq!(observe(1300, false), (Some(1300), true), "more than 10 %");
    assert_eq!(observe(500, true), (Some(1300), false), "never down on a window that warms up");
    assert_eq!(
        [observe(1200, false), observe(1290, true), observe(1250, false)].map(|told| told.1),
        [false; 3]
    );
    assert_eq!(observe(1240, false), (Some(1250), true), "three steps that counted");
    assert_eq!([observe(600, false), observe(900, false)].map(|told| told.1), [false; 2], "less has to last");
    assert_eq!(observe(600, false), (Some(900), true), "the largest of three steps");
    assert_eq!(held.observe(None, false), (Some(PageCount(900)), false), "beyond the bound");
}

/// The fewest units by trying.
fn fewest_units(spec: &TierConfig<CapacityUnit>, first: bool, above: u64, required: u64, pinned: u64) -> u64 {
    (0..)
        .find(|units| {
            let own = (units * spec_size(spec) / spec_page(spec)).saturating_sub(pinned);
            let exclusive = first || spec.inclusion == Inclusion::Exclusive;
            let reach = if exclusive { above + own } else { above.max(own) };
            let holds_pinned = units * spec_size(spec) / spec_page(spec) >= pinned;
            reach >= required && holds_pinned
        })
        .expect("some number of units is enough")
}

fn spec_size(spec: &TierConfig<CapacityUnit>) -> u64 {
    serde_json::to_value(spec.unit).expect("plain data")["size"].as_u64().expect("a number")
}

fn spec_page(spec: &TierConfig<CapacityUnit>) -> u64 {
    serde_json::to_value(spec.unit).expect("plain data")["page"].as_u64().expect("a number")
}

prop_compose! {
    fn any_tier()(exclusive in any::<bool>(), size in 1u64..300, page in 1u64..40) -> TierConfig<CapacityUnit> {
        let inclusion = if exclusive { Inclusion::Exclusive } else { Inclusion::Inclusive };
        tier("any", inclusion, (size, page), Some(1.0))
    }
}

proptest! {
    #[test]
    fn every_tier_gets_the_fewest_units_that_reach_its_requirement(
        tiers in prop::collection::vec((any_tier(), 0u64..1500), 1..4),
        pinned in 0u64..50,
    ) {
        let (specs, required): (Vec<_>, Vec<_>) = tiers.into_iter().unzip();
        let some: Vec<_> = required.iter().copied().map(Some).collect();
        let planned = plan_of(&specs, &some, pinned);
        let mut above = 0;
        for (position, (spec, (tier, next_unit))) in specs.iter().zip(&planned).enumerate() {
            let pinned = if position == 0 { pinned } else { 0 };
            let expected = fewest_units(spec, position == 0, above, required[position], pinned);
            prop_assert_eq!(tier.units, Some(expected), "tier {}", position);
            let reach = tier.reach_pages.expect("a number");
            prop_assert!(reach >= required[position] && reach >= above);
            prop_assert_eq!(tier.hit_rate, straight(|curve| curve.hit_rate(PageCount(reach))));
            prop_assert!(next_unit.expect("a number").hit_rate_gain.expect("known") >= 0.0);
            above = reach;
        }
    }

    #[test]
    fn no_size_overflows(size in 1u64.., page in 1u64.., pages in any::<u64>(), pinned in any::<u64>()) {
        let tiers = [tier("a", Inclusion::Exclusive, (size, page), Some(1.0)), tier("b", Inclusion::Inclusive, (page, size), None)];
        let planned = plan_of(&tiers, &[Some(pages), Some(u64::MAX)], pinned);
        prop_assert!(planned.iter().all(|(tier, _)| tier.units.is_some()));
    }

    #[test]
    fn converged_means_that_no_two_of_the_last_windows_differ_by_more_than_the_tolerance(
        seen in prop::collection::vec((prop::option::weighted(0.95, 0u64..60), any::<bool>()), 0..40),
        windows in 2u32..6,
    ) {
        let mut tracker = Convergence::new(windows, ratio("0.25"));
        let mut counted: Vec<Option<u64>> = Vec::new();
        for (required, warm_up) in seen {
            let verdict = tracker.observe(required.map(PageCount), warm_up);
            if !warm_up {
                counted.push(required);
            }
            let last: Option<Vec<u64>> = counted.iter().rev().take(windows as usize).copied().collect();
            let expected = last.filter(|last| last.len() == windows as usize).is_some_and(|last| {
                last.iter().all(|a| last.iter().all(|b| 4 * a <= 5 * b))
            });
            prop_assert_eq!(verdict.status == Settled::Converged, expected);
        }
    }

    #[test]
    fn a_recommendation_moves_only_as_the_rules_say(
        seen in prop::collection::vec((prop::option::weighted(0.95, 50u64..150), prop::bool::weighted(0.2)), 1..60),
        hold in 1u32..5,
    ) {
        let mut tracker = Hysteresis::new(ratio("0.2"), hold);
        let mut seen_so_far: Vec<u64> = Vec::new();
        let mut since_change: Vec<(u64, bool)> = Vec::new();
        let mut before: Option<u64> = None;
        for (required, warm_up) in seen {
            let (now, changed) = tracker.observe(required.map(PageCount), warm_up);
            let now = now.map(|pages| pages.0);
            seen_so_far.extend(required);
            prop_assert_eq!(changed, now != before);
            if let Some(now) = now {
                prop_assert!(seen_so_far.contains(&now), "only what a step asked for");
            }
            if let (Some(before), Some(now), Some(required)) = (before, now, required) {
                prop_assert!(!(warm_up && now < before), "never lower on a window that warms up");
                if required > before && 5 * (required - before) > before {
                    prop_assert_eq!(now, required, "a large rise counts at once");
                }
                since_change.push((required, warm_up));
                let same_side = since_change.iter().rev()
                    .filter(|(pages, warm_up)| !(*warm_up && *pages < before))
                    .take_while(|(pages, _)| (*pages > before) == (now > before) && *pages != before)
                    .count();
                let is_large_rise = required > before && 5 * (required - before) > before;
                if now != before && !is_large_rise {
                    prop_assert!(same_side >= hold as usize, "other changes are held first");
                }
            }
            if now != before {
                since_change.clear();
            }
            before = now;
        }
    }

    #[test]
    fn a_steady_requirement_is_recommended_in_the_end(
        seen in prop::collection::vec(1u64..1000, 0..20),
        steady in 1u64..1000,
        hold in 1u32..6,
    ) {
        let mut tracker = Hysteresis::new(ratio("0.3"), hold);
        for pages in seen {
            tracker.observe(Some(PageCount(pages)), false);
        }
        // A row begun before may end first, with another window's requirement.
        for _ in 0..2 * hold {
            tracker.observe(Some(PageCount(steady)), false);
        }
        prop_assert_eq!(tracker.current(), Some(PageCount(steady)));
    }
}

#[test]
fn trackers_are_plain_data_that_go_on_after_a_restore() {
    let mut held = Hysteresis::new(ratio("0.1"), 2);
    held.observe(Some(PageCount(100)), false);
    held.observe(Some(PageCount(105)), false);
    let mut restored: Hysteresis =
        serde_json::from_str(&serde_json::to_string(&held).expect("data")).expect("data");
    assert_eq!(restored, held);
    assert!(restored.observe(Some(PageCount(105)), false).1);
    let mut watched = Convergence::new(2, ratio("0.1"));
    watched.observe(Some(PageCount(100)), false);
    let restored: Convergence =
        serde_json::from_str(&serde_json::to_string(&watched).expect("data")).expect("data");
    assert_eq!(restored, watched);
}
