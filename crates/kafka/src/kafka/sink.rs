//! Outputs and consumed offsets: in one transaction, or acknowledged before the offsets.

use super::config::{Connection, TRANSACTION_TIMEOUT};
use super::context::{Deliveries, lock};
use super::error::{failure_of, kind};
use super::source::Source;
use kvset_formats::codec::pool_partition;
use kvset_formats::output::{Destination, OutputRecord};
use kvset_formats::position::{NextOffset, Partition};
use kvset_pipeline::publish::{FailureKind, KafkaFailure, Sink};
pub use kvset_settings::Delivery;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::ConsumerGroupMetadata;
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, PurgeConfig, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// A topic outputs go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputTopic {
    /// Its name.
    pub name: String,
    /// Its partitions.
    pub partitions: NonZeroU32,
}

/// Where outputs go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputTopics {
    /// Capacity estimates, or request events made of raw logs.
    pub results: OutputTopic,
    /// Refused input.
    pub dead_letters: OutputTopic,
}

/// The header of an estimate that names the group whose instances made it.
pub const GROUP_HEADER: &str = "kvset_group";

/// Longest single wait for an answer; retry decides how often the call is made again.
const CALL: Duration = Duration::from_secs(5);
/// Time between two looks at whether all outputs have arrived.
const LOOK: Duration = Duration::from_millis(1);

/// The producer of this process.
pub struct KafkaSink {
    producer: Arc<ThreadedProducer<Deliveries>>,
    topics: OutputTopics,
    guarantee: Delivery,
    /// What results say of who made them; nothing where it is empty.
    group: String,
    /// Failed deliveries before the current batch.
    failed_before: u64,
    /// Bytes of the largest dead letter that was sent and not committed yet.
    largest_letter: AtomicUsize,
}

/// How large dead letters may be, as their topic has shown to this process, whose producers come and go. By topic:
/// larger ones go without the bytes of their record.
static MOST: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

/// Whether a letter of so many bytes may go as it is.
fn fits(topic: &str, bytes: usize) -> bool {
    lock(&MOST).get(topic).is_none_or(|most| bytes <= *most)
}

/// The topic has turned a record away as too large. Which one is not reported: letters are half as large as the
/// largest was.
fn lower(topic: &str, largest: usize) {
    if largest > 0 {
        let most = largest / 2;
        tracing::warn!(
            "a record was larger than topic `{topic}` takes: dead letters of more than {most} bytes go there without \
             the bytes of their record"
        );
        lock(&MOST).insert(topic.to_owned(), most);
    }
}

impl KafkaSink {
    /// Connects. A transactional sink fences whoever used its transactional id before, and aborts
    /// what they left open.
    ///
    /// # Errors
    /// Properties the client refuses; no transactions at the broker; no answer within `deadline`.
    pub fn open(
        connection: &Connection,
        transactional_id: &str,
        topics: OutputTopics,
        guarantee: Delivery,
        deadline: Duration,
    ) -> Result<Self, KafkaFailure> {
        let (config, doing) = match guarantee {
            Delivery::Transactional => {
                let config = connection.transactional(transactional_id);
                (config, format!("opening the transactional producer `{transactional_id}`"))
            }
            Delivery::Idempotent => (connection.idempotent_sink(deadline), "opening the producer".to_owned()),
        };
        let producer: ThreadedProducer<Deliveries> = config
            .create_with_context(Deliveries::new(connection.tokens()?, &topics.dead_letters.name))
            .map_err(|error| failure_of(&doing, &error))?;
        let largest_letter = AtomicUsize::new(0);
        let (producer, group, failed_before) = (Arc::new(producer), String::new(), 0);
        let sink = Self { producer, topics, guarantee, group, failed_before, largest_letter };
        if guarantee == Delivery::Transactional {
            sink.init(deadline, &doing)?;
        }
        Ok(sink)
    }

    /// The same, whose results say that this group made them.
    #[must_use]
    pub fn of_group(self, group: &str) -> Self {
        Self { group: group.to_owned(), ..self }
    }

    /// Writes a tombstone, waits for the broker's word, and aborts: whether this user may write to this topic. Kafka's
    /// own question for it (KIP-430) is not among what this client asks. Readers of committed records see nothing.
    ///
    /// # Errors
    /// The topic may not be written to, or no transaction can be had.
    pub fn try_write(&mut self, destination: Destination) -> Result<(), KafkaFailure> {
        const KEY: &str = "kvset-config-check";
        let tombstone = OutputRecord {
            destination,
            partition: Partition(0),
            window: None,
            key: Some(KEY.as_bytes().to_vec()),
            value: None,
            headers: Vec::new(),
            placed_by: Some(KEY.to_owned()),
        };
        self.failed_before = self.producer.context().failed();
        self.begin()?;
        let written = self.send(&tombstone).and_then(|()| self.acknowledged());
        // The delivery only tells that the record was purged; why is the transaction's to tell, which a record that
        // was not delivered keeps from being committed.
        let failed = self.producer.context().failed() != self.failed_before;
        let written = if failed { self.commit().and(written) } else { written };
        written.and(self.abort())
    }

