//! What to buy.

use crate::present::document::{Cell, Columns, Section, Table};
use crate::present::pool::PoolReport;
use crate::present::words;
use kvset_core::estimate::{CoverageCapacity, Estimate};
use kvset_core::sizing::tiers::{Inclusion, Purchase, Settled, TierEstimate, TierEstimates};

/// The tiers with what each buys; `None` where no tiers are configured.
pub fn plan(pool: &PoolReport<'_>) -> Option<Section> {
    planned(&pool.estimate)
}

/// The tiers of an estimate.
pub(crate) fn planned(estimate: &Estimate) -> Option<Section> {
    let room = estimate.in_flight.as_ref().is_some_and(|found| found.room() != Some(0));
    let table = plan_table(estimate.plan.as_ref()?, room, estimate.page_bytes);
    Some(Section::new("What to buy", [], [table]))
}

/// A plan as a table. `room` says that recommended capacities have room for requests in flight, which `required` has
/// not.
pub fn plan_table(plan: &TierEstimates, room: bool, page_bytes: Option<u64>) -> Table {
    let total = plan.cost.map_or_else(String::new, |cost| format!("; {} in all", words::price(cost)));
    let caption = format!(
        "Units of each tier that keep its share of requests at {} of their theoretical hit rate{total}",
        words::share(plan.target_ratio)
    );
    let required = if room { "required, without room in flight" } else { "required" };
    let or_unknown = |tier: &TierEstimate, cell: Option<Cell>| {
        cell.unwrap_or(if tier.beyond_bound { Cell::BeyondBound } else { Cell::Unknown })
    };
    let figure = |amount: Option<f64>, say: fn(f64) -> String| Some(Cell::Figure(say(amount?)));
    let columns: Columns<'_, TierEstimate> = &[
        ("tier", &named),
        ("requests covered", &|tier| Cell::Share(tier.coverage)),
        (required, &|tier| or_unknown(tier, tier.required_pages.map(|pages| Cell::Pages(pages, page_bytes)))),
        ("units", &|tier| or_unknown(tier, tier.planned.units.map(Cell::Count))),
        ("capacity", &|tier| or_unknown(tier, bought(&tier.planned))),
        ("prefix hit rate", &|tier| or_unknown(tier, tier.planned.hit_rate.map(Cell::Rate))),
        (words::BY_TOKENS, &|tier| or_unknown(tier, tier.planned.hit_rate_tokens.map(Cell::Rate))),
        ("prefill throughput", &|tier| {
            or_unknown(tier, figure(tier.planned.relative_prefill_throughput, words::factor))
        }),
        ("cost", &|tier| or_unknown(tier, figure(tier.planned.cost, words::price))),
        ("one unit more", &|tier| Cell::known(next_unit(tier), Cell::Text)),
        ("trend", &|tier| tier.convergence.with_growth(tier.growth_per_window).into()),
    ];
    let table = Table::of(caption, &plan.tiers, columns);
    Table {
        spare: vec![
            "trend",
            required,
            "one unit more",
            "prefill throughput",
            words::BY_TOKENS,
            "prefix hit rate",
        ],
        ..table
    }
}

fn named(tier: &TierEstimate) -> Cell {
    match tier.inclusion {
        Inclusion::Exclusive => tier.name.clone().into(),
        Inclusion::Inclusive => format!("{} (inclusive)", tier.name).into(),
    }
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
