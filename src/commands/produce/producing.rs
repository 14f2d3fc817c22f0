//! `kvset produce` and `kvset generate --topic`: requests to request events on a topic.

use anyhow::{Context as _, anyhow};
use kvset_core::request::event::CachedTokens;
use kvset_core::units::pages::Scope;
use kvset_formats::codec::{RequestEncoding, RequestMessage, encode_request};
use kvset_formats::trace::{self, ReadOptions, ReadProgress, RowError, RowOrder, TraceItem, TraceRow};
use kvset_formats::workload::GeneratedRequest;
use kvset_kafka::kafka::config::Connection;
use kvset_kafka::kafka::topic_producer::TopicProducer;
use kvset_service::shutdown::Shutdown;
use std::borrow::Cow;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The pool a request belongs to: a name, in which `{session}` stands for the request's session, and `{model}` for its
/// model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolName(String);

/// What stands for the session.
const SESSION: &str = "{session}";
/// What stands for the model.
const MODEL: &str = "{model}";

impl PoolName {
    /// A name as the user writes it.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The pool of this request.
    pub fn of(&self, row: &TraceRow<'_>) -> Cow<'_, str> {
        let mut name = Cow::Borrowed(self.0.as_str());
        for (place, value) in [(SESSION, row.session), (MODEL, row.pool)] {
            if name.contains(place) {
                name = Cow::Owned(name.replace(place, value.unwrap_or("none")));
            }
        }
        name
    }

    /// Whether it tells models apart.
    fn has_model(&self) -> bool {
        self.0.contains(MODEL)
    }
}

/// What to produce.
#[derive(Debug, Clone)]
pub struct ProduceOptions {
    /// Trace files in order; `-` is standard input.
    pub traces: Vec<PathBuf>,
    /// How to read them.
    pub read: ReadOptions,
    /// Go on past rows that cannot be used.
    pub skip_bad_rows: bool,
    /// Where to, and how.
    pub target: ProduceTarget,
}

/// Where requests go, and how.
#[derive(Debug, Clone)]
pub struct ProduceTarget {
    /// How to reach the brokers.
    pub connection: Connection,
    /// Where to.
    pub topic: String,
    /// Whose requests they are.
    pub pool: PoolName,
    /// How records are encoded.
    pub encoding: RequestEncoding,
    /// Event time runs so many times the wall clock; without, as fast as it goes.
    pub speed: Option<f64>,
    /// Stop after so many requests.
    pub requests: Option<u64>,
    /// A record is given up after this long.
    pub retry_for: Duration,
}

/// What was produced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Produced {
    /// Records acknowledged.
    pub requests: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// Rows that were passed over.
    pub bad_rows: u64,
    /// What the reader had to assume about the trace.
    pub notes: Vec<String>,
}

/// Produces a trace. `progress` is called now and then with the requests sent and the position in the
/// trace. Being asked to stop is no error: what was sent is delivered.
///
/// # Errors
/// Why it could not go on; what was acknowledged is on the topic.
pub fn produce(
    options: &ProduceOptions,
    shutdown: &Shutdown,
    progress: &mut dyn FnMut(u64, ReadProgress),
) -> anyhow::Result<Produced> {
    // What a stream holds next may be long in coming.
    let is_stream = options.traces.iter().any(|path| path.as_os_str() == "-");
    let order = if is_stream { RowOrder::Written } else { RowOrder::Arrival };
    let mut reader = trace::open(&options.traces, &ReadOptions { order, ..options.read.clone() })?;
    let mut sender = Sender::open(&options.target, shutdown)?;
    let mut bad_rows = 0;
    while sender.wants_more() {
        match reader.next_item()? {
            None => break,
            Some(TraceItem::Refused(error)) => {
                bad_rows += 1;
                if !options.skip_bad_rows {
                    return Err(bad_row(&error));
                }
            }
            Some(TraceItem::Request(row)) => {
                if !sender.send(&row)? {
                    break;
                }
            }
        }
        if sender.sent.is_multiple_of(PROGRESS_REQUESTS) {
            progress(sender.sent, reader.progress());
        }
    }
    let mut produced = Produced { bad_rows, ..sender.finish()? };
    produced.notes.extend(reader.notes());
    progress(produced.requests, reader.progress());
    Ok(produced)
}

/// Produces generated requests until they end. `progress` is called now and then with the requests
/// sent. Being asked to stop is no error: what was sent is delivered.
///
/// # Errors
/// Why it could not go on; what was acknowledged is on the topic.
pub fn produce_generated(
    requests: impl Iterator<Item = GeneratedRequest>,
    target: &ProduceTarget,
    shutdown: &Shutdown,
    progress: &mut dyn FnMut(u64),
) -> anyhow::Result<Produced> {
    let mut sender = Sender::open(target, shutdown)?;
    for request in requests {
        if !sender.wants_more() || !sender.send(&request.as_row())? {
            break;
        }
        if sender.sent.is_multiple_of(PROGRESS_REQUESTS) {
            progress(sender.sent);
        }
    }
    let produced = sender.finish()?;
    progress(produced.requests);
    Ok(produced)
}

