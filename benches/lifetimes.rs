//! `cargo bench --bench lifetimes`: what it costs a pool to follow retention, eviction ages and tier traffic of a log
//! that ends, and what the offline optimum costs. Prints ratios; needs the shared traces.

#[path = "../tests/support/shared.rs"]
#[allow(dead_code)]
mod shared;

use kvset::core::engines::config::CacheConfig;
use kvset::core::estimate::config::PoolConfig;
use kvset::core::pool::{Arrival, Pool};
use kvset::core::questions::enabled::Questions;
use kvset::core::questions::question::Horizon;
use kvset::core::questions::reuse::ReuseSetting;
use kvset::core::request::event::RequestEvent;
use kvset::core::sizing::tiers::{Inclusion, TierConfig};
use kvset::core::units::capacity::CapacitySpec;
use kvset::core::units::pages::{PageIds, Scope};
use kvset::core::units::window::WindowKind;
use kvset::core::units::{EventTime, Offset, PageSize};
use kvset::trace::{self, ReadOptions, TraceItem};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Each is timed so often, in turns, and the median told.
const RUNS: usize = 9;

/// A log in memory, so that reading it is not timed.
struct Load {
    ids: Vec<u64>,
    requests: Vec<(usize, Scope, EventTime)>,
}

impl Load {
    fn read(name: &str) -> Option<Self> {
        let path = shared::shared_path(name)?;
        let mut reader = trace::open(&[path], &ReadOptions::default()).expect("a trace");
        let mut load = Self { ids: Vec::new(), requests: Vec::new() };
        while let Some(item) = reader.next_item().expect("rows") {
            let TraceItem::Request(row) = item else { continue };
            load.ids.extend(row.event.page_ids.iter());
            load.requests.push((load.ids.len(), row.event.scope, row.event.event_time));
        }
        Some(load)
    }

    fn events(&self) -> impl Iterator<Item = RequestEvent<'_>> {
        let mut start = 0;
        self.requests.iter().map(move |&(end, scope, event_time)| {
            let page_ids = PageIds::from_slice(&self.ids[start..end]);
            start = end;
            RequestEvent { page_ids, scope, event_time, ..RequestEvent::default() }
        })
    }

    /// The pass of a pool that is asked these questions of a log that ends.
    fn pass(&self, config: &Arc<PoolConfig>) -> Pool {
        let mut pool = Pool::new("bench", 0, Arc::clone(config)).expect("a pool");
        for (at, event) in self.events().enumerate() {
            let arrival = Arrival { offset: Offset(at as i64), counted: true, watermark: None };
            pool.observe(&event, arrival).expect("accepted");
        }
        pool
    }
}

fn timed(run: impl FnOnce()) -> Duration {
    let started = Instant::now();
    run();
    started.elapsed()
}

/// The medians of two runs, taken in turns.
fn medians(mut one: impl FnMut(), mut other: impl FnMut()) -> [Duration; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        times[0].push(timed(&mut one));
        times[1].push(timed(&mut other));
    }
    times.map(|mut times| {
        times.sort_unstable();
        times[RUNS / 2]
    })
}

/// So many capacities, evenly spaced on a logarithmic scale up to `most`.
fn capacities(count: u32, most: u64) -> Vec<u64> {
    (1..=count).map(|at| (most as f64).powf(f64::from(at) / f64::from(count)).round() as u64).collect()
}

fn tier(name: &str, coverage: &str) -> TierConfig {
    TierConfig {
        name: name.to_owned(),
        coverage: coverage.parse().expect("a share"),
        inclusion: Inclusion::Exclusive,
        unit: CapacitySpec::of_pages(8192),
        unit_price: None,
    }
}

fn of(reuse: ReuseSetting) -> Questions {
    Questions { reuse, ..Questions::default() }
}

fn config(capacities: &[u64], questions: Questions) -> Arc<PoolConfig> {
    Arc::new(PoolConfig {
        cache: CacheConfig {
            page_size: PageSize::new(64),
            capacities: capacities.iter().copied().map(CapacitySpec::of_pages).collect(),
            ..CacheConfig::default()
        },
        windows: vec![WindowKind::All],
        tiers: vec![tier("device", "0.9"), tier("host", "0.99")],
        questions: Questions { horizon: Horizon::Finite, ..questions },
        ..PoolConfig::default()
    })
}

fn finish(mut pool: Pool) {
    let mut estimates = Vec::new();
    pool.finish(Offset(i64::MAX), &mut estimates);
    black_box(estimates);
}

fn report(name: &str, [one, other]: [Duration; 2]) {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let ratio = other.as_secs_f64() / one.as_secs_f64();
    println!("{name:<62} {:>9.2} ms, {:>9.2} ms: {ratio:>5.2} times", ms(one), ms(other));
}

fn main() {
    for (name, file) in [
        ("a week of coding sessions", "traces/weka_claude_code_week.jsonl.zst"),
        ("710 coding sessions", "traces/weka_claude_code_sessions.jsonl.zst"),
    ] {
        let Some(load) = Load::read(file) else { continue };
        let nothing = config(&[], Questions::default());
        let distinct = load.pass(&nothing).accumulated_pages().0;
        println!("{name}: {} requests, {distinct} distinct pages", load.requests.len());
        let alone = || finish(load.pass(&nothing));
        let ttls = ["10s", "1m", "5m", "15m", "1h", "4h", "1d", "3d"];
        let ttls = ttls.map(|ttl| ttl.parse().expect("a time")).into();
        let times = config(
            &capacities(32, distinct),
            of(ReuseSetting { ttls, traffic: true, ..ReuseSetting::default() }),
        );
        let lived = || finish(load.pass(&times));
        report("the pool; with 8 times to live, 32 ages and tier traffic", medians(alone, lived));
        let sizes = capacities(64, distinct);
        let foresight = config(&sizes, of(ReuseSetting { optimal: true, ..ReuseSetting::default() }));
        let kept = || drop(black_box(load.pass(&foresight)));
        report("the pool; with its runs kept", medians(alone, kept));
        let optimum = || finish(load.pass(&foresight));
        report("the pool; with its runs kept and the optimum at 64 capacities", medians(alone, optimum));
    }
}
