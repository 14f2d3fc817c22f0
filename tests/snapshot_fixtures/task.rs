//! A whole task as the service keeps it, with every kind of state there is: pools of each engine, with a
//! plan of tiers, sampled, bounded, of a page size learnt from the log, with refused requests, and with nothing
//! but refused requests; open windows of every kind; late records; dead letters; offsets that could not be read; a
//! history that was warmed up.

use super::{FINGERPRINT, file, frozen};
use kvset::codec::{DecodeLimits, Encoding, EstimateDetail, EstimateEncoding, SourceRecord, decode_estimate};
use kvset::core::engines::config::CacheConfig;
use kvset::core::engines::profile::Profile;
use kvset::core::engines::rules::EngineRules;
use kvset::core::estimate::config::PoolConfig;
use kvset::core::pool::Pool;
use kvset::core::pool::set::PoolConfigs;
use kvset::core::questions::enabled::Questions;
use kvset::core::sizing::tiers::{Inclusion, TierConfig, TrendRules};
use kvset::core::stack::{ChainCheck, ChainPolicy};
use kvset::core::units::pages::mix;
use kvset::core::units::ratio::Ratio;
use kvset::core::units::{PageCount, PageSize};
use kvset::output::OutputRecord;
use kvset::pipeline::dead_letter_policy::DeadLetterLimits;
use kvset::pipeline::facts::{PartitionId, RecordIdentity, SnapshotFact};
use kvset::pipeline::gaps::{OffsetGap, OffsetGaps};
use kvset::pipeline::resume::{Origin, Resume};
use kvset::pipeline::task::{PartitionTask, RestoredTask, TaskConfig, TaskRestoreError};
use kvset::position::{NextOffset, Partition};
use kvset::snapshot::capture::capture;
use kvset::snapshot::format::{Snapshot, VERSION};
use kvset::snapshot::stream::Verified;
use std::fmt::Write as _;
use std::io::Cursor;
use std::ops::Range;
use std::sync::Arc;

const TOPIC: &str = "llm.requests";
pub(super) const PARTITION: Partition = Partition(7);
/// Where in the log the snapshot was taken.
pub(super) const SNAPSHOT: i64 = 240;
/// Offsets that cannot be read.
const GAP: Range<i64> = 30..34;
/// Where the log ends.
pub(super) const END: i64 = 290;
pub(super) const POOLS: [&str; 7] =
    ["bounded", "learning", "paper", "refusing", "sampled", "sglang", "unsized"];

/// How every pool is estimated, but for what makes it another kind.
fn common() -> PoolConfig {
    PoolConfig {
        cache: CacheConfig {
            page_size: PageSize::new(16),
            kv_bytes_per_token: Some(131_072.0),
            capacities: ["16p", "64p"].map(|text| text.parse().expect("a capacity")).to_vec(),
            coverages: [500, 950].map(Ratio::per_mille).to_vec(),
            chain_check: ChainCheck::Full,
            ..CacheConfig::default()
        },
        windows: ["tumbling:10s", "hopping:20s/10s", "last:40", "all"]
            .map(|text| text.parse().expect("a window"))
            .to_vec(),
        publish_every_ms: 20_000,
        allowed_lateness_ms: 2_000,
        grace_ms: 3_000,
        min_history_ms: 60_000,
        min_requests: 3,
        tiers: vec![tier("gpu", 500, "8p"), tier("host", 950, "32p")],
        trend: TrendRules { step_ms: 10_000, ..TrendRules::default() },
        ..PoolConfig::default()
    }
}

fn config() -> Arc<TaskConfig> {
    config_that_asks(Questions::default())
}

/// The same with more asked of every pool whose engine can answer.
pub(super) fn config_that_asks(questions: Questions) -> Arc<TaskConfig> {
    let pool = PoolConfig { questions, ..common() };
    let questions = Questions::default();
    let sglang = PoolConfig {
        cache: CacheConfig { profile: Profile::Sglang, ..pool.cache.clone() },
        tiers: Vec::new(),
        questions,
        ..pool.clone()
    };
    let named = [
        (
            "bounded",
            PoolConfig {
                cache: CacheConfig { max_tracked_pages: PageCount(24), ..pool.cache.clone() },
                ..pool.clone()
            },
        ),
        (
            "learning",
            PoolConfig {
                cache: CacheConfig { page_size: None, profile: Profile::Vllm, ..pool.cache.clone() },
                ..pool.clone()
            },
        ),
        (
            "refusing",
            PoolConfig {
                cache: CacheConfig { chain_policy: ChainPolicy::Reject, ..pool.cache.clone() },
                ..pool.clone()
            },
        ),
        ("sglang", sglang),
        (
            "sampled",
            PoolConfig {
                cache: CacheConfig { sample_rate: Ratio::per_mille(500), ..pool.cache.clone() },
                ..pool.clone()
            },
        ),
        (
            "unsized",
            PoolConfig { cache: CacheConfig { page_size: None, ..pool.cache.clone() }, ..pool.clone() },
        ),
    ];
    config_of(pool, &named)
}

