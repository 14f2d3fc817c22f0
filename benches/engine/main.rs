//! `cargo bench --bench engine`: the engine beside every other exact way to get the same numbers and
//! SHARDS at 1 %, in one run, as ratios. Results are compared, not only timed.
//!
//! Then the profiles beside one another, which should take about the same time.
//!
//! Set `KVSET_BENCH_PAGES` (default 10000000) for the size of the generated loads, and
//! `KVSET_BENCH_TRACE` to a trace file to compare the profiles on that instead of a generated load.

mod fenwick;
mod loads;
mod profiles;
mod shards;
mod splay;

use fenwick::Fenwick;
use kvset::core::outcome::Outcome;
use kvset::core::pages::{PageIds, Scope};
use kvset::core::stack::{
    Access, ChainCheck, ChainPolicy, LOOK_AHEAD, MAX_TRACKED_PAGES, Order, Stack, StackConfig, look_ahead,
};
use kvset::core::units::PageCount;
use kvset::trace::IdScope;
use loads::Load;
use shards::Shards;
use splay::Splay;
use std::time::{Duration, Instant};

/// Reusable prefix and the capacity it needs, one a request.
type Results = Vec<(u64, u64)>;

/// Times one engine over a load.
fn time(load: &Load, mut access: impl FnMut(Scope, PageIds<'_>) -> (u64, u64)) -> (Duration, Results) {
    let mut results = Vec::with_capacity(load.requests());
    let started = Instant::now();
    for (scope, pages) in load.iter() {
        results.push(access(scope, pages));
    }
    (started.elapsed(), results)
}

/// One fresh run of the engine.
fn run_once(load: &Load, order: Order, chain_policy: ChainPolicy) -> (Duration, Stack, Results) {
    let mut stack = Stack::new(StackConfig {
        order,
        max_tracked_pages: PageCount(MAX_TRACKED_PAGES),
        chain_check: ChainCheck::Sampled,
        chain_policy,
    });
    let mut outcome = Outcome::default();
    let requests: Vec<(Scope, PageIds<'_>)> = load.iter().collect();
    let mut results = Vec::with_capacity(requests.len());
    let started = Instant::now();
    // As the service's workers do, which have a batch of records at hand.
    for batch in requests.chunks(LOOK_AHEAD) {
        look_ahead(batch.iter().filter_map(|&(scope, pages)| stack.upcoming(scope, pages)));
        for &(scope, pages) in batch {
            let access = Access { scope, pages, lookup_limit: pages.len(), ..Access::default() };
            stack.access(&access, &mut outcome).expect("violations are only reported");
            let reusable = outcome.reusable_prefix();
            results.push((reusable, outcome.need_of_prefix(reusable)));
        }
    }
    (started.elapsed(), stack, results)
}

/// The median of several fresh runs of the engine: five, and more of a load that takes milliseconds. Each
/// run's memory is given back before the next, and the first is not counted: what the kernel takes to hand
/// out pages is as long as a short load itself.
fn run_engine(load: &Load, order: Order, chain_policy: ChainPolicy) -> (Duration, Stack, Results) {
    let count = if load.ids.len() < 10_000_000 { 25 } else { 5 };
    let first = run_once(load, order, chain_policy);
    // Lies above the first run's memory, so that the allocator keeps that for the others.
    let _lid = vec![0_u8; 100_000];
    drop(first);
    let mut times: Vec<Duration> = (1..count).map(|_| run_once(load, order, chain_policy).0).collect();
    times.sort_unstable();
    let (_, stack, results) = run_once(load, order, chain_policy);
    (times[times.len() / 2], stack, results)
}

/// The 99 % quantile of the needs, nearest rank.
fn p99(results: &Results) -> u64 {
    let mut needs: Vec<u64> = results.iter().map(|result| result.1).collect();
    needs.sort_unstable();
    needs.get((needs.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0)
}

fn compare(load: &Load) {
    let accesses = load.ids.len() as f64;
    let rate = |elapsed: Duration| accesses / elapsed.as_secs_f64() / 1e6;
    let mut fenwick = Fenwick::new();
    let (yardstick, expected) = time(load, |scope, pages| fenwick.access(scope, pages));
    let distinct = fenwick.distinct();
    println!("\n{}: {} requests, {accesses} page accesses, {distinct} distinct", load.name, load.requests());
    let row = |name: &str, elapsed: Duration, note: String| {
        let ratio = yardstick.as_secs_f64() / elapsed.as_secs_f64();
        println!("  {name:<29} {:>8.1} M accesses/s {ratio:>7.1}x  {note}", rate(elapsed));
    };
    let bytes = |memory: u64| format!("{:.2} bytes a distinct page", memory as f64 / distinct as f64);
    row("page-at-a-time Fenwick", yardstick, bytes(fenwick.memory_bytes()));
    let mut splay = Splay::new();
    let (elapsed, found) = time(load, |scope, pages| splay.access(scope, pages));
    assert!(found == expected, "the splay tree and the Fenwick tree disagree on {}", load.name);
    row("page-at-a-time splay tree", elapsed, "equal results".into());
    let mut shards = Shards::new(0.01);
    let (elapsed, sampled) = time(load, |scope, pages| shards.access(scope, pages));
    let (exact, estimate) = (p99(&expected), p99(&sampled));
    row("SHARDS at 1 %", elapsed, format!("p99 need {estimate} instead of {exact}"));
    for (name, policy) in [("", ChainPolicy::Report), (", ids trusted", ChainPolicy::Trust)] {
        let (elapsed, stack, found) = run_engine(load, Order::RootFirst, policy);
        assert!(found == expected, "the engine and the yardstick disagree on {}", load.name);
        let note = format!("equal results, {}", bytes(stack.memory_bytes()));
        row(&format!("kvset root-first{name}"), elapsed, note);
        let (elapsed, stack, _) = run_engine(load, Order::LeafFirst, policy);
        row(&format!("kvset leaf-first{name}"), elapsed, bytes(stack.memory_bytes()));
    }
}

fn main() {
    if let Some(trace) = std::env::var_os("KVSET_BENCH_TRACE") {
        return profiles::compare_on_trace(trace.into());
    }
    let pages =
        std::env::var("KVSET_BENCH_PAGES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000_000);
    let week = loads::shared_trace("week", "weka_claude_code_week.jsonl.zst", IdScope::Auto);
    week.iter().for_each(compare);
    let sessions = "weka_claude_code_sessions.jsonl.zst";
    let sessions = loads::shared_trace("coding sessions", sessions, IdScope::Session);
    sessions.iter().for_each(compare);
    let agentic = loads::agentic(pages);
    compare(&agentic);
    profiles::compare_on_load(&agentic);
    println!("\nworst cases:");
    for load in loads::worst_cases(pages / 4) {
        compare(&load);
    }
}
