//! What to buy, and what further costs a token make of it, for scripts and for people.

use crate::present::terminal::required::{
    CapacityResult, RequiredResult, capacities_of, recommended_cell, required_of,
};
use crate::present::terminal::{
    Column, Sheet, Terminal, bytes, decimal, known, percent, share_name, thousands,
};
use crate::present::words::BY_TOKENS;
use kvset_core::estimate::recommendation::{Recommendation, by_target};
use kvset_core::estimate::{Estimate, InFlight};
use kvset_core::questions::tiers::{TierEstimate, TierEstimates};
use kvset_core::units::Bytes;
use serde::Serialize;

/// The sizes at a further cost a token.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CostResult {
    /// Bytes of KV state a token costs.
    pub kv_bytes_per_token: f64,
    /// Bytes a page then takes.
    pub page_bytes: Option<u64>,
    /// Bytes of all distinct pages of the trace.
    pub distinct_bytes: Option<u64>,
    /// The hit-rate curve: a capacity in bytes holds another number of pages.
    pub capacities: Vec<CapacityResult>,
    /// One entry a target ratio.
    pub required: Vec<RequiredResult>,
    /// What requests met in flight, and the requirement with room for it.
    pub in_flight: Option<InFlight>,
    /// What to buy, where tiers were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<TierEstimates>,
    /// The recommended capacities, one list a target ratio.
    #[serde(skip)]
    recommended: Vec<Vec<Recommendation>>,
}

impl CostResult {
    /// The part of an estimate that hangs on the cost a token.
    pub fn new(kv_bytes_per_token: f64, estimate: &Estimate) -> Self {
        Self {
            kv_bytes_per_token,
            page_bytes: estimate.page_bytes,
            distinct_bytes: estimate.accumulated_bytes,
            capacities: capacities_of(estimate),
            required: required_of(estimate),
            in_flight: estimate.in_flight.clone(),
            plan: estimate.plan.clone(),
            recommended: by_target(&estimate.recommended).map(<[_]>::to_vec).collect(),
        }
    }

    /// The recommended capacities and the plan as tables.
    pub fn render(&self, terminal: &Terminal) -> String {
        let page = self.page_bytes.map_or_else(String::new, |page| format!(", {} a page", Bytes(page)));
        let mut text = format!(
            "\nat {} bytes a token{page}; distinct pages {}\n",
            self.kv_bytes_per_token,
            bytes(self.distinct_bytes)
        );
        let names: Vec<_> =
            self.required.iter().map(|required| format!("target {}", required.target_ratio)).collect();
        let mut columns = vec![Column::Text("coverage")];
        columns.extend(names.iter().map(|name| Column::Number(name)));
        let mut sheet = Sheet::new(&columns);
        let shares = self.recommended.first().map(Vec::as_slice).unwrap_or_default();
        for (at, share) in shares.iter().enumerate() {
            let entries = self.recommended.iter().map(|target| target.get(at));
            let sizes = entries.map(|entry| {
                entry.map_or_else(String::new, |entry| recommended_cell(entry, self.page_bytes))
            });
            sheet.row(std::iter::once(share_name(share.coverage)).chain(sizes));
        }
        text.push_str(&sheet.render(terminal));
        self.plan.iter().for_each(|plan| text.push_str(&plan_table(plan, terminal)));
        text
    }
}

/// A plan as a table.
pub fn plan_table(plan: &TierEstimates, terminal: &Terminal) -> String {
    let mut sheet = Sheet::new(&[
        Column::Text("tier"),
        Column::Text("coverage"),
        Column::Number("units"),
        Column::Number("size"),
        Column::Number("hit rate"),
        Column::Number(BY_TOKENS),
        Column::Number("prefill x"),
        Column::Number("cost"),
        Column::Text("one unit more"),
        Column::Text("trend"),
    ])
    .spare(&["trend", "one unit more", "prefill x", BY_TOKENS, "hit rate"]);
    for tier in &plan.tiers {
        let beyond = tier.beyond_bound;
        let planned = &tier.planned;
        sheet.row([
            tier.name.clone(),
            share_name(tier.coverage),
            known(planned.units, thousands, beyond),
            size(tier),
            known(planned.hit_rate, percent, beyond),
            known(planned.hit_rate_tokens, percent, beyond),
            known(planned.relative_prefill_throughput, decimal, beyond),
            known(planned.cost, price, beyond),
            gain(tier),
            tier.convergence.with_growth(tier.growth_per_window),
        ]);
    }
    let total = plan.cost.map_or_else(String::new, |cost| format!(", {} in all", price(cost)));
    format!("\nwhat to buy at target ratio {}{total}\n{}", plan.target_ratio, sheet.render(terminal))
}

fn size(tier: &TierEstimate) -> String {
    match (tier.planned.bytes, tier.planned.pages) {
        (None, Some(pages)) => format!("{} p", thousands(pages)),
        (size, _) => bytes(size),
    }
}

/// `+0.52 % hits for 2,500`.
fn gain(tier: &TierEstimate) -> String {
    let Some((next, gain)) = tier.next_unit.and_then(|next| Some((next, next.hit_rate_gain?))) else {
        return "-".to_owned();
    };
    let cost = next.cost.map_or_else(String::new, |cost| format!(" for {}", price(cost)));
    format!("+{} hits{cost}", percent(gain))
}

/// A price without needless places.
pub fn price(price: f64) -> String {
    let cents = (price * 100.0).round() as u64;
    match (thousands(cents / 100), cents % 100) {
        (whole, 0) => whole,
        (whole, rest) => format!("{whole}.{rest:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_have_no_needless_places() {
        assert_eq!([price(25_000.0), price(0.999), price(1234.5)], ["25,000", "1", "1,234.50"]);
    }
}
