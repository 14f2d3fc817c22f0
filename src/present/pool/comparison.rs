//! Several engines alongside each other: their curves, what each requires, and what to buy.

use super::PoolReport;
use crate::present::document::{Cell, MOST_SIZES, Table, spread};
use crate::present::questions::{climbing, prefix_hits};
use crate::present::words;
use kvset_core::estimate::CapacityPoint;

/// The tables; each has a column an engine.
pub fn comparison(engines: &[PoolReport<'_>]) -> Vec<Table> {
    let mut tables = vec![curves(engines)];
    tables.extend(requirements(engines));
    tables.extend(units(engines));
    tables
}

/// A table with these columns before one for each engine.
fn of_engines(caption: impl Into<String>, columns: &[&str], engines: &[PoolReport<'_>]) -> Table {
    let names = engines.iter().map(|engine| engine.estimate.engine.to_string());
    Table::new(caption, columns.iter().map(|name| (*name).to_owned()).chain(names))
}

/// A row per capacity.
fn curves(engines: &[PoolReport<'_>]) -> Table {
    let mut table = of_engines("Prefix hit rate by capacity", &["capacity"], engines);
    let footprints = engines.iter().map(|engine| Cell::Count(engine.estimate.accumulated_pages));
    table.row([Cell::from("distinct pages")].into_iter().chain(footprints));
    for at in shown(engines) {
        let Some((first, named)) =
            engines.iter().find_map(|engine| Some((engine, engine.estimate.capacities.get(at)?)))
        else {
            continue;
        };
        let rates = engines.iter().map(|engine| {
            let point = engine.estimate.capacities.get(at);
            point.map_or(Cell::Unknown, |point| Cell::of_point(point, point.prefix_hit_rate, Cell::Rate))
        });
        table.row([Cell::named(named, first.estimate.page_bytes)].into_iter().chain(rates));
    }
    let unlimited = engines.iter().map(|PoolReport { estimate, .. }| {
        let rate = (estimate.page_accesses > 0).then_some(estimate.theoretical.prefix_hit_rate);
        Cell::known(rate, Cell::Rate)
    });
    table.row([Cell::from("unlimited")].into_iter().chain(unlimited));
    table
}

/// Places of the capacities that are shown: all that were named, else some where the curve of an engine climbs.
fn shown(engines: &[PoolReport<'_>]) -> Vec<usize> {
    let all = engines.iter().map(|engine| engine.estimate.capacities.len()).max().unwrap_or(0);
    if engines.iter().flat_map(|engine| &engine.estimate.capacities).any(|point| point.label.is_some()) {
        return (0..all).collect();
    }
    let ranges = engines.iter().map(|engine| {
        let points: &[CapacityPoint] = &engine.estimate.capacities;
        let first = climbing(points, prefix_hits).first().map_or(0, |first| first.pages);
        let first = points.iter().position(|point| point.pages == first).unwrap_or(0);
        (first, first + climbing(points, prefix_hits).len())
    });
    let (first, end) = ranges.fold((all, 0), |(a, b), (c, d)| (a.min(c), b.max(d)));
    spread(&(first..end.min(all)).collect::<Vec<_>>(), MOST_SIZES).copied().collect()
}

/// A table per target ratio, with a row per coverage.
fn requirements(engines: &[PoolReport<'_>]) -> Vec<Table> {
    let Some(first) = engines.iter().find(|engine| !engine.estimate.recommended.is_empty()) else {
        return Vec::new();
    };
    let of_target = |target: usize| {
        let entries = first.recommended_at(target);
        let share = words::share(entries.first()?.target_ratio);
        let caption = format!("Recommended capacity at target {share}");
        let mut table = of_engines(caption, &["requests covered"], engines);
        for entry in entries {
            let sizes = engines.iter().map(|engine| {
                let mut found = engine.recommended_at(target).iter();
                let found = found.find(|found| found.coverage == entry.coverage);
                found.map_or(Cell::Unknown, |found| Cell::recommended(found, engine.estimate.page_bytes))
            });
            table.row([Cell::Text(words::share(entry.coverage))].into_iter().chain(sizes));
        }
        Some(table)
    };
    (0..first.estimate.required.len()).filter_map(of_target).collect()
}

/// A row per tier; `None` where no tiers are configured.
fn units(engines: &[PoolReport<'_>]) -> Option<Table> {
    let first = engines.iter().find_map(|engine| engine.estimate.plan.as_ref())?;
    let caption = format!("Units to buy at target {}", words::share(first.target_ratio));
    let mut table = of_engines(caption, &["tier", "requests covered"], engines);
    for (at, tier) in first.tiers.iter().enumerate() {
        let units = engines.iter().map(|engine| {
            let tier = engine.estimate.plan.as_ref().and_then(|plan| plan.tiers.get(at));
            tier.map_or(Cell::Unknown, |tier| match tier.beyond_bound {
                true => Cell::within_bound(tier.planned.units, Cell::Count),
                false => Cell::known(tier.planned.units, Cell::Count),
            })
        });
        table.row([tier.name.clone().into(), Cell::Share(tier.coverage)].into_iter().chain(units));
    }
    let costs = engines.iter().map(|engine| {
        let cost = engine.estimate.plan.as_ref().and_then(|plan| plan.cost);
        Cell::figure(cost, words::price)
    });
    table.row(["cost".into(), Cell::from("")].into_iter().chain(costs));
    Some(table)
}
