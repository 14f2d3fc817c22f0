//! `cargo bench --bench lifetimes`: what it costs to follow retention, eviction ages and tier traffic beside the
//! engine, and what the offline optimum costs beside the engine's own pass. Prints ratios; needs the shared traces.

#[path = "../tests/support/shared.rs"]
#[allow(dead_code)]
mod shared;

use kvset::core::engines::one_pass::{Engine, EngineConfig};
use kvset::core::questions::lifetimes::{Arrival, Backlog, Lifetimes};
use kvset::core::questions::optimum::ReuseLog;
use kvset::core::questions::retention::{Retention, RetentionConfig, RetentionResult, RetentionTally, Ttl};
use kvset::core::questions::tiers::{Inclusion, TierSpan, TrafficLog};
use kvset::core::request::event::RequestEvent;
use kvset::core::request::outcome::Outcome;
use kvset::core::units::pages::{PageIds, Scope};
use kvset::core::units::ratio::Ratio;
use kvset::core::units::{EventTime, PageCount, PageSize};
use kvset::trace::{self, ReadOptions, TraceItem};
use std::hint::black_box;
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

    /// The engine's pass, each outcome handed on.
    fn engine(&self, mut each: impl FnMut(EventTime, &Outcome)) -> Engine {
        let mut engine = Engine::new(EngineConfig::default());
        let (page_size, mut outcome) = (PageSize::new(64).expect("not zero"), Outcome::default());
        for event in self.events() {
            engine.observe(&event, page_size, &mut outcome).expect("accepted");
            each(event.event_time, &outcome);
        }
        engine
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

fn config(distinct: u64) -> RetentionConfig {
    let ttls = ["10s", "1m", "5m", "15m", "1h", "4h", "1d", "3d"];
    RetentionConfig {
        ttls: ttls.map(|ttl| ttl.parse::<Ttl>().expect("a time")).into(),
        capacities: capacities(32, distinct),
        targets: vec![Ratio::per_mille(990)],
        most_ages: kvset::core::questions::retention::MOST_AGES,
    }
}

fn follow(load: &Load, rules: &RetentionConfig) {
    let bound = PageCount(1 << 31);
    let mut lifetimes = Lifetimes::new(bound, Some(Retention::new(rules.clone())), None);
    let (mut tally, mut traffic) = (RetentionTally::new(rules.shape()), TrafficLog::default());
    let mut backlog = Backlog::default();
    let mut observe = |arrival: &Arrival<'_>, outcome: &Outcome| {
        lifetimes.observe(arrival, outcome);
        tally.add(lifetimes.retention().expect("asked for").followed());
    };
    load.engine(|event_time, outcome| {
        traffic.observe(event_time, outcome);
        if backlog.push(&Arrival { event_time, tenant: None, counted: true }, outcome) {
            backlog.drain(&mut observe);
        }
    });
    backlog.drain(&mut observe);
    let coverages = [500, 900, 950, 990, 999].map(Ratio::per_mille);
    black_box(RetentionResult::of(&tally, rules, &coverages, Ratio::ONE));
    black_box(traffic.traffic(TierSpan { above: 8192, own: 8192, inclusion: Inclusion::Exclusive }, 0));
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
        let (mut reuse, mut runs) = (ReuseLog::default(), 0);
        let engine = load.engine(|_, outcome| {
            reuse.observe(outcome);
            runs += outcome.runs.len();
        });
        let distinct = engine.stack().accumulated_pages().0;
        println!("{name}: {} requests, {runs} runs, {distinct} distinct pages", load.requests.len());
        let alone = || drop(black_box(load.engine(|_, _| ())));
        let rules = config(distinct);
        let times = medians(alone, || follow(&load, &rules));
        report("the engine; with 8 times to live, 32 ages and tier traffic", times);
        let sizes = capacities(64, distinct);
        let optimum = || {
            let mut reuse = ReuseLog::default();
            load.engine(|_, outcome| reuse.observe(outcome));
            let logged = Instant::now();
            black_box(reuse.future(0..reuse.requests()).curve(&sizes, 0));
            logged.elapsed()
        };
        let mut own: Vec<Duration> = (0..RUNS).map(|_| optimum()).collect();
        own.sort_unstable();
        let [engine, logged] = medians(alone, || {
            let mut reuse = ReuseLog::default();
            load.engine(|_, outcome| reuse.observe(outcome));
            black_box(reuse);
        });
        report("the engine; with its runs kept", [engine, logged]);
        report("the engine; the optimum at 64 capacities after it", [engine, own[RUNS / 2]]);
    }
}
