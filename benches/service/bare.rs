//! The baseline: librdkafka's own consumer with the service's settings, which hands records out and does
//! nothing with them.

use crate::DEADLINE;
use crate::drained::{Clock, Drained};
use crate::input::Filled;
use kvset::kafka::config::Connection;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};
use std::time::Duration;

/// Reads a topic from its beginning to its end.
pub fn drain(connection: &Connection, filled: &Filled) -> Drained {
    let consumer: BaseConsumer = connection.loner("bare").create().expect("known properties");
    // As the service has before its clock runs: the leaders are known, and connected to.
    for partition in (0..).take(filled.partitions as usize) {
        consumer.fetch_watermarks(&filled.topic, partition, DEADLINE).expect("a log");
    }
    let clock = Clock::start();
    {
        // A list that outlived its consumer would make dropping the consumer wait for ever.
        let mut list = TopicPartitionList::new();
        for partition in (0..).take(filled.partitions as usize) {
            list.add_partition_offset(&filled.topic, partition, Offset::Beginning).expect("an offset");
        }
        consumer.assign(&list).expect("a topic");
    }
    let (mut records, mut bytes) = (0, 0);
    while records < filled.records {
        // Errors are news that a partition ended.
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
            records += 1;
            bytes += (message.key_len() + message.payload_len()) as u64;
        }
    }
    assert_eq!(bytes, filled.bytes, "the topic holds what was produced");
    clock.stop()
}
