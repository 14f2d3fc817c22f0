//! What a cache is worth, in sentences.

use super::result::{HOURS_A_DAY, Prices, TierWorth, WorthAt, WorthResult};
use crate::present::words;

pub(crate) use words::{hours, money};

/// Why the figures are times and no throughput; said wherever they are.
const WHAT_IS_COUNTED: &str = "Times are those of computing what is missing at the prefill rate, one request alone: \
                               without queueing, batching and decoding, so they are no throughput.";

/// Milliseconds.
pub fn milliseconds(ms: f64) -> String {
    if ms >= 10_000.0 { format!("{:.1} s", ms / 1000.0) } else { format!("{ms:.0} ms") }
}

/// How large a cache is.
pub fn size(at: &WorthAt) -> String {
    match (at.bytes, at.pages) {
        (Some(bytes), _) => words::bytes_round(bytes),
        (None, Some(pages)) => format!("{} pages", words::integer(pages)),
        (None, None) => "unlimited".to_owned(),
    }
}

/// The answer, the most important first.
pub fn sentences(worth: &WorthResult) -> Vec<String> {
    let mut all = Vec::new();
    let hours_of = |at: &WorthAt| match at.accelerator_hours_a_day {
        Some(found) => format!("{} accelerator-hours of prefill a day", hours(found)),
        None => format!("{} accelerator-hours of prefill in all", hours(at.accelerator_hours)),
    };
    let costs = |at: &WorthAt| {
        at.money_a_day.map_or_else(String::new, |found| format!(", which cost {}", money(found)))
    };
    let named = worth.recommended.as_ref().map(|at| (format!("with {}", size(at)), at));
    let (name, at) = named.unwrap_or_else(|| ("with an unlimited one".to_owned(), &worth.unlimited));
    let saved = at.saved_a_day.map_or_else(String::new, |found| format!(": {} saved a day", money(found)));
    all.push(format!(
        "Without a cache this traffic needs {}{}; {name} it needs {}{}{saved}.",
        hours_of(&worth.without_cache),
        costs(&worth.without_cache),
        hours_of(at),
        costs(at)
    ));
    all.extend(crossing(worth));
    let ttft = |at: &WorthAt| milliseconds(at.time_to_first_token.p95_ms);
    all.push(format!(
        "Of a hundred first tokens 95 come within {} without a cache, within {} {name}.",
        ttft(&worth.without_cache),
        ttft(at)
    ));
    all.push(WHAT_IS_COUNTED.to_owned());
    all.extend(assumed(worth));
    all
}

/// What is taken of tiers below for want of a figure.
fn assumed(worth: &WorthResult) -> Vec<String> {
    let tiers = &worth.tiers;
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
fn crossing(worth: &WorthResult) -> Option<String> {
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
