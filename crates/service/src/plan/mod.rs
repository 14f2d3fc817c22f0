//! From settings to what the service is made of.

pub mod features;
pub mod schemas;

use crate::backoff::GLANCE;
use features::NotBuilt;
use kvset_core::estimate::config::PoolConfigError;
use kvset_core::pool::set::PoolConfigs;
use kvset_formats::codec::{DecodeLimits, EstimateEncoding, SchemaId, WriterSchemas, schema};
use kvset_formats::position::Partition;
use kvset_kafka::kafka::KafkaFailure;
use kvset_kafka::kafka::config::{Connection, MemberProtocol, Membership};
use kvset_kafka::kafka::sink::{Delivery, OutputTopic, OutputTopics};
use kvset_kafka::kafka::topics::{TopicPlan, Topics};
use kvset_kafka::kafka::writers::{other_groups, shared_topic};
use kvset_kafka::registry::cache::SchemaCache;
use kvset_pipeline::assignment::FlowLimits;
use kvset_pipeline::dead_letter_policy::DeadLetterLimits;
use kvset_pipeline::facts::Fingerprint;
use kvset_pipeline::gaps::OffsetGaps;
use kvset_pipeline::offset_range::OffsetRange;
use kvset_pipeline::resume::{LostHistory, StartFrom};
use kvset_pipeline::task::TaskConfig;
use kvset_settings::{self, OutputEncoding, SecretError, Settings, Span};
use kvset_snapshot::limits::PartsLimits;
use schemas::RegistryError;
use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// When to commit; whichever comes first.
#[derive(Debug, Clone, Copy)]
pub struct CommitPace {
    /// Between two commits when only offsets moved.
    pub every: Duration,
    /// Between two commits when outputs wait.
    pub linger: Duration,
    /// Records between two commits.
    pub records: u64,
    /// Bytes of outputs between two commits.
    pub bytes: usize,
}

/// Where snapshots are kept, and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatePlan {
    /// The directory, of this process alone.
    pub directory: PathBuf,
    /// The store that hosts share, where there is one.
    pub shared: Option<SharedPlan>,
    /// Time between two snapshots of a partition.
    pub every: Duration,
    /// Snapshots kept a partition.
    pub generations: NonZeroUsize,
    /// How large states are cut into parts.
    pub parts: PartsLimits,
    /// The configuration states are made under.
    pub fingerprint: Fingerprint,
}

/// An object store that hosts share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedPlan {
    /// Its address, such as `s3://bucket/prefix`.
    pub address: String,
    /// The consumer group, below which its snapshots lie.
    pub group: String,
}

/// What a bounded run reads, and what it notes alongside the offsets it commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Of each partition it reads.
    pub offset_ranges: BTreeMap<Partition, OffsetRange>,
    /// Of the same partitions.
    pub notes: BTreeMap<Partition, String>,
    /// Offsets that the live group cannot read either.
    pub gaps: BTreeMap<Partition, OffsetGaps>,
}

/// How long, and how many, states of partitions that moved away stay in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParkingPlan {
    /// How long; zero for not at all.
    pub keep_for: Duration,
    /// Bytes of all of them.
    pub max_bytes: u64,
}

/// Everything a stage between two topics is made of, whatever it does with the records.
#[derive(Debug, Clone)]
pub struct StreamPlan {
    /// How to reach the brokers.
    pub connection: Connection,
    /// Membership in the group.
    pub membership: Membership,
    /// The input topic.
    pub topic: String,
    /// Where to begin and end; none for a group member that runs until it is stopped.
    pub bounds: Option<Bounds>,
    /// Where output goes.
    pub outputs: OutputTopics,
    /// How outputs and offsets are tied together.
    pub guarantee: Delivery,
    /// Where a group without offsets begins.
    pub start: StartFrom,
    /// What to do where history is missing.
    pub lost_history: LostHistory,
    /// When to commit.
    pub commit: CommitPace,
    /// How much of a partition may be under way.
    pub flow: FlowLimits,
    /// Worker threads.
    pub threads: usize,
    /// How long passing troubles are waited out.
    pub retry_for: Duration,
    /// Longest time to stop.
    pub shutdown_deadline: Duration,
}

/// Everything the service is made of.
#[derive(Debug, Clone)]
pub struct ServicePlan {
    /// Its topics, its group and its pace.
    pub stream: StreamPlan,
    /// What shapes the output.
    pub task: Arc<TaskConfig>,
    /// The schema registry, where there is one.
    pub registry: Option<Arc<SchemaCache>>,
    /// Snapshots; without them every start reads the whole log again.
    pub state: Option<StatePlan>,
    /// States of partitions that moved away.
    pub parking: ParkingPlan,
}

