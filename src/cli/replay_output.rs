//! What `kvset replay` prints: the JSON that scripts read, and the tables that people read.

use super::output::{Column, Sheet, bytes, decimal, percent, thousands};
use super::plan_output::{CostResult, plan_table};
use crate::core::estimate::{
    CapacityPoint, CoverageCapacity, Estimate, InFlight, RequiredCapacity, RequiredInFlight, TheoreticalHits,
};
use crate::core::profile::Profile;
use crate::core::ratio::Ratio;
use crate::core::stack::ChainCheck;
use crate::core::tiers::{Settled, TierEstimates};
use crate::core::units::Bytes;
use crate::core::window::WindowKind;
use serde::Serialize;
use std::fmt::Write as _;

/// The result of a replay. Pages are pages of the trace's page size, bytes are bytes of KV state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplayResult {
    /// What was read.
    pub trace: TraceSummary,
    /// Hits with unlimited capacity.
    pub theoretical: TheoreticalHits,
    /// Each capacity was modelled on its own: nothing follows for those in between.
    #[serde(skip_serializing_if = "is_false")]
    pub pointwise: bool,
    /// What makes the model an approximation, with the known error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approximation: Option<&'static str>,
    /// The hit-rate curve, ascending.
    pub capacities: Vec<CapacityResult>,
    /// One entry a target ratio; none where each capacity was modelled on its own.
    pub required: Vec<RequiredResult>,
    /// What requests met in flight, and the requirement with room for it; none where the trace tells no
    /// durations.
    pub in_flight: Option<InFlight>,
    /// How many readings along the trace convergence was judged over; windows have trends of their own.
    pub trend_windows: u32,
    /// What to buy, where tiers were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<TierEstimates>,
    /// The sizes once more at each further cost a token.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<CostResult>,
    /// The windows asked for, in the order in which they closed.
    pub windows: Vec<WindowResult>,
}

/// What was read, and how.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceSummary {
    /// Requests that count.
    pub requests: u64,
    /// Requests that only filled the cache.
    pub warm_up_requests: u64,
    /// Prompt pages accessed by the requests that count.
    pub page_accesses: u64,
    /// Distinct pages of the whole trace.
    pub distinct_pages: u64,
    /// Tokens a page; unknown for a trace without requests that names none.
    pub page_size: Option<u32>,
    /// Bytes a page, where a cost a token is known.
    pub page_bytes: Option<u64>,
    /// Rows that could not be read.
    pub rejected_rows: u64,
    /// Distinct pages whose id was already known under another prefix.
    pub chain_violations: u64,
    /// Which ids were watched for violations: `sampled` or `full`.
    pub chain_check: ChainCheck,
    /// The engine modelled.
    pub engine: Profile,
    /// Share of the pages that were followed.
    pub sample_rate: f64,
    /// Standard error of the smallest required capacity, as a share of it; 0 when exact.
    pub sample_error: f64,
    /// The engine caches outputs, but the trace has no ids for them: hits are under-counted.
    pub output_reuse_unseen: bool,
}

/// One capacity of the curve. Numbers beyond the tracked bound are `null`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CapacityResult {
    /// As it was written, or its pages.
    pub label: String,
    /// The capacity.
    pub pages: u64,
    /// The capacity, where a cost a token is known.
    pub bytes: Option<u64>,
    /// Accesses that hit.
    pub page_hits: Option<u64>,
    /// Pages in the leading runs of hits.
    pub prefix_hits: Option<u64>,
    /// Page hits a page access.
    pub page_hit_rate: Option<f64>,
    /// Page hits an access that was not cold.
    pub reuse_hit_rate: Option<f64>,
    /// Prefix hits a page access.
    pub prefix_hit_rate: Option<f64>,
    /// `1/(1-r)` at the prefix hit rate `r`.
    pub relative_prefill_throughput: Option<f64>,
    /// The capacity is larger than the tracked bound.
    #[serde(skip_serializing_if = "is_false")]
    pub beyond_bound: bool,
    /// Requests that cannot run in so small a cache at all, where that is modelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turned_away_requests: Option<u64>,
}

