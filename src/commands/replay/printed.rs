//! What `kvset replay` prints for people: the answer, what it follows from, and the answer again.

use super::output::{ReplayResult, TraceSummary};
use crate::present::terminal::plan::plan_table;
use crate::present::terminal::required::{CapacityResult, recommended_cell, required_table};
use crate::present::terminal::{
    Column, CurvePlot, Sheet, Terminal, bytes, capacity, decimal, known, percent, share_name, thousands,
};
use crate::present::terminal::{restarts, routing, worth};
use crate::present::words::{BY_TOKENS, hit_rate};
use crate::replay::CacheWritesResult;
use kvset_core::estimate::recommendation::{Recommendation, by_target};
use kvset_core::estimate::{CapacityPoint, InFlight};
use kvset_core::stack::ChainCheck;
use kvset_core::units::{Bytes, PageBytes};
use std::fmt::Write as _;

/// Most rows of a curve that nobody chose the capacities of.
pub(super) const MOST_ROWS: usize = 12;

impl ReplayResult {
    /// The result as people read it. `asked`: the capacities were chosen, so each has its row.
    pub fn render(&self, asked: bool, terminal: &Terminal) -> String {
        let headline = &self.answer.headline;
        let mut text: String = headline.opening().map(|sentence| terminal.paragraph(sentence)).collect();
        self.draft_head.iter().for_each(|head| text.push_str(&terminal.paragraph(&head.sentence())));
        text.push('\n');
        text.push_str(&self.summary());
        if self.windows.len() > 1 {
            text.push_str(&self.window_table(terminal));
        }
        if !self.capacities.is_empty() {
            text.push_str(&self.curve(asked, terminal));
        }
        text.push_str(&self.pointwise(terminal));
        for cost in &self.costs {
            text.push_str(&cost.render(terminal));
        }
        for (at, required) in self.required.iter().enumerate() {
            let errors: Vec<_> = required.coverage.iter().map(|entry| entry.sample_error).collect();
            text.push_str(&required_table(&self.facts, at, &errors, terminal));
        }
        let lower = (self.theoretical, &self.recommended[..]);
        let page_bytes = self.trace.page_bytes;
        self.with_answers.iter().for_each(|upper| text.push_str(&upper.render(lower, page_bytes, terminal)));
        if let Some(plan) = &self.plan {
            text.push_str(&plan_table(plan, terminal));
        }
        if let Some(found) = &self.worth {
            let known: Vec<_> = self.capacities.iter().map(|result| &result.point).collect();
            let shown = if asked { known } else { spread(telling(&known), MOST_ROWS) };
            let shown: Vec<u64> = shown.iter().map(|point| point.pages).collect();
            text.push_str(&worth::render(found, &shown, terminal));
        }
        self.restarts.iter().for_each(|found| text.push_str(&restarts::render(found, terminal)));
        text.push_str(&self.lifetimes(terminal));
        for routed in &self.routing {
            let worth = self.routed_worth.iter().find(|found| found.router == routed.asked);
            text.push_str(&routing::render(routed, worth.map(|found| &found.worth), terminal));
        }
        self.measured.iter().for_each(|measured| text.push_str(&measured.render()));
        text.push('\n');
        headline.sentences().for_each(|sentence| text.push_str(&terminal.paragraph(sentence)));
        text
    }

