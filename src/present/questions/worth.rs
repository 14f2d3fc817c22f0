//! What a cache is worth: the section, and what its next GiB earns against its price.

use super::sizes::listed_points;
use crate::present::document::{Cell, Columns, Section, Table};
use crate::present::words::{bytes_round, hours, integer, money};
use kvset_core::questions::costs::{HOURS_A_DAY, Prices};
use kvset_core::questions::worth::{TierWorth, WorthAt, WorthEstimate};

/// What the next GiB earns and costs. Amounts are of one currency, per day.
#[derive(Debug, Clone, PartialEq)]
pub struct WorthCurve {
    /// Sizes in pages, ascending, and what a GiB of the step from the one before earns.
    pub steps: Vec<(u64, f64)>,
    /// What a GiB costs.
    pub price: f64,
    /// The size that saves the most beyond its price; none where no size saves its price.
    pub best: Option<u64>,
    /// Bytes per page.
    pub page_bytes: u64,
}

impl WorthCurve {
    /// The curve of pages of so many bytes; `None` where no amount or no price is known.
    pub fn of(worth: &WorthEstimate, page_bytes: u64) -> Option<Self> {
        let step = |at: &WorthAt| Some((at.pages?, at.step_earns_a_gib_day?));
        let steps: Vec<_> = worth.capacities.iter().filter_map(step).collect();
        let price = worth.prices.gib_hour? * HOURS_A_DAY;
        let best = worth.best.as_ref().and_then(|best| best.pages);
        (!steps.is_empty()).then_some(Self { steps, price, best, page_bytes })
    }
}

/// The section of a cache with these tiers below: without a cache, at capacities of the curve, at what is
/// provisioned, and without limit. All capacities are shown where they were `named`.
pub(super) fn section(worth: &WorthEstimate, tiers: &[TierWorth], named: bool) -> Section {
    let columns: Columns<'_, (String, &WorthAt)> = &[
        ("cache", &|(name, _)| name.clone().into()),
        ("accelerator-hours", &|(_, at)| Cell::Figure(hours(at.accelerator_hours))),
        ("cost per day", &|(_, at)| Cell::figure(at.money_a_day, money)),
        ("saved per day", &|(_, at)| Cell::figure(at.saved_a_day, money)),
        ("memory per day", &|(_, at)| Cell::figure(at.memory_a_day, money)),
        ("a GiB of the step earns", &|(_, at)| Cell::figure(at.step_earns_a_gib_day, money)),
        ("TTFT p50", &|(_, at)| Cell::Figure(milliseconds(at.time_to_first_token.p50_ms))),
        ("p95", &|(_, at)| Cell::Figure(milliseconds(at.time_to_first_token.p95_ms))),
        ("p99", &|(_, at)| Cell::Figure(milliseconds(at.time_to_first_token.p99_ms))),
    ];
    let saved = |at: &WorthAt| worth.without_cache.accelerator_hours - at.accelerator_hours;
    let shown = sizes(worth, listed_points(&worth.capacities, named, saved));
    let table = Table::of(format!("At {} tokens per second", worth.prefill_rate), &shown, columns);
    let table = table.spare(&["accelerator-hours", "p50", "memory per day"]);
    Section::new("What the cache is worth", sentences(worth, tiers), [table])
}

/// Why the figures are times and no throughput; said wherever they are.
const WHAT_IS_COUNTED: &str = "Times are those of computing what is missing at the prefill rate, one request alone: \
                               without queueing, batching and decoding, so they are no throughput.";

/// Milliseconds.
fn milliseconds(ms: f64) -> String {
    if ms >= 10_000.0 { format!("{:.1} s", ms / 1000.0) } else { format!("{ms:.0} ms") }
}

/// How large a cache is.
fn size(at: &WorthAt) -> String {
    match (at.bytes, at.pages) {
        (Some(bytes), _) => bytes_round(bytes),
        (None, Some(pages)) => format!("{} pages", integer(pages)),
        (None, None) => "unlimited".to_owned(),
    }
}

/// The sizes to list, each with its name: none, these of the curve, unlimited, and what is provisioned in its place.
fn sizes<'a>(worth: &'a WorthEstimate, of_curve: Vec<&'a WorthAt>) -> Vec<(String, &'a WorthAt)> {
    let provisioned = worth.provisioned.as_ref();
    let other = |at: &&WorthAt| provisioned.is_none_or(|own| own.pages != at.pages);
    let mut all: Vec<_> = of_curve.into_iter().filter(other).map(|at| (size(at), at)).collect();
    if let Some(own) = provisioned {
        let place = all.partition_point(|(_, at)| at.pages < own.pages);
        all.insert(place, (format!("{} (provisioned)", size(own)), own));
    }
    all.insert(0, ("none".to_owned(), &worth.without_cache));
    all.push(("unlimited".to_owned(), &worth.unlimited));
    all
}

