//! A log in the order of finishes has one answer, whichever command reads it.

use kvset::codec::SourceRecord;
use kvset::core::engines::config::CacheConfig;
use kvset::core::engines::profile::{OverlapMode, Profile};
use kvset::core::engines::rules::EngineRules;
use kvset::core::estimate::Estimate;
use kvset::core::estimate::config::PoolConfig;
use kvset::core::sizing::recommendation::Recommendation;
use kvset::core::sizing::tiers::Settled;
use kvset::core::units::PageSize;
use kvset::core::units::capacity::CapacitySpec;
use kvset::core::units::pages::mix;
use kvset::core::units::window::WindowKind;
use kvset::pipeline::resume::Resume;
use kvset::pipeline::task::PartitionTask;
use kvset::position::{NextOffset, Partition};
use kvset::replay::{ReplayOptions, WarmUp, replay};
use kvset::service::plan::task_config;
use kvset::settings::Settings;
use kvset::trace::ReadOptions;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

const PAGE: u64 = 512;

/// A request as its gateway logs it.
struct Logged {
    arrival: u64,
    duration: u64,
    ids: Vec<u64>,
    input_tokens: u64,
    output_tokens: u64,
}

/// Sessions whose turns start sub-requests, up to a dozen at once, in the order in which they finish. One in ten does
/// not say how long it took.
fn log() -> Vec<Logged> {
    let mut requests = Vec::new();
    for turn in 0..1200_u64 {
        let chance = mix(turn);
        let (session, depth) = (chance % 25, 1 + turn / 60);
        let ids: Vec<u64> = [1].into_iter().chain((0..depth).map(|page| mix(session << 32 | page))).collect();
        requests.push(Logged {
            arrival: 1_000_000 + 350 * turn + chance % 300,
            duration: chance >> 20 & 0x3fff,
            input_tokens: ids.len() as u64 * PAGE - chance % PAGE,
            output_tokens: 1 + (chance >> 40) % 900,
            ids,
        });
    }
    requests.sort_by_key(|request| request.arrival + request.duration);
    requests
}

fn row(request: &Logged, names: [&str; 4]) -> Value {
    let Logged { arrival, duration, ids, input_tokens, output_tokens } = request;
    let [at, pages, input, output] = names;
    let mut row = json!({at: arrival, pages: ids, input: input_tokens, output: output_tokens});
    if duration % 10 > 0 {
        row["duration_ms"] = json!(duration);
    }
    row
}

fn capacities() -> Vec<CapacitySpec> {
    ["20p", "60p", "150p", "300p", "600p", "2000p"].map(|text| text.parse().expect("a capacity")).to_vec()
}

/// The whole log, as `kvset replay` answers by default.
fn replayed(trace: &Path, profile: Profile) -> Estimate {
    let pool = PoolConfig {
        cache: CacheConfig {
            profile,
            rules: EngineRules { overlap: OverlapMode::On, ..EngineRules::default() },
            capacities: capacities(),
            ..CacheConfig::default()
        },
        min_requests: 1,
        ..PoolConfig::default()
    };
    let options = ReplayOptions {
        extras: Default::default(),
        traces: vec![trace.to_owned()],
        read: ReadOptions::default(),
        pool,
        warm_up: WarmUp::Requests(0),
        pool_name: None,
        skip_bad_rows: false,
        provisioned: None,
        threads: 1,
    };
    replay(&options, None, &mut |_| {}).expect("a replay").whole.expect("requests")
}

fn settings(profile: Profile) -> Settings {
    let mut settings = Settings::default();
    settings.estimate.engine = profile;
    settings.estimate.page_size = PageSize::new(PAGE as u32);
    settings.estimate.capacities = capacities();
    settings.estimate.min_requests = 1;
    settings.estimate.windows = vec![WindowKind::All];
    settings
}

/// The whole log, as the service's task answers at its end, and how many records it took out of order.
fn served(log: &[Logged], settings: &Settings) -> (Estimate, u64) {
    let config = Arc::new(task_config(settings).expect("usable"));
    let (mut task, mut outputs) =
        (PartitionTask::new(config, Partition(0), &Resume::from_start()), Vec::new());
    for (offset, request) in (0..).zip(log) {
        let value = row(request, ["event_time", "page_ids", "input_tokens", "output_tokens"]).to_string();
        let record = SourceRecord {
            topic: settings.input.topic.as_str(),
            partition: 0,
            offset,
            timestamp_ms: None,
            key: Some(b"pool"),
            value: Some(value.as_bytes()),
            schema_header: None,
        };
        task.process_record(&record, &mut outputs).expect("within limits");
    }
    task.finish(NextOffset(log.len() as i64), &mut outputs).expect("within limits");
    let out_of_order = task.take_counts().pools.iter().map(|(_, activity)| activity.out_of_order).sum();
    (task.provisional().remove(0), out_of_order)
}

/// What both say, but for how far requirements have settled, which follows publishing.
fn answer(estimate: &Estimate) -> impl PartialEq + std::fmt::Debug {
    let required = estimate.required.iter().flat_map(|required| &required.coverage);
    let required: Vec<_> = required.map(|entry| (entry.coverage, entry.pages)).collect();
    let hits: Vec<_> = estimate
        .capacities
        .iter()
        .map(|point| (point.pages, point.prefix_hits, point.prefix_hit_rate))
        .collect();
    let recommended = estimate.recommended.iter().cloned().map(|recommended| Recommendation {
        convergence: Settled::default(),
        growth_per_window: None,
        ..recommended
    });
    let recommended: Vec<_> = recommended.collect();
    (estimate.requests, hits, required, recommended, estimate.in_flight.clone())
}

#[test]
fn a_log_of_finishes_has_one_answer_whichever_command_reads_it() {
    let (directory, log) = (tempfile::tempdir().expect("a directory"), log());
    let rows =
        log.iter().map(|request| row(request, ["timestamp", "hash_ids", "input_length", "output_length"]));
    let text: String = rows.map(|row| format!("{row}\n")).collect();
    let trace = directory.path().join("finished.jsonl");
    std::fs::write(&trace, text).expect("a writable folder");
    for profile in [Profile::Vllm, Profile::LeafFirst] {
        let replayed = replayed(&trace, profile);
        assert!(
            replayed.in_flight.as_ref().is_some_and(|found| found.modelled && found.max_pages > Some(50))
        );
        let (waited, out_of_order) = served(&log, &settings(profile));
        assert_eq!((answer(&waited), out_of_order), (answer(&replayed), 0), "{profile}");
        let mut at_once = settings(profile);
        at_once.estimate.hold_back = "0s".parse().ok();
        assert_ne!(answer(&served(&log, &at_once).0), answer(&replayed), "the order of the log tells");
        let mut short = settings(profile);
        short.estimate.hold_back = "2s".parse().ok();
        assert!(served(&log, &short).1 > 0, "some took longer");
    }
}
