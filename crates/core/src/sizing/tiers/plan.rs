//! How much of each tier to have.
//!
//! Rules:
//! 1. Tiers are given from the fastest to the slowest. A tier and those above it together *reach* so
//!    many distinct pages: an exclusive tier (a victim cache) adds its own to the reach of those
//!    above, an inclusive one (write-through) repeats theirs, so the larger of the two counts.
//! 2. A tier is sized so that its reach is at least the capacity its coverage requires, in whole units
//!    and no unit more. Where the tiers above reach that far already, it gets none.
//! 3. Pages pinned by requests in flight lie in the first tier and can hold nothing else: they are
//!    added to its size and left out of its reach.
//! 4. The curve is read at the reach: at `C1` and `C1 + C2` for an exclusive second tier, at `C1` and
//!    `C2` for an inclusive one.
//! 5. A requirement or pinned pages beyond the tracked bound give no number of units, here and below.

use crate::sizing::exact_curve::FoundCurve;
use crate::units::PageCount;
use crate::units::capacity::CapacitySpec;
use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize};

/// Whether a tier repeats what the tiers above it hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inclusion {
    /// It holds what the tiers above evicted: capacities add up.
    #[default]
    Exclusive,
    /// It holds what the tiers above hold, too: the larger capacity counts.
    Inclusive,
}

/// The size capacity is bought in, measured in bytes or in pages, and a page in the same measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CapacityUnit {
    size: u64,
    page: u64,
}

impl CapacityUnit {
    /// A unit of `size` where a page takes `page` of the same measure; `None` if either is zero.
    pub fn new(size: u64, page: u64) -> Option<Self> {
        (size > 0 && page > 0).then_some(Self { size, page })
    }

    /// Whole pages in `units` units: the remainder of one unit serves with the next. Saturates.
    pub fn pages_in(self, units: u64) -> PageCount {
        let pages = u128::from(units) * u128::from(self.size) / u128::from(self.page);
        PageCount(u64::try_from(pages).unwrap_or(u64::MAX))
    }

    /// The fewest units that hold so many pages. Saturates.
    pub fn needed_for(self, pages: PageCount) -> u64 {
        let units = (u128::from(pages.0) * u128::from(self.page)).div_ceil(u128::from(self.size));
        u64::try_from(units).unwrap_or(u64::MAX)
    }
}

/// A tier as configured, with what its capacity is bought in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TierConfig<U = CapacitySpec> {
    /// What it is called.
    pub name: String,
    /// Share of requests whose required capacity this tier and those above are to hold.
    pub coverage: Ratio,
    /// How it relates to the tiers above; means nothing for the first.
    pub inclusion: Inclusion,
    /// What its capacity is bought in.
    pub unit: U,
    /// Price of a unit, in whatever currency.
    pub unit_price: Option<f64>,
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
    /// The same by tokens, as a share of all tokens of the prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_rate_tokens: Option<f64>,
    /// `1/(1-r)` at the hit rate `r` (paper, equation 1); absent when `r` is 1.
    pub relative_prefill_throughput: Option<f64>,
    pub cost: Option<f64>,
}

/// The gain of one unit more of a tier, the tiers above staying as they are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NextUnit {
    /// Distinct reusable pages reached with it.
    pub reach_pages: PageCount,
    /// What the hit rate rises by.
    pub hit_rate_gain: Option<f64>,
    /// The relative prefill throughput with it.
    pub relative_prefill_throughput: Option<f64>,
    /// Its price.
    pub cost: Option<f64>,
}

