//! Records that ended the service at every start, and what it does with each of them now.

use crate::kafka_support::raw::{RawBatch, batch, gzip_bomb, zstd_bomb};
use crate::kafka_support::{Broker, Published, stamp};
use crate::program::kvset;
use kvset::codec::{DecodeLimits, ErrorCode, decode_estimate};
use kvset::core::units::pages::mix;
use kvset::core::units::window::WindowKind;
use kvset::kafka::offsets::Offsets;
use kvset::kafka::topics::{TopicPlan, Topics};
use kvset::pipeline::dead_letter_policy::DeadLetterLimits;
use kvset::pipeline::gaps::OffsetGaps;
use kvset::pipeline::task::TaskConfig;
use kvset::position::{NextOffset, Partition};
use kvset::service::estimating::serve;
use kvset::service::events::{Observer, ServiceEvent};
use kvset::service::plan::ServicePlan;
use kvset::service::shutdown::Shutdown;
use kvset::settings::Settings;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longest value that is decoded.
const MAX_RECORD: usize = 256 << 10;

/// A record that is fine.
fn good(number: u64) -> RawBatch {
    let value = request(stamp(), &format!(r#""page_ids":[1,2,{}]"#, number + 3));
    batch([(Some(&b"good"[..]), Some(value.as_bytes()))])
}

fn request(time: i64, fields: &str) -> String {
    format!(r#"{{"event_time":{time},"page_size":16,{fields}}}"#)
}

/// What is produced, and what is to be counted of it.
struct Poison {
    what: &'static str,
    batch: RawBatch,
    counted: Counted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    Refused(ErrorCode),
    Tombstones,
    Unreadable,
}

/// A value that nobody can compress.
fn noise(bytes: usize) -> Vec<u8> {
    (0..bytes as u64 / 8).flat_map(|at| mix(at).to_le_bytes()).collect()
}

fn poison(is_real: bool) -> Vec<Poison> {
    use ErrorCode::*;
    let now = stamp();
    let huge = 1_u64 << 62;
    let keyed = |what, key: &[u8], value: &[u8], code| Poison {
        what,
        batch: batch([(Some(key), Some(value))]),
        counted: Counted::Refused(code),
    };
    let event = |what, time, fields: &str, code| keyed(what, b"ill", request(time, fields).as_bytes(), code);
    let tombstones = batch((0..1500).map(|_| (Some(&b"gone"[..]), None)));
    let mut all = vec![
        Poison { what: "a run of tombstones", batch: tombstones, counted: Counted::Tombstones },
        keyed("a value without bytes", b"ill", b"", EmptyRecord),
        keyed("text", b"ill", b"GET / HTTP/1.1", UnknownEncoding),
        keyed("JSON that is cut off", b"ill", br#"{"event_time":17"#, Undecodable),
        keyed("deep JSON", b"ill", format!(r#"{{"x":{}"#, "[".repeat(100_000)).as_bytes(), Undecodable),
        keyed("Avro of another schema", b"ill", b"\xc3\x01\x01\x02\x03\x04\x05\x06\x07\x08", UnknownSchema),
        keyed("a frame of a registry", b"ill", b"\0\0\0\0\x07\x02", UnknownSchema),
        keyed("a record larger than is decoded", b"ill", &noise(MAX_RECORD + 8), RecordTooLarge),
        keyed("a record larger than a letter", b"ill", &noise(1_047_000), RecordTooLarge),
        keyed("a key larger than a name", &noise(2000), b"{}", MissingField),
        keyed(
            "a name that a terminal obeys",
            b"\x1b[31m",
            request(now, r#""page_ids":[1]"#).as_bytes(),
            InvalidPool,
        ),
        keyed(
            "a name that is no text",
            b"\xff\xfe",
            request(now, r#""page_ids":[1]"#).as_bytes(),
            InvalidPool,
        ),
        event("two names", now, r#""pool":"other","page_ids":[1]"#, PoolConflict),
        event("a duration of 2^62", now, &format!(r#""page_ids":[1],"duration_ms":{huge}"#), InvalidNumber),
        event("2^62 tokens", now, &format!(r#""page_ids":[1],"output_tokens":{huge}"#), InvalidNumber),
        event("tokens below zero", now, r#""page_ids":[1],"output_tokens":-1"#, InvalidNumber),
        event("microseconds", now * 1000, r#""page_ids":[1]"#, EventTimeOutOfRange),
        event("a clock 23 hours ahead", now + 82_800_000, r#""page_ids":[1]"#, EventTimeAhead),
        event("ids that fit no tokens", now, r#""page_ids":[1,2,3],"input_tokens":16"#, PageCountMismatch),
        event("more cached than there is", now, r#""page_ids":[1],"cached_tokens":99"#, InvalidCachedTokens),
        event("packed ids of half an id", now, r#""page_ids":"AAECAw==""#, Undecodable),
        keyed(
            "a page of no tokens",
            b"ill",
            br#"{"event_time":1,"page_size":0,"page_ids":[1]}"#,
            InvalidPageSize,
        ),
        keyed("no time", b"ill", br#"{"page_ids":[1]}"#, MissingField),
        keyed("no name", b"", request(now, r#""page_ids":[1]"#).as_bytes(), MissingPool),
        Poison {
            what: "64 MB in gzip",
            batch: gzip_bomb(64 << 20),
            counted: Counted::Refused(RecordTooLarge),
        },
        Poison { what: "600 MB in zstd", batch: zstd_bomb(600 << 20), counted: Counted::Unreadable },
    ];
    if !is_real {
        // A broker that checks batches takes none of these; a disk that rots makes them.
        let rotten = RawBatch { bad_checksum: true, ..good(0) };
        all.push(Poison { what: "a wrong checksum", batch: rotten, counted: Counted::Unreadable });
        let torn = RawBatch { codec: 4, payload: noise(64), ..good(0) };
        all.push(Poison { what: "a torn batch", batch: torn, counted: Counted::Unreadable });
        let unknown = RawBatch { codec: 6, ..good(0) };
        all.push(Poison { what: "an unknown compression", batch: unknown, counted: Counted::Unreadable });
    }
    all
}

/// What the service counts, and when to stop it.
struct Counting {
    shutdown: Shutdown,
    end: NextOffset,
    /// Everything was processed, and is to be committed.
    is_done: AtomicBool,
    /// Why the partition is held.
    held: Mutex<Option<String>>,
    counts: Mutex<(BTreeMap<ErrorCode, u64>, u64, u64)>,
}

impl Default for Counting {
    fn default() -> Self {
        let (shutdown, end) = (Shutdown::new(), NextOffset(0));
        let (held, counts) = Default::default();
        Self { shutdown, end, is_done: AtomicBool::new(false), held, counts }
    }
}

impl Observer for Counting {
    fn on(&self, event: &ServiceEvent<'_>) {
        if let ServiceEvent::Held { why, .. } = event {
            *self.held.lock().expect("no panic under the lock") = Some((*why).to_owned());
            self.shutdown.request();
        }
        if let ServiceEvent::Committed { .. } = event
            && self.is_done.load(Ordering::SeqCst)
        {
            self.shutdown.request();
        }
        let mut seen = self.counts.lock().expect("no panic under the lock");
        if let ServiceEvent::Assigned { .. } = event {
            // Without snapshots whoever joins anew builds the state from the log's start.
            seen.2 = 0;
        }
        let ServiceEvent::Progress { counts, next, .. } = event else { return };
        for (code, records) in &counts.refused {
            *seen.0.entry(*code).or_default() += records;
        }
        seen.1 += counts.tombstones;
        seen.2 += counts
            .pools
            .iter()
            .filter(|(pool, _)| pool == "good")
            .map(|(_, done)| done.requests)
            .sum::<u64>();
        self.is_done.store(*next >= self.end, Ordering::SeqCst);
    }
}

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.estimate.windows = vec![WindowKind::All];
    settings
}

fn plan(broker: &Broker, run: &str) -> ServicePlan {
    let mut plan = broker.plan(&settings(), run, 1);
    plan.task = Arc::new(TaskConfig {
        limits: DecodeLimits { max_record_bytes: MAX_RECORD, ..plan.task.limits },
        dead_letters: DeadLetterLimits {
            max_share: kvset::core::units::ratio::Ratio::ONE,
            ..plan.task.dead_letters
        },
        ..TaskConfig::clone(&plan.task)
    });
    plan.stream.commit.every = Duration::from_millis(50);
    plan
}

/// Serves until the log's end, or until something cannot be read: what the partition is held for.
fn serve_to(plan: &ServicePlan, end: i64, seen: &mut Counting) -> Result<(), String> {
    seen.shutdown = Shutdown::new();
    // Without snapshots every life builds the state from the log's start.
    seen.counts.get_mut().expect("no panic under the lock").2 = 0;
    seen.end = NextOffset(end);
    serve(plan, &seen.shutdown.clone(), seen).expect("a clean stop");
    seen.held.get_mut().expect("no panic under the lock").take().map_or(Ok(()), Err)
}

#[test]
fn a_service_passes_every_kind_of_poison_and_counts_each() {
    for broker in Broker::all() {
        let topic = broker.create("requests", 1);
        let (mut end, mut expected, mut unreadable) = (0, BTreeMap::new(), Vec::new());
        let mut put = |batch: &RawBatch, what: &str| {
            let code = batch.produce(&broker.connection.brokers, &topic, 0, stamp());
            assert_eq!(code, 0, "the broker takes {what}");
            let at = end;
            end += i64::from(batch.records);
            at
        };
        let all = poison(broker.is_real());
        assert!(all.len() >= 26);
        let mut tombstones = 0;
        put(&good(0), "what is fine");
        for (number, Poison { what, batch, counted }) in (1..).zip(&all) {
            let at = put(batch, what);
            match counted {
                Counted::Refused(code) => *expected.entry(*code).or_insert(0) += batch.records as u64,
                Counted::Tombstones => tombstones += batch.records as u64,
                Counted::Unreadable => {
                    *expected.entry(ErrorCode::Unreadable).or_insert(0) += 1;
                    unreadable.push((at, *what));
                }
            }
            put(&good(number), "what is fine");
        }
        let mut plan = plan(&broker, "run");
        let mut seen = Counting::default();
        // Each batch that no client can read is named, holds its partition, and is passed once that is noted.
        for (number, (at, what)) in unreadable.iter().enumerate() {
            let error = serve_to(&plan, end, &mut seen).expect_err(what);
            let place = format!("{topic}/0 cannot be read at offset {at}");
            assert!(error.contains(&place) && error.contains("kvset skip --partition 0"), "{what}: {error}");
            if !broker.is_real() {
                // The mock takes offsets of a group that had members from those only: another group begins anew.
                (plan, seen) = (self::plan(&broker, &format!("run-{number}")), Counting::default());
                let group = &plan.stream.membership.group;
                unreadable[..number].iter().for_each(|(at, _)| skip(&broker, &topic, group, *at));
            }
            skip(&broker, &topic, &plan.stream.membership.group, *at);
        }
        serve_to(&plan, end, &mut seen).expect("everything else is passed");
        let (codes, passed, requests) = seen.counts.into_inner().expect("no panic under the lock");
        assert_eq!(codes, expected, "real broker: {}", broker.is_real());
        assert_eq!(passed, tombstones);
        assert_eq!(requests, all.len() as u64 + 1, "every record in between counts");
        let published = Published::read(&broker, &plan.stream.outputs);
        assert_eq!(published.letters.len() as u64, expected.values().sum::<u64>());
        let whole = published.letters.iter().filter(|(_, value, _)| value.is_some()).count();
        assert!(
            whole > 10 && whole < published.letters.len() - unreadable.len(),
            "{whole} letters with their value"
        );
        // What follows a gap says that it lacks something, and the group keeps its note.
        let last = published.estimates.get("good").and_then(|estimates| estimates.last());
        if let Some((_, Some(value))) = last {
            assert!(decode_estimate(value).expect("an estimate").warm_up);
        }
        let offsets =
            Offsets::open(&broker.connection, &plan.stream.membership.group, &topic).expect("a client");
        let noted = offsets.noted(&[Partition(0)], Duration::from_secs(10)).expect("an answer");
        let note = noted[0].1.as_ref().map(|noted| noted.note.clone()).unwrap_or_default();
        let gaps: OffsetGaps = note.parse().expect("a note of gaps");
        assert_eq!(
            gaps.iter().map(|gap| gap.start).collect::<Vec<_>>(),
            unreadable.iter().map(|(at, _)| *at).collect::<Vec<_>>()
        );
    }
}

/// The command, as an operator runs it.
fn skip(broker: &Broker, topic: &str, group: &str, offset: i64) {
    let output = kvset(&["skip", "--partition", "0", "--offset", &offset.to_string()])
        .env("KVSET__KAFKA__BROKERS", &broker.connection.brokers)
        .env("KVSET__KAFKA__GROUP", group)
        .env("KVSET__INPUT__TOPIC", topic)
        .output()
        .expect("it runs");
    let (said, warned) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && said.contains(&format!("passes offsets {offset}-{offset} ")),
        "{said}{warned}"
    );
}

/// A letter that its topic does not take, though the configuration would let it go.
#[test]
fn a_letter_that_its_topic_does_not_take_goes_without_the_bytes_of_its_record() {
    let Some(broker) = Broker::real() else { return };
    let topic = broker.create("requests", 1);
    // With its headers the letter is larger than what a topic takes by default.
    let large = batch([(Some(&b"ill"[..]), Some(&noise(1_048_400)[..]))]);
    for batch in [good(1), large, good(2)] {
        assert_eq!(batch.produce(&broker.connection.brokers, &topic, 0, stamp()), 0);
    }
    let mut plan = plan(&broker, "run");
    plan.task = Arc::new(TaskConfig { max_letter_bytes: 64 << 20, ..TaskConfig::clone(&plan.task) });
    let mut seen = Counting::default();
    serve_to(&plan, 3, &mut seen).expect("it goes on");
    let published = Published::read(&broker, &plan.stream.outputs);
    let [(_, value, headers)] = &published.letters[..] else { panic!("{} letters", published.letters.len()) };
    assert!(value.is_none());
    let bytes = headers.iter().find(|(name, _)| name == "kvset_value_bytes").map(|(_, value)| value.clone());
    assert_eq!(bytes.as_deref(), Some(&b"1048400"[..]));
}

/// Letters have their records' keys, so one of each pool was left, and nothing said so.
#[test]
fn a_compacted_topic_of_dead_letters_is_named() {
    let Some(broker) = Broker::real() else { return };
    let [input, estimates] = ["requests", "estimates"].map(|name| broker.create(name, 1));
    let letters = broker.topic("letters");
    let compacted_for = Some(Duration::from_secs(60));
    let plan = TopicPlan { name: letters.clone(), partitions: NonZeroU32::MIN, compacted_for };
    let topics = Topics::new(&broker.connection, Duration::from_secs(30)).expect("a client");
    topics.create(&[plan]).expect("a topic");
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = kvset(&["config", "check", "--connect"]);
    command.current_dir(directory.path()).env("KVSET__KAFKA__BROKERS", &broker.connection.brokers);
    command.env("KVSET__INPUT__TOPIC", input).env("KVSET__OUTPUT__TOPIC", estimates);
    command.env("KVSET__OUTPUT__DEAD_LETTER_TOPIC", letters).env("KVSET__HTTP__LISTEN", "");
    let said = String::from_utf8(command.output().expect("run").stdout).expect("UTF-8");
    assert!(said.contains("FAILED  letters' cleanup"), "{said}");
    assert_eq!(said.matches("FAILED").count(), 1, "{said}");
}
