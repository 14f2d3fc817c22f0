//! A restart from a snapshot gives what a run without one gives, byte for byte, and snapshots that
//! are of no use cost time only.

use crate::kafka_support::{Broker, Input, Published, StopAt};
use kvset::pipeline::facts::{Fingerprint, PartitionId, RecordIdentity};
use kvset::pipeline::resume::{Origin, Resume};
use kvset::position::Partition;
use kvset::service::error::ServiceError;
use kvset::service::estimating::serve;
use kvset::service::events::{Observer, ServiceEvent};
#[cfg(feature = "object-store")]
use kvset::service::plan::SharedPlan;
use kvset::service::plan::{ServicePlan, StatePlan};
use kvset::service::poll_loop::summary::Summary;
use kvset::service::shutdown::Shutdown;
use kvset::settings::Settings;
use kvset::snapshot::directory::DirectoryStore;
use kvset::snapshot::format::Snapshot;
use kvset::snapshot::limits::PartsLimits;
use kvset::snapshot::store::SnapshotStore;
use kvset::workload::{Generator, Workload};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

const PARTITIONS: i32 = 2;

/// The records of each partition.
const RECORDS: usize = 301;

pub fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.estimate.windows =
        ["tumbling:1m", "last:100", "all"].map(|text| text.parse().expect("a window")).to_vec();
    settings
}

pub fn input() -> Input {
    let mut input = Input::default();
    for (partition, pool) in [(0, "alpha"), (1, "beta")] {
        let workload = Workload { seed: partition as u64 + 3, start_ms: 36_000_000, ..Workload::default() };
        for request in Generator::new(workload).expect("a workload").take(RECORDS - 1) {
            input.push_row(partition, pool, &request.as_row());
        }
        input.push(partition, pool, b"no request at all".to_vec());
    }
    input
}

/// A service with its snapshots in a directory of its own.
struct Bench {
    broker: Broker,
    input: Input,
    plan: ServicePlan,
    folder: tempfile::TempDir,
}

impl Bench {
    fn all() -> impl Iterator<Item = Self> {
        Broker::all().into_iter().map(|broker| {
            let (input, folder) = (input(), tempfile::tempdir().expect("a folder"));
            broker.create("requests", PARTITIONS as u32);
            // Few records under way at a time, so that a run can stop before the end of what is there.
            let mut plan = broker.plan(&settings(), "run", PARTITIONS as u32);
            plan.stream.flow.records = 32;
            // States in parts alongside one broker, whole ones alongside the other.
            let whole = PartsLimits::default();
            let parts = if broker.is_real() { whole } else { PartsLimits { whole_up_to: 0, ..whole } };
            plan.state = Some(StatePlan {
                directory: folder.path().to_owned(),
                shared: None,
                every: Duration::from_millis(20),
                generations: NonZeroUsize::new(3).expect("not zero"),
                parts,
                fingerprint: Fingerprint(1),
            });
            Self { broker, input, plan, folder }
        })
    }

    /// Lets hosts share their snapshots in this folder.
    #[cfg(feature = "object-store")]
    fn share(&mut self) -> tempfile::TempDir {
        let shared = tempfile::tempdir().expect("a folder");
        let state = self.plan.state.as_mut().expect("a directory");
        let address = format!("file://{}", shared.path().display());
        state.shared = Some(SharedPlan { address, group: "planner".to_owned() });
        shared
    }

    /// Puts every partition's records with these offsets on the topic. Where a run must leave something to the
    /// next one in every partition, the next one's records come when it is over.
    fn produce(&self, offsets: Range<usize>) {
        self.input.produce_part(&self.broker.connection, &self.plan.task.topic, offsets);
    }

    /// Runs until every partition got as far as this offset; says how each was taken up.
    fn run_to(&self, offset: usize) -> Result<(Summary, BTreeMap<Partition, Resume>), ServiceError> {
        let shutdown = Shutdown::new();
        let stop = StopAt::new(&shutdown, offset as i64, PARTITIONS as usize);
        let seen = Seen { stop, resumes: Mutex::default() };
        let summary = serve(&self.plan, &shutdown, &seen)?;
        Ok((summary, seen.resumes.into_inner().expect("no panic under the lock")))
    }

    /// Feeds what is left and runs to the end.
    fn run_rest(&self, produced: usize) -> BTreeMap<Partition, Resume> {
        self.produce(produced..RECORDS);
        self.run_to(RECORDS).expect("a clean run").1
    }

