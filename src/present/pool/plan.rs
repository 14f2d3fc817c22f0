//! What to buy, as a table and in words.

use crate::present::document::Table;
use crate::present::pool::PoolReport;
use crate::present::words;
use kvset_core::estimate::CoverageCapacity;
use kvset_core::questions::tiers::{Inclusion, Purchase, Settled, TierEstimate};

/// The tiers with what each buys; none where no tiers are configured.
pub(crate) fn plan_table(pool: &PoolReport) -> Option<Table> {
    let plan = pool.plan.as_ref()?;
    let total = plan.cost.map_or_else(String::new, |cost| format!("; {} in all", price(cost)));
    let mut table = Table::new(
        format!(
            "Units of each tier that keep its share of requests at {} of their theoretical hit rate{total}",
            words::share(plan.target_ratio)
        ),
        [
            "tier",
            "requests covered",
            "required",
            "units",
            "capacity",
            "prefix hit rate",
            words::BY_TOKENS,
            "prefill throughput",
            "cost",
            "one unit more",
            "trend",
        ],
    );
    if pool.in_flight.as_ref().is_some_and(|found| found.room() != Some(0)) {
        table.columns[2] = "required, without room in flight".to_owned();
    }
    table.rows = plan.tiers.iter().map(|tier| row(tier, pool)).collect();
    Some(table)
}

fn row(tier: &TierEstimate, pool: &PoolReport) -> Vec<String> {
    let unknown = || if tier.beyond_bound { "beyond bound" } else { "–" }.to_owned();
    let text = |value: Option<String>| value.unwrap_or_else(unknown);
    let kind = match tier.inclusion {
        Inclusion::Exclusive => "",
        Inclusion::Inclusive => " (inclusive)",
    };
    let planned = &tier.planned;
    vec![
        format!("{}{kind}", tier.name),
        words::share(tier.coverage),
        text(tier.required_pages.map(|pages| words::capacity(pages, pool.page_bytes))),
        text(planned.units.map(words::integer)),
        text(bought(planned)),
        text(planned.hit_rate.map(words::rate)),
        text(planned.hit_rate_tokens.map(words::rate)),
        text(planned.relative_prefill_throughput.map(|times| format!("{times:.1} x"))),
        text(planned.cost.map(price)),
        text(next_unit(tier)),
        tier.convergence.with_growth(tier.growth_per_window),
    ]
}

/// The size of what is bought: bytes where they are known.
fn bought(purchase: &Purchase) -> Option<String> {
    match purchase.bytes {
        Some(bytes) => Some(words::capacity(bytes, Some(1))),
        None => purchase.pages.map(|pages| words::capacity(pages, None)),
    }
}

fn next_unit(tier: &TierEstimate) -> Option<String> {
    let next = tier.next_unit?;
    let cost = next.cost.map_or_else(String::new, |cost| format!(" for {}", price(cost)));
    Some(format!("+{:.2} % of page accesses{cost}", next.hit_rate_gain? * 100.0))
}

fn price(price: f64) -> String {
    words::integer(price.round() as u64)
}

/// `99.9 % (+2.1 % a step)` for each coverage that has not converged though enough was seen to tell.
pub(crate) fn moving(pool: &PoolReport) -> Vec<String> {
    let moving = |entry: &&CoverageCapacity| entry.convergence == Settled::NotConverged;
    let named = |entry: &CoverageCapacity| {
        let growth = entry.growth_per_window?;
        Some(format!("{} ({:+.1} % a step)", words::share(entry.coverage), growth * 100.0))
    };
    pool.coverage().iter().filter(moving).filter_map(named).collect()
}
