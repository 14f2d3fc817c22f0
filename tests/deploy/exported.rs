//! What a running service really exports, against what the dashboard and the alerts ask for.

use super::kafka_support::{Broker, Input, StopAfter};
use super::queries;
use super::running::{EndlessCache, Running, SOON};
use kvset::service::estimating::serve;
use kvset::service::events::{Observer, ServiceEvent};
use kvset::service::shutdown::Shutdown;
use kvset::settings::{Settings, TokenCost};
use kvset::telemetry::service_metrics::ServiceMetrics;
use kvset::telemetry::{Health, catalog, recorder};
use kvset::workload::{Generator, Workload};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is exported only by services that serve HTTP, write snapshots, plan tiers, read events with durations, or
/// wait at the end of the log for the next record; the test of a whole program below makes these.
const CONDITIONAL: [&str; 9] = [
    "kvset_build_info",
    "kvset_schema_registry_up",
    "kvset_ready",
    "kvset_snapshot_",
    "kvset_recommended_",
    "kvset_tier_",
    "kvset_in_flight_",
    "kvset_consumer_lag_records",
    "process_",
];

/// The service's own metrics, and an end after so many records.
struct Watched {
    metrics: ServiceMetrics,
    stop: StopAfter,
}

impl Observer for Watched {
    fn on(&self, event: &ServiceEvent<'_>) {
        self.metrics.on(event);
        self.stop.on(event);
    }
}

/// Runs the service on an embedded broker and gives what `/metrics` then answers.
fn scrape() -> String {
    let recorder = recorder().expect("a recorder");
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).expect("the only recorder of this process");
    let mut settings = Settings::default();
    settings.estimate.windows = ["tumbling:1m", "all"].map(|text| text.parse().expect("a window")).to_vec();
    settings.estimate.kv_bytes_per_token = TokenCost::new(61_464.0);
    settings.estimate.capacities = vec!["10GiB".parse().expect("a capacity")];
    settings.estimate.questions.measured = Some(true);
    settings.estimate.questions.routers = Some(vec!["round-robin:2".parse().expect("a router")]);
    settings.estimate.questions.ttls = Some(vec!["5m".parse().expect("a time")]);
    settings.estimate.questions.tenants = Some(2);
    settings.estimate.questions.provisioned = Some("20GiB".parse().expect("a capacity"));
    let broker = Broker::mock();
    let topic = broker.create("requests", 1);
    let mut input = Input::default();
    let mut cache = EndlessCache::default();
    let workload = Workload { start_ms: 36_000_000, sessions_per_day: 4000, ..Workload::default() };
    for request in Generator::new(workload).expect("a workload").take(300) {
        let mut row = request.as_row();
        cache.serve(&mut row.event);
        input.push_row(0, "alpha", &row);
    }
    input.push(0, "alpha", b"no event".to_vec());
    input.produce(&broker.connection, &topic);
    let shutdown = Shutdown::new();
    let watched = Watched {
        metrics: ServiceMetrics::new(Arc::new(Health::new()), 10, settings.provisioned()),
        stop: StopAfter::new(&shutdown, input.records()),
    };
    watched.metrics.begin_service(&settings.estimate.windows);
    serve(&broker.plan(&settings, "exported", 1), &shutdown, &watched).expect("a clean run");
    handle.render()
}

/// The labels of each metric's series, without a histogram's `le`.
fn series(scraped: &str) -> BTreeMap<String, BTreeSet<String>> {
    let samples = scraped.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for sample in samples {
        let (series, _) = sample.rsplit_once(' ').expect("a value");
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let suffixes = ["_bucket", "_sum", "_count"].iter().filter_map(|suffix| name.strip_suffix(suffix));
        let histogram =
            suffixes.into_iter().find(|base| catalog::ALL.iter().any(|metric| metric.name == *base));
        let pairs = labels.trim_end_matches('}').split("\",").filter_map(|pair| pair.split_once('='));
        let labels = pairs.map(|(label, _)| label.to_owned()).filter(|label| label != "le");
        found.entry(histogram.unwrap_or(name).to_owned()).or_default().extend(labels);
    }
    found
}

#[test]
fn a_running_service_exports_what_is_asked_for_with_the_labels_of_the_catalog() {
    let scraped = scrape();
    let exported = series(&scraped);
    for (name, labels) in &exported {
        let metric = catalog::ALL.iter().find(|metric| metric.name == name);
        let metric = metric.unwrap_or_else(|| panic!("{name} is not in the catalog"));
        assert_eq!(*labels, metric.labels.iter().map(|label| (*label).to_owned()).collect(), "{name}");
    }
    for asked in queries::all() {
        for name in asked.checked().metrics {
            let conditional = name == "up" || CONDITIONAL.iter().any(|prefix| name.starts_with(prefix));
            assert!(conditional || exported.contains_key(name), "{}: no {name} in\n{scraped}", asked.place);
        }
    }
    let held = scraped.lines().find(|line| line.starts_with("kvset_provisioned_capacity_pages{"));
    assert_eq!(held, Some("kvset_provisioned_capacity_pages{pool=\"alpha\"} 5459"));
    let bytes = format!("kvset_provisioned_capacity_bytes{{pool=\"alpha\"}} {}", 20_u64 << 30);
    assert!(scraped.lines().any(|line| line == bytes), "no {bytes} in\n{scraped}");
}

/// What `/metrics` answers at an address of programs that run.
fn metrics_of(address: &str, running: &Running) -> String {
    let config = ureq::Agent::config_builder().timeout_global(Some(SOON));
    let answer = config.build().new_agent().get(format!("{address}/metrics")).call();
    let mut answer = answer.unwrap_or_else(|error| panic!("{address}: {error}\n{}", running.said()));
    answer.body_mut().read_to_string().expect("text")
}

#[test]
fn every_metric_of_the_catalog_is_exported_by_a_running_program() {
    let running = Running::start();
    let begin = Instant::now();
    loop {
        let (service, prepare) =
            (metrics_of(&running.service, &running), metrics_of(&running.prepare, &running));
        let (service, prepare) = (series(&service), series(&prepare));
        let is_missing = |name: &str| {
            let exported = if name.starts_with("kvset_prepare") { &prepare } else { &service };
            !exported.contains_key(name)
        };
        let missing: Vec<_> =
            catalog::ALL.iter().map(|metric| metric.name).filter(|name| is_missing(name)).collect();
        if missing.is_empty() {
            break;
        }
        assert!(begin.elapsed() < SOON, "never exported: {missing:?}\n{}", running.said());
        std::thread::sleep(Duration::from_millis(100));
    }
    // Set, not only declared: a service that has closed windows holds requests' pages in its stack.
    let scraped = metrics_of(&running.service, &running);
    for name in ["kvset_tracked_requests{pool=\"alpha\"}", "process_resident_memory_bytes"] {
        let line = scraped.lines().find_map(|line| line.strip_prefix(name));
        let value: f64 = line.and_then(|value| value.trim().parse().ok()).expect("a number");
        assert!(value > 0.0, "{name} is {value}");
    }
}
