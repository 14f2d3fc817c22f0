//! What goes wrong around the instances: brokers that stop, are killed, stand still, are cut off or have no room
//! left, and an instance that stands still. Which broker it hits follows from what it leads.

use kvset::core::units::pages::mix;
use rdkafka::consumer::{BaseConsumer, Consumer};
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest wait for a leader.
const ELECTION: Duration = Duration::from_secs(60);
/// The broker that has a disk of its own.
const SMALL_DISK: i32 = 3;

/// Numbers that follow from a seed.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = mix(self.0.wrapping_add(0x9e37_79b9_7f4a_7c15));
        self.0 % bound
    }
}

/// What a broker leads, and is disturbed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leads {
    /// The transactions of the first instance.
    Transactions,
    /// A partition of the input.
    Input,
    /// A partition of the estimates.
    Output,
    /// The group and its offsets.
    Group,
}

const LEADERS: [Leads; 4] = [Leads::Transactions, Leads::Input, Leads::Output, Leads::Group];

/// One thing that goes wrong, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The only broker is started again, after it was asked to stop or killed.
    Restart { kill: bool },
    /// A broker is killed and started again.
    Kill(Leads),
    /// A broker stands still.
    Slow(Leads, Duration),
    /// A broker is cut off from clients and brokers.
    Cut(Leads, Duration),
    /// A broker's disk has no room left: it gives up, and is started again once there is some.
    DiskFull,
    /// An instance stands still, longer than its session lasts.
    Suspended(Duration),
}

impl Fault {
    /// The column that counts it.
    pub fn column(self) -> &'static str {
        match self {
            Self::Restart { .. } => "broker restarts",
            Self::Kill(_) => "broker kills",
            Self::Slow(..) => "slow",
            Self::Cut(..) => "cut off",
            Self::DiskFull => "disk full",
            Self::Suspended(_) => "suspended",
        }
    }
}

/// Restarts of the only broker, every second of them a kill.
pub fn restarts(count: u32) -> Vec<Fault> {
    (0..count).map(|number| Fault::Restart { kill: number % 2 == 0 }).collect()
}

/// What three brokers go through: so many kills, and among them as many of each other fault as asked, as far as they
/// can be had here.
pub fn of_three(kills: u32, others: u32, dice: &mut Dice) -> Vec<Fault> {
    let possible = std::env::var("KVSET_TEST_NODE_FAULTS").unwrap_or_default();
    let can = |name: &str| possible.split(',').any(|fault| fault == name);
    for (name, what) in [("cut", "no broker is cut off"), ("fill", "no disk is filled up")] {
        if !can(name) {
            println!("left out, for it needs root and iproute2: {what}");
        }
    }
    let mut faults: Vec<_> = (0..kills as usize).map(|at| Fault::Kill(LEADERS[at % LEADERS.len()])).collect();
    for number in 0..others as usize {
        let leads = LEADERS[(number + 1) % LEADERS.len()];
        let ms = |least: u64, more: u64, dice: &mut Dice| Duration::from_millis(least + dice.below(more));
        // A broker that is silent for 5 s loses what it leads; some of these are shorter.
        let wanted = [
            ("stall", Fault::Slow(leads, ms(1500, 6500, dice))),
            ("cut", Fault::Cut(leads, ms(2000, 8000, dice))),
            ("fill", Fault::DiskFull),
            ("stall", Fault::Suspended(ms(7000, 2000, dice))),
        ];
        for (_, fault) in wanted.into_iter().filter(|(name, _)| can(name)) {
            faults.insert(dice.below(faults.len() as u64 + 1) as usize, fault);
        }
    }
    faults
}

/// The partitions that matter to a run.
#[derive(Debug, Clone)]
pub struct Places {
    pub input: String,
    pub output: String,
    pub group: String,
    pub transactional_id: String,
}

/// Carries faults of brokers out through `scripts/kafka.sh`.
pub struct Brokers {
    control: String,
    consumer: BaseConsumer,
    places: Places,
    partitions: i32,
}

