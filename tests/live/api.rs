//! `/api/v1` and the page, asked over HTTP: what is shown, when, and that every field is documented.

use crate::live_support::{Service, closed};
use kvset::codec::{ErrorCode, EstimateEncoding, encode_estimate};
use kvset::core::units::EventTime;
use kvset::pipeline::publish::FailureKind;
use kvset::pipeline::task::{PoolActivity, PoolRefusals, PoolTime, TaskCounts};
use kvset::position::{NextOffset, Partition};
use kvset::service::events::{Observer, ServiceEvent};
use kvset::telemetry::service_metrics::ServiceMetrics;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;

fn pools_of(answer: &Value) -> Vec<&str> {
    let estimates = answer["estimates"].as_array().expect("a list");
    estimates.iter().map(|estimate| estimate["pool"].as_str().expect("a name")).collect()
}

#[test]
fn an_estimate_is_shown_once_it_is_committed_and_as_its_topic_has_it() {
    let service = Service::start(10);
    service.take_up(0, 0);
    let estimate = closed("coding/eu", "tumbling:5m", 5);
    service.progress(0, 1, std::slice::from_ref(&estimate));
    assert_eq!(service.get("/api/v1/estimates").json(), json!({ "estimates": [] }), "not committed yet");
    service.commit();
    let mut topic = Vec::new();
    encode_estimate(&estimate, EstimateEncoding::Json, &mut topic).expect("encoded");
    let topic: Value = serde_json::from_slice(&topic).expect("JSON");
    assert_eq!(service.get("/api/v1/estimates").json(), json!({ "estimates": [topic] }));
}

#[test]
fn what_was_committed_before_a_restart_is_shown_as_soon_as_it_is_replayed() {
    let service = Service::start(10);
    service.take_up(0, 7);
    service.progress(0, 1, &[closed("a", "all", 6)]);
    assert_eq!(pools_of(&service.get("/api/v1/estimates").json()), ["a"]);
    let partition = |service: &Service| service.get("/api/v1/pools").json()["partitions"][0].clone();
    assert_eq!(partition(&service)["restoring"], true);
    service.progress(0, 1, &[closed("a", "all", 8)]);
    assert_eq!(partition(&service)["restoring"], false);
    assert_eq!(service.get("/api/v1/estimates").json()["estimates"][0]["next_offset"], 6, "8 waits");
}

/// Nothing was shown until the next window closed, an hour after a restart say.
#[test]
fn a_restart_shows_what_its_snapshot_knows() {
    let service = Service::start(10);
    service.take_up(0, 9);
    let latest = [closed("a", "tumbling:5m", 5), closed("a", "all", 5)];
    service.restore(0, &latest);
    assert_eq!(pools_of(&service.get("/api/v1/estimates").json()), ["a", "a"]);
    assert!(service.get("/").body.contains("<svg"), "plots");
    let place = service.get("/api/v1/pools").json()["partitions"][0].clone();
    assert_eq!((&place["next_offset"], &place["pools"]), (&json!(5), &json!(2)));
    assert_eq!(place["next_close_ms"], latest[0].end_ms + 300_000);
    assert_eq!(place["restoring"], true, "from 5 to 9 it is muted");
    service.publish(&[closed("a", "tumbling:5m", 10)]);
    let answer = service.get("/api/v1/estimates?window=tumbling:5m").json();
    assert_eq!(answer["estimates"][0]["next_offset"], 10, "the newer one takes its place");
}

/// An alert with `for: 1h` began to count anew after every restart.
#[test]
fn a_restart_exports_what_its_snapshot_knows() {
    let recorder = kvset::telemetry::recorder().expect("a recorder");
    let health = std::sync::Arc::new(kvset::telemetry::Health::new());
    let metrics = ServiceMetrics::new(health, 10, kvset::settings::Provisioned::default());
    let latest = [closed("a", "tumbling:5m", 5)];
    metrics::with_local_recorder(&recorder, || {
        let time = PoolTime { watermark: EventTime(60_000), next_close: None };
        let (partition, next, pools) = (Partition(0), NextOffset(5), 1);
        let (time, times) = (Some(time), &[("a".to_owned(), time)]);
        metrics.on(&ServiceEvent::Restored { partition, next, time, times, pools, latest: &latest });
    });
    let text = recorder.handle().render();
    for line in [
        format!("kvset_window_requests{{pool=\"a\",window=\"tumbling:5m\"}} {}", latest[0].requests),
        "kvset_pool_watermark_timestamp_seconds{pool=\"a\"} 60".to_owned(),
        "kvset_watermark_timestamp_seconds{partition=\"0\"} 60".to_owned(),
        "kvset_pools{partition=\"0\"} 1".to_owned(),
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in:\n{text}");
    }
}

