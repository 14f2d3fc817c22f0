//! What the log's cached tokens say of the cache in use, as scripts read it and in words.

use crate::present::questions::measured::in_words;
use crate::present::terminal::{decimal, percent, thousands};
use crate::present::words::and_by_tokens;
use crate::replay::Replay;
use kvset_core::estimate::curve::share;
use kvset_core::questions::measured::{
    EffectiveCapacity, LedgerEstimate, Loss, MeasuredEstimate, RestartEstimate,
};
use kvset_core::units::{Bytes, PageSize};
use serde::Serialize;
use std::fmt::Write as _;

/// Restarts named in the text; the JSON has them all.
const SHOWN_RESTARTS: usize = 5;

/// Measured alongside modelled, as estimates have it, and what to make of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MeasuredOutput {
    /// As in an estimate.
    #[serde(flatten)]
    pub found: MeasuredEstimate,
    /// The verdict in words.
    pub in_words: String,
    /// What to try, the most likely first.
    pub try_first: Vec<&'static str>,
    /// Each capacity was modelled on its own.
    #[serde(skip)]
    pub pointwise: bool,
    /// Tokens of a page.
    #[serde(skip)]
    pub page_tokens: Option<u32>,
}

impl MeasuredOutput {
    /// The output of what was measured.
    pub fn of(found: &MeasuredEstimate, replay: &Replay) -> Self {
        Self {
            in_words: in_words(found, replay.page_bytes.map(|page| page.0)),
            try_first: found.verdict.map(|verdict| verdict.advice().to_vec()).unwrap_or_default(),
            found: found.clone(),
            pointwise: replay.config.is_pointwise(),
            page_tokens: replay.page_size.map(PageSize::get),
        }
    }

    /// The output as text.
    pub fn render(&self) -> String {
        let found = &self.found;
        let mut text = format!("\nmeasured: {}\n", self.in_words);
        // Writing to a string cannot fail.
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<22}{value}");
        };
        line("requests measured", thousands(found.requests));
        if found.requests_taken_as_zero > 0 {
            line(
                "taken as zero",
                format!("{}, which leave the count out", thousands(found.requests_taken_as_zero)),
            );
        }
        if let Some(effective) = found.effective_capacity {
            let by_pages = percent(effective.agreement_by_pages);
            let of_those = if self.pointwise { ", of the capacities requested" } else { "" };
            line("effective capacity", format!("{}{of_those}", range(effective)));
            line("agreement", format!("{} of requests, {by_pages} of pages", percent(effective.agreement)));
        }
        let has_capacity = found.ledger.total_capacity_pages.is_some();
        for (name, pages) in
            steps(&found.ledger).into_iter().filter(|(_, pages)| has_capacity || pages.is_some())
        {
            let tokens = self.page_tokens.and_then(|tokens| found.ledger.prompts(tokens));
            let rate = |pages| {
                let by_pages = share(pages, found.ledger.page_accesses);
                percent(by_pages) + &and_by_tokens(by_pages, tokens.map(|tokens| tokens.hit_rate(pages)))
            };
            line(
                name,
                pages.map_or_else(
                    || self.untold().to_owned(),
                    |pages| format!("{} ({})", thousands(pages), rate(pages)),
                ),
            );
        }
        if found.generated_pages > 0 {
            line("of them generated", format!("{}, by earlier requests", thousands(found.generated_pages)));
        }
        for (name, loss) in losses(&found.ledger).into_iter().filter(|_| has_capacity) {
            line(name, loss.as_ref().map_or_else(|| self.untold().to_owned(), render_loss));
        }
        for restart in found.restarts.iter().take(SHOWN_RESTARTS) {
            line("restart", render_restart(restart));
        }
        if found.restarts.len() > SHOWN_RESTARTS {
            line("further restarts", (found.restarts.len() - SHOWN_RESTARTS).to_string());
        }
        for (at, advice) in self.try_first.iter().enumerate() {
            let _ = writeln!(text, "{}{}. {advice}", if at == 0 { "try first\n  " } else { "  " }, at + 1);
        }
        text
    }

    /// What stands where the model has no figure.
    fn untold(&self) -> &'static str {
        if self.pointwise { "not told: --capacities lacks that size" } else { "beyond" }
    }
}

fn range(effective: EffectiveCapacity) -> String {
    let from = thousands(effective.pages_from);
    let size = effective.bytes_from.map(|size| format!(" ({})", Bytes(size))).unwrap_or_default();
    match effective.pages_to {
        None => format!("{from} pages{size} or more"),
        Some(to) if to == effective.pages_from => format!("{from} pages{size}"),
        Some(to) => format!("{from} to {} pages{size}", thousands(to)),
    }
}

fn steps(ledger: &LedgerEstimate) -> [(&'static str, Option<u64>); 4] {
    [
        ("hits, unlimited", Some(ledger.unlimited_pages)),
        ("hits, one cache", ledger.shared_pages),
        ("hits, as routed", ledger.routed_pages),
        ("hits, measured", Some(ledger.measured_pages)),
    ]
}

fn losses(ledger: &LedgerEstimate) -> [(&'static str, Option<Loss>); 3] {
    [
        ("lost to capacity", ledger.lost_to_capacity),
        ("lost to routing", ledger.lost_to_routing),
        ("lost in the engine", ledger.lost_in_engine),
    ]
}

fn render_loss(loss: &Loss) -> String {
    let sign = if loss.pages < 0 { "-" } else { "" };
    let (pages, tokens) = (loss.pages.unsigned_abs(), loss.tokens.unsigned_abs());
    let mut text = format!("{sign}{} pages, {sign}{} tokens", thousands(pages), thousands(tokens));
    // Writing to a string cannot fail.
    let _ = write!(text, ", {} points", decimal(loss.share * 100.0));
    if let Some(relative) = loss.relative_prefill_throughput {
        let _ = write!(text, "; prefill {}x without it", decimal(relative));
    }
    text
}

fn render_restart(restart: &RestartEstimate) -> String {
    let replica = restart.replica.as_ref().map(|name| format!("of {name} ")).unwrap_or_default();
    format!(
        "{replica}before request {} (event time {} ms): {} requests came back to pages that were gone",
        thousands(restart.request),
        restart.event_time_ms,
        thousands(restart.misses)
    )
}
