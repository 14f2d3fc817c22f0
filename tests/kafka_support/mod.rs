//! A broker for tests: librdkafka's mock in this process, or the real one that KVSET_TEST_BROKERS names.

pub mod asked;
pub mod faults;
pub mod kills;
pub mod process;
pub mod raw;

use kvset::codec::{RequestEncoding, SourceRecord, encode_request};
use kvset::commands::produce::producing::message_of;
use kvset::kafka::KafkaFailure;
use kvset::kafka::config::{Connection, MemberProtocol, Membership};
use kvset::kafka::mock::MockBroker;
use kvset::kafka::reader::{From, ReadRecord, TopicReader};
use kvset::kafka::sink::{Delivery, OutputTopic, OutputTopics};
use kvset::kafka::topic_producer::TopicProducer;
use kvset::kafka::topics::{TopicPlan, Topics};
use kvset::output::{Destination, OutputRecord};
use kvset::pipeline::assignment::FlowLimits;
use kvset::pipeline::publish::FailureKind;
use kvset::pipeline::resume::{LostHistory, ResumeFacts, StartFrom, decide};
use kvset::pipeline::task::{PartitionTask, TaskConfig};
use kvset::position::{LogRange, NextOffset, Partition};
use kvset::service::error::ServiceError;
use kvset::service::estimating::serve;
use kvset::service::events::{Observer, ServiceEvent};
use kvset::service::plan::{CommitPace, ParkingPlan, ServicePlan, StreamPlan, task_config};
use kvset::service::poll_loop::summary::Summary;
use kvset::service::shutdown::Shutdown;
use kvset::settings::Settings;
use kvset::trace::TraceRow;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions};
use rdkafka::client::DefaultClientContext;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const DEADLINE: Duration = Duration::from_secs(30);

/// A broker with topics of its own for each test.
pub struct Broker {
    mock: Option<MockBroker>,
    pub connection: Connection,
    prefix: String,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

fn prefix() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros();
    format!("t{now}-{}", NEXT.fetch_add(1, Ordering::SeqCst))
}

impl Broker {
    pub fn mock() -> Self {
        let mock = MockBroker::start().expect("loopback sockets");
        let mut connection = mock.connection();
        // The mock forgets a member that left only when its session times out.
        connection.properties.push(("session.timeout.ms".to_owned(), "6000".to_owned()));
        Self { mock: Some(mock), connection, prefix: prefix() }
    }

    /// The real one, if there is one. Where one is demanded and missing, the test fails.
    pub fn real() -> Option<Self> {
        let Ok(brokers) = std::env::var("KVSET_TEST_BROKERS") else {
            let demanded = std::env::var("KVSET_REQUIRE_BROKER").is_ok_and(|value| value == "1");
            assert!(!demanded, "KVSET_REQUIRE_BROKER=1, but KVSET_TEST_BROKERS names no broker");
            println!("skipped: no real broker; try scripts/kafka.sh run -- cargo test --test kafka pipeline");
            return None;
        };
        let connection = Connection { brokers, properties: Vec::new() };
        Some(Self { mock: None, connection, prefix: prefix() })
    }

    /// The listener of the real one that this variable names, reached with these properties.
    pub fn secured(variable: &str, properties: &[(&str, &str)]) -> Option<Self> {
        let Ok(brokers) = std::env::var(variable) else {
            let demanded = std::env::var("KVSET_KAFKA_SECURED").is_ok_and(|value| value == "1");
            assert!(!demanded, "KVSET_KAFKA_SECURED=1, but {variable} names no listener");
            println!("skipped: no secured broker; try KVSET_KAFKA_SECURED=1 scripts/kafka.sh run -- ...");
            return None;
        };
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let connection = Connection { brokers, properties: properties.iter().map(owned).collect() };
        Some(Self { mock: None, connection, prefix: prefix() })
    }

    /// Every broker there is.
    pub fn all() -> Vec<Self> {
        std::iter::once(Self::mock()).chain(Self::real()).collect()
    }

    pub fn is_real(&self) -> bool {
        self.mock.is_none()
    }