#[test]
fn a_page_without_an_estimate_says_what_it_waits_for() {
    let service = Service::start(10);
    let said = |text: &str| {
        for path in ["/", "/live/status"] {
            let body = service.get(path).body;
            assert!(body.contains(text), "{text} is missing in {path}:\n{body}");
        }
    };
    said("Waiting for the consumer group to assign partitions");
    service.take_up(0, 7);
    said("Waiting for the first record of the input.");
    // It said so of records that were held back, for five minutes.
    let held = TaskCounts { waiting: 12, ..TaskCounts::default() };
    let (partition, next) = (Partition(0), NextOffset(7));
    service.board.on(&ServiceEvent::Progress { partition, next, counts: &held, time: None, pools: 0 });
    said("12 records came.");
    said("estimate.hold_back after their arrival");
    let time = Some(PoolTime {
        watermark: EventTime(1_794_700_800_000),
        next_close: Some(EventTime(1_794_700_860_000)),
    });
    let activity = PoolActivity { requests: 1, time, ..PoolActivity::default() };
    let counts = TaskCounts { pools: vec![("a".to_owned(), activity)], ..TaskCounts::default() };
    let progress = |next: i64| {
        let (partition, next) = (Partition(0), NextOffset(next));
        service.board.on(&ServiceEvent::Progress { partition, next, counts: &counts, time, pools: 1 });
    };
    progress(4);
    said("Waiting for partition 0 to catch up with what was published before: 3 offsets to go.");
    progress(8);
    said("reaches 2026-11-15 00:01:00 UTC; it stands at 2026-11-15 00:00:00.");
    service.publish(&[closed("a", "all", 5)]);
    assert!(!service.get("/").body.contains("Waiting for"));
}

/// Records that came too late were in no counter, on no page, and nobody knew.
#[test]
fn late_records_are_a_problem_of_their_pool_with_what_to_do() {
    let service = Service::start(10);
    service.take_up(0, 0);
    service.publish(&[closed("a b", "all", 5)]);
    let late = PoolActivity { requests: 60, late: 5, late_by_ms: 660_000, ..PoolActivity::default() };
    let counts = TaskCounts { pools: vec![("a b".to_owned(), late)], ..TaskCounts::default() };
    let (partition, next, time) = (Partition(0), NextOffset(9), None);
    service.board.on(&ServiceEvent::Progress { partition, next, counts: &counts, time, pools: 1 });
    let overview = service.get("/api/v1/pools").json();
    assert_eq!(overview["pools"][0]["late_records"], 5);
    let problem = &overview["problems"][0];
    assert_eq!((&problem["code"], &problem["pool"]), (&json!("late_records"), &json!("a b")));
    let page = service.get("/").body;
    for words in ["5 of its requests (7.94 %)", "11 min behind", "estimate.max_lateness"] {
        assert!(page.contains(words) && problem["message"].to_string().contains(words), "{words}: {problem}");
    }
}

/// A pool that died kept its place on the page for ever.
#[test]
fn a_forgotten_pool_makes_room_on_the_page() {
    let service = Service::start(1);
    service.take_up(0, 0);
    service.publish(&[closed("old", "all", 5)]);
    let counts = TaskCounts { forgotten: vec!["old".to_owned()], ..TaskCounts::default() };
    let (partition, next, time) = (Partition(0), NextOffset(9), None);
    service.board.on(&ServiceEvent::Progress { partition, next, counts: &counts, time, pools: 1 });
    service.publish(&[closed("new", "all", 12)]);
    assert_eq!(pools_of(&service.get("/api/v1/estimates").json()), ["new"]);
}