impl Brokers {
    /// With this script, over this client.
    pub fn new(control: String, consumer: BaseConsumer, places: Places, partitions: i32) -> Self {
        Self { control, consumer, places, partitions }
    }

    /// Does it, and brings the broker back.
    pub fn suffer(&self, fault: Fault, number: u32) {
        let node = |leads| self.leader(leads, number).to_string();
        let seconds = |time: Duration| format!("{:.3}", time.as_secs_f64());
        match fault {
            Fault::Restart { kill } => {
                self.tell(&[&["restart"], kill.then_some("--kill").as_slice()].concat())
            }
            Fault::Kill(leads) => {
                let node = node(leads);
                self.tell(&["node", &node, "kill"]);
                self.tell(&["node", &node, "start"]);
            }
            Fault::Slow(leads, time) => self.tell(&["node", &node(leads), "stall", &seconds(time)]),
            Fault::Cut(leads, time) => {
                let node = node(leads);
                self.tell(&["node", &node, "cut"]);
                std::thread::sleep(time);
                self.tell(&["node", &node, "mend"]);
            }
            Fault::DiskFull => {
                let node = SMALL_DISK.to_string();
                self.tell(&["node", &node, "fill"]);
                self.tell(&["node", &node, "clear"]);
                self.tell(&["node", &node, "start"]);
            }
            Fault::Suspended(_) => unreachable!("no broker's fault"),
        }
    }

    fn tell(&self, words: &[&str]) {
        let done = Command::new(&self.control).args(words).output().expect("the script runs");
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Which broker leads this, once one does.
    fn leader(&self, leads: Leads, number: u32) -> i32 {
        let some = number as i32 % self.partitions;
        let (topic, partition) = match leads {
            Leads::Input => (self.places.input.as_str(), some),
            Leads::Output => (self.places.output.as_str(), some),
            Leads::Transactions => ("__transaction_state", self.kept_in(&self.places.transactional_id)),
            Leads::Group => ("__consumer_offsets", self.kept_in(&self.places.group)),
        };
        let begin = Instant::now();
        while begin.elapsed() < ELECTION {
            let metadata = self.consumer.fetch_metadata(Some(topic), Duration::from_secs(5));
            let topics = metadata.as_ref().map_or(&[][..], |metadata| metadata.topics());
            let found = topics.iter().flat_map(|topic| topic.partitions()).find(|p| p.id() == partition);
            if let Some(leader) = found.map(|partition| partition.leader()).filter(|leader| *leader > 0) {
                return leader;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        panic!("nobody leads {topic}/{partition}");
    }

    /// The partition of an internal topic that keeps a name: Java's hash of it, as brokers compute it. The script gives
    /// these topics as many partitions as a run's own have.
    fn kept_in(&self, name: &str) -> i32 {
        let hash = name.bytes().fold(0_i32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        (hash & i32::MAX) % self.partitions
    }
}

/// Lets a process stand still. One that is killed meanwhile has nothing to go on with.
pub fn suspend(process: u32, time: Duration) {
    let signal = |name: &str| {
        Command::new("kill").args([name, &process.to_string()]).output().expect("kill runs").status.success()
    };
    // One that has just been started would end as it goes on, if it was asked to stop meanwhile.
    let begin = Instant::now();
    while !listens_for_signals(process) && begin.elapsed() < BEGINS_WITHIN {
        std::thread::sleep(Duration::from_millis(20));
    }
    if signal("-STOP") {
        std::thread::sleep(time);
        signal("-CONT");
    }
}

/// Longest time from the start of a process until it listens for signals.
const BEGINS_WITHIN: Duration = Duration::from_secs(10);

/// Whether a process handles SIGTERM by itself.
fn listens_for_signals(process: u32) -> bool {
    const SIGTERM: u64 = 15;
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let handled = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let handled = handled.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    handled.is_some_and(|mask| mask >> (SIGTERM - 1) & 1 == 1)
}
