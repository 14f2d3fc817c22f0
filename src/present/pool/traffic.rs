//! What other traffic would need, in words and as a table.

use super::PoolReport;
use crate::present::document::{Cell, Section, Table};
use crate::present::questions::needs;
use crate::present::words;
use kvset_core::estimate::CapacityPoint;
use kvset_core::questions::worth::WorthEstimate;
use kvset_core::sizing::recommendation::{Recommendation, chosen};

/// What so many times the traffic comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownTraffic {
    /// How many times.
    pub factor: f64,
    /// What is recommended; nothing where each capacity is modelled on its own, or where it is refused.
    pub recommended: Vec<Recommendation>,
    /// Hit rate without limit; none where it is refused.
    pub unlimited: Option<f64>,
    /// Hits at the capacities of the curve.
    pub capacities: Vec<CapacityPoint>,
    /// Hits at the provisioned capacity.
    pub at_provisioned: Option<CapacityPoint>,
    /// What the cache is worth then, where it is known how fast prompts are computed.
    pub worth: Option<WorthEstimate>,
    /// What else was asked, a section each.
    pub sections: Vec<Section>,
    /// The requirement by the straight line, where it stands in for the answer.
    pub straight_line: Option<u64>,
    /// What a reader must know, or why it is refused.
    pub notes: Vec<String>,
}

impl ShownTraffic {
    fn recommendation(&self) -> Option<(&Recommendation, Option<u64>)> {
        let entry = chosen(&self.recommended)?;
        Some((entry, entry.so_far()))
    }

    /// The recommendation with its ends.
    fn size(&self, page_bytes: Option<u64>) -> Option<String> {
        let (entry, pages) = self.recommendation()?;
        Some(words::capacity_between(pages?, entry.stated_ends(), page_bytes))
    }
}

/// `twice the traffic`.
pub(crate) fn times(factor: f64) -> String {
    match factor {
        0.5 => "half the traffic".to_owned(),
        1.0 => "the traffic of the log".to_owned(),
        2.0 => "twice the traffic".to_owned(),
        4.0 => "four times the traffic".to_owned(),
        other => format!("{other} times the traffic"),
    }
}

/// What is said of other traffic, where it was asked.
pub(super) fn sentences(pool: &PoolReport<'_>) -> Vec<String> {
    let answered: Vec<&ShownTraffic> =
        pool.traffic.iter().filter(|found| found.unlimited.is_some()).collect();
    let sizes: Vec<String> = answered
        .iter()
        .filter_map(|found| {
            Some(format!("at {}: {}", times(found.factor), found.size(pool.estimate.page_bytes)?))
        })
        .collect();
    let mut sentences = Vec::new();
    if !sizes.is_empty() {
        sentences.push(format!(
            "{}. More users with the same system prompts, at the same hours, answered as fast as now.",
            words::capital(&sizes.join("; "))
        ));
    }
    let now = pool.estimate.recommendation().and_then(Recommendation::so_far).filter(|pages| *pages > 0);
    for found in answered.iter().filter(|found| found.factor > 1.0) {
        let then = found.recommendation().and_then(|(_, pages)| pages);
        sentences.extend(now.zip(then).map(|(now, then)| {
            let of = words::capital(&times(found.factor));
            format!("{of} takes {:.1} times the cache.", then as f64 / now as f64)
        }));
        sentences.extend(today(pool, found));
        sentences.extend(found.worth.as_ref().map(|worth| needs(&times(found.factor), worth)));
    }
    for found in pool.traffic.iter().filter(|found| found.unlimited.is_none()) {
        sentences.extend(found.straight_line.map(|pages| {
            format!(
                "The straight line through half the traffic and all of it says {} at {}; it needs no clock.",
                pool.size(pages),
                times(found.factor)
            )
        }));
    }
    let mut notes: Vec<&String> = Vec::new();
    pool.traffic.iter().flat_map(|found| &found.notes).for_each(|note| {
        if !notes.contains(&note) {
            notes.push(note);
        }
    });
    sentences.extend(notes.into_iter().map(|note| format!("Of other traffic: {note}.")));
    sentences
}

/// What the provisioned size would find.
fn today(pool: &PoolReport<'_>, found: &ShownTraffic) -> Option<String> {
    let then = found.at_provisioned.as_ref()?;
    let now = pool.counted().chain(&pool.estimate.capacities).find(|point| point.pages == then.pages)?;
    Some(format!(
        "Today's {} would find {} at {}, {} now.",
        pool.size(then.pages),
        words::rate(then.prefix_hit_rate?),
        times(found.factor),
        words::rate(now.prefix_hit_rate?)
    ))
}

/// A table by factor: what is recommended, or the hit rates where nothing is.
pub fn traffic(pool: &PoolReport<'_>) -> Option<Section> {
    let answered: Vec<&ShownTraffic> =
        pool.traffic.iter().filter(|found| found.unlimited.is_some()).collect();
    let first = answered.first()?;
    let table = match first.recommended.is_empty() {
        true => by_capacity(pool, &answered),
        false => by_coverage(pool, &answered),
    };
    Some(Section::new("Other traffic", [], [table?]))
}

/// A row per factor and coverage; `None` where nothing is recommended.
pub(crate) fn recommended_by_traffic(pool: &PoolReport<'_>) -> Option<Table> {
    let answered: Vec<&ShownTraffic> =
        pool.traffic.iter().filter(|found| found.unlimited.is_some()).collect();
    by_coverage(pool, &answered)
}

fn by_coverage(pool: &PoolReport<'_>, answered: &[&ShownTraffic]) -> Option<Table> {
    let columns = ["traffic", "requests covered", "capacity", super::certainty::COLUMN, "hit rate"];
    let mut table = Table::new("Recommended capacity by traffic", columns);
    for found in answered {
        for entry in &found.recommended {
            let ends =
                entry.stated_ends().map(|(low, high)| words::between(low, high, pool.estimate.page_bytes));
            table.row([
                Cell::Figure(format!("{} x", found.factor)),
                Cell::Text(words::share(entry.coverage)),
                Cell::recommended(entry, pool.estimate.page_bytes),
                Cell::Figure(ends.unwrap_or_else(|| "-".to_owned())),
                Cell::known(entry.hit_rate, Cell::Rate),
            ]);
        }
    }
    table.unless_empty()
}

fn by_capacity(pool: &PoolReport<'_>, answered: &[&ShownTraffic]) -> Option<Table> {
    let mut table = Table::new("Hit rate by traffic", ["traffic", "capacity", "hit rate", "unlimited"]);
    for found in answered {
        for point in &found.capacities {
            table.row([
                Cell::Figure(format!("{} x", found.factor)),
                pool.size_cell(point.pages),
                Cell::known(point.prefix_hit_rate, Cell::Rate),
                Cell::known(found.unlimited, Cell::Rate),
            ]);
        }
    }
    table.unless_empty()
}
