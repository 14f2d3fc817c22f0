//! The service over a broker equals the pipeline in memory, byte for byte.

use crate::kafka_support::{
    Broker, Input, PATIENCE, Published, StopAfter, serve_records, shared_trace, stamp,
};
use kvset::codec::decode_estimate;
use kvset::core::estimate::Estimate;
use kvset::core::estimate::config::PoolConfig;
use kvset::core::units::window::WindowKind;
use kvset::replay::{ReplayOptions, WarmUp, replay};
use kvset::service::estimating::serve;
use kvset::service::shutdown::Shutdown;
use kvset::settings::Settings;
use kvset::trace::{self, ReadOptions, TraceItem};
use kvset::workload::{Generator, Workload};
use std::time::{Duration, Instant};

/// Settings whose windows close often.
fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.estimate.windows =
        ["tumbling:1m", "last:100", "all"].map(|text| text.parse().expect("a window")).to_vec();
    settings.estimate.kv_bytes_per_token = kvset::settings::TokenCost::new(131_072.0);
    settings
}

/// Generated requests of three pools on three partitions.
fn generated(requests: usize) -> Input {
    let mut input = Input::default();
    for (partition, pool) in [(0, "alpha"), (1, "beta"), (2, "gamma")] {
        let workload = Workload {
            seed: partition as u64 + 7,
            start_ms: 36_000_000,
            sessions_per_day: 4000,
            ..Workload::default()
        };
        let generator = Generator::new(workload).expect("a workload");
        for request in generator.take(requests) {
            input.push_row(partition, pool, &request.as_row());
        }
    }
    input
}

fn mooncake(requests: usize) -> Option<Input> {
    let path = shared_trace("mooncake_synthetic_trace.jsonl")?;
    let mut reader = trace::open(&[path], &ReadOptions::default()).expect("a trace");
    let mut input = Input::default();
    while input.records() < requests as u64 {
        match reader.next_item().expect("readable") {
            Some(TraceItem::Request(row)) => input.push_row(0, "trace", &row),
            Some(TraceItem::Refused(error)) => panic!("{error:?}"),
            None => break,
        }
    }
    Some(input)
}

#[test]
fn estimates_through_a_broker_equal_those_in_memory() {
    for broker in Broker::all() {
        let topic = broker.create("requests", 3);
        let input = generated(300);
        input.produce(&broker.connection, &topic);
        let plan = broker.plan(&settings(), "run", 3);
        let summary = serve_records(&plan, input.records()).expect("a clean run");
        assert_eq!(summary.records, input.records());
        let expected = input.expected(&plan.task);
        let published = Published::read(&broker, &plan.stream.outputs);
        let count: usize = published.estimates.values().map(Vec::len).sum();
        assert!(count > 30, "only {count} estimates: the comparison would show little");
        assert_eq!(summary.results, count as u64);
        assert!(published == expected, "real broker: {}", broker.is_real());
    }
}

#[test]
fn the_public_trace_gives_the_same_bytes_on_every_run() {
    for broker in Broker::all() {
        let Some(input) = mooncake(if broker.is_real() { usize::MAX } else { 2000 }) else { return };
        let topic = broker.create("requests", 1);
        input.produce(&broker.connection, &topic);
        let runs = ["first", "second"].map(|run| {
            let plan = broker.plan(&settings(), run, 1);
            let summary = serve_records(&plan, input.records()).expect("a clean run");
            assert_eq!(
                summary.next_offsets.values().map(|next| next.0).collect::<Vec<_>>(),
                [input.records() as i64]
            );
            Published::read(&broker, &plan.stream.outputs)
        });
        assert!(!runs[0].estimates.is_empty());
        assert!(runs[0] == runs[1], "the same log gave other bytes; real broker: {}", broker.is_real());
        assert!(runs[0] == input.expected(&broker.plan(&settings(), "task", 1).task));
        let tumbling = |estimate: &Estimate| matches!(estimate.window, WindowKind::Tumbling { .. });
        let values = runs[0].estimates["trace"].iter().filter_map(|(_, value)| value.as_deref());
        let mut published: Vec<_> =
            values.map(|value| decode_estimate(value).expect("an estimate")).collect();
        published.retain(tumbling);
        let mut replayed = replayed_windows();
        // The service publishes of each what is acted on.
        replayed.iter_mut().for_each(|estimate| *estimate = estimate.summary());
        replayed.truncate(published.len());
        // A replay also closes what is open when the trace ends, under a fingerprint that says so.
        published.iter_mut().chain(&mut replayed).for_each(|estimate| estimate.fingerprint.clear());
        assert!(published.len() > 5);
        for (published, replayed) in published.iter().zip(&replayed) {
            assert_eq!(published, replayed, "`kvset replay` of the same trace differs");
        }
        assert_eq!(published.len(), replayed.len());
    }
}