/// One pool of each kind whose capacities are modelled by rules of their own.
fn config_of_rules() -> Arc<TaskConfig> {
    config_of_rules_that_asks(Questions::default())
}

/// The same with more asked of every pool.
pub(super) fn config_of_rules_that_asks(questions: Questions) -> Arc<TaskConfig> {
    let pool = PoolConfig { tiers: Vec::new(), questions, ..common() };
    let told = |profile, rules: EngineRules| PoolConfig {
        cache: CacheConfig { profile, rules, ..pool.cache.clone() },
        ..pool.clone()
    };
    let groups =
        |text: &str| EngineRules { attention: text.parse().expect("groups"), ..EngineRules::default() };
    let named = [
        ("chunks", told(Profile::Lmcache, EngineRules { chunk_tokens: 32, ..EngineRules::default() })),
        ("objects", told(Profile::Mooncake, EngineRules { lease_ms: 4_000, ..EngineRules::default() })),
        ("states", told(Profile::Vllm, groups("full+2*mamba"))),
        ("windows", told(Profile::Vllm, groups("full+window:40"))),
    ];
    config_of(pool.clone(), &named)
}

fn config_of(pool: PoolConfig, named: &[(&str, PoolConfig)]) -> Arc<TaskConfig> {
    let named = named.iter().map(|(name, config)| ((*name).to_owned(), config.clone()));
    Arc::new(TaskConfig {
        topic: TOPIC.to_owned(),
        encoding: Encoding::Auto,
        schemas: None,
        limits: DecodeLimits::default(),
        pools: PoolConfigs::new(pool, named).expect("usable").into(),
        max_pools: 10,
        idle_timeout_ms: None,
        forget_after_ms: None,
        put_aside_after_ms: None,
        hold_back_bytes: 1 << 20,
        max_letter_bytes: 1 << 20,
        dead_letters: DeadLetterLimits { max_consecutive: 9, max_share: Ratio::ONE, share_window: 100 },
        output: EstimateEncoding::Json,
        detail: EstimateDetail::Full,
        version: "fixture".to_owned(),
        fingerprint: FINGERPRINT.to_string(),
    })
}

fn tier(name: &str, coverage: u16, unit: &str) -> TierConfig {
    TierConfig {
        name: name.to_owned(),
        coverage: Ratio::per_mille(coverage),
        inclusion: Inclusion::Exclusive,
        unit: unit.parse().expect("a capacity"),
        unit_price: Some(2.5),
    }
}

/// The log is read from its start, which is not the topic's; the first records only warm the caches up.
pub(super) fn from_the_start() -> Resume {
    Resume {
        origin: Origin::Rebuild,
        replay_from: NextOffset(0),
        publish_from: NextOffset(20),
        count_from: NextOffset(20),
        warm_up: true,
        set_aside: vec![],
        explanation: String::new(),
    }
}