    pub fn topic(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    pub fn create(&self, name: &str, partitions: u32) -> String {
        let topic = self.topic(name);
        let partitions = NonZeroU32::new(partitions).expect("not zero");
        match &self.mock {
            Some(mock) => mock.create_topic(&topic, partitions).expect("created"),
            None => {
                let plan = TopicPlan { name: topic.clone(), partitions, compacted_for: None };
                Topics::new(&self.connection, DEADLINE)
                    .and_then(|topics| topics.create(&[plan]))
                    .expect("created");
            }
        }
        topic
    }

    fn admin(&self) -> (AdminClient<DefaultClientContext>, tokio::runtime::Runtime) {
        let client = ClientConfig::new()
            .set("bootstrap.servers", &self.connection.brokers)
            .create()
            .expect("a client");
        (client, tokio::runtime::Builder::new_current_thread().build().expect("a runtime"))
    }

    /// Deletes a topic of the real broker, and waits until it is gone.
    pub fn delete(&self, topic: &str) {
        let (client, runtime) = self.admin();
        let answer = runtime.block_on(client.delete_topics(&[topic], &AdminOptions::new()));
        answer.expect("an answer").into_iter().for_each(|deleted| drop(deleted.expect("deleted")));
        let topics = Topics::new(&self.connection, DEADLINE).expect("a client");
        wait_for(|| topics.partitions(topic).expect("an answer").is_none());
    }

    /// Gives a topic of the real broker so many partitions in all.
    pub fn add_partitions(&self, topic: &str, partitions: usize) {
        let (client, runtime) = self.admin();
        let wanted = [NewPartitions::new(topic, partitions)];
        let answer = runtime.block_on(client.create_partitions(&wanted, &AdminOptions::new()));
        answer.expect("an answer").into_iter().for_each(|added| drop(added.expect("added")));
    }

    /// A service on topics of `partitions` partitions each; outputs are named by `run`, so that two
    /// runs over one input can be compared.
    pub fn plan(&self, settings: &Settings, run: &str, partitions: u32) -> ServicePlan {
        let mut task = task_config(settings).expect("usable settings");
        task.topic = self.topic("requests");
        let stream = self.stream(&task.topic, run, output_topics(self, run, partitions));
        let parking = ParkingPlan { keep_for: DEADLINE, max_bytes: 1 << 30 };
        ServicePlan { stream, task: Arc::new(task), registry: None, state: None, parking }
    }

    /// A stage from `topic` to these topics, in a group named by `run`.
    pub fn stream(&self, topic: &str, run: &str, outputs: OutputTopics) -> StreamPlan {
        StreamPlan {
            connection: self.connection.clone(),
            membership: Membership {
                group: self.topic(run),
                instance: None,
                leave_on_stop: false,
                protocol: MemberProtocol::default(),
                poll_within: DEADLINE,
            },
            topic: topic.to_owned(),
            outputs,
            guarantee: if self.is_real() { Delivery::Transactional } else { Delivery::Idempotent },
            start: StartFrom::Earliest,
            lost_history: LostHistory::Refuse,
            bounds: None,
            commit: CommitPace {
                every: Duration::from_millis(200),
                linger: Duration::from_millis(20),
                records: 500,
                bytes: 1 << 20,
            },
            flow: FlowLimits { records: 64, bytes: 1 << 20 },
            threads: 2,
            retry_for: DEADLINE,
            shutdown_deadline: Duration::from_secs(10),
        }
    }

    /// All committed records of a topic. A broker that has just started may not know the topic's partitions yet, and
    /// is asked again.
    pub fn read_all(&self, topic: &str) -> Vec<ReadRecord> {
        let begin = Instant::now();
        loop {
            match self.try_read_all(topic) {
                Err(failure) if failure.kind == FailureKind::Transient && begin.elapsed() < DEADLINE => {
                    std::thread::sleep(Duration::from_millis(200));
                }
                read => return read.expect("a topic that can be read"),
            }
        }
    }

    fn try_read_all(&self, topic: &str) -> Result<Vec<ReadRecord>, KafkaFailure> {
        let mut reader = TopicReader::open(&self.connection, topic, From::Beginning, DEADLINE)?;
        let mut records = Vec::new();
        while !reader.at_end() {
            records.extend(reader.next(Duration::from_millis(200))?);
        }
        Ok(records)
    }
}

/// Creates the output topics of a run.
pub fn output_topics(broker: &Broker, run: &str, partitions: u32) -> OutputTopics {
    let output = |kind: &str| OutputTopic {
        name: broker.create(&format!("{run}.{kind}"), partitions),
        partitions: NonZeroU32::new(partitions).expect("not zero"),
    };
    OutputTopics { results: output("estimates"), dead_letters: output("dead-letters") }
}

/// The time stamp of every record: of today, or a broker's retention would delete the log under the test.
pub fn stamp() -> i64 {
    static STAMP: OnceLock<i64> = OnceLock::new();
    *STAMP.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
        i64::try_from(now).expect("not so late")
    })
}

