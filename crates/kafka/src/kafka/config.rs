//! Client properties: what this program sets itself, and why.

use super::oauth::{self, OptionalTokens, TokenSource};
use kvset_pipeline::publish::KafkaFailure;
pub use kvset_settings::AssignmentStrategy;
use kvset_settings::Choice as _;
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaConfRes;
use std::time::Duration;

/// How to reach the brokers.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Connection {
    /// Brokers to begin with, host:port, separated by commas.
    pub brokers: String,
    /// Properties of the operator's, for every client; secrets among them.
    pub properties: Vec<(String, String)>,
}

impl std::fmt::Debug for Connection {
    /// Shows names of properties only: values may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self.properties.iter().map(|(name, _)| name).collect();
        f.debug_struct("Connection").field("brokers", &self.brokers).field("properties", &names).finish()
    }
}

/// Whether the client knows properties of these names; what their values come to is the client's to say once it begins,
/// which may be kept elsewhere.
///
/// # Errors
/// It does not know one.
pub fn check_properties<'a>(
    properties: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<(), KafkaFailure> {
    for (name, value) in properties {
        let mut config = ClientConfig::new();
        let native = config.set(name, value).create_native_config().map(drop);
        if let Err(KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, ..)) = native {
            return Err(KafkaFailure::fatal(format!(
                "the client knows no property `{name}`: correct its name under kafka.properties \
                 (librdkafka's CONFIGURATION.md lists them)"
            )));
        }
    }
    Ok(())
}

/// The protocol of a consumer group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberProtocol {
    /// One of the members shares partitions out, in this way.
    Classic(AssignmentStrategy),
    /// The brokers do, and say how long a session lasts (KIP-848).
    Consumer,
}

impl Default for MemberProtocol {
    fn default() -> Self {
        Self::Classic(AssignmentStrategy::CooperativeSticky)
    }
}

/// Membership in a consumer group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The group.
    pub group: String,
    /// Stable name of this member; none for a dynamic one.
    pub instance: Option<String>,
    /// Whether a member with a stable name leaves when it stops in order; others always do.
    pub leave_on_stop: bool,
    /// How partitions are shared, and by whom.
    pub protocol: MemberProtocol,
    /// Longest time between two polls, waiting for brokers included; the group gives the partitions to
    /// others after it. The client's default where that is longer.
    pub poll_within: Duration,
}

impl Membership {
    /// The transactional id: stable where the member is, so that a restart fences what it left behind
    /// at once. A dynamic member gets one of its own; what a crashed one left open is aborted by the
    /// broker after [`TRANSACTION_TIMEOUT`], and the group's generation fences it until then.
    pub fn transactional_id(&self) -> String {
        match &self.instance {
            Some(instance) => format!("kvset-{}-{instance}", self.group),
            None => {
                let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
                let nanos = nanos.map_or(0, |elapsed| elapsed.as_nanos());
                format!("kvset-{}-{}-{nanos:x}", self.group, std::process::id())
            }
        }
    }
}

/// The client's default for the time between two polls.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(300);

/// How long a transaction may stay open before the broker aborts it, and with it the time a reader
/// may be held up by a crashed member.
pub const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(20);

/// How often the clients of a service report on themselves.
const STATISTICS_INTERVAL_MS: &str = "2000";

