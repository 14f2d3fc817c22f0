//! The service as `kvset run` makes it, everything on: decoding, estimates, windows, metrics, the page's
//! board, snapshots, transactions.

use crate::drained::{Clock, Drained};
use crate::input::{Filled, create};
use kvset::kafka::config::Connection;
use kvset::live::Board;
use kvset::position::{NextOffset, Partition};
use kvset::service::estimating::serve;
use kvset::service::events::{Observer, ServiceEvent};
use kvset::service::plan::ServicePlan;
use kvset::service::poll_loop::summary::Summary;
use kvset::service::shutdown::Shutdown;
use kvset::settings::Settings;
use kvset::telemetry::Health;
use kvset::telemetry::service_metrics::ServiceMetrics;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Snapshots as often as they may come, 30 times as often as by default: so that a reading of seconds has
/// some.
pub const EVERY_SECOND: &str = "checkpoint_every = \"1s\"\n";

/// What is to refuse ids that are not chained takes nobody's word for it.
pub const EVERY_ID_READ: &str = "[estimate]\nchain_policy = \"reject\"\n";

/// How long a group waits for a member with a stable name, in milliseconds.
pub const SESSION_MS: u32 = 300_000;

/// Compares the measured hits of four replicas with the modelled ones, a snapshot every second among it.
pub const MEASURED: &str = "checkpoint_every = \"1s\"\n[estimate]\nmeasured = true\n";

/// A run's settings: every default, but for where things are and what is said here.
pub fn settings(connection: &Connection, folder: &Path, run: &str, topic: &str, extra: &str) -> Settings {
    named(connection, folder, (run, ""), topic, extra)
}

/// The same of one of the run's instances, which waits to be expected back for as long as the bench takes.
pub fn named(
    connection: &Connection,
    folder: &Path,
    (run, instance): (&str, &str),
    topic: &str,
    extra: &str,
) -> Settings {
    let stable = if instance.is_empty() {
        String::new()
    } else {
        format!("instance = \"{instance}\"\nproperties = {{ \"session.timeout.ms\" = {SESSION_MS} }}\n")
    };
    let text = format!(
        "[kafka]\nbrokers = \"{}\"\ngroup = \"{run}\"\n{stable}[input]\ntopic = \"{topic}\"\n\
         [output]\ntopic = \"{run}.estimates\"\ndead_letter_topic = \"{run}.dead\"\n\
         [state]\ndirectory = \"{}\"\n{extra}",
        connection.brokers,
        folder.join(format!("{run}{instance}")).display(),
    );
    let path = folder.join(format!("{run}{instance}.toml"));
    std::fs::write(&path, text).expect("a folder of our own");
    Settings::load(Some(&path)).expect("usable settings")
}

/// Runs the service with all that watches it, and `watch`.
pub fn run(settings: &Settings, partitions: u32, shutdown: &Shutdown, watch: &dyn Observer) -> Summary {
    let connection = kvset::service::plan::connection(&settings.kafka).expect("no secrets");
    for topic in [&settings.output.topic, &settings.output.dead_letter_topic] {
        create(&connection, topic.as_str(), partitions);
    }
    let plan = ServicePlan::make(settings, false).expect("a plan");
    let labels = settings.http.max_pool_labels;
    let metrics = ServiceMetrics::new(Arc::new(Health::new()), labels, settings.provisioned());
    let board = Board::new(labels, kvset::settings::Provisioned::default());
    serve(&plan, shutdown, &[&metrics as &dyn Observer, &board, watch]).expect("a run to its end")
}

/// What one run gave.
pub struct Served {
    pub drained: Drained,
    pub summary: Summary,
    /// Snapshots that were safe on disk within the measured time.
    pub snapshots: u32,
}

/// Reads a topic from its beginning until its end is processed and committed.
pub fn drain(connection: &Connection, folder: &Path, run_name: &str, filled: &Filled, extra: &str) -> Served {
    let settings = settings(connection, folder, run_name, &filled.topic, extra);
    let shutdown = Shutdown::new();
    let watch = Stopwatch::new(&shutdown, filled.partitions);
    let summary = run(&settings, filled.partitions, &shutdown, &watch);
    assert_eq!((summary.records, summary.dead_letters), (filled.records, 0), "every record counts");
    let (drained, snapshots) = watch.stopped();
    Served { drained, summary, snapshots }
}

/// Takes the time from the first assignment to the commit of the log's end, whoever has its partitions, and ends the
/// run there.
pub struct Stopwatch {
    shutdown: Shutdown,
    partitions: u32,
    inner: Mutex<Timed>,
}

impl Stopwatch {
    /// For a topic with so many partitions.
    pub fn new(shutdown: &Shutdown, partitions: u32) -> Self {
        Self { shutdown: shutdown.clone(), partitions, inner: Mutex::default() }
    }

    /// What it took, and how many snapshots were safe on disk within that time.
    pub fn stopped(self) -> (Drained, u32) {
        let inner = self.inner.into_inner().expect("no panic under the lock");
        (inner.drained.expect("a commit"), inner.snapshots)
    }
}

#[derive(Default)]
struct Timed {
    clock: Option<Clock>,
    /// Partitions somebody has taken up.
    assigned: BTreeSet<Partition>,
    /// Of every partition that is not processed to its end, the end.
    ends: BTreeMap<Partition, NextOffset>,
    drained: Option<Drained>,
    snapshots: u32,
}

impl Timed {
    fn is_done(&self, partitions: u32) -> bool {
        self.assigned.len() == partitions as usize && self.ends.is_empty()
    }
}

impl Observer for Stopwatch {
    fn on(&self, event: &ServiceEvent<'_>) {
        let mut inner = self.inner.lock().expect("no panic under the lock");
        match event {
            ServiceEvent::Assigned { partition, log_end, .. } => {
                inner.clock.get_or_insert_with(Clock::start);
                inner.assigned.insert(*partition);
                inner.ends.insert(*partition, *log_end);
            }
            ServiceEvent::Progress { partition, next, .. } => {
                inner.ends.retain(|of, end| of != partition || next < end);
                if inner.is_done(self.partitions) {
                    self.shutdown.request();
                }
            }
            ServiceEvent::Committed { .. } if inner.is_done(self.partitions) => {
                inner.drained = inner.clock.map(|clock| clock.stop());
            }
            ServiceEvent::SnapshotSaved { .. } if inner.drained.is_none() => inner.snapshots += 1,
            _ => {}
        }
    }
}
