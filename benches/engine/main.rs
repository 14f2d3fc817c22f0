//! `cargo bench --bench engine`: the engine beside a page-at-a-time yardstick, in one run, as ratios.

mod fenwick;

use fenwick::Fenwick;
use kvset::core::outcome::Outcome;
use kvset::core::pages::{PageIds, Scope};
use kvset::core::stack::{Access, ChainCheck, ChainPolicy, MAX_TRACKED_PAGES, Order, Stack, StackConfig};
use kvset::core::units::PageCount;
use std::time::{Duration, Instant};

/// Requests held in memory, so that only the engines are timed.
struct Load {
    name: String,
    ids: Vec<u64>,
    requests: Vec<(usize, Scope)>,
}

impl Load {
    fn iter(&self) -> impl Iterator<Item = (Scope, PageIds<'_>)> {
        let mut start = 0;
        self.requests.iter().map(move |&(end, scope)| {
            let pages = PageIds::from_slice(&self.ids[start..end]);
            start = end;
            (scope, pages)
        })
    }
}

fn stack(order: Order) -> Stack {
    Stack::new(StackConfig {
        order,
        max_tracked_pages: PageCount(MAX_TRACKED_PAGES),
        chain_check: ChainCheck::Sampled,
        chain_policy: ChainPolicy::Report,
    })
}

fn run_engine(load: &Load, order: Order) -> (Duration, Stack, Vec<(u64, u64)>) {
    let mut stack = stack(order);
    let mut outcome = Outcome::default();
    let mut results = Vec::with_capacity(load.requests.len());
    let started = Instant::now();
    for (scope, pages) in load.iter() {
        let access = Access { scope, pages, lookup_limit: pages.len(), ..Access::default() };
        stack.access(&access, &mut outcome).expect("violations are only reported");
        let reusable = outcome.reusable_prefix();
        results.push((reusable, outcome.need_of_prefix(reusable)));
    }
    (started.elapsed(), stack, results)
}

fn week() -> Load {
    let path = format!("{}/../shared/traces/weka_claude_code_week.jsonl.zst", env!("CARGO_MANIFEST_DIR"));
    let text = zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap();
    #[derive(serde::Deserialize)]
    struct Row {
        hash_ids: Vec<u64>,
    }
    let mut load = Load { name: "week".into(), ids: vec![], requests: vec![] };
    for line in text.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        let row: Row = serde_json::from_slice(line).unwrap();
        load.ids.extend(row.hash_ids);
        load.requests.push((load.ids.len(), Scope::GLOBAL));
    }
    load
}

fn main() {
    let load = week();
    let accesses = load.ids.len() as f64;
    let started = Instant::now();
    let mut yardstick = Fenwick::new();
    let expected: Vec<_> = load.iter().map(|(scope, pages)| yardstick.access(scope, pages)).collect();
    let slow = started.elapsed();
    println!(
        "{}: {} accesses, {} distinct; page at a time {:.0} M/s at {:.1} bytes a page",
        load.name,
        load.ids.len(),
        yardstick.distinct(),
        accesses / slow.as_secs_f64() / 1e6,
        yardstick.memory_bytes() as f64 / yardstick.distinct() as f64,
    );
    for order in [Order::RootFirst, Order::LeafFirst] {
        let mut times: Vec<_> = (0..5).map(|_| run_engine(&load, order).0).collect();
        times.sort();
        let (_, stack, found) = run_engine(&load, order);
        assert!(order == Order::LeafFirst || found == expected, "the engine and the yardstick disagree");
        println!(
            "  {order:?}: {:.0} M accesses/s, {:.1} times the yardstick, {:.2} bytes a distinct page",
            accesses / times[2].as_secs_f64() / 1e6,
            slow.as_secs_f64() / times[2].as_secs_f64(),
            stack.memory_bytes() as f64 / stack.tracked_pages().0 as f64,
        );
    }
}
