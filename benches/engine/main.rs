//! `cargo bench --bench engine`: the engine alongside every other exact way to get the same numbers and
//! SHARDS at 1 %, in one run, as ratios. Results are compared, not only timed. Every method is timed in the same
//! way, and meets ids that were written a moment before, as whoever reads a log does; the engine once more with
//! ids that come from memory, since reading those is most of what it does.
//!
//! Then the profiles alongside one another, which should take about the same time.
//!
//! Name one load to compare on that alone: `cargo bench --bench engine -- one-page`.
//!
//! Set `KVSET_BENCH_PAGES` (default 10000000) for the size of the generated loads, and
//! `KVSET_BENCH_TRACE` to a trace file to compare the profiles on that instead of a generated load.

mod fenwick;
mod loads;
mod profiles;
mod shards;
mod splay;

use fenwick::Fenwick;
use kvset::core::request::outcome::Outcome;
use kvset::core::stack::{
    Access, ChainCheck, ChainPolicy, LOOK_AHEAD, MAX_TRACKED_PAGES, Order, Stack, StackConfig, look_ahead,
};
use kvset::core::units::PageCount;
use kvset::core::units::heap::HeapBytes;
use kvset::core::units::pages::{PageIds, Scope};
use loads::{Ids, Load, Request};
use shards::Shards;
use splay::Splay;
use std::process::Command;
use std::time::{Duration, Instant};

/// Reusable prefix and the capacity it needs, one per request.
type Results = Vec<(u64, u64)>;

/// One run of a method over a load.
struct Run<M> {
    elapsed: Duration,
    method: M,
    results: Results,
}

