//! What trends add to estimates, against trackers filled by hand.

use super::super::*;
use crate::sizing::tiers::{Convergence, Hysteresis, Purchase, Settled};
use crate::units::PageCount;
use crate::units::ratio::Ratio;
use proptest::prelude::*;

/// Feeds what the estimates ask for to trackers of their own and compares the verdicts. `accepted` is the number of
/// requests accepted before an offset.
pub(super) fn trends_follow_the_estimates(
    config: &PoolConfig,
    estimates: &[Estimate],
    accepted: impl Fn(i64) -> u64,
) -> Result<(), TestCaseError> {
    let rules = config.trend;
    for kind in &config.windows {
        let mut settling = vec![Convergence::new(rules.converged_over, rules.tolerance); 15];
        let mut last: Option<(u64, i64)> = None;
        let mut held = vec![Hysteresis::new(rules.min_change, rules.hold); config.tiers.len()];
        let mut to_act_on = Hysteresis::new(Ratio::per_mille(0), rules.hold);
        for estimate in estimates.iter().filter(|estimate| estimate.window == *kind) {
            let now = (accepted(estimate.next_offset), estimate.end_ms);
            let new = config.min_requests.div_ceil(u64::from(rules.converged_over));
            let is_step = estimate.requests >= config.min_requests
                && last.is_none_or(|(before, end_ms)| {
                    let own = estimate.start_ms >= end_ms && estimate.requests >= new;
                    (own || now.0 - before >= new) && now.1 - end_ms >= rules.step_ms as i64
                });
            if is_step {
                last = Some(now);
            }
            let entries = estimate.required.iter().flat_map(|required| &required.coverage);
            for (tracker, entry) in settling.iter_mut().zip(entries) {
                let pages = entry.pages.map(PageCount);
                let verdict =
                    if is_step { tracker.observe(pages, estimate.warm_up) } else { tracker.verdict() };
                prop_assert_eq!(verdict.status, entry.convergence);
                prop_assert_eq!(verdict.growth_per_window, entry.growth_per_window);
                prop_assert_eq!(verdict.steps, estimate.trend_windows);
            }
            if let Some(entry) = estimate.recommended.iter().find(|entry| entry.act_on) {
                let pages = entry.pages.map(PageCount);
                match is_step {
                    true => drop(to_act_on.observe(pages, estimate.warm_up)),
                    false => to_act_on.raise(pages),
                }
                prop_assert_eq!(to_act_on.current().map(|pages| pages.0), entry.held_pages);
            }
            let tiers = estimate.plan.iter().flat_map(|plan| &plan.tiers);
            for (tracker, (tier, spec)) in held.iter_mut().zip(tiers.zip(&config.tiers)) {
                let pages = tier.required_pages.map(PageCount);
                let (steady, changed) = match is_step {
                    true => tracker.observe(pages, estimate.warm_up),
                    false => (tracker.current(), false),
                };
                prop_assert_eq!(changed, tier.recommendation_changed);
                let reach = tier.recommended.reach_pages;
                prop_assert!(reach.is_none_or(|reach| steady.is_some_and(|pages| reach >= pages.0)));
                let bytes = tier.recommended.units.and_then(|units| spec.bytes(units, None));
                prop_assert!(bytes.is_none_or(|bytes| tier.recommended.bytes == Some(bytes)));
            }
        }
    }
    Ok(())
}

/// The estimate without what trends add.
pub(super) fn without_trend(estimate: &Estimate) -> Estimate {
    let mut bare = Estimate { trend_windows: 0, ..estimate.clone() };
    for entry in bare.required.iter_mut().flat_map(|required| &mut required.coverage) {
        (entry.convergence, entry.growth_per_window) = (Settled::NotConverged, None);
    }
    for entry in &mut bare.recommended {
        (entry.convergence, entry.growth_per_window) = (Settled::NotConverged, None);
        entry.hold(None, None);
    }
    if let Some(plan) = &mut bare.plan {
        plan.recommended_cost = None;
        for tier in &mut plan.tiers {
            (tier.convergence, tier.growth_per_window) = (Settled::NotConverged, None);
            (tier.recommended, tier.recommendation_changed) = (Purchase::default(), false);
        }
    }
    bare
}