/// What `kvset replay` makes of the whole public trace.
fn replayed_windows() -> Vec<Estimate> {
    let options = ReplayOptions {
        traces: shared_trace("mooncake_synthetic_trace.jsonl").into_iter().collect(),
        read: ReadOptions::default(),
        pool: PoolConfig {
            windows: vec![WindowKind::Tumbling { size_ms: 60_000 }],
            ..settings().pool_config("trace")
        },
        warm_up: WarmUp::Requests(0),
        pool_name: None,
        skip_bad_rows: false,
        extras: Default::default(),
        provisioned: None,
        threads: 1,
    };
    replay(&options, None, &mut |_| {}).expect("a replay").windows
}

#[test]
fn broken_records_become_dead_letters_while_the_stream_goes_on() {
    for broker in Broker::all() {
        let topic = broker.create("requests", 1);
        let mut input = generated(200);
        let mut records = input.partitions.remove(&0).expect("pool alpha");
        input.partitions.clear();
        records.insert(10, (b"alpha".to_vec(), b"no request at all".to_vec()));
        records.insert(50, (Vec::new(), br#"{"event_time": 1}"#.to_vec()));
        records.insert(90, (b"alpha".to_vec(), b"\xc3\x01cut off".to_vec()));
        input.partitions.insert(0, records);
        input.produce(&broker.connection, &topic);
        let plan = broker.plan(&settings(), "run", 1);
        serve_records(&plan, input.records()).expect("a clean run");
        let published = Published::read(&broker, &plan.stream.outputs);
        assert!(published == input.expected(&plan.task), "real broker: {}", broker.is_real());
        assert_eq!(published.letters.len(), 3);
        let header = |letter: &crate::kafka_support::Letter, name: &str| {
            let found = letter.2.iter().find(|(header, _)| header == name);
            found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
        };
        let broken =
            published.letters.iter().find(|(_, value, _)| value.as_deref() == Some(b"no request at all"));
        let broken = broken.expect("the original bytes");
        assert_eq!(header(broken, "kvset_offset").as_deref(), Some("10"));
        assert_eq!(header(broken, "kvset_topic"), Some(topic));
        assert_eq!(header(broken, "kvset_error_code").as_deref(), Some("unknown_encoding"));
    }
}

#[test]
fn a_restart_publishes_the_rest_and_nothing_twice() {
    for broker in Broker::all() {
        let topic = broker.create("requests", 3);
        let input = generated(250);
        input.produce(&broker.connection, &topic);
        let plan = broker.plan(&settings(), "run", 3);
        // Each run stops after some records; what it rebuilds muted counts as processed too.
        for records in [150, 400, 100_000] {
            let total = records.min(input.records());
            serve_records(&plan, total).expect("a clean run");
        }
        let published = Published::read(&broker, &plan.stream.outputs);
        assert!(published == input.expected(&plan.task), "real broker: {}", broker.is_real());
    }
}

#[test]
fn a_partition_of_which_nothing_can_be_read_is_held_and_the_others_go_on() {
    let broker = Broker::mock();
    let topic = broker.create("requests", 2);
    let mut input = Input::default();
    (0..20).for_each(|_| input.push(0, "alpha", b"broken".to_vec()));
    (0..30).for_each(|i| {
        let value =
            format!(r#"{{"event_time":{},"page_size":16,"page_ids":[1,{i}]}}"#, stamp() - 60_000 * (40 - i));
        input.push(1, "beta", value.into_bytes());
    });
    input.produce(&broker.connection, &topic);
    let mut settings = settings();
    settings.dead_letters.max_consecutive = 5;
    let plan = broker.plan(&settings, "run", 2);
    let mut readable = Input::default();
    readable.partitions.insert(1, input.partitions[&1].clone());
    // Whoever restarts comes to the same place, and the others are done already.
    for (records, held_twice) in [(35, false), (u64::MAX, true)] {
        let (shutdown, begin) = (Shutdown::new(), Instant::now());
        let watch = StopAfter::new(&shutdown, records);
        std::thread::scope(|scope| {
            let run = scope.spawn(|| serve(&plan, &shutdown, &watch));
            while watch.held().is_empty() && begin.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(20));
            }
            if held_twice {
                shutdown.request();
            }
            run.join().expect("no panic").expect("the process goes on");
        });
        let held = watch.held();
        assert!(
            held.len() == 1 && held[0].contains("in a row") && held[0].contains("max_consecutive"),
            "{held:?}"
        );
        let published = Published::read(&broker, &plan.stream.outputs);
        assert_eq!(published.letters.len(), 5, "those within the limit");
        assert_eq!(published.estimates, readable.expected(&plan.task).estimates, "partition 1");
    }
}