/// The requirement at one target ratio.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequiredResult {
    /// Share of the reusable prefix a request must find.
    pub target_ratio: Ratio,
    /// Requests that count.
    pub requests: u64,
    /// Those of them with something to reuse.
    pub requests_with_reuse: u64,
    /// Mean requirement.
    pub mean_pages: Option<f64>,
    /// Largest requirement.
    pub max_pages: Option<u64>,
    /// Exact quantiles.
    pub coverage: Vec<CoverageResult>,
}

/// The capacity that is enough for a share of the requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CoverageResult {
    /// The share.
    pub coverage: Ratio,
    /// The capacity.
    pub pages: Option<u64>,
    /// The capacity, where a cost a token is known.
    pub bytes: Option<u64>,
    /// Standard error of the capacity, as a share of it, where it was found in a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_error: Option<f64>,
    /// The requirement is larger than the tracked bound.
    #[serde(skip_serializing_if = "is_false")]
    pub beyond_bound: bool,
    /// Whether it has settled over the last readings or windows.
    pub convergence: Settled,
    /// Its mean growth from one to the next, as a share.
    pub growth_per_window: Option<f64>,
}

/// One window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WindowResult {
    /// Its kind, as it was asked for.
    pub kind: WindowKind,
    /// Start, in milliseconds of event time (inclusive).
    pub start_ms: i64,
    /// End, in milliseconds of event time (exclusive).
    pub end_ms: i64,
    /// Requests in it.
    pub requests: u64,
    /// The requirement at the first target ratio.
    pub coverage: Vec<CoverageResult>,
    /// The requirement at every target ratio.
    pub required: Vec<RequiredResult>,
    /// What its requests met in flight.
    pub in_flight: Option<InFlight>,
    /// How many windows of this kind convergence was judged over.
    pub trend_windows: u32,
    /// What to buy by this window, where tiers were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<TierEstimates>,
}

/// For fields that are written only when they are true.
fn is_false(flag: &bool) -> bool {
    !flag
}

impl ReplayResult {
    /// Puts a result together from the estimate over everything that counts, and those of the windows.
    pub fn new(trace: TraceSummary, whole: Option<&Estimate>, windows: &[Estimate]) -> Self {
        Self {
            theoretical: whole.map(|all| all.theoretical).unwrap_or_default(),
            pointwise: trace.engine.is_pointwise(),
            approximation: trace.engine.approximation(),
            capacities: whole.iter().flat_map(|all| &all.capacities).map(CapacityResult::from).collect(),
            required: whole.map(required_of).unwrap_or_default(),
            in_flight: whole.and_then(|all| all.in_flight.clone()),
            trend_windows: whole.map_or(0, |all| all.trend_windows),
            plan: whole.and_then(|all| all.plan.clone()),
            costs: Vec::new(),
            windows: windows.iter().map(WindowResult::from).collect(),
            trace,
        }
    }

    /// The nominal capacity that never evicts.
    pub fn footprint_capacity(&self) -> u64 {
        self.trace.engine.effective_share().least_whole_of(self.trace.distinct_pages)
    }

    /// Ends the curve at the first capacity that reaches this one.
    pub fn cut_grid(&mut self, footprint: u64) {
        let last = self.capacities.iter().position(|point| point.pages >= footprint);
        self.capacities.truncate(last.map_or(self.capacities.len(), |index| index + 1));
        self.costs.iter_mut().for_each(|cost| cost.capacities.truncate(self.capacities.len()));
    }

    /// The result as tables.
    pub fn render(&self) -> String {
        let mut text = self.headline();
        for (at, required) in self.required.iter().enumerate() {
            let with_room = self.in_flight.as_ref().and_then(|found| found.required.get(at));
            text.push_str(&required.render(with_room));
        }
        text.push_str(&self.curve());
        if let Some(plan) = &self.plan {
            text.push_str(&plan_table(plan));
        }
        for cost in &self.costs {
            text.push_str(&cost.render());
        }
        if self.windows.len() > 1 {
            text.push_str(&self.window_table());
        }
        text
    }

