//! What `kvset replay` prints: the JSON that scripts read, and the tables that people read.

use crate::cli::output::plan::{CostResult, plan_table};
use crate::cli::output::required::{CapacityResult, CoverageResult, RequiredResult, is_false, required_of};
use crate::cli::output::routing::RoutingOutput;
use crate::cli::output::{Column, Sheet, bytes, decimal, known, percent, share_name, thousands};
use crate::commands::replay::measured::MeasuredOutput;
use kvset_core::estimate::{Estimate, InFlight, TheoreticalHits};
use kvset_core::profile::Profile;
use kvset_core::stack::ChainCheck;
use kvset_core::tiers::TierEstimates;
use kvset_core::units::Bytes;
use kvset_core::window::WindowKind;
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
    /// What the log's cached tokens say of the cache in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredOutput>,
    /// What routers would give, in the order asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routing: Vec<RoutingOutput>,
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
            measured: None,
            routing: Vec::new(),
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
        self.routing.iter_mut().for_each(|routed| routed.capacities.truncate(self.capacities.len()));
    }

    /// The result as tables.
    pub fn render(&self) -> String {
        let mut text = self.headline();
        for (at, required) in self.required.iter().enumerate() {
            let with_room = self.in_flight.as_ref().and_then(|found| found.required.get(at));
            text.push_str(&required.render(with_room));
        }
        if !self.capacities.is_empty() {
            text.push_str(&self.curve());
        }
        if let Some(plan) = &self.plan {
            text.push_str(&plan_table(plan));
        }
        for cost in &self.costs {
            text.push_str(&cost.render());
        }
        if self.windows.len() > 1 {
            text.push_str(&self.window_table());
        }
        self.routing.iter().for_each(|routed| text.push_str(&routed.render()));
        self.measured.iter().for_each(|measured| text.push_str(&measured.render()));
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
