//! `kvset demo`: broker, load, service and reader in one process.
//!
//! The service is the one of `kvset run`; only its surroundings are made here. The embedded broker
//! forgets what lies unread too long, so load is produced no faster than it is consumed.

use crate::commands::produce::producing::{Pace, message_of};
use anyhow::{Context as _, anyhow};
use kvset_core::estimate::Estimate;
use kvset_formats::codec::{RequestEncoding, decode_estimate, encode_request, pool_partition};
use kvset_formats::trace::{self, ReadOptions, RowOrder, TraceItem, TraceRow};
use kvset_formats::workload::{GeneratedRequest, Generator, Workload};
use kvset_kafka::kafka::KafkaFailure;
use kvset_kafka::kafka::config::Connection;
use kvset_kafka::kafka::mock::{MockBroker, SAFE_UNREAD_BYTES};
use kvset_kafka::kafka::reader::{From, TopicReader};
use kvset_kafka::kafka::topic_producer::TopicProducer;
use kvset_service::error::ServiceError;
use kvset_service::estimating::serve;
use kvset_service::events::{Observer, ServiceEvent};
use kvset_service::plan::ServicePlan;
use kvset_service::poll_loop::summary::Summary;
use kvset_service::shutdown::Shutdown;
use kvset_settings::{Delivery, Settings};
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What to demonstrate.
#[derive(Debug, Clone)]
pub struct DemoOptions {
    /// The configuration; brokers and delivery are those of the embedded broker.
    pub settings: Settings,
    /// Stop after this long; when asked to, where left out.
    pub duration: Option<Duration>,
    /// Produce this trace; generated load where left out.
    pub trace: Option<PathBuf>,
    /// Event time runs so many times the wall clock.
    pub speed: f64,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DemoSummary {
    /// What the service did.
    pub service: Summary,
    /// Requests produced.
    pub produced: u64,
    /// Input topic.
    pub input: String,
    /// Topic of estimates.
    pub estimates: String,
    /// Topic of refused records.
    pub dead_letters: String,
    /// Records read back from the topic of estimates, by partition: the next offset of each.
    pub estimate_offsets: BTreeMap<i32, i64>,
}

/// Partitions of every topic.
const PARTITIONS: NonZeroU32 = NonZeroU32::new(2).unwrap();
/// Pools of the generated load, each with a seed of its own, and their partitions.
const POOLS: [(&str, u64); 2] = [("coding/eu", 1), ("agents/us", 2)];
/// Time of day at which the generated load begins, so that something happens at once: 8 o'clock.
const MORNING_MS: i64 = 8 * 3_600_000;
/// Longest wait for an embedded broker.
const DEADLINE: Duration = Duration::from_secs(10);

/// Runs the demonstration. `observer` watches the service. `show` receives each estimate as it is read back from the
/// output topic, and `None` when nothing new has come for a moment.
///
/// # Errors
/// What failed.
pub fn demo(
    options: &DemoOptions,
    shutdown: &Shutdown,
    observer: &dyn Observer,
    show: &mut dyn FnMut(Option<Estimate>) -> std::io::Result<()>,
) -> anyhow::Result<DemoSummary> {
    let broker = MockBroker::start()?;
    let settings = embedded(&options.settings, &broker.connection());
    let (input, output) = (settings.input.topic.as_str(), settings.output.topic.as_str());
    let dead_letters = settings.output.dead_letter_topic.as_str();
    for topic in [input, output, dead_letters] {
        broker.create_topic(topic, PARTITIONS)?;
    }
    // What the demonstration estimates is gone when it ends, so there is nothing to keep.
    let plan = ServicePlan { state: None, ..ServicePlan::make(&settings, false)? };
    let meter = DemoMeter::default();
    // The service outlives the load: what was produced is estimated before it stops.
    let stop_service = Shutdown::new();
    let mut reader = TopicReader::open(&plan.stream.connection, output, From::Beginning, DEADLINE)?;
    let mut view = ReaderView { show, offsets: BTreeMap::new(), estimates: 0 };
    let (produced, service) = std::thread::scope(|scope| {
        let service = scope.spawn(|| serve(&plan, &stop_service, &[&meter as &dyn Observer, observer]));
        let load = scope.spawn(|| produce(options, &plan.stream.connection, input, shutdown, &meter));
        let watched =
            watch(options, shutdown, &mut reader, &mut view, &|| service.is_finished() || load.is_finished());
        // Whatever ended it, everything is stopped in order before the scope ends.
        shutdown.request();
        let produced =
            load.join().unwrap_or(Err(anyhow!("the load ended unexpectedly; see the log for its panic")));
        if produced.is_ok() && watched.is_ok() {
            meter.await_consumed(&|| service.is_finished());
        }
        stop_service.request();
        let service =
            service.join().unwrap_or_else(|_| Err(ServiceError::Threads("the service panicked".into())));
        watched.and(Ok((produced, service)))
    })?;
    let (service, produced) = (service?, produced?);
    view.rest(&mut reader, service.results)?;
    Ok(DemoSummary {
        service,
        produced,
        input: input.to_owned(),
        estimates: output.to_owned(),
        dead_letters: dead_letters.to_owned(),
        estimate_offsets: view.offsets,
    })
}

/// The settings with what the embedded broker makes necessary.
fn embedded(settings: &Settings, connection: &Connection) -> Settings {
    let mut settings = settings.clone();
    settings.kafka.brokers.clone_from(&connection.brokers);
    settings.kafka.properties = kvset_settings::Properties::default();
    settings.kafka.instance = String::new();
    // Event time runs ahead of the clock.
    settings.input.max_event_time_ahead = kvset_settings::Span::from_ms(0);
    // It stores no offsets that come with a transaction.
    settings.output.delivery = Delivery::Idempotent;
    settings
}

/// Shows estimates until time is up, something ended or somebody asks to stop.
fn watch(
    options: &DemoOptions,
    shutdown: &Shutdown,
    reader: &mut TopicReader,
    view: &mut ReaderView<'_>,
    ended: &dyn Fn() -> bool,
) -> anyhow::Result<()> {
    let begin = Instant::now();
    let time_is_up = || options.duration.is_some_and(|duration| begin.elapsed() >= duration);
    while !shutdown.is_requested() && !time_is_up() && !ended() {
        view.next(reader)?;
    }
    Ok(())
}

/// The reader's side.
struct ReaderView<'a> {
    show: &'a mut dyn FnMut(Option<Estimate>) -> std::io::Result<()>,
    offsets: BTreeMap<i32, i64>,
    estimates: u64,
}