    fn headline(&self) -> String {
        let trace = &self.trace;
        let mut text = String::new();
        // Writing to a string cannot fail.
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<22}{value}");
        };
        line("requests", thousands(trace.requests));
        if trace.warm_up_requests > 0 {
            line("warm-up requests", thousands(trace.warm_up_requests));
        }
        line("page accesses", thousands(trace.page_accesses));
        line("distinct pages", self.footprint());
        line("page size", page_size(trace));
        line("engine", engine(trace));
        if let Some(reason) = self.approximation {
            line("approximation", reason.to_owned());
        }
        line("hit rate, unlimited", percent(self.theoretical.prefix_hit_rate));
        if let Some(found) = &self.in_flight {
            line("most in flight", in_flight(found));
        }
        if trace.rejected_rows > 0 {
            line("rejected rows", thousands(trace.rejected_rows));
        }
        if trace.chain_violations > 0 {
            line(
                "chain violations",
                format!("{} ({})", thousands(trace.chain_violations), watched(trace.chain_check)),
            );
        }
        text
    }

    fn footprint(&self) -> String {
        let pages = self.trace.distinct_pages;
        let pages_text = thousands(pages);
        match self.trace.page_bytes {
            Some(page) => format!("{pages_text} ({})", Bytes(pages.saturating_mul(page))),
            None => pages_text,
        }
    }

    fn curve(&self) -> String {
        let mut sheet = Sheet::new(&[
            Column::Text("capacity"),
            Column::Number("pages"),
            Column::Number("size"),
            Column::Number("hit rate"),
            Column::Number("of reusable"),
            Column::Number("prefill x"),
        ]);
        for point in &self.capacities {
            sheet.row([
                point.label.clone(),
                thousands(point.pages),
                bytes(point.bytes),
                known(point.prefix_hit_rate, percent, point.beyond_bound),
                known(point.reuse_hit_rate, percent, point.beyond_bound),
                known(point.relative_prefill_throughput, decimal, point.beyond_bound),
            ]);
        }
        let how = if self.pointwise { ", each modelled on its own" } else { "" };
        let away = self.capacities.iter().filter(|point| point.turned_away_requests > Some(0)).count();
        let away = match away {
            0 => String::new(),
            count => format!(
                "requests larger than the whole cache were turned away at the {count} smallest of these capacities\n"
            ),
        };
        format!("\nhit rate by capacity{how}\n{}{away}", sheet.render())
    }

    fn window_table(&self) -> String {
        let shares = self.windows.first().map(|window| window.coverage.as_slice()).unwrap_or_default();
        let names: Vec<String> = shares.iter().map(|entry| share_name(entry.coverage)).collect();
        let mut columns = vec![
            Column::Text("window"),
            Column::Number("start ms"),
            Column::Number("end ms"),
            Column::Number("requests"),
        ];
        columns.extend(names.iter().map(|name| Column::Number(name)));
        let mut sheet = Sheet::new(&columns);
        for window in &self.windows {
            let mut cells = vec![
                window.kind.to_string(),
                window.start_ms.to_string(),
                window.end_ms.to_string(),
                thousands(window.requests),
            ];
            cells.extend(window.coverage.iter().map(CoverageResult::cell));
            sheet.row(cells);
        }
        format!("\nwindows, required capacity by coverage\n{}", sheet.render())
    }
}

/// `64 tokens, 3.75 MiB`.
pub(super) fn page_size(trace: &TraceSummary) -> String {
    match (trace.page_size, trace.page_bytes) {
        (None, _) => "unknown".to_owned(),
        (Some(tokens), None) => format!("{tokens} tokens"),
        (Some(tokens), Some(bytes)) => format!("{tokens} tokens, {}", Bytes(bytes)),
    }
}

/// `12 requests, 3,400 pages (1.0 GiB) at once, beside the one that arrives`.
fn in_flight(found: &InFlight) -> String {
    let pages = known(found.max_pages, thousands, true);
    let size = found.max_bytes.map(|size| format!(" ({})", Bytes(size))).unwrap_or_default();
    format!("{} requests, {pages} pages{size}, beside the one that arrives", thousands(found.max_requests))
}

/// Among which ids violations were counted.
fn watched(check: ChainCheck) -> &'static str {
    match check {
        ChainCheck::Sampled => "among one id in 256",
        ChainCheck::Full => "among all ids",
    }
}

/// The engine, with the sample rate where pages were sampled.
fn engine(trace: &TraceSummary) -> String {
    if trace.sample_rate < 1.0 {
        return format!("{}, sampled at {} (estimates)", trace.engine, trace.sample_rate);
    }
    trace.engine.to_string()
}

