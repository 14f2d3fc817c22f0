//! What librdkafka calls back: log lines and errors into tracing, rebalances into a queue, delivery
//! failures into a counter.

use super::error::{describe, is_permanent, kind};
use super::member::LogEnd;
use super::oauth::{OptionalTokens, token_of};
use super::statistics::{ClientMeter, ClientRole};
use kvset_formats::position::{NextOffset, Partition};
use kvset_pipeline::publish::FailureKind;
use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel as Level;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::producer::{DeliveryResult, ProducerContext};
use rdkafka::statistics;
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};
use rdkafka::{ClientContext, Statistics, TopicPartitionList};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Forms of lines whose repetitions are counted apart; what is beyond is one form.
const FORMS: usize = 64;

/// librdkafka's lines, by level. They name hosts, topics and groups, and no property's value; lines
/// about properties themselves are left out to keep it so. What is wrong is said now and then, as errors are.
fn log(level: Level, facility: &str, line: &str) {
    static SAID: Mutex<BTreeMap<(i32, String), (Instant, u64)>> = Mutex::new(BTreeMap::new());
    let is_wrong = !matches!(level, Level::Notice | Level::Info | Level::Debug);
    let mut said_again = String::new();
    if is_wrong && facility != "CONFWARN" {
        let mut said = lock(&SAID);
        let key = (level as i32, facility.to_owned());
        let key =
            if said.len() < FORMS || said.contains_key(&key) { key } else { (level as i32, String::new()) };
        match due(&mut said, key, Instant::now()) {
            None => return,
            Some(0) => {}
            Some(unsaid) => said_again = format!(" ({unsaid} more of this kind since it was said last)"),
        }
    }
    let line = format_args!("{line}{said_again}");
    match level {
        _ if facility == "CONFWARN" => {}
        Level::Emerg | Level::Alert | Level::Critical | Level::Error => {
            tracing::error!(target: "kvset::librdkafka", facility, "{line}");
        }
        Level::Warning => tracing::warn!(target: "kvset::librdkafka", facility, "{line}"),
        Level::Notice | Level::Info => tracing::info!(target: "kvset::librdkafka", facility, "{line}"),
        Level::Debug => tracing::debug!(target: "kvset::librdkafka", facility, "{line}"),
    }
}

/// How long ago a broker failed, or did not answer, to any client of this process; `None` where none has.
pub(super) fn last_trouble() -> Option<Duration> {
    lock(&TROUBLED_AT).map(|at| at.elapsed())
}

/// Says an error, and notes when it was of a broker.
fn log_error(error: &KafkaError, reason: &str) {
    if kind(error) == FailureKind::Transient {
        *lock(&TROUBLED_AT) = Some(Instant::now());
    }
    static SAID: Mutex<BTreeMap<i32, (Instant, u64)>> = Mutex::new(BTreeMap::new());
    // The end of a log is news for the reader, which gets it as an event, and no error.
    let Some(code) = error.rdkafka_error_code().filter(|code| *code != RDKafkaErrorCode::PartitionEOF) else {
        return;
    };
    let Some(unsaid) = due(&mut lock(&SAID), code as i32, Instant::now()) else { return };
    let repeated =
        if unsaid > 0 { format!(" ({unsaid} more since it was said last)") } else { String::new() };
    tracing::warn!(target: "kvset::librdkafka", "{}: {reason}{repeated}", describe(error));
}

/// Whether to say this error: how often it came without being said. Errors are said now and then: clients without a
/// broker repeat themselves many times a second. `said` keeps by error code, say, when it was said last, and how
/// often it came since.
fn due<K: Ord>(said: &mut BTreeMap<K, (Instant, u64)>, code: K, now: Instant) -> Option<u64> {
    /// Least time between two lines about one error.
    const SPACING: Duration = Duration::from_secs(10);
    let Some((last, unsaid)) = said.get_mut(&code) else {
        said.insert(code, (now, 0));
        return Some(0);
    };
    if now.duration_since(*last) < SPACING {
        *unsaid += 1;
        return None;
    }
    *last = now;
    Some(std::mem::take(unsaid))
}

/// Most events served at once.
const EVENTS: usize = 100;

/// Serves what waits for a client that reads nothing: log lines, its wish for a token, errors. Gives the
/// error where a broker did not let it in: the client itself goes on trying, and calls only say that no
/// broker is reached.
pub(super) fn serve(client: &BaseConsumer<Logging>) -> Option<KafkaError> {
    // A poll without waiting serves one event, and does not say whether there was one.
    let said = (0..EVENTS).filter_map(|_| client.poll(Duration::ZERO)?.err());
    said.filter(is_refusal).fold(None, |_, error| Some(error))
}

