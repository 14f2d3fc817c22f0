//! The input log of a life, and what an undisturbed run in memory makes of it.

use crate::chance::Chance;
use kvset::codec::{DecodeLimits, Encoding, EstimateDetail, EstimateEncoding, EstimateKey, SourceRecord};
use kvset::core::engines::profile::{OverlapMode, Profile};
use kvset::core::engines::rules::EngineRules;
use kvset::core::estimate::config::PoolConfig;
use kvset::core::pool::set::PoolConfigs;
use kvset::core::questions::enabled::Questions;
use kvset::core::questions::reuse::ReuseSetting;
use kvset::core::sizing::tiers::{Inclusion, TierConfig};
use kvset::core::stack::ChainCheck;
use kvset::core::units::pages::Scope;
use kvset::core::units::ratio::Ratio;
use kvset::core::units::{Offset, PageCount, PageSize};
use kvset::kafka::member::InputRecord;
use kvset::output::{Destination, OutputRecord};
use kvset::pipeline::dead_letter_policy::DeadLetterLimits;
use kvset::pipeline::facts::RecordIdentity;
use kvset::pipeline::resume::{LostHistory, ResumeFacts, StartFrom, decide};
use kvset::pipeline::task::{PartitionTask, TaskConfig};
use kvset::position::{LogRange, NextOffset, Partition};
use kvset_core::engines::config::CacheConfig;
use std::sync::{Arc, LazyLock};

pub const TOPIC: &str = "requests";

/// A record as it lies in the log.
#[derive(Debug)]
pub struct LogRecord {
    pub partition: i32,
    pub offset: i64,
    pub timestamp_ms: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
}

impl LogRecord {
    pub fn identity(&self) -> RecordIdentity {
        let (key, value) = (self.key.as_deref(), self.value.as_deref());
        RecordIdentity::of(Offset(self.offset), self.timestamp_ms, key, value)
    }
}

/// A record that was fetched.
#[derive(Debug, Clone)]
pub struct Fetched(pub Arc<LogRecord>);

impl InputRecord for Fetched {
    fn as_source(&self) -> SourceRecord<'_> {
        SourceRecord {
            schema_header: None,
            topic: TOPIC,
            partition: self.0.partition,
            offset: self.0.offset,
            timestamp_ms: Some(self.0.timestamp_ms),
            key: self.0.key.as_deref(),
            value: self.0.value.as_deref(),
        }
    }
}

/// One partition's log.
#[derive(Debug)]
pub struct PartitionInput {
    /// In order of offset, with gaps as transaction markers and compaction leave them.
    pub records: Vec<Fetched>,
    /// Where the log ends: past the last record and what follows it.
    pub end: i64,
    /// What an undisturbed run publishes, each output with the offset of the record that gave it.
    pub outputs: Vec<(i64, OutputRecord)>,
}

impl PartitionInput {
    /// What the records from one offset up to another give.
    pub fn outputs_between(&self, from: i64, to: i64) -> impl Iterator<Item = &OutputRecord> {
        self.outputs.iter().filter(move |(at, _)| (from..to).contains(at)).map(|(_, output)| output)
    }
}

/// The whole topic.
#[derive(Debug)]
pub struct Input {
    pub partitions: Vec<PartitionInput>,
}

impl Input {
    /// The log of a seed: some pools a partition, event times that jump and fall back, records that
    /// are refused.
    pub fn generate(seed: u64) -> Self {
        let mut chance = Chance::new(seed ^ 0x6c6f_6773);
        let task = Arc::new(task_config());
        let count = chance.between(1, 3) as i32;
        let partitions = (0..count).map(|partition| {
            let (records, end) = records(partition, &mut chance);
            let outputs = undisturbed(&task, partition, &records, end);
            PartitionInput { records, end, outputs }
        });
        Self { partitions: partitions.collect() }
    }
}