impl Connection {
    /// What every client has. The operator's properties come last but for what a role needs to be
    /// right.
    fn base(&self, role: &str) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("client.id", format!("kvset-{role}"))
            // Shown in the broker's own statistics of who connects.
            .set("client.software.name", "kvset")
            .set("client.software.version", env!("CARGO_PKG_VERSION"))
            .set("socket.keepalive.enable", "true")
            .set("reconnect.backoff.max.ms", "2000")
            .set("allow.auto.create.topics", "false")
            .set_log_level(RDKafkaLogLevel::Info);
        config
    }

    fn finish(&self, mut config: ClientConfig, fixed: &[(&str, &str)]) -> ClientConfig {
        for (name, value) in oauth::for_librdkafka(&self.properties) {
            config.set(name, value);
        }
        config.set("bootstrap.servers", &self.brokers);
        for (name, value) in fixed {
            config.set(*name, *value);
        }
        config
    }

    /// Where this connection's tokens come from, if it uses any.
    pub(super) fn tokens(&self) -> Result<OptionalTokens, KafkaFailure> {
        TokenSource::of(&self.properties)
    }

    fn consuming(&self, role: &str, fixed: &[(&str, &str)]) -> ClientConfig {
        let mut config = self.base(role);
        // librdkafka waits a whole second before it fetches again once its queue was full: that, not
        // the network, would set the rate.
        config
            .set("fetch.queue.backoff.ms", "10")
            .set("fetch.min.bytes", "16384")
            .set("fetch.wait.max.ms", "50")
            .set("fetch.message.max.bytes", "4194304")
            .set("queued.max.messages.kbytes", "65536")
            // Partitions that are added are taken up as soon as the client knows of them.
            .set("topic.metadata.refresh.interval.ms", "10000")
            .set("check.crcs", "true");
        let always = [
            ("isolation.level", "read_committed"),
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("enable.partition.eof", "true"),
            // Start offsets are in the assignment. One that is not there any more is a matter of policy.
            ("auto.offset.reset", "error"),
        ];
        self.finish(config, &[&always, fixed].concat())
    }

    /// A member of a group.
    pub(super) fn member(&self, membership: &Membership) -> ClientConfig {
        let sharing = match membership.protocol {
            MemberProtocol::Consumer => ("group.protocol", "consumer"),
            MemberProtocol::Classic(assignor) => ("partition.assignment.strategy", assignor.name()),
        };
        let fixed = [("group.id", membership.group.as_str()), sharing];
        let mut config = self.consuming("source", &fixed);
        config.set("statistics.interval.ms", STATISTICS_INTERVAL_MS);
        if config.get("max.poll.interval.ms").is_none() {
            let poll_within = MAX_POLL_INTERVAL.max(membership.poll_within).min(Duration::from_secs(86_400));
            config.set("max.poll.interval.ms", poll_within.as_millis().to_string());
        }
        if let Some(instance) = &membership.instance {
            config.set("group.instance.id", instance);
        }
        config
    }

    /// A reader that takes part in no group's rebalances and keeps its offsets under this name: fetches
    /// as the service does, so that a bare client can be measured alongside it.
    pub fn loner(&self, group: &str) -> ClientConfig {
        let mut config = self.consuming("source", &[("group.id", group)]);
        config.set("statistics.interval.ms", STATISTICS_INTERVAL_MS);
        config
    }

    /// Asks about committed offsets without waiting for transactions that are still open.
    pub(super) fn onlooker(&self, group: &str) -> ClientConfig {
        self.consuming("onlooker", &[("group.id", group), ("isolation.level", "read_uncommitted")])
    }

    /// A reader outside of any group. The client wants a group's name to serve its queue; nothing
    /// joins or commits under this one.
    pub(super) fn reader(&self) -> ClientConfig {
        self.consuming("reader", &[("group.id", "kvset-reader")])
    }

    fn producing(&self, role: &str, fixed: &[(&str, &str)]) -> ClientConfig {
        let mut config = self.base(role);
        config
            .set("compression.type", "zstd")
            .set("linger.ms", "5")
            .set("queue.buffering.max.kbytes", "262144")
            .set("message.max.bytes", "67108864");
        let always = [
            ("enable.idempotence", "true"),
            ("acks", "all"),
            // Java's default: both agree on the partition of a key.
            ("partitioner", "murmur2_random"),
        ];
        self.finish(config, &[&always, fixed].concat())
    }

    /// A producer without transactions, which gives up on a record after `retry_for`.
    pub(super) fn producer(&self, role: &str, retry_for: Duration) -> ClientConfig {
        self.producing(role, &[("message.timeout.ms", &retry_for.as_millis().to_string())])
    }

    /// A producer of results without transactions.
    pub(super) fn idempotent_sink(&self, retry_for: Duration) -> ClientConfig {
        let mut config = self.producer("sink", retry_for);
        config.set("statistics.interval.ms", STATISTICS_INTERVAL_MS);
        config
    }

    /// A transactional producer.
    pub(super) fn transactional(&self, transactional_id: &str) -> ClientConfig {
        let timeout = TRANSACTION_TIMEOUT.as_millis().to_string();
        let fixed = [
            ("transactional.id", transactional_id),
            ("transaction.timeout.ms", timeout.as_str()),
            ("message.timeout.ms", timeout.as_str()),
        ];
        let mut config = self.producing("sink", &fixed);
        config.set("statistics.interval.ms", STATISTICS_INTERVAL_MS);
        config
    }

    /// A client that asks about topics and creates them.
    pub(super) fn admin(&self) -> ClientConfig {
        self.finish(self.base("admin"), &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        let property = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let properties =
            vec![property("sasl.password", "hunter2"), property("isolation.level", "read_uncommitted")];
        Connection { brokers: "b:1".to_owned(), properties }
    }

    fn membership(instance: Option<&str>) -> Membership {
        let (group, instance) = ("g".to_owned(), instance.map(str::to_owned));
        let protocol = MemberProtocol::Classic(AssignmentStrategy::Range);
        Membership { group, instance, leave_on_stop: false, protocol, poll_within: Duration::from_secs(60) }
    }

    #[test]
    fn brokers_are_waited_for_within_the_poll_interval() {
        let interval = |poll_within, connection: Connection| {
            let membership = Membership { poll_within: Duration::from_secs(poll_within), ..membership(None) };
            connection.member(&membership).get("max.poll.interval.ms").map(str::to_owned)
        };
        assert_eq!(interval(60, connection()).as_deref(), Some("300000"), "never below the default");
        assert_eq!(interval(1200, connection()).as_deref(), Some("1200000"));
        assert_eq!(
            interval(u64::MAX / 1000, connection()).as_deref(),
            Some("86400000"),
            "the client's limit"
        );
        let mut own = connection();
        own.properties.push(("max.poll.interval.ms".to_owned(), "7000".to_owned()));
        assert_eq!(interval(1200, own).as_deref(), Some("7000"), "the operator's word");
    }

    #[test]
    fn what_correctness_hangs_on_cannot_be_overridden() {
        let membership = membership(Some("i-1"));
        let config = connection().member(&membership);
        assert_eq!(config.get("isolation.level"), Some("read_committed"));
        assert_eq!(config.get("group.instance.id"), Some("i-1"));
        assert_eq!(config.get("sasl.password"), Some("hunter2"), "the operator's own are passed on");
        config.create_native_config().expect("every property is known");
        connection().transactional("t").create_native_config().expect("every property is known");
    }

    #[test]
    fn the_client_takes_what_either_protocol_sets() {
        for protocol in [MemberProtocol::default(), MemberProtocol::Consumer] {
            let config = connection().member(&Membership { protocol, ..membership(Some("i-1")) });
            let assigns = config.get("partition.assignment.strategy").is_some();
            assert_eq!(assigns, protocol != MemberProtocol::Consumer);
            config.create::<rdkafka::consumer::BaseConsumer>().expect("a member");
        }
    }

    #[test]
    fn secrets_do_not_show() {
        assert!(!format!("{:?}", connection()).contains("hunter2"));
    }

    #[test]
    fn a_stable_member_has_a_stable_transactional_id() {
        let mut membership = membership(Some("i-1"));
        assert_eq!(membership.transactional_id(), "kvset-g-i-1");
        membership.instance = None;
        assert!(membership.transactional_id().starts_with("kvset-g-"));
    }
}
