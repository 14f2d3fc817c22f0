//! What passes between tiers, as scripts read it and as a table.

use crate::cli::output::{Column, Sheet, Terminal, capacity};
use crate::replay::{
    BusiestSpan, Replay, TierTraffic, TrafficResult, break_even, second_sight, tier_sentence,
};
use kvset_core::questions::tiers::{Load, PeakTraffic, TrafficEstimate};
use serde::Serialize;

/// What passes between the tiers of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrafficOutput {
    /// As in an estimate.
    #[serde(flatten)]
    pub found: TrafficEstimate,
    /// The same in words.
    pub in_words: Vec<String>,
    #[serde(skip)]
    shown: TrafficResult,
    #[serde(skip)]
    page_bytes: Option<u64>,
}

impl TrafficOutput {
    /// The output of a replay.
    pub fn of(traffic: &TrafficResult, replay: &Replay) -> Self {
        let page_bytes = replay.page_bytes.map(|page| page.0);
        let page_size = replay.page_size.map(|size| size.get());
        let mut in_words: Vec<_> = traffic.tiers.iter().map(|tier| tier_sentence(tier, page_bytes)).collect();
        in_words.extend(second_sight(traffic));
        in_words.extend(break_even(traffic, page_size, page_bytes));
        let saves = |(once, all): (u64, u64)| (all > 0).then(|| once as f64 / all as f64);
        let rate = page_size.zip(page_bytes);
        let found = TrafficEstimate {
            span_ms: traffic.span_ms,
            tiers: traffic.tiers.iter().map(|tier| published(tier, page_bytes)).collect(),
            pages_touched_once: traffic.touched_once.map(|(once, _)| once),
            second_sight_saves: traffic.touched_once.and_then(saves),
            break_even_bytes_per_second: rate
                .and_then(|(tokens, bytes)| traffic.break_even_bytes_per_second(tokens, bytes)),
        };
        Self { found, in_words, shown: traffic.clone(), page_bytes }
    }

    /// The output as a table and in words.
    pub fn render(&self, terminal: &Terminal) -> String {
        let size = |pages: u64| capacity(pages, self.page_bytes);
        let mut sheet = Sheet::new(&[
            Column::Text("tier"),
            Column::Number("read"),
            Column::Number("written"),
            Column::Number("load p50"),
            Column::Number("load p99"),
            Column::Number("busiest minute"),
        ])
        .spare(&["load p50", "busiest minute"]);
        for tier in &self.shown.tiers {
            let busiest = tier.peaks.iter().max_by_key(|peak| peak.span_ms);
            sheet.row([
                tier.name.clone(),
                size(tier.read_pages),
                size(tier.written_pages),
                size(tier.load_pages.0),
                size(tier.load_pages.1),
                busiest.map_or_else(String::new, |peak| size(peak.read_pages)),
            ]);
        }
        let words = self.in_words.iter().map(|sentence| terminal.paragraph(sentence));
        format!("\nbetween tiers\n{}{}", sheet.render(terminal), words.collect::<String>())
    }
}

/// What passes between a tier and those above, as it is published.
fn published(tier: &TierTraffic, page_bytes: Option<u64>) -> kvset_core::questions::tiers::TierTraffic {
    let bytes = |pages: u64| page_bytes.map(|page| pages.saturating_mul(page));
    let (p50, p99) = tier.load_pages;
    let load_bytes = bytes(p50).zip(bytes(p99)).map(|(p50, p99)| Load { p50, p99 });
    kvset_core::questions::tiers::TierTraffic {
        tier: tier.name.clone(),
        inclusion: tier.inclusion,
        pages: tier.sizes.last().map_or(0, |(pages, _)| *pages),
        read_pages: tier.read_pages,
        read_bytes: bytes(tier.read_pages),
        written_pages: tier.written_pages,
        written_bytes: bytes(tier.written_pages),
        written_otherwise_pages: tier.written_otherwise,
        drive_writes_per_day: tier.drive_writes_a_day(),
        load_pages: Load { p50, p99 },
        load_bytes,
        peaks: tier.peaks.iter().map(|peak| busiest(peak, page_bytes)).collect(),
    }
}

fn busiest(peak: &BusiestSpan, page_bytes: Option<u64>) -> PeakTraffic {
    let seconds = peak.span_ms as f64 / 1000.0;
    let rate = |pages: u64| page_bytes.map(|page| pages as f64 * page as f64 / seconds);
    PeakTraffic {
        span_ms: peak.span_ms,
        read_pages: peak.read_pages,
        written_pages: peak.written_pages,
        read_bytes_per_second: rate(peak.read_pages),
        written_bytes_per_second: rate(peak.written_pages),
    }
}
