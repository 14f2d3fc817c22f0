//! The real program, killed without warning at moments a seed chooses, over and over.

use super::{Broker, Bytes, Input, Published, output_topics, stamp};
use kvset::core::pages::mix;
use kvset::kafka::config::Connection;
use kvset::kafka::feed::Feed;
use kvset::runtime::plan::task_config;
use kvset::settings::Settings;
use kvset::workload::{Generator, Workload};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PARTITIONS: i32 = 3;
const POOLS: [&str; PARTITIONS as usize] = ["alpha", "beta", "gamma"];
/// Shortest life and by how much longer another one may be, in milliseconds: joining takes a second, and
/// the first snapshot is due a second later.
const LIFE: (u64, u64) = (800, 3200);
const PATIENCE: Duration = Duration::from_secs(120);

/// What came of it; the committed output is compared with that of a run in memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KillTable {
    pub kills: u32,
    pub restarts: u32,
    pub records: u64,
    pub estimates: u64,
    pub missing: u64,
    pub doubled: u64,
    pub different: u64,
    /// Lives that began with a snapshot, of at least one partition.
    pub restored: u32,
}

impl fmt::Display for KillTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "kills  restarts  from a snapshot  records  estimates  missing  doubled  different\n\
             {:>5}  {:>8}  {:>15}  {:>7}  {:>9}  {:>7}  {:>7}  {:>9}",
            self.kills,
            self.restarts,
            self.restored,
            self.records,
            self.estimates,
            self.missing,
            self.doubled,
            self.different
        )
    }
}

/// Feeds a log while the service is killed and restarted; lets it come to the end and compares.
pub fn kill_run(broker: &Broker, requests: usize, kills: u32, seed: u64) -> KillTable {
    let folder = tempfile::tempdir().expect("a folder");
    let topic = broker.create("requests", PARTITIONS as u32);
    let outputs = output_topics(broker, "kills", PARTITIONS as u32);
    let config = configure(broker, folder.path());
    let settings = Settings::load(Some(&config)).expect("usable settings");
    let input = input(requests, seed);
    let expected = input.expected(&task_config(&settings).expect("usable settings"));
    let count = |published: &Published| published.estimates.values().map(Vec::len).sum::<usize>() as u64;

    let stopped = AtomicBool::new(false);
    let mut lives = 0;
    let connection = &broker.connection;
    // The log ends a little after the last kill, so that every life has something to do.
    let span = Duration::from_millis(u64::from(kills) * (LIFE.0 + LIFE.1 / 2));
    std::thread::scope(|scope| {
        scope.spawn(|| feed(connection, &topic, &input, span, &stopped));
        for kill in 0..kills {
            let mut service = start(&config, folder.path(), lives);
            lives += 1;
            let life = LIFE.0 + mix(seed ^ mix(u64::from(kill))) % LIFE.1;
            std::thread::sleep(Duration::from_millis(life));
            if let Some(status) = service.try_wait().expect("our child") {
                stopped.store(true, Ordering::SeqCst);
                panic!("ended by itself with {status}: {}", log(folder.path(), lives - 1));
            }
            service.kill().and_then(|()| service.wait()).expect("our child");
        }
        let mut last = start(&config, folder.path(), lives);
        lives += 1;
        let begin = Instant::now();
        while count(&Published::read(broker, &outputs)) < count(&expected) && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(500));
        }
        // What would come twice has time to come.
        std::thread::sleep(Duration::from_millis(500));
        let asked = Command::new("kill").arg(last.id().to_string()).status().expect("kill runs");
        let status = last.wait().expect("our child");
        assert!(asked.success() && status.success(), "{status}: {}", log(folder.path(), lives - 1));
    });
    let published = Published::read(broker, &outputs);
    let table = KillTable {
        kills,
        restarts: lives - 1,
        records: input.records(),
        estimates: count(&published),
        restored: (0..lives).filter(|life| was_restored(&log(folder.path(), *life))).count() as u32,
        ..compare(&published, &expected)
    };
    assert!(table.missing + table.doubled + table.different > 0 || published == expected, "another order");
    table
}

