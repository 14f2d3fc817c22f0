//! What `kvset replay` prints for people: the answer, what it follows from, and the answer again.

use super::output::{ReplayResult, TraceSummary};
use crate::present::document::{Cell, MOST_SIZES, Section, ShownColumns, Table, spread};
use crate::present::pool;
use crate::present::questions::{climbing, prefix_hits};
use crate::present::terminal::{self, Terminal};
use crate::present::words::{self, BY_TOKENS, hit_rate};
use crate::replay::CacheWritesResult;
use kvset_core::estimate::{CapacityPoint, InFlightFigures, RoomShortage};
use kvset_core::stack::ChainCheck;
use kvset_core::units::Bytes;
use std::fmt::Write as _;

impl ReplayResult<'_> {
    /// The result as people read it. `named`: the capacities were chosen, so each has its row.
    pub fn render(&self, named: bool, terminal: &Terminal) -> String {
        let headline = &self.answer.headline;
        let mut text: String = headline.opening().map(|sentence| terminal.paragraph(sentence)).collect();
        self.draft_head.iter().for_each(|head| text.push_str(&terminal.paragraph(&head.sentence())));
        text.push('\n');
        text.push_str(&self.summary());
        for section in self.sections(named, terminal) {
            text.push_str(&section);
        }
        text.push('\n');
        headline.sentences().for_each(|sentence| text.push_str(&terminal.paragraph(sentence)));
        text
    }

    /// The sections, in the order shown.
    fn sections(&self, named: bool, terminal: &Terminal) -> Vec<String> {
        let section = |found: Section| terminal::section(&found, terminal);
        let lower = (self.theoretical, &self.facts.estimate.recommended[..]);
        let with_answers = self.with_answers.iter().map(|upper| upper.section(lower, self.trace.page_bytes));
        let mut all: Vec<String> = Vec::new();
        all.extend(pool::windows(&self.facts).filter(|_| self.windows.len() > 1).map(section));
        all.extend((!self.capacities.is_empty()).then(|| self.curve(named, terminal)));
        all.extend(pool::required(&self.facts).map(section));
        all.extend(pool::traffic(&self.facts).map(section));
        all.extend(self.costs.iter().map(|cost| section(cost.section())));
        all.extend(with_answers.map(section));
        all.extend(pool::plan(&self.facts).map(section));
        all.extend(self.facts.questions().map(|found| terminal::section(found, terminal)));
        all
    }

    fn summary(&self) -> String {
        let trace = &self.trace;
        let mut text = String::new();
        // Writing to a string cannot fail.
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "{name:<22}{value}");
        };
        line("requests", words::integer(trace.requests));
        if trace.warm_up_requests > 0 {
            line("warm-up requests", words::integer(trace.warm_up_requests));
        }
        if let Some(times) = &trace.times {
            line("times", times.words());
        }
        line("order", trace.order.words());
        line("page accesses", words::integer(trace.page_accesses));
        line("distinct pages", self.footprint());
        line("page size", page_size(trace));
        line("engine", engine(trace));
        if let Some(reason) = self.approximation {
            line("approximation", reason.to_owned());
        }
        let unlimited = match trace.page_accesses {
            0 => "unknown: no page was accessed".to_owned(),
            _ => hit_rate(self.theoretical.prefix_hit_rate, self.theoretical.hit_rate_tokens),
        };
        line("hit rate, unlimited", unlimited);
        if let Some(found) = &self.cache_writes {
            line("cache writes", cache_writes(found));
        }
        if let Some(found) = self.in_flight {
            line("others in flight", in_flight(found));
            found.without_room.iter().for_each(|found| line("without room", without_room(found)));
        }
        if !trace.passed_over.is_empty() {
            line("passed over", words::integer(trace.passed_over.values().sum()));
        }
        if trace.rejected_rows > 0 {
            line("rejected rows", words::integer(trace.rejected_rows));
        }
        if trace.chain_violations > 0 {
            line(
                "chain violations",
                format!("{} ({})", words::integer(trace.chain_violations), watched(trace.chain_check)),
            );
        }
        text
    }

    fn footprint(&self) -> String {
        let pages = self.trace.distinct_pages;
        let pages_text = words::integer(pages);
        match self.trace.page_bytes {
            Some(page) => format!("{pages_text} ({})", Bytes(pages.saturating_mul(page))),
            None => pages_text,
        }
    }

    /// The curve: drawn where the terminal has room for it, then its figures.
    fn curve(&self, named: bool, terminal: &Terminal) -> String {
        let known: Vec<_> = self.capacities.iter().map(|result| result.point.clone()).collect();
        let points: Vec<&CapacityPoint> =
            if named { known.iter().collect() } else { telling_rows(&known, self.facts.counted().collect()) };
        let how = if self.pointwise { ", each modelled on its own" } else { "" };
        let page_bytes = self.trace.page_bytes;
        let times = |times: f64| Cell::Figure(words::factor(times));
        let columns: ShownColumns<'_, CapacityPoint> = &[
            (named, "capacity", &|point| Cell::named(point, page_bytes)),
            (!named, "capacity", &|point| Cell::Pages(point.pages, page_bytes)),
            (page_bytes.is_some(), "pages", &|point| Cell::Count(point.pages)),
            (true, "hit rate", &|point| Cell::of_point(point, point.prefix_hit_rate, Cell::Rate)),
            (true, BY_TOKENS, &|point| Cell::of_point(point, point.hit_rate_tokens, Cell::Rate)),
            (true, "of reusable", &|point| Cell::of_point(point, point.reuse_hit_rate, Cell::Rate)),
            (true, "prefill throughput", &|point| {
                Cell::of_point(point, point.relative_prefill_throughput, times)
            }),
            (!named, "enough for", &|point| self.enough_for(point.pages).into()),
        ];
        let table = Table::of_shown(format!("Hit rate by capacity{how}"), points, columns);
        let table = table.spare(&["of reusable", "prefill throughput", BY_TOKENS]);
        let away = self.capacities.iter().filter(|point| point.turned_away_requests > Some(0)).count();
        let away = match away {
            0 => String::new(),
            count => terminal.paragraph(&format!(
                "Requests larger than the whole cache were turned away at the {count} smallest of these capacities."
            )),
        };
        format!("\n{}{}{away}", self.plot(terminal), terminal::captioned(&table, terminal))
    }

    /// `95 %, 99 %`: the shares of requests a capacity is recommended for; that it is what there is today.
    fn enough_for(&self, pages: u64) -> String {
        let exactly = self.facts.estimate.recommendations().iter().filter(|entry| entry.pages == Some(pages));
        let today = self.facts.provisioned_pages().filter(|held| *held == pages);
        let today = today.map(|_| "(provisioned)".to_owned());
        let named = exactly.map(|entry| words::share(entry.coverage)).chain(today);
        named.collect::<Vec<_>>().join(", ")
    }

    /// The curve as a drawing, where the terminal has room for one and more than dots follows.
    fn plot(&self, terminal: &Terminal) -> String {
        if self.pointwise {
            return String::new();
        }
        let size = |pages| words::capacity(pages, self.trace.page_bytes);
        let known: Vec<_> = self.capacities.iter().map(|result| result.point.clone()).collect();
        let marker = self.answer.numbers.as_ref().and_then(|answer| {
            let pages = answer.pages?;
            Some((pages, format!("{}: {}", words::share(answer.coverage), size(pages))))
        });
        let points = climbing(&known, prefix_hits).iter().chain(self.facts.counted());
        terminal::curve(points, marker, &size, terminal)
    }
}

