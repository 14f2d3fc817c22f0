//! The plan as an estimate publishes it.

use super::convergence::Settled;
use super::plan::{Inclusion, NextUnit, PlannedTier, TierConfig, cost, plan};
use super::trend::Standing;
use crate::sizing::exact_curve::FoundCurve;
use crate::units::ratio::Ratio;
use crate::units::{PageBytes, PageCount};
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

/// How much of a tier to have, and what it buys; absent where there is no number.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Purchase {
    pub units: Option<u64>,
    /// Whole pages these hold.
    pub pages: Option<u64>,
    pub bytes: Option<u64>,
    /// Distinct reusable pages this tier and those above hold.
    pub reach_pages: Option<u64>,
    /// Expected prefix hits as a share of page accesses, over this window's requests.
    pub hit_rate: Option<f64>,
    /// The same by tokens, as a share of all tokens of the prompts; records before version 5 lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_rate_tokens: Option<f64>,
    /// `1/(1-r)` at the hit rate `r` (paper, equation 1); absent when `r` is 1.
    pub relative_prefill_throughput: Option<f64>,
    pub cost: Option<f64>,
}

/// What a plan is published from.
#[derive(Debug, Clone, Copy)]
pub struct Planning<'a> {
    /// The tiers, from the fastest.
    pub tiers: &'a [TierConfig],
    /// Bytes per page, where known.
    pub page_bytes: Option<PageBytes>,
    /// The target ratio the requirements are of.
    pub target_ratio: Ratio,
    /// The capacity each tier's coverage requires; `None` beyond the bound.
    pub required: &'a [Option<PageCount>],
    /// Most pages requests in flight pin at a time; `None` beyond the bound.
    pub pinned: Option<PageCount>,
    /// Where the trends stand.
    pub standing: &'a Standing,
    /// The hit-rate curve.
    pub curve: &'a FoundCurve<'a>,
}

impl Planning<'_> {
    /// The plan; `None` where there are no tiers, or units in bytes and the bytes of a page are unknown.
    pub fn publish(&self) -> Option<TierEstimates> {
        let specs: Option<Vec<_>> = self.tiers.iter().map(|tier| tier.sized(self.page_bytes)).collect();
        let specs = specs.filter(|specs| !specs.is_empty())?;
        let sized = |required: &[Option<PageCount>], pinned| plan(&specs, required, pinned, self.curve);
        let recommended: Vec<_> = self.standing.tiers.iter().map(|(_, told)| told.pages).collect();
        let room = self.standing.pinned;
        let (planned, recommended) = (sized(self.required, self.pinned), sized(&recommended, room.pages));
        let pairs = planned.iter().zip(&recommended).zip(&self.standing.tiers);
        let tiers =
            self.tiers.iter().zip(pairs).map(|(config, ((planned, recommended), (verdict, told)))| {
                TierEstimate {
                    name: config.name.clone(),
                    coverage: config.coverage,
                    inclusion: config.inclusion,
                    required_pages: planned.required_pages.map(|pages| pages.0),
                    beyond_bound: planned.required_pages.is_none(),
                    convergence: verdict.status,
                    growth_per_window: verdict.growth_per_window,
                    planned: self.purchase(config, planned),
                    next_unit: planned.next_unit,
                    recommended: self.purchase(config, recommended),
                    recommendation_changed: told.changed,
                }
            });
        let mut tiers: Vec<_> = tiers.collect();
        if let Some(first) = tiers.first_mut() {
            first.beyond_bound |= self.pinned.is_none();
            first.recommendation_changed |= room.changed && first.recommended.units.is_some();
        }
        Some(TierEstimates {
            target_ratio: self.target_ratio,
            cost: cost(&planned),
            recommended_cost: cost(&recommended),
            tiers,
        })
    }

    fn purchase(&self, config: &TierConfig, tier: &PlannedTier) -> Purchase {
        Purchase {
            units: tier.units,
            pages: tier.pages.map(|pages| pages.0),
            bytes: tier.units.and_then(|units| config.bytes(units, self.page_bytes)),
            reach_pages: tier.reach_pages.map(|pages| pages.0),
            hit_rate: tier.hit_rate,
            hit_rate_tokens: tier.hit_rate_tokens,
            relative_prefill_throughput: tier.relative_prefill_throughput,
            cost: tier.cost,
        }
    }
}