/// Why there is no service.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A secret cannot be looked up.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A setting asks for what this build lacks.
    #[error(transparent)]
    NotBuilt(#[from] NotBuilt),
    /// A pool's configuration cannot be used.
    #[error(transparent)]
    Pool(#[from] PoolConfigError),
    /// The schema registry cannot be used.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Topics are missing, or the brokers do not answer.
    #[error(transparent)]
    Kafka(#[from] KafkaFailure),
}

/// Longest time that outputs wait for company before they are committed.
const LINGER: Duration = Duration::from_millis(100);
/// Bytes of outputs that are committed at once.
const BURST_BYTES: usize = 16 << 20;

/// How to reach the brokers, secrets looked up.
///
/// # Errors
/// A secret that is kept elsewhere cannot be read; this build cannot connect in this way.
pub fn connection(kafka: &kvset_settings::Kafka) -> Result<Connection, PlanError> {
    let properties = kafka.properties.resolve()?;
    features::check_connection(properties.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    Ok(Connection { brokers: kafka.brokers.clone(), properties })
}

/// The protocol of the groups that are joined.
fn group_protocol(kafka: &kvset_settings::Kafka) -> MemberProtocol {
    match kafka.group_protocol {
        kvset_settings::GroupProtocol::Classic => MemberProtocol::Classic(kafka.assignment),
        kvset_settings::GroupProtocol::Consumer => MemberProtocol::Consumer,
    }
}

/// What shapes the output: pure, so that a replay of the same log gives the same bytes.
///
/// # Errors
/// A pool's configuration cannot be used.
pub fn task_config(settings: &Settings) -> Result<TaskConfig, PoolConfigError> {
    let named = settings.pools.iter().map(|pool| (pool.name.clone(), settings.pool_config(&pool.name)));
    Ok(TaskConfig {
        topic: settings.input.topic.as_str().to_owned(),
        encoding: settings.input.encoding,
        schemas: None,
        limits: DecodeLimits {
            max_record_bytes: usize::try_from(settings.input.max_record_bytes.0).unwrap_or(usize::MAX),
            max_pages_per_request: settings.input.max_pages_per_request as usize,
            max_event_time_ahead_ms: unless_zero(settings.input.max_event_time_ahead),
            ..DecodeLimits::default()
        },
        pools: PoolConfigs::new(settings.pool_config(""), named)?.into(),
        max_pools: settings.estimate.max_pools as usize,
        idle_timeout_ms: unless_zero(settings.estimate.idle_timeout),
        forget_after_ms: unless_zero(settings.estimate.forget_after),
        put_aside_after_ms: unless_zero(settings.state.idle_after),
        hold_back_bytes: settings.hold_back_bytes(),
        dead_letters: dead_letter_limits(settings),
        max_letter_bytes: max_letter_bytes(settings),
        output: match settings.output.encoding {
            OutputEncoding::Json => EstimateEncoding::Json,
            OutputEncoding::Avro => EstimateEncoding::Avro,
            // The id is the registry's to say; see `with_registry`.
            OutputEncoding::ConfluentAvro => EstimateEncoding::ConfluentAvro(SchemaId(0)),
        },
        detail: settings.output.detail,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        fingerprint: settings.fingerprint_hex(),
    })
}

/// A time that zero turns off.
fn unless_zero(span: Span) -> Option<u64> {
    Some(span.as_ms()).filter(|ms| *ms > 0)
}

/// The store that hosts share, where the settings name one.
pub fn shared_plan(settings: &Settings) -> Option<SharedPlan> {
    let address = Some(settings.state.shared.clone()).filter(|address| !address.is_empty())?;
    Some(SharedPlan { address, group: settings.kafka.group.clone() })
}

/// The task's part of the registry: schemas to read with, and the id of the schema to write with.
///
/// # Errors
/// The registry does not answer within `retry_for`, or does not have the schema.
pub fn with_registry(
    task: TaskConfig,
    settings: &Settings,
    registry: &Arc<SchemaCache>,
    retry_for: Duration,
) -> Result<TaskConfig, RegistryError> {
    let output = match task.output {
        EstimateEncoding::ConfluentAvro(_) => EstimateEncoding::ConfluentAvro(schemas::id_of_values(
            &settings.schema_registry,
            registry.client(),
            settings.output.topic.as_str(),
            schema::CAPACITY_ESTIMATE,
            retry_for,
        )?),
        other => other,
    };
    let reading: Arc<dyn WriterSchemas> = Arc::<SchemaCache>::clone(registry);
    Ok(TaskConfig { schemas: Some(reading), output, ..task })
}

/// How many refusals are tolerated.
pub(crate) fn dead_letter_limits(settings: &Settings) -> DeadLetterLimits {
    DeadLetterLimits {
        max_consecutive: settings.dead_letters.max_consecutive,
        max_share: settings.dead_letters.max_share,
        share_window: settings.dead_letters.share_over,
    }
}

/// Largest dead letter.
pub(crate) fn max_letter_bytes(settings: &Settings) -> usize {
    usize::try_from(settings.dead_letters.max_bytes.0).unwrap_or(usize::MAX)
}

/// Where snapshots are kept, as the settings say.
pub fn state_plan(settings: &Settings) -> StatePlan {
    StatePlan {
        directory: settings.state.directory.clone(),
        shared: shared_plan(settings),
        every: settings.state.checkpoint_every.as_duration(),
        generations: NonZeroUsize::new(settings.state.generations as usize).unwrap_or(NonZeroUsize::MIN),
        parts: PartsLimits { whole_up_to: settings.state.whole_up_to.0, ..PartsLimits::default() },
        fingerprint: Fingerprint(settings.fingerprint()),
    }
}

/// The topics and the group of a stage, by the settings that name them.
pub(crate) struct Ends<'s> {
    /// Consumer group.
    pub group: &'s str,
    /// Input topic, its setting, and what would have created it.
    pub input: (&'s kvset_settings::TopicName, &'static str, &'static str),
    /// Topic of results, its setting, and [`TopicPlan::compacted_for`] where it is created.
    pub results: (&'s kvset_settings::TopicName, &'static str, Option<Duration>),
    /// Topic of dead letters and its setting.
    pub dead_letters: (&'s kvset_settings::TopicName, &'static str),
    /// Threads requested; 0 for one per core.
    pub threads: u32,
}

impl StreamPlan {
    /// Makes the plan, after a look at the topics. With `create`, output topics that are missing are
    /// created, with as many partitions as the input topic has.
    pub(crate) fn make(settings: &Settings, ends: &Ends<'_>, create: bool) -> Result<Self, PlanError> {
        let connection = connection(&settings.kafka)?;
        let outputs = output_topics(ends, &connection, create, settings.kafka.retry_for.as_duration())?;
        Ok(Self::between(settings, ends, connection, outputs))
    }

    /// The plan of a stage whose ends are looked up.
    fn between(settings: &Settings, ends: &Ends<'_>, connection: Connection, outputs: OutputTopics) -> Self {
        let retry_for = settings.kafka.retry_for.as_duration();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let instance = Some(settings.kafka.instance.clone()).filter(|name| !name.is_empty());
        let every = settings.commit.every.as_duration();
        Self {
            membership: Membership {
                group: ends.group.to_owned(),
                instance,
                leave_on_stop: settings.kafka.leave_on_stop,
                protocol: group_protocol(&settings.kafka),
                // A commit and the answer to a rebalance may both wait the brokers out.
                poll_within: retry_for.saturating_mul(2),
            },
            connection,
            topic: ends.input.0.as_str().to_owned(),
            bounds: None,
            outputs,
            guarantee: settings.output.delivery,
            start: settings.input.start,
            lost_history: settings.state.lost_history,
            commit: CommitPace {
                every,
                linger: LINGER.min(every),
                records: u64::from(settings.commit.max_records),
                bytes: BURST_BYTES,
            },
            flow: FlowLimits {
                records: settings.workers.queue_records as usize,
                bytes: usize::try_from(settings.workers.queue_bytes.0).unwrap_or(usize::MAX),
            },
            threads: match ends.threads as usize {
                0 => cores,
                threads => threads,
            },
            retry_for,
            shutdown_deadline: settings.shutdown.deadline.as_duration(),
        }
    }

    /// Says which other groups write, or wrote, to the topic of results. A group that took another one's place is no
    /// error; what brokers do not say is not known.
    fn name_other_groups(&self) {
        let (group, topic) = (&self.membership.group, &self.outputs.results);
        match other_groups(&self.connection, group, topic, GLANCE) {
            Ok(others) if others.is_empty() => {}
            Ok(others) => tracing::warn!("{}", shared_topic(&topic.name, group, &others)),
            Err(failure) => tracing::info!(
                "whether another group writes to topic `{}` (output.topic) is not known, for want of the right to read it, say: \
                 {failure}",
                topic.name
            ),
        }
    }

    /// What a bounded run reads of this partition.
    pub fn offset_range(&self, partition: Partition) -> Option<&OffsetRange> {
        self.bounds.as_ref()?.offset_ranges.get(&partition)
    }

    /// Who the producer is. A bounded run is one process at a time, so that a later one fences it.
    pub fn transactional_id(&self) -> String {
        match &self.bounds {
            None => self.membership.transactional_id(),
            Some(_) => format!("kvset-{}", self.membership.group),
        }
    }
}

impl ServicePlan {
    /// Makes the plan, after a look at the topics. With `create_topics`, output topics that are
    /// missing are created, with as many partitions as the input topic has.
    ///
    /// # Errors
    /// What keeps the service from starting, with what to do about it.
    pub fn make(settings: &Settings, create_topics: bool) -> Result<Self, PlanError> {
        let mut task = task_config(settings)?;
        let registry = schemas::open(&settings.schema_registry).map_err(RegistryError::from)?;
        if let Some(registry) = &registry {
            task = with_registry(task, settings, registry, settings.kafka.retry_for.as_duration())?;
        }
        let stream = StreamPlan::make(settings, &ends(settings), create_topics)?;
        stream.name_other_groups();
        Ok(Self::over(settings, stream, task, registry))
    }

    /// The plan for a folder in place of the topics: what stands for the input topic, and the files of outputs.
    ///
    /// # Errors
    /// A pool's configuration cannot be used.
    pub fn of_folder(settings: &Settings, topic: &str, files: [String; 2]) -> Result<Self, PoolConfigError> {
        let [results, dead_letters] = files.map(|name| OutputTopic { name, partitions: NonZeroU32::MIN });
        let connection = Connection { brokers: String::new(), properties: Vec::new() };
        let outputs = OutputTopics { results, dead_letters };
        let stream = StreamPlan::between(settings, &ends(settings), connection, outputs);
        let stream = StreamPlan { topic: topic.to_owned(), ..stream };
        let task = TaskConfig { topic: topic.to_owned(), ..task_config(settings)? };
        Ok(Self::over(settings, stream, task, None))
    }

    fn over(
        settings: &Settings,
        stream: StreamPlan,
        task: TaskConfig,
        registry: Option<Arc<SchemaCache>>,
    ) -> Self {
        Self {
            stream,
            task: Arc::new(task),
            registry,
            state: Some(state_plan(settings)),
            parking: ParkingPlan {
                keep_for: settings.state.keep_revoked.as_duration(),
                max_bytes: settings.state.keep_revoked_bytes.0,
            },
        }
    }
}

/// The topics and the group of the service.
fn ends(settings: &Settings) -> Ends<'_> {
    Ends {
        group: &settings.kafka.group,
        input: (&settings.input.topic, "input.topic", "`kvset produce --create-topics`"),
        results: (&settings.output.topic, "output.topic", Some(settings.output.retention.as_duration())),
        dead_letters: (&settings.output.dead_letter_topic, "output.dead_letter_topic"),
        threads: settings.workers.threads,
    }
}

/// Looks the topics up; creates output topics if told to.
fn output_topics(
    ends: &Ends<'_>,
    connection: &Connection,
    create: bool,
    deadline: Duration,
) -> Result<OutputTopics, KafkaFailure> {
    let topics = Topics::new(connection, deadline)?;
    let (input, key, creates_it) = ends.input;
    let partitions = topics.require(input.as_str(), key, creates_it)?;
    topics.require_whole(input.as_str(), key)?;
    let input = partitions;
    let (results, results_key, compacted_for) = ends.results;
    let (dead_letters, dead_letters_key) = ends.dead_letters;
    if create {
        let plan = |name: &kvset_settings::TopicName, compacted_for| TopicPlan {
            name: name.as_str().to_owned(),
            partitions: input,
            compacted_for,
        };
        topics.create(&[plan(results, compacted_for), plan(dead_letters, None)])?;
    }
    let topic = |name: &kvset_settings::TopicName, key| {
        let partitions = topics.require(name.as_str(), key, "--create-topics")?;
        Ok::<_, KafkaFailure>(OutputTopic { name: name.as_str().to_owned(), partitions })
    };
    let found = OutputTopics {
        results: topic(results, results_key)?,
        dead_letters: topic(dead_letters, dead_letters_key)?,
    };
    topics.warn_of_compacted_letters(dead_letters.as_str(), dead_letters_key);
    Ok(found)
}