/// Sends requests as events, each when it is due.
struct Sender<'a> {
    target: &'a ProduceTarget,
    shutdown: &'a Shutdown,
    producer: TopicProducer,
    pace: Pace,
    /// The record's value, kept for its memory.
    value: Vec<u8>,
    sent: u64,
    bytes: u64,
    /// The first request's model, where models share one pool by the name that the user gave it.
    first_model: Option<Option<Box<str>>>,
    has_several_models: bool,
}

impl<'a> Sender<'a> {
    fn open(target: &'a ProduceTarget, shutdown: &'a Shutdown) -> anyhow::Result<Self> {
        let producer = TopicProducer::open(&target.connection, &target.topic, target.retry_for)?;
        shutdown.begin();
        Ok(Self {
            target,
            shutdown,
            producer,
            pace: Pace::new(target.speed).within_the_present(),
            value: Vec::new(),
            sent: 0,
            bytes: 0,
            first_model: None,
            has_several_models: false,
        })
    }

    /// Neither asked to stop nor at the limit.
    fn wants_more(&self) -> bool {
        !self.shutdown.is_requested() && self.target.requests.is_none_or(|limit| self.sent < limit)
    }

    /// Sends one request when it is due; `false` when asked to stop meanwhile.
    fn send(&mut self, row: &TraceRow<'_>) -> anyhow::Result<bool> {
        if !self.pace.wait(row.event.event_time.0, self.shutdown) {
            return Ok(false);
        }
        let pool = self.target.pool.of(row);
        let mut row = *row;
        if !self.target.pool.has_model() {
            row.event.scope = self.scope(&row);
        }
        self.value.clear();
        let encoded = encode_request(&message_of(&row), self.target.encoding, &mut self.value);
        encoded.context("encoding a request")?;
        self.producer.send(pool.as_bytes(), &self.value, None)?;
        self.sent += 1;
        self.bytes += self.value.len() as u64;
        Ok(true)
    }

    /// The request's scope: with its model, unless that is the one of the first request. So the pages of models that
    /// share a pool are kept apart within it.
    fn scope(&mut self, row: &TraceRow<'_>) -> Scope {
        let scope = row.event.scope;
        match &self.first_model {
            None => self.first_model = Some(row.pool.map(Box::from)),
            Some(first) if first.as_deref() == row.pool => {}
            Some(_) => {
                self.has_several_models = true;
                let name = format!("{}\0{:016x}", row.pool.unwrap_or_default(), scope.value());
                return Scope::named(name.as_bytes());
            }
        }
        scope
    }

    /// Waits until everything is acknowledged.
    fn finish(self) -> anyhow::Result<Produced> {
        let several = "the trace names several models: their pages are kept apart within the one pool that --pool names; \
            {model} in the name gives each a pool of its own";
        let notes = if self.has_several_models { vec![several.to_owned()] } else { Vec::new() };
        Ok(Produced { requests: self.producer.finish()?, bytes: self.bytes, notes, ..Produced::default() })
    }
}

/// Requests between two reports of progress.
const PROGRESS_REQUESTS: u64 = 64;

fn bad_row(error: &RowError) -> anyhow::Error {
    let RowError { file, line, fault } = error;
    anyhow!("{file}, line {line}: {fault}; mend it, or go on without such rows with --skip-bad-rows")
}

/// A row as a request event; its pool travels as the record's key.
pub fn message_of<'a>(row: &TraceRow<'a>) -> RequestMessage<'a> {
    let event = &row.event;
    let number = |value: Option<u64>| value.and_then(|value| i64::try_from(value).ok());
    RequestMessage {
        event_time: event.event_time.0,
        page_ids: event.page_ids,
        page_size: event.page_size.and_then(|size| i32::try_from(size.get()).ok()),
        output_page_ids: event.output_page_ids,
        input_tokens: number(event.input_tokens),
        output_tokens: number(event.output_tokens),
        duration_ms: number(event.duration_ms),
        scope: scope_name(event.scope, row.session),
        ids_chained: event.ids_chained,
        cached_tokens: number(event.cached_tokens.stated()),
        labels: event.labels,
        cached_tokens_left_out: event.cached_tokens == CachedTokens::LeftOut,
        ..RequestMessage::default()
    }
}

/// A name for the scope: the session where that is the scope, else a name as unique as the scope is.
fn scope_name(scope: Scope, session: Option<&str>) -> Option<Cow<'_, str>> {
    match session {
        _ if scope == Scope::GLOBAL => None,
        Some(session) if Scope::named(session.as_bytes()) == scope => Some(Cow::Borrowed(session)),
        _ => Some(Cow::Owned(format!("{:016x}", scope.key(0)))),
    }
}

/// Holds requests back to the trace's own pace, times a factor.
#[derive(Debug)]
pub(crate) struct Pace {
    speed: Option<f64>,
    begin: Option<(Instant, i64)>,
    present: Present,
}

/// What is done once event time has caught up with the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Present {
    /// Nothing: event times may lie in the future.
    LoggedRequest,
    /// Event time then goes at the clock's pace, unless it began in the future.
    Kept,
    /// Event time goes at the clock's pace, and that was said.
    Said,
}

