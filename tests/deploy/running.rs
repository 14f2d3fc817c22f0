//! The real program with everything turned on, on an embedded broker, under a steady load.

use super::kafka_support::process::Instance;
use super::kafka_support::{Broker, PATIENCE, stamp};
use super::registry_support::Registry;
use kvset::codec::{RequestEncoding, encode_request};
use kvset::commands::produce::producing::message_of;
use kvset::core::request::event::RequestEvent;
use kvset::kafka::config::Connection;
use kvset::kafka::topic_producer::TopicProducer;
use kvset::workload::{Generator, Workload};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// Time for a program to start, or for a broker to answer.
pub const SOON: Duration = PATIENCE;
/// Requests of one step of the load, and the time between two.
const STEP: (usize, Duration) = (60, Duration::from_millis(100));

/// Services that run until this is dropped, and the load on them.
pub struct Running {
    /// Where `kvset run` serves.
    pub service: String,
    /// Where `kvset prepare` serves.
    pub prepare: String,
    stop: Arc<AtomicBool>,
    load: Option<JoinHandle<()>>,
    // In this order: programs end before their broker does.
    instances: Vec<Instance>,
    _registry: Registry,
    _broker: Broker,
    _folder: TempDir,
}

impl Running {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (broker, registry) = (Broker::mock(), Registry::up());
        for topic in ["raw", "prepared", "requests", "estimates", "dead-letters", "prepare-dead-letters"] {
            broker.create(topic, 1);
        }
        let config = configure(&broker, &registry, folder.path());
        let mut instances = Vec::new();
        let mut start = |words: &str| {
            let log = folder.path().join(format!("{words}.log"));
            let mut instance = Instance::start_command(&[words], &config, log);
            let address = serves_on(&mut instance);
            instances.push(instance);
            address
        };
        let (service, prepare) = (start("run"), start("prepare"));
        let stop = Arc::new(AtomicBool::new(false));
        let load = std::thread::spawn({
            let (connection, stop) = (broker.connection.clone(), Arc::clone(&stop));
            let (requests, raw) = (broker.topic("requests"), broker.topic("raw"));
            move || produce(&connection, &requests, &raw, &stop)
        });
        Self {
            service,
            prepare,
            stop,
            load: Some(load),
            instances,
            _registry: registry,
            _broker: broker,
            _folder: folder,
        }
    }

    /// What the programs said, for messages.
    pub fn said(&self) -> String {
        self.instances.iter().map(Instance::said).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if self.load.take().is_some_and(|load| load.join().is_err()) && !std::thread::panicking() {
            panic!("the load failed");
        }
    }
}

/// Where the program says it serves.
pub fn serves_on(instance: &mut Instance) -> String {
    const WORDS: &str = "serving on ";
    instance.wait_for(WORDS, SOON);
    instance.wait_for("\n", SOON);
    let said = instance.said();
    let rest = said.split(WORDS).nth(1).and_then(|rest| rest.split_whitespace().next());
    rest.expect("an address").to_owned()
}

/// Everything that adds a metric: a registry, snapshots, tiers, what the cache holds today, named capacities.
fn configure(broker: &Broker, registry: &Registry, folder: &Path) -> PathBuf {
    let path = folder.join("kvset.toml");
    let (brokers, topic) = (&broker.connection.brokers, |name: &str| broker.topic(name));
    let text = format!(
        "[kafka]\nbrokers = \"{brokers}\"\ngroup = \"{}\"\nproperties = {{ \"session.timeout.ms\" = 6000 }}\n\
         [input]\ntopic = \"{}\"\n\
         [output]\ntopic = \"{}\"\ndead_letter_topic = \"{}\"\ndelivery = \"idempotent\"\n\
         [schema_registry]\nurl = \"{}\"\n\
         [estimate]\nwindows = [\"tumbling:1m\", \"last:100\", \"all\"]\npublish_every = \"1m\"\n\
         capacities = [\"10GiB\", \"100TiB\"]\nkv_bytes_per_token = 61464\nprovisioned = \"100TiB\"\n\
         measured = true\ncertainty = true\nrouters = [\"round-robin:2\"]\n\
         ttls = [\"5m\"]\ntenants = 2\ntraffic = true\nprefill_rate = 10000\ngpu_price = 2.5\ngib_price = 0.01\n\
         [[tiers]]\nname = \"hbm\"\ncoverage = 0.5\nunit = \"1GiB\"\n\
         [[tiers]]\nname = \"dram\"\ncoverage = 0.99\nunit = \"80GiB\"\n\
         [prepare]\ntopic = \"{}\"\noutput_topic = \"{}\"\ndead_letter_topic = \"{}\"\n\
         group = \"{}\"\nevent_time = \"{{at}}\"\n\
         [state]\ndirectory = \"{}\"\ncheckpoint_every = \"1s\"\n\
         [http]\nlisten = \"127.0.0.1:0\"\n",
        topic("run"),
        topic("requests"),
        topic("estimates"),
        topic("dead-letters"),
        registry.url(),
        topic("raw"),
        topic("prepared"),
        topic("prepare-dead-letters"),
        topic("prepare"),
        folder.join("state").display(),
    );
    std::fs::write(&path, text).expect("a disk");
    path
}

/// A cache that evicts nothing, as an engine has it that is large enough.
#[derive(Default)]
pub struct EndlessCache(HashSet<u64>);

impl EndlessCache {
    /// Says in the event how many of its tokens were there.
    pub fn serve(&mut self, event: &mut RequestEvent<'_>) {
        let hits = event.page_ids.iter().take_while(|id| self.0.contains(id)).count() as u64;
        self.0.extend(event.page_ids.iter());
        event.cached_tokens = event.page_size.map(|size| hits * u64::from(size.get())).into();
    }
}

/// Produces requests, and a raw record alongside each step, until told to stop.
fn produce(connection: &Connection, requests: &str, raw: &str, stop: &AtomicBool) {
    let open = |topic: &str| TopicProducer::open(connection, topic, SOON).expect("a producer");
    let (requests, raw) = (open(requests), open(raw));
    let workload = Workload { start_ms: 36_000_000, sessions_per_day: 4000, ..Workload::default() };
    let mut generated = Generator::new(workload).expect("a workload");
    let (mut steps, mut cache) = (0_u64, EndlessCache::default());
    while !stop.load(Ordering::SeqCst) {
        for request in generated.by_ref().take(STEP.0) {
            let mut value = Vec::new();
            let mut row = request.as_row();
            cache.serve(&mut row.event);
            encode_request(&message_of(&row), RequestEncoding::Avro, &mut value).expect("encodes");
            requests.send_to(Some(0), b"alpha", &value, Some(stamp())).expect("room");
        }
        steps += 1;
        let record = format!(r#"{{"at": {steps}, "model": "m", "tokens": [1, 2, 3, 4, 5, 6, 7, 8]}}"#);
        raw.send_to(Some(0), b"key", record.as_bytes(), Some(stamp())).expect("room");
        std::thread::sleep(STEP.1);
    }
    requests.finish().expect("delivered");
    raw.finish().expect("delivered");
}
