//! What the requests of an estimate say of time, tiers and tenants, as sections of a report and in sentences.

pub mod measured;
mod routing;
mod shown;
mod worth;

pub use shown::QuestionSections;
pub use worth::WorthCurve;

use crate::present::document::Section;
use crate::present::document::{Table, spread_sizes};
use crate::present::words::{
    BY_TOKENS, bytes_round, bytes_up, capacity, counted, integer, lasting, rate, rate_or_dash,
    share as share_of,
};
use kvset_core::estimate::Estimate;
use kvset_core::estimate::curve::share;
use kvset_core::estimate::recommendation::Recommendation;
use kvset_core::questions::optimum::OptimalCapacity;
use kvset_core::questions::retention::RetentionEstimate;
use kvset_core::questions::tenants::TenantEstimate;
use kvset_core::questions::tiers::{TierEstimate, TierTraffic};
use kvset_core::windows::window::format_duration_ms;

/// Milliseconds of a day.
const DAY_MS: f64 = 86_400_000.0;

/// The sections; none of what is not asked.
pub fn sections(estimate: &Estimate) -> Vec<Section> {
    [retention(estimate), traffic(estimate), tenants(estimate)].into_iter().flatten().collect()
}

/// The recommended capacity alongside the one that perfect foresight would need.
pub fn optimum(found: &OptimalCapacity, page_bytes: Option<u64>) -> Section {
    Section {
        title: "The best any policy could do".to_owned(),
        sentences: vec![foresight(found, page_bytes)],
        tables: Vec::new(),
    }
}

/// The place of the smallest capacity of the curve that is enough for what is recommended, else of the largest one; `None`
/// where nothing is recommended.
pub fn recommended_place(estimate: &Estimate) -> Option<usize> {
    let pages = estimate.recommendation().and_then(Recommendation::so_far)?;
    let enough = estimate.capacities.iter().position(|point| point.pages >= pages);
    enough.or(estimate.capacities.len().checked_sub(1))
}

fn dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

fn retention(estimate: &Estimate) -> Option<Section> {
    if estimate.retention.is_empty() {
        return None;
    }
    let size = |pages: u64| capacity(pages, estimate.page_bytes);
    let columns = ["kept for", "after", "hit rate", BY_TOKENS, "requests covered", "mean held", "most held"];
    let mut kept = Table::new("Pages kept for a time, however many", columns);
    let row = |point: &RetentionEstimate| {
        vec![
            format_duration_ms(point.ttl_ms),
            if point.kind.is_fixed() { "the write" } else { "the last use" }.to_owned(),
            rate_or_dash(point.page_hit_rate),
            rate_or_dash(point.hit_rate_tokens),
            rate_or_dash(point.covered),
            dash(point.mean_pages.map(|pages| size(pages.ceil() as u64))),
            dash(point.peak_pages.map(size)),
        ]
    };
    kept.rows.extend(estimate.retention.iter().map(row));
    let mut required = Table::new("How long pages must be kept", ["requests covered", "target", "kept for"]);
    for target in &estimate.retention_required {
        required.rows.extend(target.coverage.iter().map(|entry| {
            vec![share_of(entry.coverage), share_of(target.target_ratio), dash(entry.ttl_ms.map(lasting))]
        }));
    }
    let mut ages = Table::new("How long unused pages live", ["capacity", "p10", "p50", "p90"]);
    let aged = estimate.capacities.iter().filter_map(|point| Some((point, point.eviction_age_ms?)));
    // Of sizes that nobody named those in which nothing stays say nothing.
    let aged: Vec<_> = aged.filter(|(point, age)| point.label.is_some() || age.p90 != Some(0)).collect();
    for (point, age) in spread_sizes(&aged) {
        let ages_of = [age.p10, age.p50, age.p90].map(|age| dash(age.map(lasting)));
        ages.rows.push([size(point.pages)].into_iter().chain(ages_of).collect());
    }
    let at = recommended_place(estimate).map(|at| &estimate.capacities[at]);
    let median = at.and_then(|point| Some((point.pages, point.eviction_age_ms?.p50?)));
    let sentence = median.map(|(pages, age)| {
        let (size, age) = (size(pages), lasting(age));
        format!("In {size} a page that is not used lives for {age} (the median over arrivals).")
    });
    Some(Section {
        title: "How long pages are kept".to_owned(),
        sentences: sentence.into_iter().collect(),
        tables: vec![kept, required, ages],
    })
}

fn traffic(estimate: &Estimate) -> Option<Section> {
    let traffic = estimate.traffic.as_ref().filter(|traffic| !traffic.tiers.is_empty())?;
    let size = |pages: u64| capacity(pages, estimate.page_bytes);
    let columns = ["tier", "read", "written", "load p50", "load p99", "drive writes a day"];
    let mut table = Table::new("What passes between a tier and those above", columns);
    let peaks = traffic.tiers.first().map(|tier| tier.peaks.as_slice()).unwrap_or_default();
    table.columns.extend(peaks.iter().map(|peak| format!("busiest {}", format_duration_ms(peak.span_ms))));
    table.rows.extend(traffic.tiers.iter().map(|tier| {
        let pages = [tier.read_pages, tier.written_pages, tier.load_pages.p50, tier.load_pages.p99];
        let writes = dash(tier.drive_writes_per_day.map(|writes| format!("{writes:.1}")));
        let peaks = tier
            .peaks
            .iter()
            .map(|peak| format!("{} read, {} written", size(peak.read_pages), size(peak.written_pages)));
        [tier.tier.clone()].into_iter().chain(pages.map(size)).chain([writes]).chain(peaks).collect()
    }));
    Some(Section {
        title: "Between tiers".to_owned(),
        sentences: traffic_sentences(estimate),
        tables: vec![table],
    })
}