    fn snapshots(&self, partition: i32) -> Vec<PathBuf> {
        self.files(partition, "kvs")
    }

    /// A partition's files whose names end so, in order.
    fn files(&self, partition: i32, end: &str) -> Vec<PathBuf> {
        let folder = self.folder.path().join(self.id(partition).to_string());
        let mut paths: Vec<_> = std::fs::read_dir(folder)
            .expect("snapshots")
            .map(|entry| entry.expect("readable").path())
            .collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == end));
        paths.sort();
        paths
    }

    fn id(&self, partition: i32) -> PartitionId {
        PartitionId::new(&self.plan.task.topic, partition).expect("a legal name")
    }

    fn assert_undisturbed(&self) {
        let published = Published::read(&self.broker, &self.plan.stream.outputs);
        assert!(published.estimates.values().map(Vec::len).sum::<usize>() > 20, "too little to compare");
        assert!(published == self.input.expected(&self.plan.task), "real broker: {}", self.broker.is_real());
    }
}

struct Seen {
    stop: StopAt,
    resumes: Mutex<BTreeMap<Partition, Resume>>,
}

impl Observer for Seen {
    fn on(&self, event: &ServiceEvent<'_>) {
        if let ServiceEvent::Assigned { partition, resume, .. } = event {
            self.resumes.lock().expect("no panic under the lock").insert(*partition, (*resume).clone());
        }
        self.stop.on(event);
    }
}

fn from_snapshot(resume: &Resume) -> bool {
    matches!(resume.origin, Origin::Snapshot(_))
}

#[test]
fn a_restart_goes_on_from_the_snapshot_of_a_clean_stop() {
    for bench in Bench::all() {
        bench.produce(0..200);
        let (first, _) = bench.run_to(50).expect("a clean run");
        let resumes = bench.run_rest(200);
        for (partition, resume) in &resumes {
            assert!(from_snapshot(resume), "partition {partition}: {}", resume.explanation);
            assert_eq!(resume.replay_from, resume.publish_from, "nothing to replay after a clean stop");
            assert_eq!(Some(&resume.publish_from), first.next_offsets.get(partition));
        }
        assert_eq!(resumes.len(), PARTITIONS as usize);
        bench.assert_undisturbed();
    }
}

#[test]
fn a_rotten_snapshot_gives_way_to_the_one_before() {
    for bench in Bench::all() {
        bench.produce(0..100);
        bench.run_to(50).expect("a clean run");
        bench.produce(100..200);
        bench.run_to(150).expect("a clean run");
        for partition in 0..PARTITIONS {
            let paths = bench.snapshots(partition);
            assert!((2..=3).contains(&paths.len()), "{paths:?}");
            let newest = paths.last().expect("some");
            // One rots in its header, the other one in its body.
            let mut bytes = std::fs::read(newest).expect("readable");
            let at = if partition == 0 { 20 } else { bytes.len() - 1 };
            bytes[at] ^= 1;
            std::fs::write(newest, bytes).expect("a disk");
        }
        let resumes = bench.run_rest(200);
        for (partition, resume) in &resumes {
            assert!(from_snapshot(resume), "partition {partition}: {}", resume.explanation);
            assert!(resume.replay_from < resume.publish_from, "{}", resume.explanation);
        }
        assert_eq!(corrupt(bench.folder.path()), PARTITIONS as usize, "kept for inspection");
        bench.assert_undisturbed();
    }
}

#[cfg(feature = "object-store")]
#[test]
fn a_partition_moves_to_another_host_through_the_shared_store() {
    for mut bench in Bench::all() {
        let _shared = bench.share();
        bench.produce(0..200);
        bench.run_to(50).expect("a clean run");
        let elsewhere = tempfile::tempdir().expect("a folder");
        elsewhere.path().clone_into(&mut bench.plan.state.as_mut().expect("a directory").directory);
        for (partition, resume) in &bench.run_rest(200) {
            assert!(from_snapshot(resume), "partition {partition}: {}", resume.explanation);
            assert_eq!(resume.replay_from, resume.publish_from, "nothing to replay after a clean stop");
        }
        bench.assert_undisturbed();
    }
}