/// Sizes the tiers by the module's rules, from the capacity that each tier's coverage requires (`None` beyond the
/// bound) and the most pages that requests in flight pin at a time: zero where the log has no durations, `None`
/// beyond the bound. A tier without a requirement is beyond the bound. Of each tier what to have, its bytes left out,
/// and what one unit more would buy.
pub fn plan(
    tiers: &[TierConfig<CapacityUnit>],
    required: &[Option<PageCount>],
    most_pinned: Option<PageCount>,
    curve: &FoundCurve<'_>,
) -> Vec<(Purchase, Option<NextUnit>)> {
    let mut above = Some(PageCount(0));
    let mut planned = Vec::with_capacity(tiers.len());
    for (position, spec) in tiers.iter().enumerate() {
        let required = required.get(position).copied().flatten();
        let pinned = if position == 0 { most_pinned } else { Some(PageCount(0)) };
        let inclusion = if position == 0 { Inclusion::Exclusive } else { spec.inclusion };
        let known = above.zip(pinned).zip(required);
        let sizing =
            known.map(|((above, pinned), required)| Sizing { spec, inclusion, above, pinned, required });
        let tier = planned_tier(spec, sizing, curve);
        above = tier.0.reach_pages.map(PageCount);
        planned.push(tier);
    }
    planned
}

/// Price of all units of a plan; absent where a tier has no price or no number, or there is none.
pub fn cost(planned: &[(Purchase, Option<NextUnit>)]) -> Option<f64> {
    planned.iter().map(|(tier, _)| tier.cost).reduce(|sum, cost| Some(sum? + cost?)).flatten()
}

/// What the size of one tier depends on.
#[derive(Clone, Copy)]
struct Sizing<'a> {
    spec: &'a TierConfig<CapacityUnit>,
    inclusion: Inclusion,
    above: PageCount,
    pinned: PageCount,
    required: PageCount,
}

impl Sizing<'_> {
    /// The fewest units whose reach is at least what is required.
    fn units(self) -> u64 {
        let own = match self.inclusion {
            Inclusion::Exclusive => self.required.0.saturating_sub(self.above.0),
            Inclusion::Inclusive if self.required <= self.above => 0,
            Inclusion::Inclusive => self.required.0,
        };
        self.spec.unit.needed_for(PageCount(own.saturating_add(self.pinned.0)))
    }

    /// Distinct reusable pages held with so many units.
    fn reach(self, units: u64) -> PageCount {
        let own = self.spec.unit.pages_in(units).0.saturating_sub(self.pinned.0);
        PageCount(match self.inclusion {
            Inclusion::Exclusive => self.above.0.saturating_add(own),
            Inclusion::Inclusive => self.above.0.max(own),
        })
    }
}

fn planned_tier(
    spec: &TierConfig<CapacityUnit>,
    sizing: Option<Sizing<'_>>,
    curve: &FoundCurve<'_>,
) -> (Purchase, Option<NextUnit>) {
    let units = sizing.map(Sizing::units);
    let reach_at =
        |more: u64| sizing.zip(units).map(|(sizing, units)| sizing.reach(units.saturating_add(more)));
    let rate_at = |more: u64| reach_at(more).and_then(|reach| curve.hit_rate(reach));
    let (hit_rate, next_rate) = (rate_at(0), rate_at(1));
    let purchase = Purchase {
        units,
        pages: units.map(|units| spec.unit.pages_in(units).0),
        bytes: None,
        reach_pages: reach_at(0).map(|reach| reach.0),
        hit_rate,
        hit_rate_tokens: reach_at(0).and_then(|reach| curve.token_hit_rate(reach)),
        relative_prefill_throughput: hit_rate.and_then(relative_prefill_throughput),
        cost: units.zip(spec.unit_price).map(|(units, price)| units as f64 * price),
    };
    let next_unit = reach_at(1).map(|reach_pages| NextUnit {
        reach_pages,
        hit_rate_gain: next_rate.zip(hit_rate).map(|(next, now)| next - now),
        relative_prefill_throughput: next_rate.and_then(relative_prefill_throughput),
        cost: spec.unit_price,
    });
    (purchase, next_unit)
}

/// `1/(1-r)`; `None` at 1 and above, where nothing would be computed at all.
fn relative_prefill_throughput(hit_rate: f64) -> Option<f64> {
    (hit_rate < 1.0).then(|| 1.0 / (1.0 - hit_rate))
}
