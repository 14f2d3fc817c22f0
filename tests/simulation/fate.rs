//! What kind of a life a seed gives: its settings, its traits, how often things go wrong.

use crate::broker::Promise;
use crate::chance::Chance;
use crate::input::{TOPIC, task_config};
use crate::world::Rates;
use kvset::kafka::config::{Connection, Membership};
use kvset::kafka::sink::{Delivery, OutputTopic, OutputTopics};
use kvset::pipeline::assignment::FlowLimits;
use kvset::pipeline::facts::Fingerprint;
use kvset::pipeline::resume::{LostHistory, StartFrom};
use kvset::service::plan::{CommitPace, ParkingPlan, ServicePlan, StatePlan, StreamPlan};
use kvset::snapshot::limits::PartsLimits;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Where snapshots lie on every host.
pub const STATE: &str = "/state";

/// What kind of a life this is.
#[derive(Debug, Clone, Copy)]
pub struct Traits {
    pub promise: Promise,
    /// Every rebalance revokes everything first.
    pub eager: bool,
    /// Snapshots of all hosts lie in one place.
    pub shared_store: bool,
    /// Members have stable names; a new process of a name fences the old one.
    pub named_members: bool,
    /// The log's start moves.
    pub retention: bool,
    /// The operator lets lost history pass.
    pub yields_to_retention: bool,
    /// At the end the topic is made anew.
    pub recreated: bool,
}

impl Traits {
    pub fn choose(chance: &mut Chance) -> Self {
        Self {
            promise: if chance.one_in(6) { Promise::AtLeastOnce } else { Promise::ExactlyOnce },
            eager: chance.one_in(3),
            shared_store: chance.one_in(3),
            named_members: chance.one_in(2),
            retention: chance.one_in(6),
            yields_to_retention: chance.one_in(2),
            recreated: chance.one_in(6),
        }
    }

    /// The traits in words, for the count.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let choice = |is: bool, yes, no| if is { yes } else { no };
        [
            choice(self.promise == Promise::ExactlyOnce, "exactly once", "at least once"),
            choice(self.eager, "eager rebalances", "cooperative rebalances"),
            choice(self.shared_store, "shared store", "a store a host"),
            choice(self.named_members, "static members", "dynamic members"),
            choice(self.retention, "retention", "a log kept whole"),
        ]
        .into_iter()
    }
}

/// How often things go wrong in this life.
pub fn rates(chance: &mut Chance) -> Rates {
    let mut rate = |of: &[u64]| chance.pick(of).unwrap_or_default();
    Rates {
        crash: rate(&[0, 15, 40, 120, 400]),
        stall: rate(&[0, 0, 60, 300]),
        passing: rate(&[0, 10, 40, 200]),
        lost_reply: rate(&[0, 3, 8, 20]),
        abortable: rate(&[0, 6, 20, 80]),
        fatal: rate(&[0, 40, 150]),
        disk: rate(&[0, 5, 20, 60]),
    }
}

/// The service's settings in this life.
pub fn plan(lost_history: LostHistory, chance: &mut Chance) -> ServicePlan {
    let output = |name: &str| OutputTopic { name: name.to_owned(), partitions: NonZeroU32::MIN };
    let millis = Duration::from_millis;
    let stream = StreamPlan {
        connection: Connection { brokers: String::new(), properties: Vec::new() },
        membership: Membership {
            group: "kvset".to_owned(),
            instance: None,
            leave_on_stop: false,
            protocol: Default::default(),
            poll_within: millis(60_000),
        },
        topic: TOPIC.to_owned(),
        outputs: OutputTopics { results: output("estimates"), dead_letters: output("dead-letters") },
        guarantee: Delivery::Transactional,
        start: StartFrom::Earliest,
        lost_history,
        bounds: None,
        commit: CommitPace {
            every: millis(200),
            linger: millis(chance.below(40)),
            records: chance.between(1, 12),
            bytes: 1 << 20,
        },
        flow: FlowLimits { records: chance.between(1, 8) as usize, bytes: 1 << 20 },
        threads: 1,
        retry_for: Duration::from_secs(30),
        shutdown_deadline: Duration::from_secs(5),
    };
    ServicePlan {
        stream,
        task: Arc::new(task_config()),
        registry: None,
        state: Some(StatePlan {
            shared: None,
            directory: PathBuf::from(STATE),
            every: millis(chance.below(400)),
            generations: NonZeroUsize::MIN.saturating_add(chance.below(3) as usize),
            parts: parts_limits(chance),
            fingerprint: Fingerprint(1),
        }),
        parking: ParkingPlan { keep_for: millis(chance.below(3) * 5000), max_bytes: 1 << 30 },
    }
}

/// States written whole in one life, in many small parts and several captures in another.
fn parts_limits(chance: &mut Chance) -> PartsLimits {
    if chance.below(2) == 0 {
        return PartsLimits::default();
    }
    PartsLimits {
        whole_up_to: 0,
        fresh_bytes: chance.between(1, 20_000),
        files: chance.between(1, 6) as usize,
    }
}
