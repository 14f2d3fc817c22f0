//! What passes between tiers.

use crate::present::document::{Cell, Section, Table};
use crate::present::words::{bytes_round, bytes_up, capacity, integer, lasting, rate};
use kvset_core::estimate::Estimate;
use kvset_core::questions::traffic::TierTraffic;
use kvset_core::sizing::tiers::TierEstimate;
use kvset_core::units::window::format_duration_ms;

/// Milliseconds of a day.
const DAY_MS: f64 = 86_400_000.0;

/// What is read from each tier and written to it; `None` where nothing lies below another tier.
pub(super) fn traffic(estimate: &Estimate) -> Option<Section> {
    let traffic = estimate.traffic.as_ref().filter(|traffic| !traffic.tiers.is_empty())?;
    let columns = ["tier", "read", "written", "load p50", "load p99", "drive writes a day"];
    let caption = "What passes between a tier and those above";
    let mut table = Table::new(caption, columns).spare(&["load p50", "drive writes a day"]);
    let peaks = traffic.tiers.first().map(|tier| tier.peaks.as_slice()).unwrap_or_default();
    table.columns.extend(peaks.iter().map(|peak| format!("busiest {}", format_duration_ms(peak.span_ms))));
    for tier in &traffic.tiers {
        let pages = [tier.read_pages, tier.written_pages, tier.load_pages.p50, tier.load_pages.p99];
        let pages = pages.map(|pages| Cell::Pages(pages, estimate.page_bytes));
        let writes = Cell::figure(tier.drive_writes_per_day, |writes| format!("{writes:.1}"));
        let size = |pages| capacity(pages, estimate.page_bytes);
        let peaks = tier.peaks.iter().map(|peak| {
            Cell::Figure(format!("{} read, {} written", size(peak.read_pages), size(peak.written_pages)))
        });
        table.row([tier.tier.clone().into()].into_iter().chain(pages).chain([writes]).chain(peaks));
    }
    Some(Section::new("Between tiers", traffic_sentences(estimate), [table]))
}

/// What passes between tiers, in sentences; none where nothing is known of that.
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
            "{} of {} pages are never used again. A tier that stores pages on their second use saves {} of first writes.",
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
