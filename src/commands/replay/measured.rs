//! What the log's cached tokens say of the cache in use, as scripts read it and in words (WHATIF 1).

use crate::cli::output::{decimal, percent, thousands};
use crate::replay::{MeasuredResult, Replay};
use kvset_core::curve::{prefill_throughput, share};
use kvset_core::measured::{Ledger, Verdict};
use kvset_core::units::Bytes;
use serde::Serialize;
use std::fmt::Write as _;

/// Restarts named in the text; the JSON has them all.
const SHOWN_RESTARTS: usize = 5;

/// Measured beside modelled. Pages are pages of the trace's page size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MeasuredOutput {
    /// Requests that say what they found.
    pub requests: u64,
    /// Full pages in their cached tokens.
    pub cached_pages: u64,
    /// The capacity, of each replica, that most of them agree on.
    pub effective_capacity: Option<EffectiveOutput>,
    /// From the best case to what happened.
    pub ledger: LedgerOutput,
    /// Caches that served the requests, as far as the log says.
    pub replicas: u64,
    /// Requests that found more than the log shows was ever there.
    pub requests_beyond_log: u64,
    /// The pages they found too many.
    pub pages_beyond_log: u64,
    /// Restarts of replicas, by replica and time.
    pub restarts: Vec<RestartOutput>,
    /// Why the hit rate is what it is: a name out of a fixed set.
    pub verdict: Option<&'static str>,
    /// The same in words.
    pub in_words: String,
    /// What to try, the most likely first.
    pub try_first: Vec<&'static str>,
}

/// The capacities that most requests agree on, both ends among them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EffectiveOutput {
    /// The smallest of them.
    pub pages_from: u64,
    /// The largest; `null` where no request sets an upper bound.
    pub pages_to: Option<u64>,
    /// Requests that agree, as a share of those measured.
    pub agreement: f64,
    /// The same, weighted by pages.
    pub agreement_by_pages: f64,
    /// The smallest in bytes, where a cost a token is known.
    pub bytes_from: Option<u64>,
}

/// Hits over the measured requests, and what was lost where. `null` beyond the tracked bound.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LedgerOutput {
    /// Pages they accessed.
    pub page_accesses: u64,
    /// Hits of one cache without limit.
    pub unlimited_pages: u64,
    /// Hits of one cache as large as all replicas together.
    pub shared_pages: Option<u64>,
    /// Hits of the replicas, routed as the log says.
    pub routed_pages: Option<u64>,
    /// Hits as the engine counted them.
    pub measured_pages: u64,
    /// The capacity of all replicas that this holds at, in pages.
    pub total_capacity_pages: Option<u64>,
    /// That of each.
    pub capacity_pages: Option<u64>,
    /// Whether the capacity is the only one given; else it is the effective one.
    pub provisioned: bool,
    /// What was lost to capacity.
    pub lost_to_capacity: Option<LossOutput>,
    /// What was lost to routing.
    pub lost_to_routing: Option<LossOutput>,
    /// What was lost in the engine; negative where it finds more than the log's ids show.
    pub lost_in_engine: Option<LossOutput>,
}

/// A loss.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LossOutput {
    /// In pages.
    pub pages: i64,
    /// In tokens, where the page size is known.
    pub tokens: Option<i64>,
    /// As a share of the pages accessed.
    pub share: f64,
    /// Prefill throughput without this loss over the one with it; none where nothing would be left to prefill.
    pub relative_prefill_throughput: Option<f64>,
}

/// A restart of a replica.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RestartOutput {
    /// Its name, where the log has names.
    pub replica: Option<String>,
    /// The first request, counted from 0, that found nothing of what was there before.
    pub request: u64,
    /// When it arrived.
    pub event_time_ms: i64,
    /// Requests that found nothing of what was there before.
    pub misses: u64,
}