impl Input {
    /// The same offsets with other records at them.
    pub fn recreated(&self) -> Self {
        let other = |record: &Fetched| {
            let LogRecord { partition, offset, timestamp_ms, key, value } = &*record.0;
            let (key, value) = (key.clone(), value.clone());
            let (partition, offset, timestamp_ms) = (*partition, *offset, timestamp_ms + 1);
            Fetched(Arc::new(LogRecord { partition, offset, timestamp_ms, key, value }))
        };
        let partitions = self.partitions.iter().map(|partition| PartitionInput {
            records: partition.records.iter().map(other).collect(),
            end: partition.end,
            outputs: Vec::new(),
        });
        Self { partitions: partitions.collect() }
    }
}

/// What shapes the output: small windows, so that a short log closes many.
pub fn task_config() -> TaskConfig {
    let pool = PoolConfig {
        cache: CacheConfig {
            page_size: PageSize::new(4),
            capacities: ["4p", "16p"].map(|text| text.parse().expect("a capacity")).to_vec(),
            max_tracked_pages: PageCount(1 << 12), // So that replicas follow their pools at first, and are on their own later.
            max_pages_per_request: (1 << 12) - 100,
            ..CacheConfig::default()
        },
        windows: ["tumbling:1s", "last:3", "all"].map(|text| text.parse().expect("a window")).to_vec(),
        publish_every_ms: 4000,
        allowed_lateness_ms: 500,
        questions: Questions {
            measured: true,
            provisioned: None,
            routers: ["logged", "least-in-flight:2", "prefix:2"]
                .map(|text| text.parse().expect("a router"))
                .to_vec(),
            reuse: ReuseSetting {
                ttls: ["300ms", "2s"].map(|text| text.parse().expect("a time")).to_vec(),
                tenants: Some(2),
                optimal: true,
                traffic: true,
                prefill_rate: Some(1000.0),
            },
            ..Questions::default()
        },
        tiers: ["fast", "slow"].map(tier).to_vec(),
        ..PoolConfig::default()
    };
    // Of each partition one pool models requests that overlap, so that its records wait for earlier arrivals.
    let overlapping = PoolConfig {
        cache: CacheConfig {
            profile: Profile::Vllm,
            rules: EngineRules { overlap: OverlapMode::On, ..EngineRules::default() },
            ..pool.cache.clone()
        },
        hold_back_ms: 2_000,
        ..pool.clone()
    };
    let named = (0..3).map(|partition| (pool_name(partition, OVERLAPPING), overlapping.clone()));
    TaskConfig {
        topic: TOPIC.to_owned(),
        encoding: Encoding::Auto,
        limits: DecodeLimits::default(),
        schemas: None,
        pools: PoolConfigs::new(pool, named).expect("usable").into(),
        max_pools: 8,
        idle_timeout_ms: Some(4_000),
        forget_after_ms: Some(30_000),
        put_aside_after_ms: Some(1500),
        // Some of them are taken early.
        hold_back_bytes: 5_000,
        max_letter_bytes: 1 << 20,
        dead_letters: DeadLetterLimits { max_consecutive: 100, max_share: Ratio::ONE, share_window: 1000 },
        output: EstimateEncoding::Json,
        detail: EstimateDetail::Full,
        version: "1".to_owned(),
        fingerprint: "f".to_owned(),
    }
}

/// Which of a partition's pools models requests that overlap.
const OVERLAPPING: u64 = 1;

fn pool_name(partition: i32, number: u64) -> String {
    format!("pool-{partition}-{number}")
}

fn tier(name: &str) -> TierConfig {
    TierConfig {
        name: name.to_owned(),
        coverage: Ratio::per_mille(if name == "fast" { 500 } else { 1000 }),
        inclusion: Inclusion::Exclusive,
        unit: "2p".parse().expect("pages"),
        unit_price: None,
    }
}

