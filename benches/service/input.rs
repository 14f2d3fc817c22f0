//! The topics that are read: agentic requests as `kvset prepare` writes them, page ids declared to be chained, and
//! packed where the topic is not in JSON.

use crate::DEADLINE;
use crate::event::{GAP_MS, LONGEST, request};
use crate::traffic::Agentic;
use kvset::codec::RequestEncoding;
use kvset::kafka::config::Connection;
use kvset::kafka::topic_producer::TopicProducer;
use kvset::kafka::topics::{TopicPlan, Topics};
use std::num::NonZeroU32;
use std::time::{SystemTime, UNIX_EPOCH};

/// A topic full of requests.
pub struct Filled {
    pub topic: String,
    pub partitions: u32,
    pub records: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    pub pages: u64,
}

/// Creates a topic.
pub fn create(connection: &Connection, topic: &str, partitions: u32) {
    let partitions = NonZeroU32::new(partitions).expect("not zero");
    let plan = TopicPlan { name: topic.to_owned(), partitions, compacted_for: None };
    let topics = Topics::new(connection, DEADLINE).expect("a client");
    topics.create(&[plan]).expect("the broker creates topics");
}

/// Fills a topic with so many requests, a pool a partition.
pub fn fill(
    connection: &Connection,
    topic: &str,
    partitions: u32,
    records: u64,
    encoding: RequestEncoding,
) -> Filled {
    create(connection, topic, partitions);
    let producer = TopicProducer::open(connection, topic, DEADLINE).expect("a producer");
    let rounds = records / u64::from(partitions);
    // In the past, so that no event is ahead of its record's time stamp.
    let begin = now_ms() - rounds as i64 * GAP_MS;
    let mut filled = Filled { topic: topic.to_owned(), partitions, records: 0, bytes: 0, pages: 0 };
    let mut pools: Vec<Agentic> = (0..partitions).map(|_| Agentic::new(LONGEST)).collect();
    for round in 0..rounds {
        for (partition, pool) in (0..).zip(&mut pools) {
            let ids = pool.next().unwrap_or_default();
            let key = format!("pool-{partition}");
            let value = request(begin + round as i64 * GAP_MS, &ids, encoding);
            producer.send_to(Some(partition), key.as_bytes(), &value, None).expect("room");
            filled.records += 1;
            filled.bytes += (key.len() + value.len()) as u64;
            filled.pages += ids.len() as u64;
        }
    }
    producer.finish().expect("delivered");
    filled
}

/// Milliseconds since the Unix epoch.
pub fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    i64::try_from(now).expect("not so late")
}