    /// Repeats the same call while it fails in passing, as transactions demand.
    fn init(&self, deadline: Duration, doing: &str) -> Result<(), KafkaFailure> {
        let begin = Instant::now();
        loop {
            match self.producer.init_transactions(CALL.min(deadline)) {
                Ok(()) => return Ok(()),
                Err(error) if kind(&error) == FailureKind::Transient && begin.elapsed() < deadline => {}
                Err(error) => return Err(failure_of(doing, &error)),
            }
        }
    }

    fn topic_of(&self, record: &OutputRecord) -> &OutputTopic {
        match record.destination {
            Destination::Results => &self.topics.results,
            Destination::DeadLetters => &self.topics.dead_letters,
        }
    }

    /// The failure, with the last failed delivery, which tells more than the transaction's own words.
    fn failure(&self, doing: &str, error: &KafkaError) -> KafkaFailure {
        let is_letter = self.note_sizes();
        let mut failure = failure_of(doing, error);
        if let Some(delivery) = self.producer.context().take_failure() {
            failure.message += &format!("; a record was not delivered: {delivery}");
        }
        let is_size = error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge);
        if self.producer.context().take_permanent() {
            failure.kind = FailureKind::Fatal;
        } else if is_letter && is_size {
            // It goes without the bytes of its record the next time.
            failure.kind = FailureKind::Abortable;
        }
        failure
    }

    /// Takes note of a topic that took no dead letter as large as one of these; whether there was such a letter.
    fn note_sizes(&self) -> bool {
        let is_too_large = self.producer.context().take_too_large();
        if is_too_large {
            lower(&self.topics.dead_letters.name, self.largest_letter.swap(0, Ordering::SeqCst));
        }
        is_too_large
    }

    /// Waits until brokers have answered for every output, or for as long as a call may take: the call that
    /// follows then tells what is wrong.
    ///
    /// That call would wait itself, but in a way that costs 100 ms whenever the producer's own thread is
    /// quicker to take the last answer, which is nearly always: it waits for that answer to come once more.
    fn await_answers(&self) {
        let begin = Instant::now();
        while self.producer.in_flight_count() > 0 && begin.elapsed() < CALL {
            std::thread::sleep(LOOK);
        }
    }

    /// Adds offsets to the transaction, on a thread of its own: librdkafka does not keep to the time it is given,
    /// and may never come back where the cluster has given up the group's coordinator (its issues 5456 and 5511).
    /// Brokers abort a transaction that stays open for so long, so the producer is of no more use then; the thread
    /// keeps it until the call ends.
    fn add_offsets(
        &self,
        list: TopicPartitionList,
        metadata: ConsumerGroupMetadata,
        doing: &str,
    ) -> Result<(), KafkaFailure> {
        let (told, answer) = mpsc::sync_channel(1);
        let producer = Arc::clone(&self.producer);
        let call = move || {
            let sent = producer.send_offsets_to_transaction(&list, &metadata, CALL);
            // Whoever asked is the last to have the producer, unless it has given up.
            drop(producer);
            drop(told.send(sent));
        };
        let spent =
            |reason: String| KafkaFailure { kind: FailureKind::Spent, message: format!("{doing}: {reason}") };
        let thread = thread::Builder::new().name("kvset-offsets".to_owned()).spawn(call);
        thread.map_err(|error| spent(format!("starting a thread: {error}")))?;
        let sent = answer.recv_timeout(TRANSACTION_TIMEOUT);
        let sent = sent.map_err(|_| {
            let waited = TRANSACTION_TIMEOUT.as_secs();
            spent(format!(
                "the client did not come back within {waited} s, as if nobody coordinated the group"
            ))
        })?;
        sent.map_err(|error| {
            let failure = self.failure(doing, &error);
            match error.rdkafka_error_code() {
                // Also said of a member whose session ended a moment ago, while brokers were down say. If another
                // process has its name, the next poll tells.
                Some(RDKafkaErrorCode::FencedInstanceId) => {
                    KafkaFailure { kind: FailureKind::Abortable, ..failure }
                }
                _ => failure,
            }
        })
    }

    /// Hands a record to the producer.
    fn produce(&self, record: &OutputRecord) -> Result<(), KafkaError> {
        let topic = self.topic_of(record);
        let mut message: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(&topic.name);
        message.key = record.key.as_deref();
        message.payload = record.value.as_deref();
        message.partition = record.placed_by.as_deref().map(|pool| pool_partition(pool, topic.partitions));
        let is_signed = record.window.is_some() && !self.group.is_empty();
        if !record.headers.is_empty() || is_signed {
            let headers = OwnedHeaders::new_with_capacity(record.headers.len() + usize::from(is_signed));
            let add = |headers: OwnedHeaders, (key, value): &(&str, String)| {
                headers.insert(Header { key, value: Some(value.as_bytes()) })
            };
            let headers = record.headers.iter().fold(headers, add);
            let group = Header { key: GROUP_HEADER, value: Some(self.group.as_bytes()) };
            message.headers = Some(if is_signed { headers.insert(group) } else { headers });
        }
        self.producer.send(message).map_err(|(error, _)| error)
    }

    fn not_written(&self, record: &OutputRecord, error: &KafkaError) -> KafkaFailure {
        let (bytes, topic) = (record.bytes(), &self.topic_of(record).name);
        self.failure(&format!("writing {bytes} bytes to topic `{topic}`"), error)
    }

    fn acknowledged(&mut self) -> Result<(), KafkaFailure> {
        let doing = "waiting for outputs to be acknowledged";
        self.await_answers();
        self.producer.flush(CALL).map_err(|error| self.failure(doing, &error))?;
        let deliveries = self.producer.context();
        if deliveries.failed() == self.failed_before {
            return Ok(());
        }
        let reason = deliveries.take_failure().unwrap_or_default();
        let message = format!("{doing}: a record was not delivered: {reason}");
        let kind = if deliveries.take_permanent() { FailureKind::Fatal } else { FailureKind::Abortable };
        Err(KafkaFailure { kind, message })
    }
}