impl MeasuredOutput {
    /// The output of what was measured.
    pub fn of(measured: &MeasuredResult, replay: &Replay) -> Self {
        let page_bytes = replay.page_bytes.map(|page| page.0);
        let effective = measured.effective.map(|effective| EffectiveOutput {
            pages_from: effective.pages_from,
            pages_to: effective.pages_to,
            agreement: effective.agreement,
            agreement_by_pages: effective.agreement_by_pages,
            bytes_from: page_bytes.map(|page| page.saturating_mul(effective.pages_from)),
        });
        let restarts = measured.restarts.iter().map(|restart| RestartOutput {
            replica: restart.replica.clone(),
            request: restart.request,
            event_time_ms: restart.event_time_ms,
            misses: restart.misses,
        });
        Self {
            requests: measured.requests,
            cached_pages: measured.cached_pages,
            effective_capacity: effective,
            ledger: ledger_of(measured, replay.page_size.map(|size| size.get())),
            replicas: measured.replicas,
            requests_beyond_log: measured.requests_beyond_log,
            pages_beyond_log: measured.pages_beyond_log,
            restarts: restarts.collect(),
            verdict: measured.verdict.map(Verdict::name),
            in_words: in_words(measured, page_bytes),
            try_first: measured.verdict.map(|verdict| verdict.advice().to_vec()).unwrap_or_default(),
        }
    }

    /// The output as text.
    pub fn render(&self) -> String {
        let mut text = format!("\nmeasured: {}\n", self.in_words);
        // Writing to a string cannot fail.
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<22}{value}");
        };
        line("requests measured", thousands(self.requests));
        if let Some(found) = &self.effective_capacity {
            let by_pages = percent(found.agreement_by_pages);
            line("effective capacity", found.range());
            line("agreement", format!("{} of requests, {by_pages} of pages", percent(found.agreement)));
        }
        for (name, pages) in self.ledger.steps() {
            let rate = |pages| percent(share(pages, self.ledger.page_accesses));
            line(
                name,
                pages.map_or_else(
                    || "beyond".to_owned(),
                    |pages| format!("{} ({})", thousands(pages), rate(pages)),
                ),
            );
        }
        for (name, loss) in self.ledger.losses() {
            line(name, loss.as_ref().map_or_else(|| "beyond".to_owned(), LossOutput::render));
        }
        for restart in self.restarts.iter().take(SHOWN_RESTARTS) {
            line("restart", restart.render());
        }
        if self.restarts.len() > SHOWN_RESTARTS {
            line("further restarts", (self.restarts.len() - SHOWN_RESTARTS).to_string());
        }
        for (at, advice) in self.try_first.iter().enumerate() {
            let _ = writeln!(text, "{}{}. {advice}", if at == 0 { "try first\n  " } else { "  " }, at + 1);
        }
        text
    }
}

impl EffectiveOutput {
    fn range(&self) -> String {
        let from = thousands(self.pages_from);
        let size = self.bytes_from.map(|size| format!(" ({})", Bytes(size))).unwrap_or_default();
        match self.pages_to {
            None => format!("{from} pages{size} or more"),
            Some(to) if to == self.pages_from => format!("{from} pages{size}"),
            Some(to) => format!("{from} to {} pages{size}", thousands(to)),
        }
    }
}

