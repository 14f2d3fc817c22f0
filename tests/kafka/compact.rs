//! Compact events from `kvset prepare` to the estimates: those of full events, over restarts; and a service that begins
//! to read in the middle.

use crate::kafka_support::{Broker, Input, Published, StopAfter, output_topics, serve_records, stamp};
use crate::prepare_support;
use kvset::codec::{RequestDecoder, decode_estimate};
use kvset::core::estimate::Estimate;
use kvset::core::units::PageSize;
use kvset::kafka::sink::{OutputTopic, OutputTopics};
use kvset::output::Destination;
use kvset::prepare::{Preparer, Tokenizers};
use kvset::service::prepare::{PreparePlan, prepare, recipe};
use kvset::service::shutdown::Shutdown;
use kvset::settings::{Settings, Span};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

const PARTITIONS: i32 = 2;
const REFRESH_MS: i64 = 10_000;
const TURNS: i64 = 40;

fn settings(compact: bool) -> Settings {
    let mut settings = Settings::default();
    settings.estimate.page_size = PageSize::new(4);
    settings.estimate.windows = vec!["tumbling:5s".parse().expect("a window")];
    // Partitions of the raw log are prepared in whatever order: none of their events is late.
    settings.estimate.allowed_lateness = Span::from_secs(60);
    settings.dead_letters.max_share = kvset::core::units::ratio::Ratio::ONE;
    settings.prepare.event_time = "{at}".parse().expect("a template");
    settings.prepare.compact = compact;
    settings.prepare.compact_refresh = Span::from_ms(REFRESH_MS as u64);
    settings
}