/// Tokens written, and how long each is kept, as the log says.
fn cache_writes(found: &CacheWritesResult) -> String {
    let classes = [
        (found.five_minute_tokens, "kept 5 minutes"),
        (found.one_hour_tokens, "kept an hour"),
        (found.unstated_tokens, "kept for a time not stated"),
    ];
    let told = classes.into_iter().filter(|(tokens, _)| *tokens > 0);
    let told: Vec<String> = told.map(|(tokens, what)| format!("{} {what}", words::integer(tokens))).collect();
    let classes = if told.is_empty() { String::new() } else { format!(": {}", told.join(", ")) };
    format!("{} tokens by {} requests{classes}", words::integer(found.tokens), words::integer(found.requests))
}

/// At most [`MOST_SIZES`] points where the curve climbs, those at recommended capacities among them.
fn telling_rows<'a>(
    points: &'a [CapacityPoint],
    mut counted: Vec<&'a CapacityPoint>,
) -> Vec<&'a CapacityPoint> {
    counted.drain(..counted.len().saturating_sub(MOST_SIZES / 2));
    let mut rows: Vec<_> = spread(climbing(points, prefix_hits), MOST_SIZES - counted.len()).collect();
    rows.retain(|point| counted.iter().all(|other| other.pages != point.pages));
    rows.extend(counted);
    rows.sort_by_key(|point| point.pages);
    rows
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
fn in_flight(found: &InFlightFigures) -> String {
    let pages = found.max_pages.map_or_else(|| "beyond".to_owned(), words::integer);
    let size = found.max_bytes.map(|size| format!(" ({})", Bytes(size))).unwrap_or_default();
    let usual = found.mean_pages.zip(found.p99_pages).map_or_else(String::new, |(mean, p99)| {
        format!(", {} on average, {} at p99", words::integer(mean.round() as u64), words::integer(p99))
    });
    format!("at most {}, holding {pages} pages{size}{usual}", words::integer(found.max_requests))
}

/// `at 700 pages 94 requests (2.4 %) waited or were preempted: more was in flight`.
fn without_room(found: &RoomShortage) -> String {
    format!(
        "at {} pages {} ({}) waited or were preempted: more was in flight",
        words::integer(found.pages),
        words::counted(found.requests, "request", "requests"),
        words::rate(found.share)
    )
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