#[test]
fn work_of_a_partition_that_was_lost_is_never_shown() {
    let service = Service::start(10);
    service.take_up(0, 0);
    service.take_up(1, 0);
    service.publish(&[closed("kept", "all", 1)]);
    let other = crate::live_support::report_support::estimate(1);
    let mut other = kvset::core::estimate::Estimate { pool: "moved".to_owned(), partition: 1, ..other };
    service.publish(std::slice::from_ref(&other));
    assert_eq!(pools_of(&service.get("/api/v1/estimates").json()), ["kept", "moved"]);
    other.end_ms += 1;
    service.progress(1, 1, &[other]);
    service.board.on(&ServiceEvent::Lost(Partition(1)));
    service.commit();
    assert_eq!(pools_of(&service.get("/api/v1/estimates").json()), ["kept"]);
    let overview = service.get("/api/v1/pools").json();
    assert_eq!(overview["partitions"].as_array().map(Vec::len), Some(1));
}

#[test]
fn filters_choose_and_an_unknown_window_is_refused_in_words() {
    let service = Service::start(10);
    service.take_up(0, 0);
    let kinds = ["tumbling:5m", "last:3000", "all"];
    let all = ["a b&c", "d"].iter().flat_map(|pool| kinds.map(|kind| closed(pool, kind, 5)));
    service.publish(&all.collect::<Vec<_>>());
    let count = |query: &str| {
        let answer = service.get(&format!("/api/v1/estimates{query}")).json();
        answer["estimates"].as_array().map(Vec::len)
    };
    assert_eq!(count(""), Some(6));
    assert_eq!(count("?pool=a+b%26c"), Some(3));
    assert_eq!(count("?window=last:3000"), Some(2));
    assert_eq!(count("?pool=d&window=all"), Some(1));
    assert_eq!(count("?pool=nobody"), Some(0));
    let refused = service.get("/api/v1/estimates?window=yesterday");
    assert_eq!(refused.status, 400);
    assert!(
        refused.json()["error"].as_str().is_some_and(|error| error.contains("window")),
        "{}",
        refused.body
    );
    assert_conforms(&refused.json(), "Error");
}

#[test]
fn pools_beyond_the_bound_are_counted_and_not_kept() {
    let service = Service::start(2);
    service.take_up(0, 0);
    service.publish(&["c", "a", "b"].map(|pool| closed(pool, "all", 5)));
    let overview = service.get("/api/v1/pools").json();
    assert_eq!(overview["pools"].as_array().map(Vec::len), Some(2));
    assert_eq!(overview["pools_not_shown"], 1);
    assert_eq!(pools_of(&service.get("/api/v1/estimates").json()).len(), 2);
    assert!(service.get("/").body.contains("1 pool is not shown"));
}

#[test]
fn a_long_run_is_kept_in_bounded_space_and_ends_with_the_newest() {
    let service = Service::start(1);
    service.take_up(0, 0);
    for minute in 1..=1000 {
        service.publish(&[closed("a", "tumbling:5m", minute * 5)]);
    }
    let (_, report) = service.board.view(None, None).shown.expect("shown");
    assert!((100..=257).contains(&report.history.points.len()), "{} points", report.history.points.len());
    assert_eq!(report.windows.len(), 24);
    let newest = closed("a", "tumbling:5m", 5000);
    let last = report.history.points.last().expect("a point");
    assert_eq!(last.span_ms, Some((newest.start_ms, newest.end_ms)));
    let requests: u64 = (1..=1000).map(|window| closed("a", "tumbling:5m", window * 5).requests).sum();
    assert_eq!(last.requests_seen, requests, "they add up over tumbling windows");
}

