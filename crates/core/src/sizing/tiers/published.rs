//! The plan as an estimate publishes it.

use super::convergence::Settled;
use super::plan::{Inclusion, NextUnit, Purchase, TierConfig, cost, plan};
use super::trend::{Requirements, Standing};
use crate::sizing::exact_curve::FoundCurve;
use crate::units::PageBytes;
use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize};

/// What to buy. Rates count every hit in a tier or above it; costs are in the currency of the prices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TierEstimates {
    /// Target ratio of the requirements: the first one configured.
    pub target_ratio: Ratio,
    /// Price of all planned units; absent where a tier has no price or no number.
    pub cost: Option<f64>,
    /// The same for the recommended units.
    pub recommended_cost: Option<f64>,
    /// One entry per tier, from the fastest.
    pub tiers: Vec<TierEstimate>,
}

/// One tier of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TierEstimate {
    pub name: String,
    /// Share of the requests it is sized for, together with the tiers above.
    pub coverage: Ratio,
    pub inclusion: Inclusion,
    /// The capacity that share requires of it and the tiers above; absent beyond the tracked bound.
    pub required_pages: Option<u64>,
    /// The requirement, or for the first tier what requests in flight pin, is larger than the tracked
    /// bound.
    pub beyond_bound: bool,
    /// Whether the requirement has settled over the last steps.
    pub convergence: Settled,
    /// Its mean growth from step to step, as a share; absent where too little is known.
    pub growth_per_window: Option<f64>,
    /// What this window's requirement asks for.
    pub planned: Purchase,
    /// What one unit more than planned would buy.
    pub next_unit: Option<NextUnit>,
    /// What automation should follow: steadier than what is planned; absent while no window held enough requests.
    pub recommended: Purchase,
    /// This window changed the recommended requirement of this tier or, for the first, the room for
    /// requests in flight.
    pub recommendation_changed: bool,
}

/// Publishes the plan of one window's requirements, which are those of this target ratio; `None` where there are no
/// tiers, or units in bytes and the bytes of a page are unknown.
pub fn publish(
    tiers: &[TierConfig],
    page_bytes: Option<PageBytes>,
    target_ratio: Ratio,
    asked: &Requirements,
    standing: &Standing,
    curve: &FoundCurve<'_>,
) -> Option<TierEstimates> {
    let specs: Option<Vec<_>> = tiers.iter().map(|tier| tier.sized(page_bytes)).collect();
    let specs = specs.filter(|specs| !specs.is_empty())?;
    let steady: Vec<_> = standing.tiers.iter().map(|(_, (pages, _))| *pages).collect();
    let (room, room_changed) = standing.pinned;
    let planned = plan(&specs, &asked.tiers, asked.pinned, curve);
    let recommended = plan(&specs, &steady, room, curve);
    let (planned_cost, recommended_cost) = (cost(&planned), cost(&recommended));
    let with_bytes = |config: &TierConfig, tier: Purchase| {
        let bytes = tier.units.and_then(|units| config.bytes(units, page_bytes));
        Purchase { bytes, ..tier }
    };
    let mut estimates = Vec::with_capacity(tiers.len());
    let all = tiers.iter().zip(planned).zip(recommended).zip(&standing.tiers).enumerate();
    for (at, (((config, (planned, next_unit)), (recommended, _)), (verdict, (_, changed)))) in all {
        let required = asked.tiers.get(at).copied().flatten();
        // What requests in flight pin lies in the first tier.
        let (room_is_beyond, room_changed) = (at == 0 && asked.pinned.is_none(), at == 0 && room_changed);
        estimates.push(TierEstimate {
            name: config.name.clone(),
            coverage: config.coverage,
            inclusion: config.inclusion,
            required_pages: required.map(|pages| pages.0),
            beyond_bound: required.is_none() || room_is_beyond,
            convergence: verdict.status,
            growth_per_window: verdict.growth_per_window,
            planned: with_bytes(config, planned),
            next_unit,
            recommendation_changed: *changed || room_changed && recommended.units.is_some(),
            recommended: with_bytes(config, recommended),
        });
    }
    Some(TierEstimates { target_ratio, cost: planned_cost, recommended_cost, tiers: estimates })
}