/// Sessions that grow by two pages a second, each in one partition, all at once; every event at a time of its own.
fn raw_input() -> Input {
    let mut input = Input::default();
    for (turn, session) in (0..TURNS).flat_map(|turn| (0..6).map(move |session| (turn, session))) {
        let at = turn * 1000 + session;
        let tokens: Vec<i64> = (0..8 * (turn + 1)).map(|place| place + 1000 * session).collect();
        let value = format!(r#"{{"at": {at}, "model": "pool-{}", "tokens": {tokens:?}}}"#, session % 2);
        input.push(session as i32 % PARTITIONS, "any key", value.into_bytes());
    }
    input
}

/// What prepare writes with `compact` off, by event time.
fn full_events(raw: &Input) -> BTreeMap<i64, Vec<u8>> {
    let mut preparer = Preparer::new(Arc::new(recipe(&settings(false))), Tokenizers::default());
    let mut events = BTreeMap::new();
    for (partition, records) in &raw.partitions {
        for (offset, (key, value)) in (0..).zip(records) {
            let record =
                prepare_support::record(*partition, offset, Some(stamp()), Some(key), Some(value), &[]);
            for output in preparer.prepare(&record).outputs {
                assert_eq!(output.destination, Destination::Results);
                let value = output.value.expect("an event");
                events.insert(time_and_pages(&value).0, value);
            }
        }
    }
    events
}

/// An event's time, the ids it lists and the pages it names.
fn time_and_pages(value: &[u8]) -> (i64, usize, u32) {
    let mut decoder = RequestDecoder::default();
    let event = decoder.decode(Some(b"any"), value).expect("an event").event;
    let named = event.known_prefix.map_or(0, |prefix| prefix.pages.get());
    (event.event_time.0, event.page_ids.len(), named)
}

/// A full event of each pool that closes the windows of all before it.
fn closing() -> Input {
    let mut input = Input::default();
    for (pool, time) in [("pool-0", 200_000), ("pool-1", 200_001)] {
        let value = format!(r#"{{"event_time": {time}, "page_size": 4, "page_ids": [7]}}"#);
        input.push(0, pool, value.into_bytes());
    }
    input
}

/// Prepares the raw log, once stopped in order after so many records and started again; then come the closing events.
fn prepare_all(broker: &Broker, records: u64, stop_after: u64) {
    let requests = OutputTopic { name: broker.create("requests", 1), partitions: NonZeroU32::MIN };
    let letters = output_topics(broker, "prepared", 1).dead_letters;
    let outputs = OutputTopics { results: requests, dead_letters: letters };
    let settings = settings(true);
    let mut plan = PreparePlan {
        stream: broker.stream(&broker.topic("raw"), "prepare", outputs),
        recipe: Arc::new(recipe(&settings)),
        tokenizers: Tokenizers::default(),
        dead_letters: kvset::pipeline::dead_letter_policy::DeadLetterLimits {
            max_consecutive: 1,
            max_share: kvset::core::units::ratio::Ratio::ONE,
            share_window: 100,
        },
        registry: None,
    };
    // Small steps, so that there is something left to do after a stop.
    plan.stream.flow.records = 16;
    let (mut done, mut runs) = (0, 0);
    while done < records {
        let next = if done < stop_after { stop_after } else { records - done };
        let shutdown = Shutdown::new();
        let summary = prepare(&plan, &shutdown, &StopAfter::new(&shutdown, next)).expect("a clean run");
        (done, runs) = (done + summary.records, runs + 1);
    }
    assert_eq!((done, runs > u64::from(stop_after > 0)), (records, true));
    closing().produce(&broker.connection, &broker.topic("requests"));
}

/// Estimates without their offsets: a transaction's markers take some.
fn estimates(published: &Published) -> BTreeMap<&str, Vec<Estimate>> {
    let read = |values: &Vec<(_, Option<Vec<u8>>)>| {
        let values = values.iter().filter_map(|(_, value): &(Option<Vec<u8>>, _)| value.as_deref());
        let estimates = values.map(|value| decode_estimate(value).expect("an estimate"));
        estimates.map(|estimate| Estimate { first_offset: 0, next_offset: 0, ..estimate }).collect()
    };
    published.estimates.iter().map(|(pool, values)| (pool.as_str(), read(values))).collect()
}

#[test]
fn compact_events_give_the_estimates_of_full_ones_over_a_restart_of_prepare() {
    for broker in Broker::all() {
        let raw = raw_input();
        raw.produce(&broker.connection, &broker.create("raw", PARTITIONS as u32));
        prepare_all(&broker, raw.records(), raw.records() / 3);
        let full = full_events(&raw);
        let (mut expected, mut ids, mut compact) = (Input::default(), [0, 0], 0);
        for record in broker.read_all(&broker.topic("requests")) {
            let value = record.value.expect("an event");
            let (time, listed, named) = time_and_pages(&value);
            let whole = full.get(&time).cloned().unwrap_or(value);
            let (_, pages, _) = time_and_pages(&whole);
            assert_eq!(listed + named as usize, pages, "at {time}");
            let pool = String::from_utf8(record.key.expect("a pool")).expect("a name");
            expected.push(0, &pool, whole);
            ids = [ids[0] + pages, ids[1] + listed];
            compact += u64::from(named > 0);
        }
        assert_eq!((expected.records(), compact > raw.records() / 2), (raw.records() + 2, true));
        println!("{} ids of {}, {compact} events of {}", ids[1], ids[0], raw.records());
        assert!(ids[1] * 4 < ids[0]);
        let service = broker.plan(&settings(true), "estimates", 1);
        serve_records(&service, expected.records()).expect("a clean run");
        let found = Published::read(&broker, &service.stream.outputs);
        assert_eq!(found.letters, []);
        let (found, expected) = (estimates(&found), expected.expected(&service.task));
        assert_eq!(found, estimates(&expected));
        let counts: Vec<_> = found.values().map(Vec::len).collect();
        assert_eq!(counts, [8, 8], "windows of five seconds");
    }
}

#[test]
fn a_service_that_starts_in_the_middle_refuses_what_it_cannot_know_until_the_refresh() {
    let broker = Broker::mock();
    let raw = raw_input();
    raw.produce(&broker.connection, &broker.create("raw", PARTITIONS as u32));
    prepare_all(&broker, raw.records(), 0);
    let mut later = Input::default();
    for record in broker.read_all(&broker.topic("requests")) {
        let (value, pool) = (record.value.expect("an event"), record.key.expect("a pool"));
        if time_and_pages(&value).0 >= 15_000 {
            later.push(0, std::str::from_utf8(&pool).expect("a name"), value);
        }
    }
    let mut service = broker.plan(&settings(true), "estimates", 1);
    service.stream.topic = broker.create("later", 1);
    later.produce(&broker.connection, &service.stream.topic);
    serve_records(&service, later.records()).expect("a clean run");
    let found = Published::read(&broker, &service.stream.outputs);
    let refused: Vec<i64> = found
        .letters
        .iter()
        .map(|(_, value, headers)| {
            let code = headers.iter().find(|(name, _)| name == "kvset_error_code").expect("a code");
            assert_eq!(code.1, b"unknown_prefix");
            time_and_pages(value.as_deref().expect("the record")).0
        })
        .collect();
    assert!(refused.len() > 10, "{} were refused", refused.len());
    let last = refused.iter().max().expect("some");
    assert!(*last < 15_000 + REFRESH_MS, "{last} is after the refresh");
    assert!((refused.len() as u64) < later.records() / 2);
    let estimates = estimates(&found);
    let counted: u64 = estimates.values().flatten().map(|estimate| estimate.requests).sum();
    let accepted = later.records() - refused.len() as u64;
    assert_eq!(
        counted,
        accepted - 2,
        "all that were not refused count, but for those that close the windows"
    );
}
