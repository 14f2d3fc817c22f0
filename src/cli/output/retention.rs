//! Retention, as scripts read it and as tables (WHATIF 2).

use crate::cli::output::{Column, Sheet, Terminal, bytes, capacity, known, percent, share_name, thousands};
use crate::report::words::lasting;
use kvset_core::curve::share;
use kvset_core::estimate::Estimate;
use kvset_core::ratio::Ratio;
use kvset_core::retention::{EvictionAge, RetentionPoint, RetentionResult};
use kvset_core::window::format_duration_ms;
use serde::Serialize;

/// A cache that keeps pages for so long. Numbers that hang on pages which were forgotten are `null`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RetentionOutput {
    /// How long.
    pub ttl_ms: u64,
    /// After the last use (`sliding`) or after the write (`fixed`).
    pub kind: &'static str,
    /// Accesses that hit.
    pub page_hits: Option<u64>,
    /// Pages in the leading runs of hits.
    pub prefix_hits: Option<u64>,
    /// Page hits a page access.
    pub page_hit_rate: Option<f64>,
    /// Pages held, over the time from the first to the last request.
    pub mean_pages: Option<f64>,
    /// Most pages held at a time.
    pub peak_pages: Option<u64>,
    /// The same in bytes, where a cost a token is known.
    pub mean_bytes: Option<f64>,
    /// The same in bytes, where a cost a token is known.
    pub peak_bytes: Option<u64>,
    /// Share of the requests that find enough at the first target ratio; of sliding ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub covered: Option<f64>,
    /// With so much room only; of sliding ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capacities: Vec<RetainedCapacityOutput>,
}

/// A capacity that drops what is older than a time to live, too.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RetainedCapacityOutput {
    /// The capacity.
    pub pages: u64,
    /// Accesses that hit.
    pub page_hits: Option<u64>,
    /// Share of the arrivals after which it held all that the time to live promises.
    pub honoured: Option<f64>,
}

/// How long pages must be kept at one target ratio.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequiredTtlOutput {
    /// Share of the reusable prefix a request must find.
    pub target_ratio: Ratio,
    /// Exact quantiles.
    pub coverage: Vec<TtlCoverageOutput>,
}

/// The smallest sliding time to live that is enough for a share of the requests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TtlCoverageOutput {
    /// The share.
    pub coverage: Ratio,
    /// In milliseconds; `null` where the tracked bound hides it.
    pub ttl_ms: Option<u64>,
}

/// How long a page lives unused in a capacity; `null` where it drops nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EvictionAgeOutput {
    /// In one of ten arrivals it is less.
    pub p10: Option<u64>,
    /// The median.
    pub p50: Option<u64>,
    /// In nine of ten arrivals it is less.
    pub p90: Option<u64>,
}

impl From<&EvictionAge> for EvictionAgeOutput {
    fn from(age: &EvictionAge) -> Self {
        Self { p10: age.p10, p50: age.p50, p90: age.p90 }
    }
}

/// What a replay says of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RetentionOutputs {
    /// One a time to live and kind.
    pub points: Vec<RetentionOutput>,
    /// One a target ratio.
    pub required: Vec<RequiredTtlOutput>,
}

impl RetentionOutputs {
    /// The output over some requests of a replay, and what their estimate says.
    pub fn of(result: &RetentionResult, estimate: &Estimate) -> Self {
        let required = result.required.iter().map(|required| RequiredTtlOutput {
            target_ratio: required.target_ratio,
            coverage: required
                .coverage
                .iter()
                .map(|found| TtlCoverageOutput { coverage: found.coverage, ttl_ms: found.ttl_ms })
                .collect(),
        });
        Self {
            points: result.points.iter().map(|point| RetentionOutput::of(point, estimate)).collect(),
            required: required.collect(),
        }
    }
}