/// Whether a broker was reached and did not let the client in, or into its group, or the client did not trust it.
fn is_refusal(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{Authentication, GroupAuthorizationFailed, SSL, SaslAuthenticationFailed};
    matches!(
        error.rdkafka_error_code(),
        Some(Authentication | SaslAuthenticationFailed | SSL | GroupAuthorizationFailed)
    )
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What the locks guard is whole after every statement, so a panic elsewhere does not spoil it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A client that only logs.
#[derive(Debug, Default, Clone)]
pub(super) struct Logging {
    tokens: OptionalTokens,
    trouble: Arc<Mutex<Option<(RDKafkaErrorCode, String)>>>,
}

impl Logging {
    /// For a connection with these tokens.
    pub(super) fn new(tokens: OptionalTokens) -> Self {
        Self { tokens, trouble: Arc::default() }
    }

    /// What kept the client from a broker last, in its own words.
    pub(super) fn trouble(&self) -> Option<(RDKafkaErrorCode, String)> {
        lock(&self.trouble).clone()
    }
}

impl ClientContext for Logging {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        token_of(&self.tokens)
    }

    fn log(&self, level: Level, facility: &str, line: &str) {
        log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
        // That all brokers are down follows from what was said of each.
        let code = error.rdkafka_error_code().filter(|code| *code != RDKafkaErrorCode::AllBrokersDown);
        if let Some(code) = code {
            *lock(&self.trouble) = Some((code, reason.to_owned()));
        }
    }
}

impl ConsumerContext for Logging {}

/// A rebalance that waits to be answered with an assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rebalance {
    Assign(Vec<i32>),
    Revoke { partitions: Vec<i32>, lost: bool },
}

/// A group member's callbacks.
///
/// librdkafka fetches nothing and the group waits until a rebalance is answered with an (un)assign.
/// So the callback only takes it down, and the thread that polled answers it before it polls again:
/// draining, committing and looking up offsets need no state shared with a callback that way.
#[derive(Debug)]
pub(super) struct MemberContext {
    tokens: OptionalTokens,
    meter: ClientMeter,
    rebalances: Mutex<VecDeque<Rebalance>>,
    /// The consumer is being closed: nobody will poll for rebalances any more.
    closing: AtomicBool,
    /// Where each partition's log ends, as the last statistics had it.
    ends: Mutex<BTreeMap<Partition, LogEnd>>,
    /// Since when no broker is connected, if none is.
    away_since: Mutex<Option<Instant>>,
}

/// When a broker failed last, or did not answer, whichever client it was: what a producer meets, the member of the
/// group may not hear of.
static TROUBLED_AT: Mutex<Option<Instant>> = Mutex::new(None);

impl MemberContext {
    /// For a connection with these tokens.
    pub(super) fn new(tokens: OptionalTokens) -> Self {
        Self {
            tokens,
            meter: ClientMeter::of(ClientRole::Source),
            rebalances: Mutex::default(),
            closing: AtomicBool::new(false),
            ends: Mutex::default(),
            away_since: Mutex::new(Some(Instant::now())),
        }
    }

    /// The oldest rebalance that was not answered yet.
    pub(super) fn next_rebalance(&self) -> Option<Rebalance> {
        lock(&self.rebalances).pop_front()
    }

    /// Queues an assignment that no group makes.
    pub(super) fn assign(&self, partitions: Vec<i32>) {
        lock(&self.rebalances).push_back(Rebalance::Assign(partitions));
    }

    /// Where each partition's log ends, as far as it is known.
    pub(super) fn ends(&self) -> BTreeMap<Partition, LogEnd> {
        lock(&self.ends).clone()
    }

    /// For how long no broker has been connected.
    pub(super) fn away_for(&self) -> Duration {
        lock(&self.away_since).map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// From here on rebalances are answered at once, with nothing.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }
}

impl ClientContext for MemberContext {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        token_of(&self.tokens)
    }

    fn log(&self, level: Level, facility: &str, line: &str) {
        log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }

