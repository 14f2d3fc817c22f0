//! Snapshots: the input as a file, as a state under right checksums, and as changes (two bytes of place,
//! one of value) to a sound state. What is restored must be written again and go on with more records:
//! checksums keep rot out, not forgery. Seeds: `tests/fixtures/snapshot/v1`.
#![no_main]

use kvset::codec::{
    DecodeLimits, Encoding, EstimateDetail, EstimateEncoding, RequestEncoding, RequestMessage, SourceRecord,
    encode_request,
};
use kvset::core::engines::config::CacheConfig;
use kvset::core::estimate::config::PoolConfig;
use kvset::core::pool::set::PoolConfigs;
use kvset::core::units::pages::PageIds;
use kvset::core::units::ratio::Ratio;
use kvset::core::units::{PageCount, PageSize};
use kvset::pipeline::dead_letter_policy::DeadLetterLimits;
use kvset::pipeline::facts::{Fingerprint, PartitionId, SnapshotFact};
use kvset::pipeline::resume::{Origin, Resume};
use kvset::pipeline::task::{PartitionTask, TaskConfig, TaskError};
use kvset::position::{NextOffset, Partition};
use kvset::snapshot::capture::capture;
use kvset::snapshot::format::Snapshot;
use kvset::snapshot::stream::Verified;
use libfuzzer_sys::fuzz_target;
use std::io::Cursor;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// Records in the sound state.
const RECORDS: i64 = 24;

/// Records processed by what was restored.
const FURTHER_RECORDS: i64 = 8;

static CONFIG: LazyLock<Arc<TaskConfig>> = LazyLock::new(|| {
    let pool = PoolConfig {
        cache: CacheConfig {
            page_size: PageSize::new(4),
            capacities: ["4p", "16p"].map(|text| text.parse().expect("a capacity")).to_vec(),
            max_tracked_pages: PageCount(1 << 16),
            ..CacheConfig::default()
        },
        windows: ["tumbling:1s", "last:3", "all"].map(|text| text.parse().expect("a window")).to_vec(),
        publish_every_ms: 1000,
        allowed_lateness_ms: 0,
        max_lateness_ms: 0,
        ..PoolConfig::default()
    };
    Arc::new(TaskConfig {
        topic: "requests".to_owned(),
        encoding: Encoding::Auto,
        schemas: None,
        limits: DecodeLimits::default(),
        pools: PoolConfigs::new(pool, []).expect("usable").into(),
        max_pools: 3,
        idle_timeout_ms: None,
        forget_after_ms: None,
        put_aside_after_ms: None,
        max_letter_bytes: 1 << 20,
        dead_letters: DeadLetterLimits { max_consecutive: 2, max_share: Ratio::ONE, share_window: 100 },
        output: EstimateEncoding::Json,
        detail: EstimateDetail::Full,
        version: "1".to_owned(),
        fingerprint: "f".to_owned(),
    })
});

/// The state after the first records.
static SOUND: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut task = PartitionTask::new(Arc::clone(&CONFIG), Partition(0), &resume(0));
    process(&mut task, 0..RECORDS).expect("sound records");
    capture(&task.image(), Vec::new()).expect("bytes")
});

fuzz_target!(|input: &[u8]| {
    restore(input.to_vec());
    restore(under_right_checksums(input.to_vec()));
    let mut changed = SOUND.clone();
    for change in input.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % changed.len();
        changed[place] = change[2];
    }
    restore(under_right_checksums(changed));
});

fn under_right_checksums(body: Vec<u8>) -> Vec<u8> {
    let fact = SnapshotFact {
        next_offset: NextOffset(RECORDS),
        fingerprint: Fingerprint(0xfeed),
        last_record: None,
    };
    let partition = PartitionId::new("requests", 0).expect("a legal name");
    let snapshot = Snapshot { partition, fact, body: body.into() };
    snapshot.file().expect("a sensible snapshot")
}

fn restore(file: Vec<u8>) {
    let Ok(verified) = Verified::alone(Box::new(Cursor::new(file))) else { return };
    let Ok(image) = verified.restore() else { return };
    let resume = resume(RECORDS);
    let restored = PartitionTask::restore(Arc::clone(&CONFIG), Partition(0), &resume, None, image);
    let Ok(mut task) = restored else { return };
    capture(&task.image(), Vec::new()).expect("a state that was read is written");
    // What was forged may pass a limit with them.
    let _ = process(&mut task, RECORDS..RECORDS + FURTHER_RECORDS);
    task.latest().expect("what was restored was read");
    task.provisional();
}

fn resume(from: i64) -> Resume {
    Resume {
        origin: Origin::Rebuild,
        replay_from: NextOffset(from),
        publish_from: NextOffset(0),
        count_from: NextOffset(0),
        warm_up: false,
        set_aside: vec![],
        explanation: String::new(),
    }
}

/// Requests of two pools that share and add pages.
fn process(task: &mut PartitionTask, offsets: Range<i64>) -> Result<(), TaskError> {
    let mut out = Vec::new();
    for offset in offsets {
        let turn = offset.unsigned_abs();
        let ids = [1, 2 + turn % 3, 10 + turn % 7, 20 + turn];
        let message = RequestMessage {
            event_time: offset * 300,
            page_ids: PageIds::from_slice(&ids[..1 + (turn % 4) as usize]),
            pool: Some(if turn % 5 == 0 { "b" } else { "a" }.into()),
            ..RequestMessage::default()
        };
        let mut value = Vec::new();
        encode_request(&message, RequestEncoding::Avro, &mut value).expect("encodes");
        let (topic, value) = ("requests", Some(&value[..]));
        let record = SourceRecord {
            schema_header: None,
            topic,
            partition: 0,
            offset,
            timestamp_ms: Some(1),
            key: None,
            value,
        };
        task.process_record(&record, &mut out)?;
    }
    Ok(())
}