/// A run of a fresh `method` over a load, which answers a batch of requests at a time. Keeping all answers is not
/// timed: it is no part of any method, and writing so far beyond the caches holds up a faster one more.
fn run<M>(
    load: &Load,
    ids: Ids,
    mut method: M,
    answer: impl Fn(&mut M, &[Request<'_>], &mut Results),
) -> Run<M> {
    let (mut elapsed, mut results) = (Duration::ZERO, Vec::with_capacity(load.requests()));
    let mut answers = Vec::with_capacity(load.requests());
    load.batches(ids, |batch| {
        let started = Instant::now();
        answer(&mut method, batch, &mut answers);
        elapsed += started.elapsed();
        results.append(&mut answers);
    });
    Run { elapsed, method, results }
}

/// Time that runs of one method over one load may take together.
const BUDGET: Duration = Duration::from_secs(2);

/// The median of several runs; of one that takes longer than all of them may, that one. Each run's memory is given
/// back before the next, and the first is not counted: what the kernel takes to hand out pages is as long as a short
/// load itself.
fn median<M>(mut run: impl FnMut() -> Run<M>) -> Run<M> {
    let first = run();
    if first.elapsed > BUDGET {
        return first;
    }
    // Lies above the first run's memory, so that the allocator keeps that for the others.
    let _lid = vec![0_u8; 100_000];
    drop(first);
    let mut times = Vec::new();
    loop {
        let last = run();
        times.push(last.elapsed);
        if times.len() == 25 || times.iter().sum::<Duration>() > BUDGET {
            times.sort_unstable();
            return Run { elapsed: times[times.len() / 2], ..last };
        }
    }
}

/// A method that answers one request at a time.
fn run_simple<M>(
    load: &Load,
    new: impl Fn() -> M,
    access: impl Fn(&mut M, Scope, PageIds<'_>) -> (u64, u64),
) -> Run<M> {
    median(|| {
        run(load, Ids::JustWritten, new(), |method, batch, results| {
            results.extend(batch.iter().map(|&(scope, pages)| access(method, scope, pages)));
        })
    })
}

/// The engine.
fn run_engine(load: &Load, ids: Ids, order: Order, ids_chained: bool) -> Run<(Stack, Outcome)> {
    let new = || {
        let config = StackConfig {
            order,
            max_tracked_pages: PageCount(MAX_TRACKED_PAGES),
            chain_check: ChainCheck::Sampled,
            chain_policy: ChainPolicy::Report,
        };
        (Stack::new(config), Outcome::default())
    };
    median(|| {
        run(load, ids, new(), |(stack, outcome), batch, results| {
            // As the service's workers do, which have a batch of records at hand.
            for batch in batch.chunks(LOOK_AHEAD) {
                let upcoming = |&(scope, pages)| stack.upcoming(scope, pages, ids_chained);
                look_ahead(batch.iter().filter_map(upcoming));
                for &(scope, pages) in batch {
                    let lookup_limit = pages.len();
                    let access = Access { scope, pages, ids_chained, lookup_limit, ..Access::default() };
                    stack.access(&access, outcome).expect("violations are only reported");
                    let reusable = outcome.reusable_prefix();
                    results.push((reusable, outcome.need_of_prefix(reusable)));
                }
            }
        })
    })
}

/// The 99 % quantile of the needs, nearest rank.
fn p99(results: &Results) -> u64 {
    let mut needs: Vec<u64> = results.iter().map(|result| result.1).collect();
    needs.sort_unstable();
    needs.get((needs.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0)
}

/// How the engine is run: what its rows are called, where the ids are, and whether their maker declares that they
/// are chained, as an event's `ids_chained` does.
const WAYS: [(&str, Ids, bool); 3] = [
    ("", Ids::JustWritten, false),
    (", ids from memory", Ids::InMemory, false),
    (", ids declared chained", Ids::JustWritten, true),
];

fn compare(load: &Load) {
    let accesses = load.ids.len() as f64;
    let fenwick = run_simple(load, Fenwick::new, Fenwick::access);
    let (baseline, distinct) = (fenwick.elapsed, fenwick.method.distinct());
    println!("\n{}: {} requests, {accesses} page accesses, {distinct} distinct", load.name, load.requests());
    let row = |name: &str, elapsed: Duration, note: String| {
        let rate = accesses / elapsed.as_secs_f64() / 1e6;
        let ratio = baseline.as_secs_f64() / elapsed.as_secs_f64();
        println!("  {name:<38} {rate:>8.1} M accesses/s {ratio:>7.2}x  {note}");
    };
    let bytes = |memory: u64| format!("{:.2} bytes a distinct page", memory as f64 / distinct as f64);
    row("page-at-a-time Fenwick", baseline, bytes(fenwick.method.memory_bytes()));
    let splay = run_simple(load, Splay::new, Splay::access);
    assert!(splay.results == fenwick.results, "the splay and the Fenwick tree disagree on {}", load.name);
    row("page-at-a-time splay tree", splay.elapsed, "equal results".into());
    let shards = run_simple(load, || Shards::new(0.01), Shards::access);
    let (exact, estimate) = (p99(&fenwick.results), p99(&shards.results));
    row("SHARDS at 1 %", shards.elapsed, format!("p99 need {estimate} instead of {exact}"));
    for (way, ids, chained) in WAYS {
        let Run { elapsed, method: (stack, _), results } = run_engine(load, ids, Order::RootFirst, chained);
        assert!(results == fenwick.results, "the engine and the baseline disagree on {}", load.name);
        let note = format!("equal results, {}", bytes(stack.heap_bytes() as u64));
        row(&format!("kvset root-first{way}"), elapsed, note);
        let Run { elapsed, method: (stack, _), .. } = run_engine(load, ids, Order::LeafFirst, chained);
        row(&format!("kvset leaf-first{way}"), elapsed, bytes(stack.heap_bytes() as u64));
    }
}

/// A load by a name, made for so many pages.
type Make = fn(usize) -> Option<Load>;

/// What is compared; the last five are the shapes that hurt most, with a quarter of the pages.
const LOADS: [(&str, Make); 8] = [
    ("week", |_| loads::week()),
    ("sessions", |_| loads::sessions()),
    ("agentic", |pages| Some(loads::agentic(pages))),
    ("cold", |pages| Some(loads::all_cold(pages / 4))),
    ("cold-pages", |pages| Some(loads::cold_pages(pages / 4))),
    ("one-page", |pages| Some(loads::one_page(pages / 4))),
    ("twigs", |pages| Some(loads::twigs(pages / 4))),
    ("fan", |pages| Some(loads::fan(pages / 4))),
];

/// Runs this program again for one load: memory that another left in pieces would slow its methods down.
fn compare_elsewhere(name: &str) {
    let program = std::env::current_exe().expect("the program that runs");
    let status = Command::new(program).arg(name).status().expect("this program again");
    assert!(status.success(), "{name}: {status}");
}

fn main() {
    if let Some(trace) = std::env::var_os("KVSET_BENCH_TRACE") {
        return profiles::compare_on_trace(trace.into());
    }
    let pages =
        std::env::var("KVSET_BENCH_PAGES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000_000);
    let Some(chosen) = std::env::args().skip(1).find(|argument| !argument.starts_with("--")) else {
        return LOADS.iter().for_each(|(name, _)| compare_elsewhere(name));
    };
    let Some((name, make)) = LOADS.iter().find(|(name, _)| *name == chosen) else {
        panic!("no load is called {chosen}: {:?}", LOADS.map(|(name, _)| name));
    };
    let Some(load) = make(pages) else { return };
    compare(&load);
    if *name == "agentic" {
        profiles::compare_on_load(&load);
    }
}