/// A record's key and value.
pub type KeyValue = (Vec<u8>, Vec<u8>);

/// The input of a test, as it lies on the topic.
#[derive(Default)]
pub struct Input {
    /// Of each partition, its records in order.
    pub partitions: BTreeMap<i32, Vec<KeyValue>>,
}

impl Input {
    pub fn push(&mut self, partition: i32, key: &str, value: Vec<u8>) {
        self.partitions.entry(partition).or_default().push((key.as_bytes().to_vec(), value));
    }

    pub fn push_row(&mut self, partition: i32, pool: &str, row: &TraceRow<'_>) {
        self.push_row_as(RequestEncoding::Avro, partition, pool, row);
    }

    pub fn push_row_as(&mut self, encoding: RequestEncoding, partition: i32, pool: &str, row: &TraceRow<'_>) {
        let mut value = Vec::new();
        encode_request(&message_of(row), encoding, &mut value).expect("encodes");
        self.push(partition, pool, value);
    }

    pub fn records(&self) -> u64 {
        self.partitions.values().map(|records| records.len() as u64).sum()
    }

    pub fn produce(&self, connection: &Connection, topic: &str) {
        self.produce_part(connection, topic, 0..usize::MAX);
    }

    /// Of every partition the records with these offsets, as far as there are any.
    pub fn produce_part(&self, connection: &Connection, topic: &str, offsets: Range<usize>) {
        let producer = TopicProducer::open(connection, topic, DEADLINE).expect("a producer");
        let mut sent = 0;
        for (partition, records) in &self.partitions {
            let part = offsets.start.min(records.len())..offsets.end.min(records.len());
            for (key, value) in &records[part] {
                producer.send_to(Some(*partition), key, value, Some(stamp())).expect("room");
                sent += 1;
            }
        }
        assert_eq!(producer.finish().expect("delivered"), sent);
    }

    /// What the service must publish: every partition's task run in memory.
    pub fn expected(&self, task: &TaskConfig) -> Published {
        let task = Arc::new(task.clone());
        let mut published = Published::default();
        for (partition, records) in &self.partitions {
            let end = NextOffset(records.len() as i64);
            let facts = ResumeFacts {
                committed: None,
                log: LogRange { start: NextOffset(0), end },
                snapshots: &[],
                parked: None,
                start: StartFrom::Earliest,
                lost_history: LostHistory::Refuse,
            };
            let resume = decide(&facts).expect("a fresh start");
            let mut state = PartitionTask::new(Arc::clone(&task), Partition(*partition), &resume);
            let mut outputs = Vec::new();
            for (offset, (key, value)) in records.iter().enumerate() {
                let record = SourceRecord {
                    schema_header: None,
                    topic: &task.topic,
                    partition: *partition,
                    offset: offset as i64,
                    timestamp_ms: Some(stamp()),
                    key: Some(key),
                    value: Some(value),
                };
                state.process_record(&record, &mut outputs).expect("within limits");
            }
            outputs.into_iter().for_each(|output| published.add(output));
        }
        published.letters.sort();
        published
    }
}

pub type Bytes = Option<Vec<u8>>;

/// A dead letter: key, value and headers.
pub type Letter = (Bytes, Bytes, Vec<(String, Vec<u8>)>);

/// What is on the output topics, in the order that is promised: estimates pool by pool.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Published {
    pub estimates: BTreeMap<String, Vec<(Bytes, Bytes)>>,
    pub letters: Vec<Letter>,
}

impl Published {
    fn add(&mut self, output: OutputRecord) {
        match output.destination {
            Destination::Results => {
                let pool = output.placed_by.expect("estimates are placed by pool");
                self.estimates.entry(pool).or_default().push((output.key, output.value));
            }
            Destination::DeadLetters => {
                let text = |(name, text): (&str, String)| (name.to_owned(), text.into_bytes());
                let headers = output.headers.into_iter().map(text).collect();
                self.letters.push((output.key, output.value, headers));
            }
        }
    }

