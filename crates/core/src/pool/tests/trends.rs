//! What trends add to estimates, against trackers filled by hand.

use super::super::*;
use crate::tiers::{Convergence, Hysteresis, Purchase, Settled};
use crate::units::PageCount;
use proptest::prelude::*;

/// Feeds what the estimates ask for to trackers of their own and compares the verdicts.
pub(super) fn trends_follow_the_estimates(
    config: &PoolConfig,
    estimates: &[Estimate],
) -> Result<(), TestCaseError> {
    let rules = config.trend;
    for kind in &config.windows {
        let mut settling = vec![Convergence::new(rules.converged_over, rules.tolerance); 15];
        let mut held = vec![Hysteresis::new(rules.min_change, rules.hold); config.tiers.len()];
        for estimate in estimates.iter().filter(|estimate| estimate.window == *kind) {
            let entries = estimate.required.iter().flat_map(|required| &required.coverage);
            for (tracker, entry) in settling.iter_mut().zip(entries) {
                let verdict = tracker.observe(entry.pages.map(PageCount), estimate.warm_up);
                prop_assert_eq!(verdict.status, entry.convergence);
                prop_assert_eq!(verdict.growth_per_window, entry.growth_per_window);
                prop_assert_eq!(verdict.windows, estimate.trend_windows);
            }
            let tiers = estimate.plan.iter().flat_map(|plan| &plan.tiers);
            for (tracker, (tier, spec)) in held.iter_mut().zip(tiers.zip(&config.tiers)) {
                let told = tracker.observe(tier.required_pages.map(PageCount), estimate.warm_up);
                prop_assert_eq!(told.changed, tier.recommendation_changed);
                let reach = tier.recommended.reach_pages;
                prop_assert!(reach.is_none_or(|reach| told.pages.is_some_and(|pages| reach >= pages.0)));
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
    if let Some(plan) = &mut bare.plan {
        plan.recommended_cost = None;
        for tier in &mut plan.tiers {
            (tier.convergence, tier.growth_per_window) = (Settled::NotConverged, None);
            (tier.recommended, tier.recommendation_changed) = (Purchase::default(), false);
        }
    }
    bare
}