    fn summary(&self) -> String {
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
        if let Some(times) = &trace.times {
            line("times", times.words());
        }
        line("order", trace.order.words());
        line("page accesses", thousands(trace.page_accesses));
        line("distinct pages", self.footprint());
        line("page size", page_size(trace));
        line("engine", engine(trace));
        if let Some(reason) = self.approximation {
            line("approximation", reason.to_owned());
        }
        line(
            "hit rate, unlimited",
            hit_rate(self.theoretical.prefix_hit_rate, self.theoretical.hit_rate_tokens),
        );
        if let Some(found) = &self.cache_writes {
            line("cache writes", cache_writes(found));
        }
        if let Some(found) = &self.in_flight {
            line("others in flight", in_flight(found));
        }
        if !trace.passed_over.is_empty() {
            line("passed over", thousands(trace.passed_over.values().sum()));
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

    fn curve(&self, asked: bool, terminal: &Terminal) -> String {
        let recommended = self.facts.recommended_at(0);
        let points: Vec<CapacityResult> = if asked {
            self.capacities.clone()
        } else {
            let known: Vec<_> = self.capacities.iter().map(|result| &result.point).collect();
            telling_rows(&known, &self.facts.counted).into_iter().map(CapacityResult::from).collect()
        };
        let mut columns = Vec::new();
        columns.extend(asked.then_some(Column::Text("capacity")));
        let in_bytes = self.trace.page_bytes.is_some();
        columns.extend(in_bytes.then_some(Column::Number("size")));
        columns.extend([
            Column::Number("pages"),
            Column::Number("hit rate"),
            Column::Number(BY_TOKENS),
            Column::Number("of reusable"),
            Column::Number("prefill x"),
        ]);
        columns.extend((!asked).then_some(Column::Text("enough for")));
        let mut sheet = Sheet::new(&columns).spare(&["of reusable", "prefill x", BY_TOKENS]);
        for CapacityResult { point, .. } in &points {
            let mut cells = Vec::new();
            cells.extend(asked.then(|| point.label.clone().unwrap_or_default()));
            cells.extend(in_bytes.then(|| bytes(point.bytes)));
            cells.extend([
                thousands(point.pages),
                known(point.prefix_hit_rate, percent, point.beyond_bound),
                known(point.hit_rate_tokens, percent, point.beyond_bound),
                known(point.reuse_hit_rate, percent, point.beyond_bound),
                known(point.relative_prefill_throughput, decimal, point.beyond_bound),
            ]);
            cells.extend((!asked).then(|| self.enough_for(recommended, point.pages)));
            sheet.row(cells);
        }
        let how = if self.pointwise { ", each modelled on its own" } else { "" };
        let away = self.capacities.iter().filter(|point| point.turned_away_requests > Some(0)).count();
        let away = match away {
            0 => String::new(),
            count => format!(
                "requests larger than the whole cache were turned away at the {count} smallest of these capacities\n"
            ),
        };
        let table = sheet.render(terminal);
        format!("\nhit rate by capacity{how}\n{}{table}{away}", self.plot(terminal))
    }

    /// `95 %, 99 %`: the shares of requests a capacity is recommended for; that it is what there is today.
    fn enough_for(&self, recommended: &[Recommendation], pages: u64) -> String {
        let exactly = recommended.iter().filter(|entry| entry.pages == Some(pages));
        let held = self.facts.provisioned.as_ref();
        let held = held.and_then(|held| held.pages(self.facts.page_bytes.map(PageBytes)));
        let today = held.filter(|held| held.0 == pages).map(|_| "(provisioned)".to_owned());
        let named = exactly.map(|entry| share_name(entry.coverage)).chain(today);
        named.collect::<Vec<_>>().join(", ")
    }

    /// The curve as a drawing, where the terminal has room for one and more than dots follows.
    fn plot(&self, terminal: &Terminal) -> String {
        if self.pointwise {
            return String::new();
        }
        let size = |pages| capacity(pages, self.trace.page_bytes);
        let known: Vec<_> = self.capacities.iter().map(|result| &result.point).collect();
        let marker = self.answer.numbers.as_ref().and_then(|answer| {
            let pages = answer.pages?;
            Some((pages, format!("{}: {}", share_name(answer.coverage), size(pages))))
        });
        let points = telling(&known).iter().copied().chain(&self.facts.counted).collect();
        CurvePlot { points, marker, size: &size }.render(terminal)
    }

    fn window_table(&self, terminal: &Terminal) -> String {
        let shares = self.windows.first().map(|window| first_target(&window.recommended)).unwrap_or_default();
        let names: Vec<String> = shares.iter().map(|entry| share_name(entry.coverage)).collect();
        let mut columns = vec![
            Column::Text("window"),
            Column::Number("start ms"),
            Column::Number("end ms"),
            Column::Number("requests"),
        ];
        columns.extend(names.iter().map(|name| Column::Number(name)));
        let mut sheet = Sheet::new(&columns).spare(&["end ms", "requests", "50 %", "90 %", "95 %"]);
        for window in &self.windows {
            let mut cells = vec![
                window.kind.to_string(),
                window.start_ms.to_string(),
                window.end_ms.to_string(),
                thousands(window.requests),
            ];
            cells.extend(
                first_target(&window.recommended)
                    .iter()
                    .map(|entry| recommended_cell(entry, self.trace.page_bytes)),
            );
            sheet.row(cells);
        }
        format!("\nwindows, required capacity by coverage\n{}", sheet.render(terminal))
    }
}

/// The recommended capacities at the first target ratio.
fn first_target(recommended: &[Recommendation]) -> &[Recommendation] {
    by_target(recommended).next().unwrap_or_default()
}

/// Tokens written, and how long each is kept, as the log says.
fn cache_writes(found: &CacheWritesResult) -> String {
    let classes = [
        (found.five_minute_tokens, "kept 5 minutes"),
        (found.one_hour_tokens, "kept an hour"),
        (found.unstated_tokens, "kept for a time not stated"),
    ];
    let told = classes.into_iter().filter(|(tokens, _)| *tokens > 0);
    let told: Vec<String> = told.map(|(tokens, what)| format!("{} {what}", thousands(tokens))).collect();
    let classes = if told.is_empty() { String::new() } else { format!(": {}", told.join(", ")) };
    format!("{} tokens by {} requests{classes}", thousands(found.tokens), thousands(found.requests))
}

/// The part of a curve where it climbs: from the last point that hits next to nothing to the first that
/// hits all that can be hit.
pub(super) fn telling<'a, 'b>(points: &'a [&'b CapacityPoint]) -> &'a [&'b CapacityPoint] {
    let hits = |point: &&CapacityPoint| point.prefix_hits.unwrap_or(0);
    let most = points.iter().map(hits).max().unwrap_or(0);
    let first = points.iter().position(|point| hits(point) > most / 100).unwrap_or(0);
    let end = points.iter().position(|point| hits(point) >= most).map_or(points.len(), |full| full + 1);
    &points[first.saturating_sub(1).min(end)..end]
}

