//! The real program under faults that a seed chooses: instances killed without warning, joining and leaving,
//! while brokers fail too. The pools are asked everything there is to ask.

use super::asked::{ask_everything, tell};
use super::faults::{Brokers, Dice, Fault, Places, of_three, restarts, suspend};
use super::process::{Instance, configure};
use super::{Broker, Bytes, Input, KeyValue, Published, number, output_topics, stamp};
use kvset::codec::RequestEncoding;
use kvset::kafka::config::{Connection, MemberProtocol};
use kvset::kafka::sink::OutputTopics;
use kvset::kafka::topic_producer::TopicProducer;
use kvset::service::plan::task_config;
use kvset::settings::Settings;
use kvset::workload::{Generator, Workload};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

const PARTITIONS: i32 = 4;
/// Requests produced to a partition between two kills, and the pause after each.
const REQUESTS: u64 = 300;
const PACE: Duration = Duration::from_millis(5);
/// Shortest time between two faults and by how much longer another one may be, in milliseconds: joining
/// takes a second, and the first snapshot is due a second later.
const LIFE: (u64, u64) = (800, 3200);
/// Kills for each restart of the only broker.
const KILLS_A_BROKER_RESTART: u32 = 8;
/// Of three brokers, one of so many kills is a broker's.
const KILLS_A_BROKER_KILL: u32 = 5;
/// Kills for each of the other faults of three brokers.
const KILLS_A_FAULT: u32 = 20;
const TIMEOUT: Duration = Duration::from_secs(300);
/// What an instance says of a partition that it takes up from a snapshot.
const FROM_SNAPSHOT: &str = "snapshot at ";
/// Two members with stable names and a nameless one, which is sometimes there.
const MEMBERS: [&str; 3] = ["one", "two", "guest"];
const GUEST: usize = 2;
/// Sessions short enough to have partitions taken over within the run, time enough for a broker that
/// starts on a busy machine. With the new protocol the brokers say it; `scripts/kafka.sh` has them say the same.
fn settings(protocol: MemberProtocol) -> &'static str {
    match protocol {
        MemberProtocol::Classic(_) => {
            "retry_for = \"10m\"\n\
             [kafka.properties]\n\"session.timeout.ms\" = \"6000\"\n\"heartbeat.interval.ms\" = \"500\"\n\
             [shutdown]\ndeadline = \"5m\"\n"
        }
        MemberProtocol::Consumer => {
            "retry_for = \"10m\"\ngroup_protocol = \"consumer\"\n[shutdown]\ndeadline = \"5m\"\n"
        }
    }
}

/// What a run is to go through.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Kills of instances.
    pub kills: u32,
    /// What else goes wrong, spread over them.
    pub faults: Vec<Fault>,
    pub protocol: MemberProtocol,
    pub seed: u64,
}

impl Plan {
    /// So many kills of instances; the only broker is restarted meanwhile, if it may be.
    pub fn one_broker(kills: u32, protocol: MemberProtocol, seed: u64) -> Self {
        let alone = broker_control().filter(|_| number("KVSET_TEST_NODES", 1) == 1);
        let count = alone.map_or(0, |_| kills.div_ceil(KILLS_A_BROKER_RESTART));
        Self { kills, faults: restarts(count), protocol, seed }
    }

    /// So many kills, a fifth of them of brokers, and every other fault now and then.
    pub fn three_brokers(kills: u32, protocol: MemberProtocol, seed: u64) -> Self {
        let broker_kills = kills.div_ceil(KILLS_A_BROKER_KILL);
        let others = kills.div_ceil(KILLS_A_FAULT);
        let faults = of_three(broker_kills, others, &mut Dice::new(!seed));
        Self { kills: kills - broker_kills, faults, protocol, seed }
    }

    /// Goes through it all, prints the table, and demands that it shows nothing of it.
    pub fn assert_leaves_no_trace(&self, broker: &Broker) {
        let seed = self.seed;
        println!("seed {seed}: KVSET_SEED={seed} makes the same faults again");
        let table = kill_run(broker, self);
        println!("{table}");
        assert_eq!((table.missing, table.doubled, table.different), (0, 0, 0), "seed {seed}:\n{table}");
        assert_eq!((table.kills, &table.faults), (self.kills, &self.counts()), "not all of it happened");
        assert!(table.estimates > 30 && table.restored > 0, "too little happened:\n{table}");
    }