/// A coverage as a percentage without needless places (`99.9 %`).
pub(super) fn share_name(share: Ratio) -> String {
    let text = format!("{:.7}", share.as_f64() * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A number as text; `beyond` past the bound, a dash where there is none.
pub(super) fn known<T>(value: Option<T>, text: impl Fn(T) -> String, beyond_bound: bool) -> String {
    value.map_or_else(|| if beyond_bound { "beyond" } else { "-" }.to_owned(), text)
}

impl RequiredResult {
    fn render(&self, with_room: Option<&RequiredInFlight>) -> String {
        let mut columns = vec![Column::Text("coverage"), Column::Number("pages"), Column::Number("size")];
        let sampled = self.coverage.iter().any(|entry| entry.sample_error.is_some());
        if sampled {
            columns.push(Column::Number("std. error"));
        }
        if with_room.is_some() {
            columns.extend([Column::Number("with in-flight pages"), Column::Number("size")]);
        }
        columns.push(Column::Text("trend"));
        let mut sheet = Sheet::new(&columns);
        for (at, entry) in self.coverage.iter().enumerate() {
            let pages = known(entry.pages, thousands, entry.beyond_bound);
            let mut cells = vec![share_name(entry.coverage), pages, bytes(entry.bytes)];
            if sampled {
                let error = entry.sample_error.map(|error| format!("{:.1} %", error * 100.0));
                cells.push(error.unwrap_or_else(|| "-".to_owned()));
            }
            if let Some(sum) = with_room.and_then(|with_room| with_room.coverage.get(at)) {
                cells.extend([known(sum.pages, thousands, true), bytes(sum.bytes)]);
            }
            cells.push(entry.convergence.with_growth(entry.growth_per_window));
            sheet.row(cells);
        }
        format!(
            "\nrequired capacity at target ratio {}; {} of {} requests have something to reuse\n{}",
            self.target_ratio,
            thousands(self.requests_with_reuse),
            thousands(self.requests),
            sheet.render()
        )
    }
}

impl CoverageResult {
    fn cell(&self) -> String {
        match self.bytes {
            Some(_) => bytes(self.bytes),
            None => known(self.pages, |pages| format!("{} p", thousands(pages)), self.beyond_bound),
        }
    }
}

impl From<&CapacityPoint> for CapacityResult {
    fn from(point: &CapacityPoint) -> Self {
        Self {
            label: point.label.clone().unwrap_or_else(|| format!("{}p", point.pages)),
            pages: point.pages,
            bytes: point.bytes,
            page_hits: point.page_hits,
            prefix_hits: point.prefix_hits,
            page_hit_rate: point.page_hit_rate,
            reuse_hit_rate: point.reuse_hit_rate,
            prefix_hit_rate: point.prefix_hit_rate,
            relative_prefill_throughput: point.relative_prefill_throughput,
            beyond_bound: point.beyond_bound,
            turned_away_requests: None,
        }
    }
}

/// The requirements of an estimate.
pub(super) fn required_of(estimate: &Estimate) -> Vec<RequiredResult> {
    let convert = |required: &RequiredCapacity| RequiredResult {
        target_ratio: required.target_ratio,
        requests: estimate.requests,
        requests_with_reuse: estimate.requests_with_reuse,
        mean_pages: required.mean_pages,
        max_pages: required.max_pages,
        coverage: required.coverage.iter().map(|found| CoverageResult::of(estimate, found)).collect(),
    };
    estimate.required.iter().map(convert).collect()
}

impl CoverageResult {
    fn of(estimate: &Estimate, found: &CoverageCapacity) -> Self {
        let sampled = found.pages.filter(|_| estimate.sample_rate < 1.0);
        Self {
            sample_error: sampled.map(|pages| estimate.error_of(pages)),
            coverage: found.coverage,
            pages: found.pages,
            bytes: found.bytes,
            beyond_bound: found.beyond_bound,
            convergence: found.convergence,
            growth_per_window: found.growth_per_window,
        }
    }
}

impl From<&Estimate> for WindowResult {
    fn from(estimate: &Estimate) -> Self {
        let required = required_of(estimate);
        Self {
            kind: estimate.window,
            start_ms: estimate.start_ms,
            end_ms: estimate.end_ms,
            requests: estimate.requests,
            coverage: required.first().map(|first| first.coverage.clone()).unwrap_or_default(),
            required,
            in_flight: estimate.in_flight.clone(),
            trend_windows: estimate.trend_windows,
            plan: estimate.plan.clone(),
        }
    }
}