/// At most [`MOST_ROWS`] points where the curve climbs, those at recommended capacities among them.
pub(super) fn telling_rows<'a>(
    points: &[&'a CapacityPoint],
    counted: &'a [CapacityPoint],
) -> Vec<&'a CapacityPoint> {
    let telling = telling(points);
    let counted = &counted[counted.len().saturating_sub(MOST_ROWS / 2)..];
    let mut rows = spread(telling, MOST_ROWS - counted.len());
    rows.retain(|point| counted.iter().all(|other| other.pages != point.pages));
    rows.extend(counted);
    rows.sort_by_key(|point| point.pages);
    rows
}

/// At most so many of the points, the first and the last among them, evenly spaced.
pub(super) fn spread<T: Copy>(points: &[T], most: usize) -> Vec<T> {
    if points.len() <= most || most < 2 {
        return points.iter().copied().take(most.max(1)).collect();
    }
    (0..most).map(|index| points[index * (points.len() - 1) / (most - 1)]).collect()
}

/// `64 tokens, 3.75 MiB`.
pub(super) fn page_size(trace: &TraceSummary) -> String {
    match (trace.page_size, trace.page_bytes) {
        (None, _) => "unknown".to_owned(),
        (Some(tokens), None) => format!("{tokens} tokens"),
        (Some(tokens), Some(bytes)) => format!("{tokens} tokens, {}", Bytes(bytes)),
    }
}

/// `at most 12, holding 3,400 pages (1.00 GiB), 1,210 on average, 2,900 at p99`.
fn in_flight(found: &InFlight) -> String {
    let pages = known(found.max_pages, thousands, true);
    let size = found.max_bytes.map(|size| format!(" ({})", Bytes(size))).unwrap_or_default();
    let usual = found.mean_pages.zip(found.p99_pages).map_or_else(String::new, |(mean, p99)| {
        format!(", {} on average, {} at p99", thousands(mean.round() as u64), thousands(p99))
    });
    format!("at most {}, holding {pages} pages{size}{usual}", thousands(found.max_requests))
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
    let options: Vec<_> = trace
        .engine_options
        .iter()
        .map(|(name, value)| format!("{} {value}", name.replace('_', " ")))
        .collect();
    match options.as_slice() {
        [] => trace.engine.to_string(),
        options => format!("{}, {}", trace.engine, options.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_spread_from_the_first_to_the_last() {
        let points: Vec<u32> = (0..69).collect();
        for most in 2..80 {
            let rows = spread(&points, most);
            assert!(rows.len() == most.min(69) && rows[0] == 0 && rows[rows.len() - 1] == 68, "{rows:?}");
            assert!(rows.windows(2).all(|pair| pair[0] < pair[1]), "{rows:?}");
        }
        assert_eq!(spread(&points, 1), [0]);
        assert!(spread::<u32>(&[], 5).is_empty());
    }
}