    /// How often each of its faults is to happen, by column.
    fn counts(&self) -> BTreeMap<&'static str, u32> {
        let mut counts = BTreeMap::new();
        self.faults.iter().for_each(|fault| *counts.entry(fault.column()).or_default() += 1);
        counts
    }
}

/// What came of it; the committed output is compared with that of a run in memory.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KillTable {
    pub kills: u32,
    pub restarts: u32,
    /// What else went wrong, by column.
    pub faults: BTreeMap<&'static str, u32>,
    pub joins: u32,
    pub leaves: u32,
    /// Partitions taken up from a snapshot, and from memory after a quick return.
    pub restored: u32,
    pub parked: u32,
    pub records: u64,
    pub estimates: u64,
    pub missing: u64,
    pub doubled: u64,
    pub different: u64,
}

impl fmt::Display for KillTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = self.faults.iter().map(|(name, count)| (*name, u64::from(*count)));
        let mut columns = vec![("kills", self.kills.into()), ("restarts", self.restarts.into())];
        columns.extend(faults);
        columns.extend([
            ("joins", self.joins.into()),
            ("leaves", self.leaves.into()),
            ("from snapshot", self.restored.into()),
            ("from memory", self.parked.into()),
            ("records", self.records),
            ("estimates", self.estimates),
            ("missing", self.missing),
            ("doubled", self.doubled),
            ("different", self.different),
        ]);
        let names: Vec<_> = columns.iter().map(|(name, _)| format!("{name:>7}")).collect();
        let counts: Vec<_> = columns
            .iter()
            .map(|(name, count)| format!("{count:>width$}", width = name.len().max(7)))
            .collect();
        write!(f, "{}\n{}", names.join("  "), counts.join("  "))
    }
}

/// Whether brokers may be disturbed, and how.
fn broker_control() -> Option<String> {
    std::env::var("KVSET_TEST_BROKER_CONTROL").ok().filter(|path| !path.is_empty())
}

/// Feeds a log while faults happen; lets the service come to the end and compares.
fn kill_run(broker: &Broker, plan: &Plan) -> KillTable {
    let folder = tempfile::tempdir().expect("a folder").keep();
    let topic = broker.create("requests", PARTITIONS as u32);
    let outputs = output_topics(broker, "kills", PARTITIONS as u32);
    let input = input(REQUESTS * u64::from(plan.kills + 1), plan.seed);
    let brokers = broker_control().map(|control| brokers(broker, control, &topic, &outputs));
    let mut run = Run::new(broker, &folder, plan);
    let settings = Settings::load(Some(&run.configs[0])).expect("usable settings");
    let task = task_config(&settings).expect("usable settings");

    let (connection, quota) = (&broker.connection, AtomicU64::new(0));
    let (log, expected) = std::thread::scope(|scope| {
        let feeder = scope.spawn(|| produce(connection, &topic, &input, &quota));
        // Whatever happens here, the feeder must come to its end.
        let _all = Raise(&quota);
        run.go_through(scope, plan, brokers.as_ref(), &quota);
        run.find_a_snapshot();
        quota.store(u64::MAX, Ordering::SeqCst);
        feeder.join().expect("delivered");
        let log = log_of(broker, &topic, &input);
        let expected = log.expected(&task);
        run.finish(&outputs, &expected);
        (log, expected)
    });
    let published = Published::read(broker, &outputs);
    let table = KillTable {
        records: log.records(),
        estimates: count(&published),
        restored: run.said("snapshot at "),
        parked: run.said("state kept in memory is at "),
        ..compare(&published, &expected, run.table)
    };
    if published == expected {
        std::fs::remove_dir_all(&folder).expect("our own folder");
    } else {
        println!("what the instances said is in {}", folder.display());
        assert!(table.missing + table.doubled + table.different > 0, "another order");
    }
    table
}

fn brokers(broker: &Broker, control: String, topic: &str, outputs: &OutputTopics) -> Brokers {
    let group = broker.topic("kills");
    let places = Places {
        input: topic.to_owned(),
        output: outputs.results.name.clone(),
        transactional_id: format!("kvset-{group}-{}", MEMBERS[0]),
        group,
    };
    let consumer = broker.connection.loner("kvset-faults").create().expect("a client");
    Brokers::new(control, consumer, places, PARTITIONS)
}

fn count(published: &Published) -> u64 {
    published.estimates.values().map(Vec::len).sum::<usize>() as u64
}

/// Lets the feeder go on to its end when the run ends early.
pub struct Raise<'a>(pub &'a AtomicU64);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(u64::MAX, Ordering::SeqCst);
    }
}