#[test]
fn problems_are_said_and_go_away_when_they_are_over() {
    let service = Service::start(10);
    service.take_up(3, 0);
    let codes = || {
        let overview = service.get("/api/v1/pools").json();
        let problems = overview["problems"].as_array().expect("a list").clone();
        problems
            .iter()
            .map(|problem| problem["code"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert!(codes().is_empty());
    let partition = Partition(3);
    service.board.on(&ServiceEvent::CommitFailed { kind: FailureKind::Abortable });
    service.board.on(&ServiceEvent::SnapshotFailed { partition });
    service.board.on(&ServiceEvent::SchemaRegistry { waiting: true });
    service.health.set_lag(101);
    assert_eq!(codes(), ["not_ready", "commit_failed", "schema_registry_away", "snapshot_failed"]);
    let page = service.get("/").body;
    assert!(page.contains("101 records behind") && page.contains("Partition 3: The last snapshot"), "{page}");
    service.commit();
    let (next, bytes, took) = (NextOffset(9), 1 << 20, Duration::ZERO);
    service.board.on(&ServiceEvent::SnapshotSaved { partition, next, bytes, took });
    service.board.on(&ServiceEvent::SchemaRegistry { waiting: false });
    service.health.set_lag(0);
    assert!(codes().is_empty());
    let polled = |stalled: &[Partition], unowned: &[Partition]| {
        let (lag, away_for) = (&[][..], Duration::ZERO);
        service.board.on(&ServiceEvent::Polled { restoring: 0, lag, stalled, unowned, away_for });
    };
    polled(&[partition], &[Partition(5), Partition(6)]);
    assert_eq!(codes(), ["stalled", "unowned_partitions"]);
    let page = service.get("/").body;
    assert!(page.contains("wait in partition 3,") && page.contains("has partitions 5, 6:"), "{page}");
    polled(&[], &[]);
    assert!(codes().is_empty());
    let place = service.get("/api/v1/pools").json()["partitions"][0].clone();
    assert_eq!((&place["snapshot_next_offset"], &place["snapshot_bytes"]), (&json!(9), &json!(1 << 20)));
    assert!(place["snapshot_age_ms"].as_u64().is_some());
}

/// One pool's refusals stopped everything, and then nothing showed them; a partition that cannot go on has its own
/// word.
#[test]
fn what_is_refused_of_a_pool_and_partitions_that_are_held_are_problems_until_they_are_over() {
    let service = Service::start(10);
    service.take_up(0, 0);
    service.take_up(1, 0);
    let refused = |is_over_limit| {
        let refused =
            PoolRefusals { records: 1001, code: ErrorCode::UnknownPageSize, offset: 7, is_over_limit };
        let counts = TaskCounts { refused_pools: vec![("new".to_owned(), refused)], ..TaskCounts::default() };
        let (partition, next) = (Partition(0), NextOffset(6));
        service.board.on(&ServiceEvent::Progress { partition, next, counts: &counts, time: None, pools: 2 });
    };
    let problems = || service.get("/api/v1/pools").json()["problems"].clone();
    refused(false);
    assert_eq!(problems(), json!([]), "a few are no problem");
    refused(true);
    let shown = problems();
    assert_eq!((&shown[0]["code"], &shown[0]["pool"]), (&json!("pool_refused"), &json!("new")));
    let message = shown[0]["message"].as_str().expect("words");
    assert!(message.contains("1,001 records") && message.contains("page_size"), "{message}");
    refused(false);
    assert_eq!(problems(), json!([]), "it is over");
    service.board.on(&ServiceEvent::Held { partition: Partition(1), why: "nothing can be read" });
    let shown = problems();
    assert_eq!((&shown[0]["code"], &shown[0]["partition"]), (&json!("partition_held"), &json!(1)));
    assert!(
        service
            .get("/")
            .body
            .contains("Partition 1: Held, while all other partitions go on: nothing can be read")
    );
    service.board.on(&ServiceEvent::Lost(Partition(1)));
    assert_eq!(problems(), json!([]));
}

#[test]
fn the_page_shows_hostile_names_and_runs_nothing_of_them() {
    let service = Service::start(10);
    service.take_up(0, 0);
    let name = "<script>alert(1)</script>\"'&x=%";
    service.publish(&[closed(name, "all", 5)]);
    let page = service.get("/");
    assert_eq!(page.status, 200);
    assert_eq!(page.body.matches("<script").count(), 1, "the page's own");
    assert!(page.body.contains("<script src=\"/live.js\" defer></script>"));
    assert!(page.body.contains("Pool &lt;script&gt;alert(1)"));
    let encoded = "pool=%3Cscript%3Ealert%281%29%3C%2Fscript%3E%22%27%26x%3D%25";
    assert!(page.body.contains(&format!("href=\"/?{encoded}&amp;window=all\"")), "{}", page.body);
    let policy = page.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("cache-control"), "no-store");
    assert_eq!(page.body.matches("style=").count(), 0, "the policy would refuse it");
    let lost = service.get("/?pool=%3Cb%3E");
    assert!(lost.body.contains("No estimate of pool &lt;b&gt; yet"), "{}", lost.body);
}

#[test]
fn a_part_is_sent_again_only_when_it_has_changed() {
    let service = Service::start(10);
    service.take_up(0, 0);
    let tag = |body: &str| {
        let begin = body.find("data-tag=\"").expect("a tag") + 10;
        body[begin..]
            .split("\" ")
            .next()
            .expect("its end")
            .split("\">")
            .next()
            .expect("its end")
            .replace("&quot;", "\"")
    };
    let empty = tag(&service.get("/live/section").body);
    assert_eq!(service.ask("/live/section", Some(&empty)).status, 304);
    service.publish(&[closed("a", "all", 5)]);
    let first = service.ask("/live/section", Some(&empty));
    assert_eq!(first.status, 200);
    assert!(first.body.contains("<svg") && first.body.contains("data-query=\"pool=a&amp;window=all\""));
    let known = tag(&first.body);
    assert_eq!(service.ask("/live/section", Some(&known)).status, 304);
    service.publish(&[closed("b", "all", 5)]);
    assert_eq!(service.ask("/live/section?pool=a&window=all", Some(&known)).status, 304, "another pool's");
    service.publish(&[closed("a", "all", 10)]);
    assert_eq!(service.ask("/live/section?pool=a&window=all", Some(&known)).status, 200);
}

#[test]
fn every_field_of_the_answers_is_documented() {
    let service = Service::start(10);
    service.take_up(0, 0);
    service.take_up(1, 5);
    service.publish(&[closed("a", "all", 5), closed("b", "tumbling:5m", 5)]);
    let split = ServiceEvent::SplitPool { pool: "a", first: Partition(0), second: Partition(1) };
    service.board.on(&split);
    service.board.on(&ServiceEvent::SnapshotFailed { partition: Partition(0) });
    service.board.on(&ServiceEvent::NewPool { partition: Partition(1), pool: "new" });
    service.board.on(&ServiceEvent::Polled {
        restoring: 1,
        lag: &[(Partition(0), 12)],
        stalled: &[Partition(0)],
        unowned: &[Partition(4), Partition(5)],
        away_for: Duration::ZERO,
    });
    let mut counts = TaskCounts::default();
    counts.refused.insert(kvset::codec::ErrorCode::EmptyRecord, 2);
    let late = PoolActivity { requests: 50, late: 2, late_by_ms: 700_000, ..PoolActivity::default() };
    counts.pools.push(("b".to_owned(), late));
    let (partition, next) = (Partition(0), NextOffset(6));
    let event = ServiceEvent::Progress { partition, next, counts: &counts, time: None, pools: 2 };
    service.board.on(&event);
    assert_conforms(&service.get("/api/v1/estimates").json(), "Estimates");
    let overview = service.get("/api/v1/pools").json();
    assert_conforms(&overview, "Overview");
    assert_eq!(overview["pools"][0]["lag_records"], 12);
    assert_eq!(overview["problems"].as_array().map(Vec::len), Some(6));
    assert_eq!(service.get("/api/v1/openapi.json").json(), description());
    for path in description()["paths"].as_object().expect("paths").keys() {
        assert_eq!(service.get(path).status, 200, "{path}");
    }
}

/// The description's estimate is made from the topic's schema: after a change of that,
/// `KVSET_UPDATE=1 cargo test --test live api` writes it anew.
#[test]
fn the_described_estimate_is_that_of_the_topic() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let avro = std::fs::read_to_string(root.join("capacity_estimate.avsc")).expect("the topic's schema");
    let mut schemas = Map::new();
    record(&serde_json::from_str(&avro).expect("JSON"), &mut schemas);
    let mut wanted = description();
    let described = wanted["components"]["schemas"].as_object_mut().expect("schemas");
    described.extend(schemas);
    if std::env::var_os("KVSET_UPDATE").is_some() {
        let text = serde_json::to_string_pretty(&wanted).expect("JSON") + "\n";
        std::fs::write(root.join("openapi.json"), text).expect("a writable checkout");
    }
    assert!(
        wanted == description(),
        "schemas/openapi.json is behind capacity_estimate.avsc: set KVSET_UPDATE=1"
    );
}

/// A record of the topic's schema as one of the description.
fn record(avro: &Value, schemas: &mut Map<String, Value>) {
    let fields = avro["fields"].as_array().expect("fields");
    let always =
        |field: &&Value| !field["doc"].as_str().is_some_and(|doc| doc.contains("JSON leaves it out"));
    let names: Vec<&Value> = fields.iter().filter(always).map(|field| &field["name"]).collect();
    let mut properties = Map::new();
    for field in fields {
        let mut schema = described(&field["type"], schemas);
        schema["description"] = field["doc"].clone();
        properties.insert(field["name"].as_str().expect("a name").to_owned(), schema);
    }
    let schema = json!({
        "type": "object", "description": avro["doc"], "required": names, "properties": properties
    });
    schemas.insert(avro["name"].as_str().expect("a name").to_owned(), schema);
}

fn described(avro: &Value, schemas: &mut Map<String, Value>) -> Value {
    if let Some(union) = avro.as_array() {
        let some = union.iter().find(|branch| *branch != "null").expect("a type");
        let mut schema = described(some, schemas);
        match schema.get("$ref") {
            Some(_) => return json!({ "anyOf": [schema, { "type": "null" }] }),
            None => schema["type"] = json!([schema["type"], "null"]),
        }
        return schema;
    }
    match avro.as_str().or(avro["type"].as_str()).expect("a type") {
        "int" | "long" => json!({ "type": "integer" }),
        "float" | "double" => json!({ "type": "number" }),
        "enum" => json!({ "type": "string", "enum": avro["symbols"] }),
        "array" => json!({ "type": "array", "items": described(&avro["items"], schemas) }),
        "record" => {
            record(avro, schemas);
            json!({ "$ref": format!("#/components/schemas/{}", avro["name"].as_str().expect("a name")) })
        }
        // A record described before.
        name if name.starts_with(char::is_uppercase) => {
            json!({ "$ref": format!("#/components/schemas/{name}") })
        }
        simple => json!({ "type": simple }),
    }
}

fn description() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/openapi.json");
    serde_json::from_str(&std::fs::read_to_string(path).expect("the description")).expect("JSON")
}