fn hours_of(at: &WorthAt) -> String {
    match at.accelerator_hours_a_day {
        Some(found) => format!("{} accelerator-hours of prefill a day", hours(found)),
        None => format!("{} accelerator-hours of prefill in all", hours(at.accelerator_hours)),
    }
}

fn costs(at: &WorthAt) -> String {
    at.money_a_day.map_or_else(String::new, |found| format!(", which cost {}", money(found)))
}

fn saved(at: &WorthAt) -> String {
    at.saved_a_day.map_or_else(String::new, |found| format!(": {} saved per day", money(found)))
}

/// The cache to have, with its name: the recommended one, else one without limit.
fn to_have(worth: &WorthEstimate) -> (String, &WorthAt) {
    let named = worth.recommended.as_ref().map(|at| (format!("with {}", size(at)), at));
    named.unwrap_or_else(|| ("with an unlimited one".to_owned(), &worth.unlimited))
}

/// What some traffic, named in words, needs without a cache and with the one to have.
pub fn needs(traffic: &str, worth: &WorthEstimate) -> String {
    let (name, at) = to_have(worth);
    format!(
        "Without a cache {traffic} needs {}{}; {name} it needs {}{}{}.",
        hours_of(&worth.without_cache),
        costs(&worth.without_cache),
        hours_of(at),
        costs(at),
        saved(at)
    )
}

/// The answer, the most important first.
fn sentences(worth: &WorthEstimate, tiers: &[TierWorth]) -> Vec<String> {
    let mut all = vec![needs("this traffic", worth)];
    let (name, at) = to_have(worth);
    if let Some(at) = &worth.provisioned {
        let next = at.next_step_earns_a_gib_day.map_or_else(String::new, |earns| {
            let price =
                worth.prices.gib_hour.map(|price| format!(", and costs {}", money(price * HOURS_A_DAY)));
            format!("; a GiB more would earn {} a day{}", money(earns), price.unwrap_or_default())
        });
        let size = size(at);
        all.push(format!(
            "With the {size} provisioned it needs {}{}{}{next}.",
            hours_of(at),
            costs(at),
            saved(at)
        ));
    }
    all.extend(crossing(worth));
    let ttft = |at: &WorthAt| milliseconds(at.time_to_first_token.p95_ms);
    all.push(format!(
        "Of a hundred first tokens 95 come within {} without a cache, within {} {name}.",
        ttft(&worth.without_cache),
        ttft(at)
    ));
    all.push(WHAT_IS_COUNTED.to_owned());
    all.extend(assumed(worth, tiers));
    all
}

/// What is taken of tiers below for want of a figure.
fn assumed(worth: &WorthEstimate, tiers: &[TierWorth]) -> Vec<String> {
    let said = |is_missing: fn(&TierWorth) -> bool, what: &str, option: &str| {
        let names: Vec<_> =
            tiers.iter().filter(|tier| is_missing(tier)).map(|tier| tier.tier.as_str()).collect();
        let first = names.first()?;
        Some(format!("{} {what}: say it as in {first}:{option}.", names.join(" and ")))
    };
    let loading = said(
        |tier| tier.bandwidth.is_none(),
        "is counted as loaded in no time, as its bandwidth is not given",
        "bandwidth=20GiB",
    );
    let memory = worth.prices.gib_hour.and_then(|_| {
        said(|tier| tier.gib_hour.is_none(), "is counted as free, as its price is not given", "price=0.0004")
    });
    [loading, memory].into_iter().flatten().collect()
}

/// "30 GiB save the most beyond what they cost; the next step, to 36 GiB, earns 0.04 a GiB and day, and costs 0.07."
fn crossing(worth: &WorthEstimate) -> Option<String> {
    let Prices { gib_hour, .. } = worth.prices;
    let a_gib_day = gib_hour? * HOURS_A_DAY;
    // Without a day there is no money a day to compare.
    worth.unlimited.saved_a_day?;
    worth.capacities.first()?.bytes?;
    let Some(best) = &worth.best else {
        return Some("At none of these sizes the cache saves what its memory costs.".to_owned());
    };
    let next = worth.capacities.iter().find(|point| point.pages > best.pages);
    let step = next.and_then(|next| {
        let earns = next.step_earns_a_gib_day?;
        let (to, earns, costs) = (size(next), money(earns), money(a_gib_day));
        Some(format!("; the next step, to {to}, earns {earns} a GiB and day, and costs {costs}"))
    });
    Some(format!("{} save the most beyond what they cost{}.", size(best), step.unwrap_or_default()))
}
