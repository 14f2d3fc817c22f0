//! What passes between tiers, as scripts read it and as a table.

use crate::present::questions::traffic_sentences;
use crate::present::terminal::{Column, Sheet, Terminal, capacity};
use kvset_core::estimate::Estimate;
use kvset_core::questions::tiers::TrafficEstimate;
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
    page_bytes: Option<u64>,
}

impl TrafficOutput {
    /// The output of an estimate; `None` where it says nothing of tiers.
    pub fn of(estimate: &Estimate) -> Option<Self> {
        let in_words = traffic_sentences(estimate);
        let page_bytes = estimate.page_bytes;
        estimate.traffic.clone().map(|found| Self { found, in_words, page_bytes })
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
        for tier in &self.found.tiers {
            let busiest = tier.peaks.iter().max_by_key(|peak| peak.span_ms);
            sheet.row([
                tier.tier.clone(),
                size(tier.read_pages),
                size(tier.written_pages),
                size(tier.load_pages.p50),
                size(tier.load_pages.p99),
                busiest.map_or_else(String::new, |peak| size(peak.read_pages)),
            ]);
        }
        let words = self.in_words.iter().map(|sentence| terminal.paragraph(sentence));
        format!("\nbetween tiers\n{}{}", sheet.render(terminal), words.collect::<String>())
    }
}