struct Run<'b> {
    broker: &'b Broker,
    folder: PathBuf,
    configs: [PathBuf; MEMBERS.len()],
    running: [Option<Instance>; MEMBERS.len()],
    dice: Dice,
    lives: u32,
    table: KillTable,
}

impl<'b> Run<'b> {
    fn new(broker: &'b Broker, folder: &Path, plan: &Plan) -> Self {
        let config = |member: &str| {
            let instance = if member == MEMBERS[GUEST] { "" } else { member };
            let extra = format!("instance = \"{instance}\"\n{}", settings(plan.protocol));
            let path = configure(broker, folder, "kills", member, &extra);
            ask_everything(&path);
            path
        };
        Self {
            broker,
            folder: folder.to_owned(),
            configs: MEMBERS.map(config),
            running: [const { None }; MEMBERS.len()],
            dice: Dice::new(plan.seed),
            lives: 0,
            table: KillTable::default(),
        }
    }

    /// Kills until there were enough; the plan's other faults happen meanwhile, one at a time.
    fn go_through<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        plan: &'scope Plan,
        brokers: Option<&'scope Brokers>,
        quota: &AtomicU64,
    ) {
        let mut lasting: Option<ScopedJoinHandle<'scope, ()>> = None;
        let mut waiting = plan.faults.iter().zip(0_u32..).peekable();
        (0..GUEST).for_each(|member| self.start(member));
        while self.table.kills < plan.kills {
            quota.store(REQUESTS * u64::from(self.table.kills + 1), Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(LIFE.0 + self.dice.below(LIFE.1)));
            self.check();
            self.change_members();
            let due = (self.table.kills as usize * plan.faults.len()).div_ceil(plan.kills as usize);
            while let Some((fault, number)) = waiting.next_if(|(_, number)| (*number as usize) < due) {
                if let Some(lasting) = lasting.take() {
                    lasting.join().expect("the fault before comes to its end");
                }
                *self.table.faults.entry(fault.column()).or_default() += 1;
                lasting = Some(self.begin(scope, *fault, number, brokers));
            }
        }
        if let Some(lasting) = lasting {
            lasting.join().expect("the last fault comes to its end");
        }
    }

    fn begin<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        fault: Fault,
        number: u32,
        brokers: Option<&'scope Brokers>,
    ) -> ScopedJoinHandle<'scope, ()> {
        println!("{:>3} kills: {fault:?}", self.table.kills);
        if let Fault::Suspended(time) = fault {
            let process = self.running.iter().flatten().next().expect("somebody runs").process();
            return scope.spawn(move || suspend(process, time));
        }
        let brokers = brokers.expect("faults of brokers were planned");
        scope.spawn(move || brokers.suffer(fault, number))
    }

    /// Two of three times a kill; the others change who is a member.
    fn change_members(&mut self) {
        let member = self.dice.below(MEMBERS.len() as u64) as usize;
        match (self.running[member].is_some(), self.dice.below(3)) {
            (false, _) => {
                self.table.joins += 1;
                self.start(member);
            }
            (true, 0) if self.running.iter().flatten().count() > 1 => {
                self.table.leaves += 1;
                self.leave(member);
            }
            (true, _) => {
                self.table.kills += 1;
                self.running[member] = None;
                // A killed guest stays away: its partitions wait for its session to end.
                if member != GUEST {
                    std::thread::sleep(Duration::from_millis(self.dice.below(500)));
                    self.table.restarts += 1;
                    self.start(member);
                }
            }
        }
        if self.running.iter().all(Option::is_none) {
            self.table.joins += 1;
            self.start(0);
        }
    }

    fn start(&mut self, member: usize) {
        let log = self.folder.join(format!("life-{:03}-{}.log", self.lives, MEMBERS[member]));
        self.lives += 1;
        self.running[member] = Some(Instance::start(&self.configs[member], log));
    }

    fn leave(&mut self, member: usize) {
        let Some(mut instance) = self.running[member].take() else { return };
        instance.signal("TERM");
        let status = instance.wait(TIMEOUT);
        assert!(status.success(), "{} ended with {status}: {}", MEMBERS[member], instance.said());
    }

    /// Nobody may end without being asked to.
    fn check(&mut self) {
        for (name, instance) in MEMBERS.iter().zip(&mut self.running) {
            let Some(instance) = instance else { continue };
            if let Some(status) = instance.ended() {
                panic!("{name} ended by itself with {status}: {}", instance.said());
            }
        }
    }

    /// On a slow machine each kill may come before the first snapshot is due. Then a member leaves, which writes
    /// one, and returns, until it was found: a run without would prove nothing of it.
    fn find_a_snapshot(&mut self) {
        let begin = Instant::now();
        while self.said(FROM_SNAPSHOT) == 0 {
            assert!(begin.elapsed() < TIMEOUT, "no snapshot was found; {}", self.folder.display());
            std::thread::sleep(Duration::from_millis(LIFE.0 + LIFE.1));
            self.check();
            for member in 0..GUEST {
                self.table.leaves += u32::from(self.running[member].is_some());
                self.table.joins += 1;
                self.leave(member);
                self.start(member);
            }
        }
    }

    /// Waits for the last estimate, and for what would come twice; then everybody leaves.
    fn finish(&mut self, outputs: &OutputTopics, expected: &Published) {
        let begin = Instant::now();
        while count(&Published::read(self.broker, outputs)) < count(expected) && begin.elapsed() < TIMEOUT {
            self.check();
            std::thread::sleep(Duration::from_millis(500));
        }
        std::thread::sleep(Duration::from_millis(500));
        (0..MEMBERS.len()).for_each(|member| self.leave(member));
    }

    /// How often a partition was taken up with these words.
    fn said(&self, words: &str) -> u32 {
        let logs = std::fs::read_dir(&self.folder).expect("our folder").map(|entry| entry.expect("readable"));
        let logs = logs.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "log"));
        let texts = logs.map(|entry| std::fs::read_to_string(entry.path()).expect("readable"));
        let said = |text: String| {
            text.lines()
                .filter(|line| line.contains(&format!(": {words}")) && !line.contains("passed over"))
                .count()
        };
        texts.map(said).sum::<usize>() as u32
    }
}