impl ReaderView<'_> {
    fn next(&mut self, reader: &mut TopicReader) -> anyhow::Result<()> {
        let Some(record) = reader.next(Duration::from_millis(50))? else { return Ok((self.show)(None)?) };
        self.offsets.insert(record.partition, record.offset + 1);
        self.estimates += 1;
        match decode_estimate(record.value.as_deref().unwrap_or_default()) {
            Ok(estimate) => Ok((self.show)(Some(estimate))?),
            Err(error) => Err(KafkaFailure::fatal(format!("reading estimates back: {error}")).into()),
        }
    }

    /// Shows what the service committed last.
    fn rest(&mut self, reader: &mut TopicReader, committed: u64) -> anyhow::Result<()> {
        let begin = Instant::now();
        while self.estimates < committed && begin.elapsed() < DEADLINE {
            self.next(reader)?;
        }
        Ok((self.show)(None)?)
    }
}

/// Bytes produced, and those of them consumed, by partition.
#[derive(Debug, Default)]
struct DemoMeter(Mutex<BTreeMap<i32, (u64, u64)>>);

impl DemoMeter {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<i32, (u64, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts bytes about to be produced once there is room; `false` when asked to stop meanwhile.
    fn admit(&self, partition: i32, bytes: u64, shutdown: &Shutdown) -> bool {
        while !shutdown.is_requested() {
            {
                let mut flows = self.lock();
                let (produced, consumed) = flows.entry(partition).or_default();
                let unread = produced.saturating_sub(*consumed);
                if unread == 0 || unread + bytes <= SAFE_UNREAD_BYTES {
                    *produced += bytes;
                    return true;
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    /// Waits, not for ever, until everything produced was consumed.
    fn await_consumed(&self, ended: &dyn Fn() -> bool) {
        let begin = Instant::now();
        let behind = || self.lock().values().any(|(produced, consumed)| consumed < produced);
        while behind() && !ended() && begin.elapsed() < DEADLINE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Observer for DemoMeter {
    fn on(&self, event: &ServiceEvent<'_>) {
        if let ServiceEvent::Progress { partition, counts, .. } = event {
            self.lock().entry(partition.0).or_default().1 += counts.bytes;
        }
    }
}

/// Produces load until it ends or somebody asks to stop; gives the requests produced.
fn produce(
    options: &DemoOptions,
    connection: &Connection,
    topic: &str,
    shutdown: &Shutdown,
    meter: &DemoMeter,
) -> anyhow::Result<u64> {
    let mut load = LoadProducer {
        producer: TopicProducer::open(connection, topic, DEADLINE)?,
        pace: Pace::new(Some(options.speed)),
        value: Vec::new(),
        shutdown,
        meter,
    };
    let going = match &options.trace {
        Some(path) => load.trace(path),
        None => load.generated(),
    };
    going.and_then(|()| Ok(load.producer.finish()?))
}

struct LoadProducer<'a> {
    producer: TopicProducer,
    pace: Pace,
    value: Vec<u8>,
    shutdown: &'a Shutdown,
    meter: &'a DemoMeter,
}

impl LoadProducer<'_> {
    /// Produces one request when it is due; `false` when asked to stop meanwhile.
    fn one(&mut self, pool: &str, row: &TraceRow<'_>) -> anyhow::Result<bool> {
        if !self.pace.wait(row.event.event_time.0, self.shutdown) {
            return Ok(false);
        }
        self.value.clear();
        encode_request(&message_of(row), RequestEncoding::Avro, &mut self.value)
            .context("encoding a request")?;
        let partition = pool_partition(pool, PARTITIONS);
        let bytes = (pool.len() + self.value.len()) as u64;
        if !self.meter.admit(partition, bytes, self.shutdown) {
            return Ok(false);
        }
        self.producer.send_to(Some(partition), pool.as_bytes(), &self.value, None)?;
        Ok(true)
    }

    fn trace(&mut self, path: &PathBuf) -> anyhow::Result<()> {
        let mut reader = trace::open(
            std::slice::from_ref(path),
            &ReadOptions { order: RowOrder::Arrival, ..ReadOptions::default() },
        )?;
        while let Some(item) = reader.next_item()? {
            match item {
                TraceItem::Request(row) => {
                    if !self.one(row.pool.unwrap_or("trace"), &row)? {
                        break;
                    }
                }
                TraceItem::Refused(error) => {
                    tracing::warn!("{}, line {}: {}", error.file, error.line, error.fault);
                }
            }
        }
        Ok(())
    }

    fn generated(&mut self) -> anyhow::Result<()> {
        let mut pools = Vec::new();
        for (pool, seed) in POOLS {
            let generator = Generator::new(Workload { seed, start_ms: MORNING_MS, ..Workload::default() })?;
            pools.push((pool, generator.peekable()));
        }
        while let Some((pool, request)) = earliest(&mut pools) {
            if !self.one(pool, &request.as_row())? {
                break;
            }
        }
        Ok(())
    }
}

/// The next request of all pools.
fn earliest(pools: &mut [(&'static str, Peekable<Generator>)]) -> Option<(&'static str, GeneratedRequest)> {
    let next = |(index, (_, requests)): (usize, &mut (&str, Peekable<Generator>))| {
        requests.peek().map(|request| (request.event_time, index))
    };
    let (_, index) = pools.iter_mut().enumerate().filter_map(next).min()?;
    let (pool, requests) = &mut pools[index];
    requests.next().map(|request| (*pool, request))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generated_pools_are_on_different_partitions() {
        let partitions = POOLS.map(|(pool, _)| pool_partition(pool, PARTITIONS));
        assert_ne!(partitions[0], partitions[1]);
    }

    #[test]
    fn no_more_is_fed_than_the_broker_keeps() {
        let (meter, stop) = (DemoMeter::default(), Shutdown::new());
        assert!(meter.admit(0, SAFE_UNREAD_BYTES * 2, &stop), "one record may be larger than the bound");
        assert!(meter.admit(1, 10, &stop), "each partition by itself");
        stop.request();
        assert!(!meter.admit(0, 10, &stop), "it waits until asked to stop");
    }
}