/// Which partition's records an output came of.
pub fn partition_of(output: &OutputRecord) -> Option<usize> {
    match output.destination {
        Destination::Results => {
            usize::try_from(EstimateKey::from_bytes(output.key.as_deref()?)?.partition).ok()
        }
        Destination::DeadLetters => {
            let (_, number) = output.headers.iter().find(|(name, _)| *name == "kvset_partition")?;
            number.parse().ok()
        }
    }
}

fn records(partition: i32, chance: &mut Chance) -> (Vec<Fetched>, i64) {
    let (mut offset, mut time) = (0, 36_000_000_i64);
    let mut records = Vec::new();
    for _ in 0..chance.between(6, 36) {
        // Markers of transactions, and what compaction removed.
        offset += if chance.one_in(5) { chance.between(1, 3) as i64 } else { 0 };
        time += chance.below(900) as i64 - if chance.one_in(6) { 700 } else { 0 };
        let number = chance.below(2);
        let pool = pool_name(partition, number);
        // Its records are written when requests end; some took longer than records are held back for.
        let duration = (number == OVERLAPPING && !chance.one_in(8)).then(|| chance.below(2_200) as i64);
        let value = match chance.below(20) {
            0 => Some(b"no request at all".to_vec()),
            1 => None,
            _ => Some(request(time, duration, chance).into_bytes()),
        };
        let (key, timestamp_ms) = (Some(pool.into_bytes()), time);
        records.push(Fetched(Arc::new(LogRecord { partition, offset, timestamp_ms, key, value })));
        offset += 1;
    }
    (records, offset + chance.below(3) as i64)
}

/// One of a few conversations, so far as it has come. Its ids may be declared chained, and now and then they
/// are not.
fn request(written: i64, duration: Option<i64>, chance: &mut Chance) -> String {
    let time = written - duration.unwrap_or(0);
    let duration = duration.map_or(String::new(), |ms| format!(r#","duration_ms":{ms}"#));
    let (session, turns) = (chance.below(4) as usize, chance.between(1, 6) as usize);
    let mut pages = watched_ids()[6 * session..][..turns].to_vec();
    if chance.one_in(3) {
        pages[turns / 2] = watched_ids()[24 + session];
    }
    let ids_chained = chance.one_in(2);
    let replica = match chance.below(3) {
        0 => String::new(),
        replica => format!(r#","replica":"r{replica}""#),
    };
    let cached = match chance.below(4) {
        0 => String::new(),
        some => format!(r#","cached_tokens":{}"#, 4 * some as usize % (4 * turns + 1)),
    };
    let tenant = match chance.below(4) {
        0 => String::new(),
        tenant => format!(r#","tenant":"t{tenant}""#),
    };
    format!(
        r#"{{"event_time":{time},"page_ids":{pages:?},"ids_chained":{ids_chained}{duration}{replica}{cached}{tenant}}}"#
    )
}

/// Ids of the few that a pool watches for breaking the chain.
fn watched_ids() -> &'static [u64] {
    static IDS: LazyLock<Vec<u64>> = LazyLock::new(|| {
        (1..).filter(|id| ChainCheck::Sampled.watches(Scope::GLOBAL, *id)).take(28).collect()
    });
    &IDS
}

fn undisturbed(
    task: &Arc<TaskConfig>,
    partition: i32,
    records: &[Fetched],
    end: i64,
) -> Vec<(i64, OutputRecord)> {
    let facts = ResumeFacts {
        committed: None,
        log: LogRange { start: NextOffset(0), end: NextOffset(end) },
        snapshots: &[],
        parked: None,
        start: StartFrom::Earliest,
        lost_history: LostHistory::Refuse,
    };
    let resume = decide(&facts).expect("a fresh start");
    let mut state = PartitionTask::new(Arc::clone(task), Partition(partition), &resume);
    let (mut published, mut outputs) = (Vec::new(), Vec::new());
    for record in records {
        state.process_record(&record.as_source(), &mut outputs).expect("within limits");
        published.extend(outputs.drain(..).map(|output| (record.0.offset, output)));
    }
    published
}
