//! `cargo bench --bench sampling`: what a sample of the pages makes of the required capacities and of the
//! hit-rate curve, alongside the exact result, on the traces of `KVSET_SHARED` or on generated traffic.
//!
//! Which pages are followed hangs on their ids, so other ids for the same pages give another sample. Each
//! figure is the worst and the root mean square over several of them, the trace's own ids first; alongside
//! it stands the standard error that the output states.

use kvset::core::estimate::Estimate;
use kvset::core::estimate::config::PoolConfig;
use kvset::core::pool::{Arrival, Pool};
use kvset::core::request::event::RequestEvent;
use kvset::core::units::Offset;
use kvset::core::units::pages::{PageIds, mix};
use kvset::core::units::ratio::Ratio;
use kvset::core::units::window::WindowKind;
use kvset::trace::{self, ReadOptions, TraceItem};
use kvset::workload::{Generator, Workload};
use kvset_core::engines::config::CacheConfig;
use std::path::PathBuf;
use std::sync::Arc;

const TRACES: [(&str, &str); 3] = [
    ("week of coding sessions", "weka_claude_code_week.jsonl.zst"),
    ("710 sessions, one after another", "weka_claude_code_sessions.jsonl.zst"),
    ("Mooncake synthetic", "mooncake_synthetic_trace.jsonl"),
];
const RATES: [&str; 3] = ["0.1", "0.03", "0.01"];
const COVERAGES: [&str; 3] = ["0.95", "0.99", "0.999"];
/// Samples a rate.
const SAMPLES: usize = 16;
/// Requests of generated traffic.
const GENERATED: usize = 20_000;

/// One pool for each sample, and the exact one.
struct Pools {
    exact: Pool,
    /// By rate, then by sample.
    sampled: Vec<Vec<Pool>>,
    ids: Vec<u64>,
    requests: i64,
}

impl Pools {
    fn new() -> Self {
        let pool = |rate: &str| {
            let parse = |text: &str| text.parse::<Ratio>().expect("a share");
            let steps = (6..22).flat_map(|doubling| [2_u64 << doubling, 3 << doubling]);
            let config = PoolConfig {
                cache: CacheConfig {
                    sample_rate: parse(rate),
                    coverages: COVERAGES.map(parse).into(),
                    capacities: steps.map(|pages| format!("{pages}p").parse().expect("a capacity")).collect(),
                    ..CacheConfig::default()
                },
                windows: vec![WindowKind::All],
                publish_every_ms: 0,
                ..PoolConfig::default()
            };
            Pool::new("trace", 0, Arc::new(config)).expect("usable")
        };
        let samples = |rate: &&str| (0..SAMPLES).map(|_| pool(rate)).collect();
        Self { exact: pool("1"), sampled: RATES.iter().map(samples).collect(), ids: Vec::new(), requests: 0 }
    }

    fn observe(&mut self, event: &RequestEvent<'_>) {
        let arrival = Arrival { offset: Offset(self.requests), counted: true, watermark: None };
        self.requests += 1;
        self.exact.observe(event, arrival).expect("a sound request");
        for sample in 0..SAMPLES {
            // The first sample is the one a user gets.
            let salt = if sample == 0 { 0 } else { mix(sample as u64) };
            self.ids.clear();
            self.ids.extend(event.page_ids.iter().map(|id| if salt == 0 { id } else { mix(id ^ salt) }));
            let event = RequestEvent { page_ids: PageIds::from_slice(&self.ids), ..*event };
            for rate in &mut self.sampled {
                rate[sample].observe(&event, arrival).expect("a sound request");
            }
        }
    }