impl Sink for KafkaSink {
    type Member = Source;

    fn begin(&mut self) -> Result<(), KafkaFailure> {
        match self.guarantee {
            Delivery::Idempotent => {
                self.failed_before = self.producer.context().failed();
                Ok(())
            }
            Delivery::Transactional => {
                let begun = self.producer.begin_transaction();
                begun.map_err(|error| self.failure("opening a transaction", &error))
            }
        }
    }

    fn send(&mut self, record: &OutputRecord) -> Result<(), KafkaFailure> {
        if record.destination != Destination::DeadLetters {
            return self.produce(record).map_err(|error| self.not_written(record, &error));
        }
        let whole = fits(&self.topics.dead_letters.name, record.bytes());
        let sent = match whole {
            true => self.produce(record),
            false => self.produce(&record.without_bytes()),
        };
        let too_large = Err(KafkaError::MessageProduction(RDKafkaErrorCode::MessageSizeTooLarge));
        let sent = if sent == too_large { self.produce(&record.without_bytes()) } else { sent };
        if sent.is_ok() && whole {
            self.largest_letter.fetch_max(record.bytes(), Ordering::SeqCst);
        }
        sent.map_err(|error| self.not_written(record, &error))
    }

    fn offsets(&mut self, next: &[(Partition, NextOffset)], member: &Source) -> Result<(), KafkaFailure> {
        match self.guarantee {
            Delivery::Idempotent => {
                self.acknowledged()?;
                if next.is_empty() { Ok(()) } else { member.commit(next) }
            }
            Delivery::Transactional => {
                let list = member.next_offsets(next)?;
                let metadata = member.group_metadata()?;
                self.add_offsets(list, metadata, "adding offsets to the transaction")
            }
        }
    }

    fn commit(&mut self) -> Result<(), KafkaFailure> {
        match self.guarantee {
            Delivery::Idempotent => Ok(()),
            Delivery::Transactional => {
                self.await_answers();
                let committed = self.producer.commit_transaction(CALL);
                committed.map_err(|error| self.failure("committing the transaction", &error))
            }
        }
    }

    fn abort(&mut self) -> Result<(), KafkaFailure> {
        self.note_sizes();
        match self.guarantee {
            Delivery::Idempotent => {
                // What is still queued would only be repeated by the next attempt.
                self.producer.purge(PurgeConfig::default().queue());
                let flushed = self.producer.flush(CALL);
                flushed.map_err(|error| self.failure("taking outputs back", &error))
            }
            Delivery::Transactional => {
                let aborted = self.producer.abort_transaction(CALL);
                aborted.map_err(|error| self.failure("aborting the transaction", &error))
            }
        }
    }
}
