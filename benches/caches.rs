//! The caches by their own rules at one capacity, in runs of pages, beside a page-at-a-time model of the same
//! rules: `cargo bench --bench caches`. Prints the ratio; needs the shared traces.

#[path = "../tests/support/shared.rs"]
#[allow(dead_code)]
mod shared;
#[path = "../tests/support/slow_hybrid.rs"]
#[allow(dead_code)]
mod slow_hybrid;

use kvset::core::event::RequestEvent;
use kvset::core::hybrid::{Attention, GroupKind, HybridCache, HybridRules, Retention};
use kvset::core::pages::PageIds;
use kvset::core::profile::Outputs;
use kvset::core::units::{PageCount, PageSize};
use shared::{TraceRow, mooncake_trace};
use slow_hybrid::{Kind, Retain, SlowHybrid};
use std::time::{Duration, Instant};

/// Pages of so many tokens in the trace.
const LOGGED_PAGE: u64 = 512;

/// The best of this many runs is printed.
const RUNS: usize = 3;

/// The trace at a smaller page: each logged page becomes so many that belong together.
fn at_page(trace: &[TraceRow], page: u64) -> Vec<TraceRow> {
    let parts = LOGGED_PAGE / page;
    let split = |row: &TraceRow| {
        let ids = row.hash_ids.iter().flat_map(|id| (0..parts).map(move |part| id * parts + part));
        TraceRow {
            input_length: row.input_length,
            output_length: row.output_length,
            hash_ids: ids.take(row.input_length.div_ceil(page) as usize).collect(),
        }
    };
    trace.iter().map(split).collect()
}

fn event(row: &TraceRow) -> RequestEvent<'_> {
    RequestEvent {
        page_ids: PageIds::from_slice(&row.hash_ids),
        input_tokens: Some(row.input_length),
        output_tokens: Some(row.output_length),
        ..RequestEvent::default()
    }
}

/// The shortest time of a few runs, with what they all answer.
fn best(run: impl Fn() -> u64) -> (Duration, u64) {
    let timed = (0..RUNS).map(|_| {
        let start = Instant::now();
        let hits = run();
        (start.elapsed(), hits)
    });
    timed.min().unwrap_or_default()
}

fn fast_hybrid(trace: &[TraceRow], capacity: u64, rules: &HybridRules) -> u64 {
    let mut cache = HybridCache::new(PageCount(capacity), rules.clone()).expect("sound rules");
    trace.iter().map(|row| cache.request(&event(row)).hits).sum()
}

fn slow_hybrid(trace: &[TraceRow], capacity: u64, rules: &HybridRules) -> u64 {
    let kinds = rules.attention.groups().iter().map(|kind| match kind {
        GroupKind::Full => Kind::Full,
        GroupKind::Window(tokens) => Kind::Window(u64::from(*tokens)),
        GroupKind::Mamba => Kind::Mamba,
    });
    let retain = if rules.retention == Retention::All { Retain::All } else { Retain::Ends };
    let (kinds, page) = (kinds.collect::<Vec<_>>(), u64::from(rules.page_size.get()));
    let mut cache = SlowHybrid::new(&kinds, capacity, page, retain, u64::from(rules.prefill_chunk), true);
    let hits = trace.iter().map(|row| cache.request(&row.hash_ids, row.input_length, row.output_length, &[]));
    hits.map(|hits| hits.expect("it fits")).sum()
}

fn report(name: &str, requests: usize, fast: (Duration, u64), slow: (Duration, u64)) {
    assert_eq!(fast.1, slow.1, "{name}: both models find the same");
    let each = |time: Duration| time.as_secs_f64() * 1e6 / requests as f64;
    let ratio = slow.0.as_secs_f64() / fast.0.as_secs_f64();
    println!(
        "{name:<46} {:>8.2} us a request in runs, {:>9.2} us page at a time: {ratio:>6.1} times",
        each(fast.0),
        each(slow.0)
    );
}

fn hybrids(trace: &[TraceRow]) {
    for page in [512u64, 16] {
        let trace = at_page(trace, page);
        let capacity = 10_000 * LOGGED_PAGE / page;
        for groups in ["full+window:128", "full+5*window:1024", "full+3*mamba"] {
            for retention in [Retention::Ends, Retention::All] {
                let rules = HybridRules {
                    attention: groups.parse::<Attention>().expect("groups"),
                    retention,
                    prefill_chunk: 8192,
                    page_size: PageSize::new(page as u32).expect("not zero"),
                    outputs: Outputs::Cached,
                };
                let name = format!("{groups}, {page} tokens, retention {retention}");
                let fast = best(|| fast_hybrid(&trace, capacity, &rules));
                let slow = best(|| slow_hybrid(&trace, capacity, &rules));
                report(&name, trace.len(), fast, slow);
            }
        }
    }
}

fn main() {
    let Some(trace) = mooncake_trace() else { return };
    hybrids(&trace);
}