fn assert_conforms(value: &Value, schema: &str) {
    let description = description();
    let schemas = &description["components"]["schemas"];
    check(value, &schemas[schema], schemas, schema);
}

/// Holds a value against a schema: types, and for objects exactly the documented fields.
fn check(value: &Value, schema: &Value, schemas: &Value, at: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().expect("a name");
        return check(value, &schemas[name], schemas, at);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let some = any.iter().find(|branch| branch["type"] != "null").expect("a schema");
        return if !value.is_null() {
            check(value, some, schemas, at)
        };
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        kind => vec![kind.as_str().unwrap_or_else(|| panic!("{at} has no type"))],
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() || kinds.contains(&"number") => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    assert!(kinds.contains(&kind), "{at} is {kind}, documented as {kinds:?}");
    if let (Some(known), Some(_)) = (schema["enum"].as_array(), value.as_str()) {
        assert!(known.contains(value), "{at}: {value} is not among {known:?}");
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        check(item, &schema["items"], schemas, &format!("{at}[{index}]"));
    }
    let Some(object) = value.as_object() else { return };
    let properties = schema["properties"].as_object().unwrap_or_else(|| panic!("{at} has no fields"));
    let may_lack =
        |name: &String| schema["required"].as_array().is_some_and(|all| !all.contains(&json!(name)));
    let expected = properties.keys().filter(|name| object.contains_key(*name) || !may_lack(name));
    let (mut found, mut documented): (Vec<_>, Vec<_>) = (object.keys().collect(), expected.collect());
    found.sort();
    documented.sort();
    assert_eq!(found, documented, "fields of {at}");
    for (name, item) in object {
        let property = &properties[name];
        let explained = property["description"].as_str().is_some_and(|text| text.len() > 5);
        assert!(explained, "{at}.{name} says nothing about itself");
        check(item, property, schemas, &format!("{at}.{name}"));
    }
}

/// A page whose name was made to point to 127.0.0.1 read every pool's name and need.
#[test]
fn neither_page_nor_api_is_given_to_a_web_page_of_another_name() {
    let service = Service::start(10);
    let status = |path: &str, host: &str| {
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        let request = config.build().new_agent().get(format!("{}{path}", service.address()));
        request.header("Host", host).call().expect("answered").status().as_u16()
    };
    for path in
        ["/", "/live/status", "/live.js", "/api/v1/pools", "/api/v1/estimates", "/metrics", "/nowhere"]
    {
        assert_eq!(status(path, "evil.example"), 403, "{path}");
        assert_ne!(status(path, "localhost:9464"), 403, "{path}");
    }
}
