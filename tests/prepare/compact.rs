//! Real traces as compact events beside the same in full: every request finds the same, every estimate is equal.

use super::support::shared::shared_path;
use kvset::codec::{Decoded, RequestDecoder, RequestEncoding, encode_request};
use kvset::commands::produce::producing::message_of;
use kvset::core::engines::profile::Profile;
use kvset::core::estimate::Estimate;
use kvset::core::pool::config::PoolConfig;
use kvset::core::pool::set::{History, PoolConfigs, PoolRecord, PoolSet, PoolSetConfig};
use kvset::core::units::Offset;
use kvset::output::{Destination, OutputRecord};
use kvset::position::Partition;
use kvset::prepare::{CompactRules, Compactor};
use kvset::trace::{ReadOptions, TraceItem, TraceReader, TraceRow, open};
use std::sync::Arc;

const POOL: &str = "p";
const MINUTE: u64 = 60_000;

/// What a topic took.
#[derive(Debug, Default, Clone, Copy)]
struct Volume {
    ids: u64,
    bytes: u64,
}

impl Volume {
    fn add(&mut self, decoded: &Decoded<'_>, value: &[u8]) {
        self.ids += decoded.event.page_ids.len() as u64;
        self.bytes += value.len() as u64;
    }
}

/// One pool and what it published.
struct Way {
    pools: PoolSet,
    decoder: RequestDecoder,
    published: Vec<Estimate>,
    volume: Volume,
    next: i64,
}

impl Way {
    fn new(config: &PoolConfig) -> Self {
        let pools = Arc::new(PoolConfigs::new(config.clone(), Vec::new()).expect("usable"));
        let config = PoolSetConfig {
            pools,
            partition: 0,
            max_pools: 1,
            idle_timeout_ms: None,
            forget_after_ms: None,
            put_aside_after_ms: None,
        };
        let (decoder, published) = (RequestDecoder::default(), Vec::new());
        Self {
            pools: PoolSet::new(config, History::Whole),
            decoder,
            published,
            volume: Volume::default(),
            next: 0,
        }
    }

    /// What the request of a record found.
    fn observe(&mut self, value: &[u8]) -> String {
        let decoded = self.decoder.decode(Some(POOL.as_bytes()), value).expect("a valid event");
        self.volume.add(&decoded, value);
        let record = PoolRecord::in_order(POOL, &decoded.event, Offset(self.next), true);
        self.pools.observe(record, &mut self.published).expect("accepted");
        self.next += 1;
        let pool = self.pools.get(POOL).expect("it has a request");
        format!("{:?}", pool.last_request().expect("accepted").0)
    }

    fn finish(mut self) -> (Vec<Estimate>, Volume) {
        self.pools.finish(Offset(self.next), &mut self.published);
        (self.published, self.volume)
    }
}

/// The row as prepare writes it. Ids of these traces are chained within their scope.
fn written(row: &TraceRow<'_>) -> OutputRecord {
    let mut message = message_of(row);
    message.ids_chained = true;
    let mut value = Vec::new();
    encode_request(&message, RequestEncoding::Avro, &mut value).expect("serialises");
    OutputRecord {
        destination: Destination::Results,
        partition: Partition(0),
        window: None,
        key: Some(POOL.as_bytes().to_vec()),
        value: Some(value),
        headers: Vec::new(),
        placed_by: None,
    }
}

fn compact_beside_full(mut reader: TraceReader, config: &PoolConfig, refresh_ms: u64) -> [Volume; 2] {
    let (mut full, mut compact) = (Way::new(config), Way::new(config));
    let mut compactor = Compactor::new(CompactRules { memory: 1 << 30, refresh_ms });
    while let Some(item) = reader.next_item().expect("readable") {
        let TraceItem::Request(row) = item else { panic!("a good row") };
        let mut output = written(&row);
        let expected = full.observe(output.value.as_deref().expect("an event"));
        compactor.compact(&mut output);
        assert_eq!(
            compact.observe(output.value.as_deref().expect("an event")),
            expected,
            "request {}",
            full.next
        );
    }
    let ((expected, before), (found, after)) = (full.finish(), compact.finish());
    assert!(!expected.is_empty());
    assert_eq!(found, expected);
    assert!(found.iter().all(|estimate| estimate.rejected_records == 0 && estimate.chain_violations == 0));
    [before, after]
}

/// Ids and bytes of the full form for each of the compact one.
fn shrunk(trace: &str, [before, after]: [Volume; 2]) -> f64 {
    let times = |before: u64, after: u64| before as f64 / after as f64;
    let (ids, bytes) = (times(before.ids, after.ids), times(before.bytes, after.bytes));
    println!(
        "{trace}: {} ids for {}, {ids:.1} times fewer; bytes {bytes:.1} times fewer",
        after.ids, before.ids
    );
    ids
}

fn config(profile: Profile) -> PoolConfig {
    let windows = ["tumbling:1h", "last:500", "all"].map(|text| text.parse().expect("a window"));
    PoolConfig { profile, windows: windows.into(), ..PoolConfig::default() }
}

fn trace(name: &str) -> Option<TraceReader> {
    let path = shared_path(&format!("traces/{name}"))?;
    Some(open(&[path], &ReadOptions::default()).expect("opens"))
}

#[test]
fn the_week_of_coding_sessions_is_the_same_in_a_sixteenth_of_the_ids() {
    const WEEK: &str = "weka_claude_code_week.jsonl.zst";
    for (profile, refresh, least) in [
        (Profile::Vllm, u64::MAX, 15.5),
        (Profile::Paper, 60 * MINUTE, 12.5),
        (Profile::Vllm, 10 * MINUTE, 7.5),
    ] {
        let Some(reader) = trace(WEEK) else { return };
        let volumes = compact_beside_full(reader, &config(profile), refresh);
        let shrunk = shrunk(&format!("week, refresh {} min", refresh / MINUTE), volumes);
        assert!((least..16.0).contains(&shrunk), "{shrunk}");
    }
}

#[test]
fn whole_sessions_are_the_same_in_a_twenty_seventh_of_the_ids() {
    let Some(reader) = trace("weka_claude_code_sessions.jsonl.zst") else { return };
    let volumes = compact_beside_full(reader, &config(Profile::Vllm), u64::MAX);
    let shrunk = shrunk("sessions", volumes);
    assert!((27.0..27.5).contains(&shrunk), "{shrunk}");
}

/// Short prompts with partial last pages.
#[test]
fn the_mooncake_trace_is_the_same() {
    for refresh in [u64::MAX, 10 * MINUTE] {
        let Some(reader) = trace("mooncake_synthetic_trace.jsonl") else { return };
        let volumes = compact_beside_full(reader, &config(Profile::LeafFirst), refresh);
        let shrunk = shrunk("mooncake", volumes);
        assert!(shrunk > 1.5, "{shrunk}");
    }
}