#[cfg(feature = "object-store")]
#[test]
fn rotten_parts_give_way_to_those_in_the_shared_store() {
    let mut bench = Bench::all().next().expect("the embedded broker");
    let shared = bench.share();
    bench.produce(0..200);
    bench.run_to(50).expect("a clean run");
    for partition in 0..PARTITIONS {
        let parts = bench.files(partition, "kvp");
        assert!(!parts.is_empty(), "a state in parts");
        for path in parts {
            let mut bytes = std::fs::read(&path).expect("readable");
            bytes.iter_mut().skip(8).for_each(|byte| *byte ^= 1);
            std::fs::write(path, bytes).expect("a disk");
        }
    }
    for (partition, resume) in &bench.run_rest(200) {
        assert!(from_snapshot(resume), "partition {partition}: {}", resume.explanation);
        assert_eq!(resume.replay_from, resume.publish_from, "nothing to replay: {}", resume.explanation);
    }
    assert_eq!(corrupt(bench.folder.path()), PARTITIONS as usize, "kept for inspection");
    let shared = shared.path().join("planner").join(&bench.plan.task.topic);
    assert_eq!(corrupt(&shared), 0, "the shared ones are sound");
    bench.assert_undisturbed();
}

#[cfg(feature = "object-store")]
#[test]
fn a_shared_store_that_cannot_be_opened_keeps_the_service_from_starting() {
    let mut bench = Bench::all().next().expect("the embedded broker");
    let address = "nothing://bucket?key=SECRET".to_owned();
    let shared = SharedPlan { address, group: "planner".to_owned() };
    bench.plan.state.as_mut().expect("a directory").shared = Some(shared);
    let said = bench.run_to(1).expect_err("no such store").to_string();
    assert!(said.contains("nothing://bucket") && !said.contains("SECRET"), "{said}");
}

fn corrupt(folder: &Path) -> usize {
    let folders = std::fs::read_dir(folder).expect("readable").filter_map(|entry| Some(entry.ok()?.path()));
    let files =
        folders.filter(|path| path.is_dir()).flat_map(|path| std::fs::read_dir(path).expect("readable"));
    files
        .filter(|file| {
            file.as_ref().is_ok_and(|file| file.path().extension().is_some_and(|e| e == "corrupt"))
        })
        .count()
}

#[test]
fn state_of_another_configuration_is_rebuilt_from_the_log() {
    for mut bench in Bench::all() {
        bench.produce(0..200);
        bench.run_to(50).expect("a clean run");
        bench.plan.state.as_mut().expect("a directory").fingerprint = Fingerprint(2);
        let resumes = bench.run_rest(200);
        for resume in resumes.values() {
            assert_eq!((resume.origin, resume.replay_from.0), (Origin::Rebuild, 0), "{}", resume.explanation);
        }
        let reason = format!("(fingerprint {}, now {})", Fingerprint(1), Fingerprint(2));
        assert!(resumes.values().any(|resume| resume.explanation.contains(&reason)), "{resumes:?}");
        bench.assert_undisturbed();
    }
}

#[test]
fn a_log_that_is_another_one_is_refused() {
    for bench in Bench::all() {
        // Every partition has a last record.
        bench.run_rest(0);
        let store =
            DirectoryStore::open(bench.folder.path(), NonZeroUsize::MIN).expect("the service has ended");
        for partition in 0..PARTITIONS {
            let id = bench.id(partition);
            let newest = store.list(&id).expect("readable")[0].next_offset;
            let verified = store.load(&id, newest).expect("sound");
            let mut fact = verified.header().fact;
            let last = fact.last_record.expect("records were processed");
            fact.last_record = Some(RecordIdentity { digest: last.digest ^ 1, ..last });
            let body = verified.state().expect("readable").into();
            store.save(&Snapshot { partition: id, fact, body }).expect("a disk");
        }
        drop(store);
        let error = bench.run_to(1).expect_err("another log").to_string();
        assert!(error.contains("not the one this group consumed"), "{error}");
    }
}

#[test]
fn two_services_do_not_share_a_directory() {
    let bench = Bench::all().next().expect("the mock");
    let _held = DirectoryStore::open(bench.folder.path(), NonZeroUsize::MIN).expect("nobody else is here");
    let error = bench.run_to(1).expect_err("in use").to_string();
    assert!(error.contains("is in use by"), "{error}");
}

#[test]
fn without_a_disk_the_service_goes_on() {
    for bench in Bench::all() {
        // A file stands where each partition's directory belongs, so that nothing can be saved.
        for partition in 0..PARTITIONS {
            std::fs::write(bench.folder.path().join(bench.id(partition).to_string()), b"").expect("a disk");
        }
        bench.run_rest(0);
        bench.assert_undisturbed();
    }
}