/// One record of the log: pools in turns, sessions that grow, some records late, some broken.
pub(super) fn value(offset: i64) -> String {
    let chance = mix(offset as u64);
    if chance.is_multiple_of(17) {
        return "no request".to_owned();
    }
    let (session, pages) = (chance % 5, 2 + chance / 8 % 12);
    let ids: Vec<u64> = match chance % 13 {
        // Ids known under another prefix.
        0 => vec![9, 1, 2],
        _ => [1, 2].into_iter().chain((0..pages).map(|page| 100 * (session + 1) + page)).collect(),
    };
    let late = if chance.is_multiple_of(11) { 15_000 } else { 0 };
    let (time, tokens) = (100_000 + 500 * offset - late, ids.len() as u64 * 16 + chance % 16);
    let (output, duration) = (chance % 50, chance % 4_000);
    let page_size = if pool(offset) == "learning" { r#","page_size":16"# } else { "" };
    let scope = if session == 4 { r#","scope":"tenant""# } else { "" };
    format!(
        r#"{{"event_time":{time},"page_ids":{ids:?},"input_tokens":{tokens},"output_tokens":{output},"duration_ms":{duration}{page_size}{scope}}}"#
    )
}

fn pool(offset: i64) -> &'static str {
    among(&POOLS, offset)
}

fn among(pools: &[&'static str], offset: i64) -> &'static str {
    pools[(mix(offset as u64) >> 32) as usize % pools.len()]
}

/// Feeds the log up to `end`; what is given out.
fn process(task: &mut PartitionTask, end: i64) -> Vec<OutputRecord> {
    feed_pools(task, end, &POOLS)
}

fn feed_pools(task: &mut PartitionTask, end: i64, pools: &[&'static str]) -> Vec<OutputRecord> {
    feed_values(task, end, pools, value)
}

/// The same with these records.
pub(super) fn feed_values(
    task: &mut PartitionTask,
    end: i64,
    pools: &[&'static str],
    value: impl Fn(i64) -> String,
) -> Vec<OutputRecord> {
    let mut outputs = Vec::new();
    for offset in (task.next_offset().0..end).filter(|offset| !GAP.contains(offset)) {
        let value = value(offset);
        let record = SourceRecord {
            schema_header: None,
            topic: TOPIC,
            partition: PARTITION.0,
            offset,
            timestamp_ms: Some(1_760_000_000_000 + offset),
            key: Some(among(pools, offset).as_bytes()),
            value: Some(value.as_bytes()),
        };
        task.process_record(&record, &mut outputs).expect("within limits");
    }
    outputs
}

/// A task of a log that has offsets nobody can read.
pub(super) fn fresh(config: Arc<TaskConfig>, resume: &Resume) -> PartitionTask {
    let mut task = PartitionTask::new(config, PARTITION, resume);
    let mut gaps = OffsetGaps::default();
    gaps.insert(OffsetGap::new(GAP.start, GAP.end).expect("a range"));
    task.pass(gaps);
    task
}

fn task() -> PartitionTask {
    let mut task = fresh(config(), &from_the_start());
    process(&mut task, SNAPSHOT);
    task
}

pub(super) fn snapshot(task: &PartitionTask) -> Snapshot {
    Snapshot {
        partition: PartitionId::new(TOPIC, PARTITION.0).expect("a legal name"),
        fact: SnapshotFact {
            next_offset: task.next_offset(),
            fingerprint: FINGERPRINT,
            last_record: task.last_record(),
        },
        body: capture(&task.image(), Vec::new()).expect("bytes").into(),
    }
}

/// What a task gives out for the rest of the log, a line an output.
fn rest(task: &mut PartitionTask) -> String {
    rest_of(task, &POOLS)
}

fn rest_of(task: &mut PartitionTask, pools: &[&'static str]) -> String {
    lines(feed_pools(task, END, pools))
}

pub(super) fn lines(outputs: Vec<OutputRecord>) -> String {
    let text =
        |bytes: &Option<Vec<u8>>| String::from_utf8_lossy(bytes.as_deref().unwrap_or(b"-")).into_owned();
    outputs.into_iter().fold(String::new(), |mut lines, output| {
        let OutputRecord { destination, key, value, headers, .. } = output;
        let (key, value) = (text(&key), text(&value));
        writeln!(lines, "{destination:?} {key} {value} {headers:?}").expect("memory");
        lines
    })
}

/// What a file of this version holds.
fn image(version: u32, written: Vec<u8>) -> RestoredTask {
    let verified = Verified::alone(Box::new(Cursor::new(written))).expect("a sound file");
    let header = verified.header().clone();
    assert_eq!(header.version, version);
    let place = PartitionId::new(TOPIC, PARTITION.0).expect("a legal name");
    header.require_place(&place, NextOffset(SNAPSHOT)).expect("its own place");
    verified.restore().expect("a task")
}

fn restore(image: RestoredTask) -> Result<PartitionTask, TaskRestoreError> {
    restore_as(config(), task().last_record(), image)
}

fn restore_as(
    config: Arc<TaskConfig>,
    last_record: Option<RecordIdentity>,
    image: RestoredTask,
) -> Result<PartitionTask, TaskRestoreError> {
    let resume = Resume {
        origin: Origin::Snapshot(0),
        replay_from: NextOffset(SNAPSHOT),
        publish_from: NextOffset(SNAPSHOT),
        warm_up: false,
        ..from_the_start()
    };
    PartitionTask::restore(config, PARTITION, &resume, last_record, image)
}

/// A task that goes on from a file of this version.
fn restored(version: u32, written: Vec<u8>) -> PartitionTask {
    restore(image(version, written)).expect("the same configuration")
}

/// A task of another configuration that goes on from a file of this version.
pub(super) fn restored_as(
    config: Arc<TaskConfig>,
    version: u32,
    written: Vec<u8>,
    last_record: Option<RecordIdentity>,
) -> PartitionTask {
    restore_as(config, last_record, image(version, written)).expect("the same configuration")
}

#[test]
fn a_task_of_version_1_goes_on_as_if_it_had_never_stopped() {
    let mut unstopped = task();
    let published = rest(&mut restored(1, frozen("task.kvs", &file(&snapshot(&unstopped)))));
    assert!(published.lines().count() > 40, "enough to compare");
    assert_eq!(published, rest(&mut unstopped));
    assert_eq!(published.as_bytes(), frozen("task.expected.txt", published.as_bytes()));
}

/// A restart blanked the page, the API and the metrics until the next window closed.
#[test]
fn a_restart_knows_the_newest_estimate_of_every_pool_and_window() {
    let mut task = fresh(config(), &from_the_start());
    let mut published = std::collections::BTreeMap::new();
    for output in process(&mut task, SNAPSHOT) {
        let (Some(value), Some(_)) = (output.value, output.window) else { continue };
        let estimate = decode_estimate(&value).expect("an estimate");
        published.insert((estimate.pool.clone(), estimate.window), estimate);
    }
    assert!(published.len() > 15, "{} pools and windows", published.len());
    let expected: Vec<_> = published.into_values().collect();
    let written = file(&snapshot(&task));
    let restored_task = restored(VERSION, written.clone());
    assert_eq!(restored_task.latest().expect("readable"), expected);
    assert_eq!(restored_task.time(), task.time());
    assert!(file(&snapshot(&restored_task)) == written, "a snapshot is a function of the log alone");
}

/// The estimates of a life before are part of the state whether or not this life published them.
#[test]
fn a_muted_rebuild_comes_to_the_same_state() {
    let muted = Resume { publish_from: NextOffset(SNAPSHOT), ..from_the_start() };
    let mut rebuilt = fresh(config(), &muted);
    assert!(process(&mut rebuilt, SNAPSHOT).is_empty(), "muted");
    assert!(file(&snapshot(&rebuilt)) == file(&snapshot(&task())));
}

/// A change to the layout of a task's state must raise the version of the format, a change to what equal
/// records make of it that of results; either freezes a new file.
#[test]
fn the_task_written_now_is_the_newest_frozen_one() {
    let now = file(&snapshot(&task()));
    assert!(
        now == frozen("task.kvs", &now),
        "the state changed: raise VERSION or RESULT_VERSION and freeze it anew"
    );
}

/// A fixture of an empty state would prove nothing.
#[test]
fn the_frozen_task_has_every_kind_of_state() {
    let task = task();
    let pool = |name: &str| -> &Pool {
        task.pools().iter().find(|pool| pool.name() == name).unwrap_or_else(|| panic!("no pool {name}"))
    };
    assert_eq!(task.pools().len(), POOLS.len());
    let bounded = pool("bounded").engine().expect("a cache").stack();
    assert!(bounded.tracked_pages() < bounded.accumulated_pages(), "it forgot pages");
    assert_eq!(pool("learning").page_size(), PageSize::new(16), "learnt from the log");
    assert!(pool("paper").chain_violations() > 0 && pool("refusing").rejected_records() > 0);
    assert!(pool("unsized").engine().is_none() && pool("unsized").rejected_records() > 0);
    assert!(pool("sglang").caches().is_some(), "a cache a capacity");
    let open = task.provisional();
    let paper: Vec<_> = open.iter().filter(|estimate| estimate.pool == "paper").collect();
    assert!(
        paper.iter().any(|estimate| estimate.plan.is_some() && estimate.trend_windows > 0),
        "tiers settle"
    );
    assert!(paper.iter().any(|estimate| estimate.in_flight.is_some()), "requests overlap");
    for window in &pool("paper").config().windows {
        let is_open = paper.iter().any(|estimate| estimate.window == *window && estimate.requests > 0);
        assert!(is_open, "{window} has nothing open");
    }
    assert!(
        open.iter().any(|estimate| estimate.late_records > 0) && open.iter().any(|estimate| estimate.warm_up)
    );
}

pub(super) const POOLS_OF_RULES: [&str; 4] = ["chunks", "objects", "states", "windows"];

/// Pools of hybrid models, LMCache and Mooncake are read for ever, too.
#[test]
fn a_task_with_caches_of_their_own_rules_goes_on_as_if_it_had_never_stopped() {
    let mut unstopped = fresh(config_of_rules(), &from_the_start());
    feed_pools(&mut unstopped, SNAPSHOT, &POOLS_OF_RULES);
    assert!(unstopped.pools().iter().all(|pool| pool.caches().is_some()), "a cache a capacity");
    let last_record = unstopped.last_record();
    let now = file(&snapshot(&unstopped));
    let written = frozen("own_rules/task.kvs", &now);
    assert!(now == written, "the state changed: raise VERSION or the engine's revision and freeze it anew");
    let published =
        rest_of(&mut restored_as(config_of_rules(), VERSION, written, last_record), &POOLS_OF_RULES);
    assert!(published.lines().count() > 20, "enough to compare");
    assert_eq!(published, rest_of(&mut unstopped, &POOLS_OF_RULES));
    assert_eq!(published.as_bytes(), frozen("own_rules/task.expected.txt", published.as_bytes()));
}