impl RetentionOutput {
    fn of(point: &RetentionPoint, estimate: &Estimate) -> Self {
        let (page_bytes, accesses) = (estimate.page_bytes, estimate.page_accesses);
        let capacities = estimate.capacities.iter().zip(&point.capacities).map(|(size, found)| {
            RetainedCapacityOutput { pages: size.pages, page_hits: found.page_hits, honoured: found.honoured }
        });
        Self {
            ttl_ms: point.ttl.ms(),
            kind: point.kind.name(),
            page_hits: point.page_hits,
            prefix_hits: point.page_hits,
            page_hit_rate: point.page_hits.map(|hits| share(hits, accesses)),
            mean_pages: point.mean_pages,
            peak_pages: point.peak_pages,
            mean_bytes: point.mean_pages.zip(page_bytes).map(|(pages, page)| pages * page as f64),
            peak_bytes: point.peak_pages.zip(page_bytes).map(|(pages, page)| pages.saturating_mul(page)),
            covered: point.covered,
            capacities: capacities.collect(),
        }
    }
}

/// The times to live as a table, and what coverage asks for.
pub fn retention_table(outputs: &RetentionOutputs, page_bytes: Option<u64>, terminal: &Terminal) -> String {
    let mut sheet = Sheet::new(&[
        Column::Text("kept for"),
        Column::Text("after"),
        Column::Number("hit rate"),
        Column::Number("covered"),
        Column::Number("mean held"),
        Column::Number("peak held"),
    ]);
    for point in &outputs.points {
        let size = |pages: u64| capacity(pages, page_bytes);
        sheet.row([
            format_duration_ms(point.ttl_ms),
            if point.kind == "fixed" { "the write" } else { "the last use" }.to_owned(),
            known(point.page_hit_rate, percent, true),
            known(point.covered, percent, false),
            known(point.mean_pages.map(|pages| pages.ceil() as u64), size, true),
            known(point.peak_pages, size, true),
        ]);
    }
    let mut text = format!("\nretention: pages kept for a time, however many\n{}", sheet.render(terminal));
    for required in &outputs.required {
        let mut sheet = Sheet::new(&[Column::Text("coverage"), Column::Number("kept for")]);
        for found in &required.coverage {
            sheet.row([share_name(found.coverage), known(found.ttl_ms, lasting, true)]);
        }
        text.push_str(&format!(
            "\nhow long pages must be kept at target ratio {}\n{}",
            required.target_ratio,
            sheet.render(terminal)
        ));
    }
    text
}

/// The ages at which capacities evict, and what they keep of promises, as a table.
pub fn eviction_table(
    ages: &[(u64, Option<u64>, EvictionAgeOutput)],
    points: &[RetentionOutput],
    terminal: &Terminal,
) -> String {
    let sliding: Vec<_> = points.iter().filter(|point| !point.capacities.is_empty()).take(3).collect();
    let names: Vec<_> =
        sliding.iter().map(|point| format!("keeps {}", format_duration_ms(point.ttl_ms))).collect();
    let in_bytes = ages.iter().any(|(_, size, _)| size.is_some());
    let mut columns = Vec::new();
    columns.extend(in_bytes.then_some(Column::Number("size")));
    columns.extend(["pages", "age p10", "p50", "p90"].map(Column::Number));
    columns.extend(names.iter().map(|name| Column::Number(name)));
    let mut sheet = Sheet::new(&columns).spare(&["p90", "age p10"]);
    for (pages, size, found) in ages {
        let mut cells = Vec::new();
        cells.extend(in_bytes.then(|| bytes(*size)));
        cells.push(thousands(*pages));
        cells.extend([found.p10, found.p50, found.p90].map(|age_ms| known(age_ms, lasting, false)));
        cells.extend(sliding.iter().map(|point| {
            let honoured = point.capacities.iter().find(|capacity| capacity.pages == *pages);
            known(honoured.and_then(|found| found.honoured), percent, false)
        }));
        sheet.row(cells);
    }
    format!("\nhow long unused pages live, and how often a promise is kept\n{}", sheet.render(terminal))
}