    pub fn read(broker: &Broker, topics: &OutputTopics) -> Self {
        let mut published = Self::default();
        for record in broker.read_all(&topics.results.name) {
            let key = kvset::codec::EstimateKey::from_bytes(record.key.as_deref().unwrap_or_default());
            let pool = key.expect("an estimate's key").pool;
            published.estimates.entry(pool).or_default().push((record.key, record.value));
        }
        let letters = broker.read_all(&topics.dead_letters.name).into_iter();
        published.letters = letters.map(|letter| (letter.key, letter.value, letter.headers)).collect();
        published.letters.sort();
        published
    }
}

/// Ends a test that waits for records which never come, instead of hanging with it.
struct Deadline(Instant);

impl Deadline {
    fn check(&self) {
        assert!(self.0.elapsed() < PATIENCE, "the service was not done after {PATIENCE:?}");
    }
}

/// Asks the service to stop once so many records were processed and committed.
pub struct StopAfter {
    shutdown: Shutdown,
    records: u64,
    seen: Mutex<u64>,
    held: Mutex<Vec<String>>,
    deadline: Deadline,
}

impl StopAfter {
    pub fn new(shutdown: &Shutdown, records: u64) -> Self {
        let (seen, held, deadline) = (Mutex::new(0), Mutex::default(), Deadline(Instant::now()));
        Self { shutdown: shutdown.clone(), records, seen, held, deadline }
    }

    /// Why partitions were held.
    pub fn held(&self) -> Vec<String> {
        self.held.lock().expect("no panic under the lock").clone()
    }
}

impl Observer for StopAfter {
    fn on(&self, event: &ServiceEvent<'_>) {
        self.deadline.check();
        let records = match event {
            ServiceEvent::Progress { counts, .. } => counts.records,
            ServiceEvent::Prepared { counts, .. } => counts.records,
            ServiceEvent::Held { why, .. } => {
                return self.held.lock().expect("no panic under the lock").push((*why).to_owned());
            }
            _ => return,
        };
        let mut seen = self.seen.lock().expect("no panic under the lock");
        *seen += records;
        if *seen >= self.records {
            self.shutdown.request();
        }
    }
}

/// Asks the service to stop once every one of so many partitions got as far as an offset, or was there already.
pub struct StopAt {
    shutdown: Shutdown,
    offset: NextOffset,
    partitions: usize,
    there: Mutex<BTreeSet<Partition>>,
    deadline: Deadline,
}

impl StopAt {
    pub fn new(shutdown: &Shutdown, offset: i64, partitions: usize) -> Self {
        Self {
            shutdown: shutdown.clone(),
            offset: NextOffset(offset),
            partitions,
            there: Mutex::default(),
            deadline: Deadline(Instant::now()),
        }
    }
}

impl Observer for StopAt {
    fn on(&self, event: &ServiceEvent<'_>) {
        self.deadline.check();
        let (partition, next) = match event {
            ServiceEvent::Assigned { partition, resume, .. } => (*partition, resume.replay_from),
            ServiceEvent::Progress { partition, next, .. } => (*partition, *next),
            _ => return,
        };
        if next < self.offset {
            return;
        }
        let mut there = self.there.lock().expect("no panic under the lock");
        there.insert(partition);
        if there.len() == self.partitions {
            self.shutdown.request();
        }
    }
}

/// A number that the environment may set.
pub fn number(name: &str, default: u32) -> u32 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// How long tests wait for what must come. Nothing follows from how soon it comes, so that a busy machine may take
/// long.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// Looks again and again until it is so. A wait in vain names the place of the call, which says for what.
#[track_caller]
pub fn wait_for(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "not so after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs the service until it has processed so many records.
pub fn serve_records(plan: &ServicePlan, records: u64) -> Result<Summary, ServiceError> {
    let shutdown = Shutdown::new();
    serve(plan, &shutdown, &StopAfter::new(&shutdown, records))
}

/// A shared trace, if the shared directory is there.
pub fn shared_trace(name: &str) -> Option<PathBuf> {
    let shared = std::env::var_os("KVSET_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let path = shared.join("traces").join(name);
    if path.exists() {
        return Some(path);
    }
    let required = std::env::var_os("KVSET_REQUIRE_SHARED").is_some_and(|value| value == "1");
    assert!(!required, "{name} is not beside the repository, and KVSET_REQUIRE_SHARED=1 demands it");
    println!("skipped: {name} is not there (KVSET_SHARED names the directory that holds traces/)");
    None
}