fn input(requests: u64, seed: u64) -> Input {
    let mut input = Input::default();
    for partition in 0..PARTITIONS {
        let workload = Workload {
            seed: seed.wrapping_add(partition as u64),
            start_ms: 36_000_000,
            sessions_per_day: 4000,
            ..Workload::default()
        };
        let generator = Generator::new(workload).expect("a workload");
        let pool = format!("pool-{partition}");
        for (number, request) in generator.take(requests as usize).enumerate() {
            let mut row = request.as_row();
            tell(&mut row, number);
            // JSON is read ahead by workers that have no records.
            let encoding = [RequestEncoding::Avro, RequestEncoding::Json][(input.records() % 2) as usize];
            input.push_row_as(encoding, partition, &pool, &row);
            if number % 100 == 50 {
                input.push(partition, &pool, format!("broken {number}").into_bytes());
            }
        }
    }
    input
}

/// Feeds every partition by turns, as far as the quota goes.
pub fn produce(connection: &Connection, topic: &str, input: &Input, quota: &AtomicU64) {
    let producer = TopicProducer::open(connection, topic, TIMEOUT).expect("a producer");
    let longest = input.partitions.values().map(Vec::len).max().unwrap_or_default();
    for at in 0..longest {
        while at as u64 >= quota.load(Ordering::SeqCst) {
            std::thread::sleep(PACE);
        }
        for (partition, records) in &input.partitions {
            if let Some((key, value)) = records.get(at) {
                producer.send_to(Some(*partition), key, value, Some(stamp())).expect("room");
            }
        }
        std::thread::sleep(PACE);
    }
    assert_eq!(producer.finish().expect("delivered"), input.records());
}

/// The log as it lies there, which what is published is a function of. A broker that is killed may leave the feeder's
/// client in doubt of its last records: it begins a new epoch of its sequence and sends them again. So all of the
/// input is there, in its order, and some of it more than once.
fn log_of(broker: &Broker, topic: &str, input: &Input) -> Input {
    let mut log = Input::default();
    for record in broker.read_all(topic) {
        let (key, value) = (record.key.expect("a key"), record.value.expect("a value"));
        log.partitions.entry(record.partition).or_default().push((key, value));
    }
    let once = |records: &[KeyValue]| -> Vec<KeyValue> {
        let mut seen = BTreeSet::new();
        records.iter().filter(|record| seen.insert(*record)).cloned().collect()
    };
    for (partition, records) in &input.partitions {
        let there = log.partitions.get(partition).map_or(&[][..], Vec::as_slice);
        assert!(once(there) == once(records), "the log of partition {partition} is not what was fed");
        if there.len() > records.len() {
            println!("partition {partition}: {} records were sent again", there.len() - records.len());
        }
    }
    log
}

fn compare(published: &Published, expected: &Published, mut table: KillTable) -> KillTable {
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