    fn report(&mut self, name: &str) {
        let end = Offset(self.requests);
        let exact = whole(&mut self.exact, end);
        println!("\n{name}: {} requests, {} pages", exact.requests, exact.accumulated_pages);
        println!(
            "{:>6}  {:>32}  {:>32}  {:>32}  {:>24}",
            "rate", "p95: own, rms, worst (stated)", "p99", "p99.9", "curve: own, worst (at)"
        );
        for (rate, pools) in RATES.iter().zip(&mut self.sampled) {
            let samples: Vec<_> = pools.iter_mut().map(|pool| whole(pool, end)).collect();
            let columns = (0..COVERAGES.len()).map(|coverage| required(&exact, &samples, coverage));
            let columns: Vec<_> = columns.map(|text| format!("  {text:>32}")).collect();
            println!("{rate:>6}{}  {:>24}", columns.concat(), curve(&exact, &samples));
        }
        let pages: Vec<_> = (0..COVERAGES.len()).map(|coverage| capacity(&exact, coverage)).collect();
        println!("{:>6}  exact: {pages:?} pages", "1");
    }
}

/// The estimate over the whole trace.
fn whole(pool: &mut Pool, end: Offset) -> Estimate {
    let mut estimates = Vec::new();
    pool.finish(end, &mut estimates);
    estimates.pop().expect("a request was counted")
}

/// The capacity required at the coverage with this index, in pages.
fn capacity(estimate: &Estimate, coverage: usize) -> f64 {
    estimate.required[0].coverage[coverage].pages.expect("within the bound") as f64
}

/// Relative errors of the required capacity.
fn required(exact: &Estimate, samples: &[Estimate], coverage: usize) -> String {
    let truth = capacity(exact, coverage);
    let errors: Vec<_> = samples.iter().map(|sample| capacity(sample, coverage) / truth - 1.0).collect();
    let square: f64 = errors.iter().map(|error| error * error).sum();
    let rms = (square / errors.len() as f64).sqrt();
    let worst = errors.iter().fold(0.0_f64, |worst, error| worst.max(error.abs()));
    let stated = samples[0].error_of(capacity(&samples[0], coverage) as u64);
    format!("{} {} {} ({})", signed(errors[0]), percent(rms), percent(worst), percent(stated))
}

/// Absolute errors of the hit rate, each the largest over the capacities.
fn curve(exact: &Estimate, samples: &[Estimate]) -> String {
    let largest = |sample: &Estimate| {
        let points = exact.capacities.iter().zip(&sample.capacities);
        let error = |(exact, sample): (&_, &_)| (rate(exact) - rate(sample)).abs();
        let errors = points.map(|(exact, sample)| (error((exact, sample)), exact.pages));
        errors.max_by(|one, other| one.0.total_cmp(&other.0)).expect("a capacity")
    };
    let own = largest(&samples[0]);
    let worst = samples.iter().map(largest).max_by(|one, other| one.0.total_cmp(&other.0)).expect("a sample");
    format!("{} {} ({})", percent(own.0), percent(worst.0), worst.1)
}

fn rate(point: &kvset::core::estimate::CapacityPoint) -> f64 {
    point.page_hit_rate.expect("within the bound")
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

fn signed(share: f64) -> String {
    format!("{:+.2} %", share * 100.0)
}

fn shared(file: &str) -> Option<PathBuf> {
    let root = std::env::var_os("KVSET_SHARED").map(PathBuf::from)?;
    Some(root.join("traces").join(file)).filter(|path| path.is_file())
}

fn main() {
    let found: Vec<_> = TRACES.iter().filter_map(|(name, file)| Some((name, shared(file)?))).collect();
    if found.is_empty() {
        println!("no traces under KVSET_SHARED: generated traffic");
        let mut pools = Pools::new();
        for request in Generator::new(Workload::default()).expect("valid").take(GENERATED) {
            pools.observe(&request.as_row().event);
        }
        pools.report("generated");
    }
    for (name, path) in found {
        let mut reader = trace::open(&[path], &ReadOptions::default()).expect("a trace");
        let mut pools = Pools::new();
        loop {
            match reader.next_item().expect("a readable trace") {
                Some(TraceItem::Request(row)) => pools.observe(&row.event),
                Some(TraceItem::Refused(error)) => panic!("{error}"),
                None => break,
            }
        }
        pools.report(name);
    }
}