impl LedgerOutput {
    fn steps(&self) -> [(&'static str, Option<u64>); 4] {
        [
            ("hits, unlimited", Some(self.unlimited_pages)),
            ("hits, one cache", self.shared_pages),
            ("hits, as routed", self.routed_pages),
            ("hits, measured", Some(self.measured_pages)),
        ]
    }

    fn losses(&self) -> [(&'static str, &Option<LossOutput>); 3] {
        [
            ("lost to capacity", &self.lost_to_capacity),
            ("lost to routing", &self.lost_to_routing),
            ("lost in the engine", &self.lost_in_engine),
        ]
    }
}

impl LossOutput {
    fn of(pages: i64, hits_without: u64, hits_with: u64, accesses: u64, page_size: Option<u32>) -> Self {
        let speed = |hits| prefill_throughput(hits, accesses);
        let relative = speed(hits_without).zip(speed(hits_with)).map(|(without, with)| without / with);
        Self {
            pages,
            tokens: page_size.map(|size| pages.saturating_mul(i64::from(size))),
            share: if accesses == 0 { 0.0 } else { pages as f64 / accesses as f64 },
            relative_prefill_throughput: relative,
        }
    }

    fn render(&self) -> String {
        let sign = if self.pages < 0 { "-" } else { "" };
        let mut text = format!("{sign}{} pages", thousands(self.pages.unsigned_abs()));
        if let Some(tokens) = self.tokens {
            let _ = write!(text, ", {sign}{} tokens", thousands(tokens.unsigned_abs()));
        }
        let _ = write!(text, ", {} points", decimal(self.share * 100.0));
        if let Some(relative) = self.relative_prefill_throughput {
            let _ = write!(text, "; prefill {}x without it", decimal(relative));
        }
        text
    }
}

impl RestartOutput {
    fn render(&self) -> String {
        let replica = self.replica.as_ref().map(|name| format!("of {name} ")).unwrap_or_default();
        format!(
            "{replica}before request {} (event time {} ms): {} requests came back to pages that were gone",
            thousands(self.request),
            self.event_time_ms,
            thousands(self.misses)
        )
    }
}

fn ledger_of(measured: &MeasuredResult, page_size: Option<u32>) -> LedgerOutput {
    let ledger = &measured.ledger;
    let told = measured.at.is_some();
    let loss = |pages: Option<i64>, without: Option<u64>, with: Option<u64>| {
        let (pages, without, with) = (pages.filter(|_| told)?, without?, with?);
        Some(LossOutput::of(pages, without, with, ledger.page_accesses, page_size))
    };
    let Ledger { unlimited, shared, routed, measured: hits, .. } = *ledger;
    LedgerOutput {
        page_accesses: ledger.page_accesses,
        unlimited_pages: unlimited,
        shared_pages: shared.filter(|_| told),
        routed_pages: routed.filter(|_| told),
        measured_pages: hits,
        total_capacity_pages: measured.at.map(|at| at.total_pages),
        capacity_pages: measured.at.map(|at| at.pages),
        provisioned: measured.at.is_some_and(|at| at.provisioned),
        lost_to_capacity: loss(ledger.lost_to_capacity(), Some(unlimited), shared),
        lost_to_routing: loss(ledger.lost_to_routing(), shared, routed),
        lost_in_engine: loss(ledger.lost_in_engine(), routed, Some(hits)),
    }
}

/// The verdict as a sentence.
fn in_words(measured: &MeasuredResult, page_bytes: Option<u64>) -> String {
    let Some(verdict) = measured.verdict else {
        let none = match measured.requests {
            0 => "no request says how many of its tokens were cached",
            _ => "no request came back to pages that the log shows, so none can tell",
        };
        return none.to_owned();
    };
    let ledger = &measured.ledger;
    let points = |pages: Option<i64>| pages.map_or(0.0, |pages| ledger.share(pages) * 100.0);
    let lost = format!(
        "{:.1} points are lost to capacity, {:.1} to routing, {:.1} in the engine",
        points(ledger.lost_to_capacity()),
        points(ledger.lost_to_routing()),
        points(ledger.lost_in_engine())
    );
    match verdict {
        Verdict::IdScope => format!(
            "{} pages were found that the log never shows before: the engine shares more than the log's ids say",
            thousands(measured.pages_beyond_log)
        ),
        Verdict::NoCapacity => format!(
            "behaves like no cache of any one size: at most {} of the requests agree on one",
            percent(measured.effective.map_or(0.0, |effective| effective.agreement))
        ),
        Verdict::MoreCaches => format!(
            "{}, but finds {:.1} points more than one such cache would",
            behaves_like(measured, page_bytes),
            -points(ledger.lost_in_engine())
        ),
        Verdict::Workload => format!(
            "{}; the workload itself reuses {} of its pages at most",
            behaves_like(measured, page_bytes),
            percent(share(ledger.unlimited, ledger.page_accesses))
        ),
        Verdict::Restarts => format!(
            "{}; {lost}; it was emptied {} times",
            behaves_like(measured, page_bytes),
            measured.restarts.len()
        ),
        _ => format!("{}; {lost}", behaves_like(measured, page_bytes)),
    }
}

/// "behaves like 212 GiB of the 500 GiB provisioned".
fn behaves_like(measured: &MeasuredResult, page_bytes: Option<u64>) -> String {
    let size = |pages: u64| {
        page_bytes.map_or_else(
            || format!("{} pages", thousands(pages)),
            |page| Bytes(pages.saturating_mul(page)).to_string(),
        )
    };
    let Some(effective) = measured.effective else {
        return "behaves like no cache that can be told".to_owned();
    };
    let least = if effective.pages_to.is_none() { "at least " } else { "" };
    let all = effective.pages_from.saturating_mul(measured.replicas);
    let of = match measured.at {
        Some(at) if at.provisioned => format!(" of the {} provisioned", size(at.total_pages)),
        _ => String::new(),
    };
    let each = match measured.replicas {
        1 => String::new(),
        count => format!(" ({count} replicas of {})", size(effective.pages_from)),
    };
    format!("behaves like {least}{}{each}{of}", size(all))
}