    fn stats(&self, statistics: Statistics) {
        self.meter.note(&statistics);
        let partitions = statistics.topics.values().flat_map(|topic| &topic.partitions);
        let known = partitions.filter(|(number, found)| **number >= 0 && found.hi_offset >= 0);
        let end = |found: &statistics::Partition| LogEnd {
            end: NextOffset(found.hi_offset),
            read_to: NextOffset(found.eof_offset),
        };
        *lock(&self.ends) = known.map(|(number, found)| (Partition(*number), end(found))).collect();
        let is_connected = statistics.brokers.values().any(|broker| broker.state == "UP");
        let mut away_since = lock(&self.away_since);
        *away_since = if is_connected { None } else { Some(away_since.unwrap_or_else(Instant::now)) };
    }
}

impl ConsumerContext for MemberContext {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, err: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let partitions = list.elements().iter().map(|element| element.partition()).collect();
        if self.closing.load(Ordering::SeqCst) {
            if let Err(error) = consumer.unassign() {
                tracing::warn!("giving up partitions while closing: {}", describe(&error));
            }
            return;
        }
        let rebalance = match err {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => Rebalance::Assign(partitions),
            _ => Rebalance::Revoke { partitions, lost: consumer.assignment_lost() },
        };
        lock(&self.rebalances).push_back(rebalance);
    }
}

/// A producer's callbacks: failures are counted and the last one is kept in words.
#[derive(Debug)]
pub(super) struct Deliveries {
    tokens: OptionalTokens,
    meter: ClientMeter,
    delivered: AtomicU64,
    failed: AtomicU64,
    /// The topic of dead letters, of which a smaller one takes the place of one that is too large.
    letters: String,
    /// Whether a dead letter was larger than its topic takes.
    too_large: AtomicBool,
    /// Whether a record was turned away for a reason that no repetition mends.
    permanent: AtomicBool,
    last_failure: Mutex<Option<String>>,
}

impl Deliveries {
    /// For a connection with these tokens, of a producer whose dead letters go to this topic.
    pub(super) fn new(tokens: OptionalTokens, letters: &str) -> Self {
        Self {
            tokens,
            meter: ClientMeter::of(ClientRole::Sink),
            letters: letters.to_owned(),
            delivered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            too_large: AtomicBool::new(false),
            permanent: AtomicBool::new(false),
            last_failure: Mutex::default(),
        }
    }

    /// Records acknowledged since the start.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::SeqCst)
    }

    /// Records given up since the start.
    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::SeqCst)
    }

    /// Whether a record was larger than its topic takes, since this was last requested.
    pub(super) fn take_too_large(&self) -> bool {
        self.too_large.swap(false, Ordering::SeqCst)
    }

    /// Whether a record was turned away for good, since this was last requested.
    pub(super) fn take_permanent(&self) -> bool {
        self.permanent.swap(false, Ordering::SeqCst)
    }

    /// The last failure in words, taken away.
    pub(super) fn take_failure(&self) -> Option<String> {
        lock(&self.last_failure).take()
    }
}

impl ClientContext for Deliveries {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        token_of(&self.tokens)
    }

    fn log(&self, level: Level, facility: &str, line: &str) {
        log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        log_error(&error, reason);
    }

    fn stats(&self, statistics: Statistics) {
        self.meter.note(&statistics);
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        match result {
            Ok(_) => self.delivered.fetch_add(1, Ordering::SeqCst),
            Err((error, message)) => {
                let code = error.rdkafka_error_code();
                let too_large = code == Some(RDKafkaErrorCode::MessageSizeTooLarge);
                let is_letter = message.topic() == self.letters;
                let permanent = code.is_some_and(is_permanent) && !(too_large && is_letter);
                // The reason lasts: what follows is only taken back because of it.
                if permanent || !self.permanent.load(Ordering::SeqCst) {
                    let bytes = message.key_len() + message.payload_len();
                    let what = format!("{bytes} bytes for topic `{}`", message.topic());
                    *lock(&self.last_failure) = Some(format!("{what}: {}", describe(error)));
                }
                self.permanent.fetch_or(permanent, Ordering::SeqCst);
                if too_large && is_letter {
                    self.too_large.store(true, Ordering::SeqCst);
                }
                self.failed.fetch_add(1, Ordering::SeqCst)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_repeats_itself_is_said_now_and_then_and_counted() {
        let (mut spaced, begin) = (BTreeMap::new(), Instant::now());
        let mut at = |code, seconds| due(&mut spaced, code, begin + Duration::from_secs(seconds));
        assert_eq!([at(1, 0), at(1, 1), at(2, 1), at(1, 9)], [Some(0), None, Some(0), None]);
        assert_eq!([at(1, 10), at(1, 25), at(2, 25)], [Some(2), Some(0), Some(0)]);
    }
}
