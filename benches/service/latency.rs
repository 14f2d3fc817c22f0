//! How long after a window's end its estimate can be read.
//!
//! Requests are produced at a steady rate, stamped with the time they are sent. A reader of committed
//! records on the output topic notes when each estimate reaches it, and subtracts the window's end: so the
//! wait for the next request, which closes the window, is in it, and the transaction, and both fetches.

use crate::event::request;
use crate::input::{create, now_ms};
use crate::traffic::Agentic;
use crate::{DEADLINE, served};
use kvset::codec::RequestEncoding;
use kvset::codec::decode_estimate;
use kvset::kafka::config::Connection;
use kvset::kafka::reader::{From, TopicReader};
use kvset::kafka::topic_producer::TopicProducer;
use kvset::service::shutdown::Shutdown;
use std::path::Path;
use std::time::{Duration, Instant};

const PARTITIONS: u32 = 2;
/// Requests a second, all pools together.
const RATE: u32 = 200;
/// How long requests are produced.
const SPAN: Duration = Duration::from_secs(40);
/// What is not counted: members join, windows begin in their middle.
const SETTLE_MS: i64 = 5000;
/// A window closes every 200 ms, as soon as a later event is seen.
const SETTINGS: &str = "[estimate]\nwindows = [\"hopping:1s/200ms\"]\nallowed_lateness = \"0s\"\n";

/// Milliseconds between a window's end and its estimate in a reader's hands, ascending.
pub fn measure(connection: &Connection, folder: &Path, name: &str) -> Vec<i64> {
    let topic = format!("{name}.requests");
    create(connection, &topic, PARTITIONS);
    let extra = format!("{}{SETTINGS}", served::EVERY_SECOND);
    let settings = served::settings(connection, folder, name, &topic, &extra);
    let estimates = settings.output.topic.as_str().to_owned();
    create(connection, &estimates, PARTITIONS);
    let (stop_serving, stop_reading) = (Shutdown::new(), Shutdown::new());
    std::thread::scope(|scope| {
        let service = scope.spawn(|| served::run(&settings, PARTITIONS, &stop_serving, &()));
        let reader = scope.spawn(|| read(connection, &estimates, &stop_reading));
        produce(connection, &topic);
        // What the last requests closed is committed and read within this.
        std::thread::sleep(Duration::from_secs(2));
        stop_serving.request();
        service.join().expect("the service");
        stop_reading.request();
        let mut delays = reader.join().expect("the reader");
        delays.sort_unstable();
        delays
    })
}

fn produce(connection: &Connection, topic: &str) {
    let producer = TopicProducer::open(connection, topic, DEADLINE).expect("a producer");
    let mut pools: Vec<Agentic> = (0..PARTITIONS).map(|_| Agentic::new(500)).collect();
    let begin = Instant::now();
    for number in 0.. {
        let due = Duration::from_secs(1) / RATE * number;
        if due > SPAN {
            break;
        }
        std::thread::sleep(due.saturating_sub(begin.elapsed()));
        let partition = number % PARTITIONS;
        let ids = pools[partition as usize].next().unwrap_or_default();
        let (key, value) = (format!("pool-{partition}"), request(now_ms(), &ids, RequestEncoding::Avro));
        producer.send_to(Some(partition as i32), key.as_bytes(), &value, None).expect("room");
    }
    producer.finish().expect("delivered");
}

fn read(connection: &Connection, topic: &str, stop: &Shutdown) -> Vec<i64> {
    let mut reader = TopicReader::open(connection, topic, From::Beginning, DEADLINE).expect("a topic");
    let (mut delays, mut begin) = (Vec::new(), None);
    while !stop.is_requested() {
        let Some(record) = reader.next(Duration::from_millis(50)).expect("readable") else { continue };
        let now = now_ms();
        let estimate = decode_estimate(record.value.as_deref().unwrap_or_default()).expect("an estimate");
        if estimate.end_ms > *begin.get_or_insert(now) + SETTLE_MS {
            delays.push(now - estimate.end_ms);
        }
    }
    delays
}