impl Pace {
    pub(crate) fn new(speed: Option<f64>) -> Self {
        Self { speed, begin: None, present: Present::LoggedRequest }
    }

    /// The same, which sends no event before its time has come: the service refuses events of the future. A log that
    /// begins in the future is sent as it is.
    pub(crate) fn within_the_present(self) -> Self {
        Self { present: Present::Kept, ..self }
    }

    /// Waits until this event time is due; `false` when asked to stop meanwhile.
    pub(crate) fn wait(&mut self, event_time_ms: i64, shutdown: &Shutdown) -> bool {
        const SLICE: Duration = Duration::from_millis(50);
        let now_ms = now_ms();
        if self.begin.is_none() && event_time_ms > now_ms {
            self.present = Present::LoggedRequest;
        }
        let (begin, first_ms) = *self.begin.get_or_insert_with(|| (Instant::now(), event_time_ms));
        let due = self.speed.map_or(Duration::ZERO, |speed| {
            let due_ms = event_time_ms.saturating_sub(first_ms).max(0) as f64 / speed;
            // A trace may span more time than a Duration holds when it is slowed down.
            Duration::try_from_secs_f64(due_ms / 1000.0).unwrap_or(Duration::MAX)
        });
        let due = due.max(begin.elapsed().saturating_add(self.until_present(event_time_ms, now_ms)));
        while let Some(left) = due.checked_sub(begin.elapsed()).filter(|left| !left.is_zero()) {
            if shutdown.is_requested() {
                return false;
            }
            std::thread::sleep(left.min(SLICE));
        }
        !shutdown.is_requested()
    }

    /// How long until this event is none of the future, where that is waited for; said once, where it holds the pace
    /// back.
    fn until_present(&mut self, event_time_ms: i64, now_ms: i64) -> Duration {
        let ahead = Duration::from_millis(event_time_ms.saturating_sub(now_ms).max(0).unsigned_abs());
        if self.present == Present::LoggedRequest || ahead.is_zero() {
            return Duration::ZERO;
        }
        if self.present == Present::Kept && self.speed.is_none_or(|speed| speed > 1.0) {
            self.present = Present::Said;
            tracing::warn!(
                "event time has caught up with the clock: from here on requests go at its pace, since the service \
                 refuses events of the future; begin earlier to go faster (generate --start now-1d)"
            );
        }
        ahead
    }
}

/// The wall clock, in milliseconds since the Unix epoch.
fn now_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvset_core::request::event::RequestEvent;

    fn row(scope: Scope, session: Option<&str>) -> TraceRow<'_> {
        TraceRow { event: RequestEvent { scope, ..RequestEvent::default() }, session, ..TraceRow::default() }
    }

    #[test]
    fn scopes_keep_telling_ids_apart() {
        let global = message_of(&row(Scope::GLOBAL, Some("s"))).scope.map(Cow::into_owned);
        assert_eq!(global, None);
        let session = Scope::named(b"s");
        assert_eq!(message_of(&row(session, Some("s"))).scope.as_deref(), Some("s"));
        let (a, b) = (row(Scope::named(b"a"), Some("s")), row(Scope::named(b"b"), Some("s")));
        let (a, b) = (message_of(&a).scope, message_of(&b).scope);
        assert!(a.is_some() && a != b);
    }

    #[test]
    fn the_session_can_name_the_pool() {
        assert_eq!(PoolName::new("p").of(&row(Scope::GLOBAL, Some("s"))), "p");
        assert_eq!(PoolName::new("a/{session}").of(&row(Scope::GLOBAL, Some("s"))), "a/s");
        assert_eq!(PoolName::new("a/{session}").of(&row(Scope::GLOBAL, None)), "a/none");
    }

    #[test]
    fn pace_divides_event_time_by_the_speed_and_stops_when_asked() {
        let shutdown = Shutdown::new();
        let mut pace = Pace::new(Some(1000.0));
        let begin = Instant::now();
        assert!(pace.wait(5_000, &shutdown) && pace.wait(25_000, &shutdown) && pace.wait(0, &shutdown));
        assert!(begin.elapsed() >= Duration::from_millis(20), "20 s of event time at 1000 times the speed");
        shutdown.request();
        assert!(!pace.wait(i64::MAX, &shutdown));
    }

    /// Events of the future were refused, record by record.
    #[test]
    fn no_event_is_sent_before_its_time_unless_all_of_them_lie_in_the_future() {
        let shutdown = Shutdown::new();
        for speed in [None, Some(1000.0)] {
            let (begin, now) = (Instant::now(), now_ms());
            let mut pace = Pace::new(speed).within_the_present();
            assert!(pace.wait(now - 10, &shutdown) && pace.wait(now + 60, &shutdown));
            assert!(begin.elapsed() >= Duration::from_millis(50), "{speed:?}");
            let mut future = Pace::new(speed).within_the_present();
            assert!(future.wait(now + 3_600_000, &shutdown) && future.wait(now + 3_600_100, &shutdown));
        }
    }
}
