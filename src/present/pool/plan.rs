//! What to buy.

use crate::present::document::{Cell, Section, Table};
use crate::present::pool::PoolReport;
use crate::present::words;
use kvset_core::estimate::{CoverageCapacity, Estimate};
use kvset_core::sizing::tiers::{Inclusion, Purchase, Settled, TierEstimate, TierEstimates};

/// The tiers with what each buys; `None` where no tiers are configured.
pub fn plan(pool: &PoolReport<'_>) -> Option<Section> {
    planned(&pool.estimate)
}

/// The same of an estimate.
pub(crate) fn planned(estimate: &Estimate) -> Option<Section> {
    let room = estimate.in_flight.as_ref().is_some_and(|found| found.room() != Some(0));
    let table = plan_table(estimate.plan.as_ref()?, room, estimate.page_bytes);
    Some(Section { title: "What to buy".to_owned(), sentences: Vec::new(), tables: vec![table] })
}

/// A plan as a table. `room` says that recommended capacities have room for requests in flight, which `required` has
/// not.
pub fn plan_table(plan: &TierEstimates, room: bool, page_bytes: Option<u64>) -> Table {
    let total = plan.cost.map_or_else(String::new, |cost| format!("; {} in all", words::price(cost)));
    let caption = format!(
        "Units of each tier that keep its share of requests at {} of their theoretical hit rate{total}",
        words::share(plan.target_ratio)
    );
    let columns = [
        "tier",
        "requests covered",
        if room { "required, without room in flight" } else { "required" },
        "units",
        "capacity",
        "prefix hit rate",
        words::BY_TOKENS,
        "prefill throughput",
        "cost",
        "one unit more",
        "trend",
    ];
    let spare =
        ["trend", columns[2], "one unit more", "prefill throughput", words::BY_TOKENS, "prefix hit rate"];
    let mut table = Table::new(caption, columns).spare(&spare);
    plan.tiers.iter().for_each(|tier| table.row(row(tier, page_bytes)));
    table
}

fn row(tier: &TierEstimate, page_bytes: Option<u64>) -> [Cell; 11] {
    let kind = match tier.inclusion {
        Inclusion::Exclusive => "",
        Inclusion::Inclusive => " (inclusive)",
    };
    let planned = &tier.planned;
    let unknown = if tier.beyond_bound { Cell::BeyondBound } else { Cell::Unknown };
    let or_unknown = |cell: Option<Cell>| cell.unwrap_or_else(|| unknown.clone());
    [
        format!("{}{kind}", tier.name).into(),
        Cell::Share(tier.coverage),
        or_unknown(tier.required_pages.map(|pages| Cell::Pages(pages, page_bytes))),
        or_unknown(planned.units.map(Cell::Count)),
        or_unknown(bought(planned)),
        or_unknown(planned.hit_rate.map(Cell::Rate)),
        or_unknown(planned.hit_rate_tokens.map(Cell::Rate)),
        or_unknown(planned.relative_prefill_throughput.map(|times| Cell::Figure(words::factor(times)))),
        or_unknown(planned.cost.map(|cost| Cell::Figure(words::price(cost)))),
        next_unit(tier).map_or(Cell::Unknown, Cell::Text),
        tier.convergence.with_growth(tier.growth_per_window).into(),
    ]
}

/// The size of what is bought: bytes where they are known.
fn bought(purchase: &Purchase) -> Option<Cell> {
    match purchase.bytes {
        Some(bytes) => Some(Cell::Bytes(bytes)),
        None => purchase.pages.map(|pages| Cell::Pages(pages, None)),
    }
}

/// `+0.52 % hits for 2,500`.
fn next_unit(tier: &TierEstimate) -> Option<String> {
    let next = tier.next_unit?;
    let cost = next.cost.map_or_else(String::new, |cost| format!(" for {}", words::price(cost)));
    Some(format!("+{} hits{cost}", words::rate(next.hit_rate_gain?)))
}

/// `99.9 % (+2.1 % per step)` for each coverage that has not converged though enough was seen to tell.
pub(crate) fn moving(pool: &PoolReport<'_>) -> Vec<String> {
    let moving = |entry: &&CoverageCapacity| entry.convergence == Settled::NotConverged;
    let named = |entry: &CoverageCapacity| {
        let growth = entry.growth_per_window?;
        Some(format!("{} ({:+.1} % per step)", words::share(entry.coverage), growth * 100.0))
    };
    pool.coverage().iter().filter(moving).filter_map(named).collect()
}