fn configure(broker: &Broker, folder: &Path) -> PathBuf {
    let path = folder.join("kvset.toml");
    let (brokers, topic) = (&broker.connection.brokers, |name: &str| broker.topic(name));
    let text = format!(
        "[kafka]\nbrokers = \"{brokers}\"\ngroup = \"{}\"\ninstance = \"one\"\n\
         [input]\ntopic = \"{}\"\n[output]\ntopic = \"{}\"\ndead_letter_topic = \"{}\"\n\
         [estimate]\nwindows = [\"tumbling:1m\", \"last:100\", \"all\"]\n\
         [state]\ndirectory = \"{}\"\ncheckpoint_every = \"1s\"\n\
         [http]\nlisten = \"\"\n",
        topic("kills"),
        topic("requests"),
        topic("kills.estimates"),
        topic("kills.dead-letters"),
        folder.join("state").display(),
    );
    std::fs::write(&path, text).expect("a disk");
    path
}

fn input(requests: usize, seed: u64) -> Input {
    let mut input = Input::default();
    for (partition, pool) in POOLS.iter().enumerate() {
        let workload = Workload {
            seed: seed.wrapping_add(partition as u64),
            start_ms: 36_000_000,
            sessions_per_day: 4000,
            ..Workload::default()
        };
        for (number, request) in Generator::new(workload).expect("a workload").take(requests).enumerate() {
            input.push_row(partition as i32, pool, &request.as_row());
            if number % 100 == 50 {
                input.push(partition as i32, pool, format!("broken {number}").into_bytes());
            }
        }
    }
    input
}

/// Spreads the log over `span`, partition by turns.
pub fn feed(connection: &Connection, topic: &str, input: &Input, span: Duration, stopped: &AtomicBool) {
    let feed = Feed::open(connection, topic, PATIENCE).expect("a producer");
    let begin = Instant::now();
    let longest = input.partitions.values().map(Vec::len).max().unwrap_or_default();
    for at in 0..longest {
        for (partition, records) in &input.partitions {
            if let Some((key, value)) = records.get(at) {
                feed.send_to(Some(*partition), key, value, Some(stamp())).expect("room");
            }
        }
        let due = span.mul_f64(at as f64 / longest as f64);
        if let Some(early) = due.checked_sub(begin.elapsed()).filter(|_| !stopped.load(Ordering::SeqCst)) {
            std::thread::sleep(early);
        }
    }
    feed.finish().expect("delivered");
}

fn log_path(folder: &Path, life: u32) -> PathBuf {
    folder.join(format!("life-{life}.log"))
}

fn log(folder: &Path, life: u32) -> String {
    std::fs::read_to_string(log_path(folder, life)).unwrap_or_default()
}

/// Whether a life's log tells of a snapshot that was taken up.
fn was_restored(log: &str) -> bool {
    log.lines().any(|line| line.contains(": snapshot at ") && !line.contains("passed over"))
}

fn start(config: &Path, folder: &Path, life: u32) -> Child {
    let log = File::create(log_path(folder, life)).expect("a disk");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kvset"));
    command.arg("run").arg("--config").arg(config);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("the program starts")
}

fn compare(published: &Published, expected: &Published) -> KillTable {
    let mut table = KillTable::default();
    let by_key = |published: &Published| {
        let mut found: BTreeMap<Bytes, Vec<Bytes>> = BTreeMap::new();
        let estimates = published.estimates.values().flatten().cloned();
        let letters = published.letters.iter();
        let letters = letters.map(|(_, value, headers)| (value.clone(), format!("{headers:?}").into_bytes()));
        let letters = letters.map(|(value, headers)| (value, Some(headers)));
        estimates.chain(letters).for_each(|(key, value)| found.entry(key).or_default().push(value));
        found
    };
    let (found, wanted) = (by_key(published), by_key(expected));
    for key in wanted.keys().chain(found.keys().filter(|key| !wanted.contains_key(*key))) {
        let (found, wanted) = (found.get(key).map_or(&[][..], |v| v), wanted.get(key).map_or(&[][..], |v| v));
        table.missing += wanted.len().saturating_sub(found.len()) as u64;
        table.doubled += found.len().saturating_sub(wanted.len()) as u64;
        table.different += found.iter().filter(|value| !wanted.contains(value)).count() as u64;
    }
    table
}