/// What passes between tiers, in sentences; none where that is not told.
pub fn traffic_sentences(estimate: &Estimate) -> Vec<String> {
    let Some(traffic) = &estimate.traffic else { return Vec::new() };
    let tiers = estimate.plan.as_ref().map(|plan| plan.tiers.as_slice()).unwrap_or_default();
    let of_tier = |(below, tier): (usize, &TierTraffic)| {
        let upto = tiers.get(..below + 2).unwrap_or_default();
        tier_sentence(upto, tier, traffic.span_ms, estimate.page_bytes)
    };
    let mut sentences: Vec<_> = traffic.tiers.iter().enumerate().map(of_tier).collect();
    sentences.extend(traffic.pages_touched_once.zip(traffic.second_sight_saves).map(|(once, saves)| {
        format!(
            "{} of {} pages are never used again: stored on second sight only, {} of first writes are saved.",
            integer(once),
            integer(estimate.accumulated_pages),
            rate(saves)
        )
    }));
    sentences.extend(traffic.break_even_bytes_per_second.map(|bandwidth| {
        let bandwidth = bytes_up(bandwidth.ceil() as u64);
        format!("Loading is faster than prefilling on links with more than {bandwidth} a second.")
    }));
    sentences
}

/// "30 GiB + 30 GiB: 15 GiB a day read, 1.2 TiB written in 5.6 days, 3.3 drive writes a day". `upto` are the tier and
/// those above.
fn tier_sentence(upto: &[TierEstimate], tier: &TierTraffic, span_ms: u64, page_bytes: Option<u64>) -> String {
    let size = |pages| capacity(pages, page_bytes);
    let of_tier = |tier: &TierEstimate| {
        let pages = size(tier.planned.pages.unwrap_or(0));
        tier.planned.bytes.map_or(pages, bytes_round)
    };
    let sizes = upto.iter().map(of_tier).collect::<Vec<_>>().join(" + ");
    let written = size(tier.written_pages);
    let Some(writes) = tier.drive_writes_per_day else {
        return format!("{sizes}: {} read, {written} written.", size(tier.read_pages));
    };
    let days = span_ms as f64 / DAY_MS;
    let read = size((tier.read_pages as f64 / days).ceil() as u64);
    let span = if days >= 2.0 { format!("{days:.1} days") } else { lasting(span_ms) };
    format!("{sizes}: {read} a day read, {written} written in {span}, {writes:.1} drive writes a day.")
}

/// "LRU needs 2.4 times its memory", in context.
pub fn foresight(found: &OptimalCapacity, page_bytes: Option<u64>) -> String {
    let size = |pages| capacity(pages, page_bytes);
    format!(
        "For the hits of {} perfect foresight would need {}: LRU needs {:.1} times its memory. Nobody reaches the \
         optimum, which knows every request to come.",
        size(found.pages),
        size(found.optimal_pages),
        found.times
    )
}

/// The tenants at the recommended capacity; at the largest one that can be told where none is recommended.
fn tenants(estimate: &Estimate) -> Option<Section> {
    let largest = estimate.tenants.first()?.capacity_page_hits.len().min(estimate.capacities.len());
    let largest = largest.checked_sub(1)?;
    let at = recommended_place(estimate).map_or(largest, |at| at.min(largest));
    let held = |tenant: &TenantEstimate| tenant.page_milliseconds.get(at).copied().unwrap_or(0) as f64;
    let all: f64 = estimate.tenants.iter().map(held).sum();
    let size = |pages: u64| capacity(pages, estimate.page_bytes);
    let columns = ["tenant", "requests", "page accesses", "cold", "hit rate", "held since the start"];
    let caption = format!("Whose pages {} hold, and what they find", size(estimate.capacities[at].pages));
    let mut table = Table::new(caption, columns);
    for tenant in &estimate.tenants {
        let name = match (tenant.tenants, &tenant.tenant) {
            (Some(count), _) => counted(count, "other tenant", "other tenants"),
            (None, Some(name)) => name.clone(),
            (None, None) => "no tenant named".to_owned(),
        };
        let hits = tenant.capacity_page_hits.get(at);
        table.rows.push(vec![
            name,
            integer(tenant.requests),
            integer(tenant.page_accesses),
            size(tenant.cold_pages),
            rate_or_dash(hits.map(|hits| share(*hits, tenant.page_accesses))),
            rate_or_dash((all > 0.0).then(|| held(tenant) / all)),
        ]);
    }
    Some(Section { title: "Tenants".to_owned(), sentences: Vec::new(), tables: vec![table] })
}
