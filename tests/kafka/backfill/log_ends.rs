//! Where a log begins and ends: in transaction markers, at a moment, after deletion, compacted.

use super::*;

/// Writes records in transactions, with aborted ones among them, the last one too.
fn produce_in_transactions(bench: &Bench, input: &Input) {
    use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
    let mut config = rdkafka::ClientConfig::new();
    config.set("bootstrap.servers", &bench.broker.connection.brokers);
    config.set("transactional.id", bench.broker.topic("producer"));
    let producer: BaseProducer = config.create().expect("a client");
    producer.init_transactions(DEADLINE).expect("transactions");
    let topic = bench.broker.topic("requests");
    let begin = |records: &[crate::kafka_support::KeyValue]| {
        producer.begin_transaction().expect("begins");
        for (key, value) in records {
            let record = BaseRecord::to(&topic).partition(0).key(key).payload(value).timestamp(stamp());
            producer.send(record).map_err(|(error, _)| error).expect("room");
        }
        // What is queued when a transaction is aborted would never reach the log.
        producer.flush(DEADLINE).expect("delivered");
    };
    for (number, records) in input.partitions[&0].chunks(20).enumerate() {
        begin(records);
        producer.commit_transaction(DEADLINE).expect("commits");
        if number % 3 == 2 {
            begin(&records[..3]);
            producer.abort_transaction(DEADLINE).expect("aborts");
        }
    }
    begin(&input.partitions[&0][..7]);
    producer.abort_transaction(DEADLINE).expect("aborts");
}

#[test]
fn a_run_ends_where_the_log_ends_in_transaction_markers() {
    let Some(broker) = Broker::real() else { return };
    let bench = Bench::on(broker);
    bench.broker.create("requests", 1);
    let mut input = generated(300);
    input.partitions.remove(&1);
    produce_in_transactions(&bench, &input);
    let live = bench.live(input.records());
    let backfill = bench.prepare("markers", "earliest", "latest", BackfillWarmUp::None).expect("a range");
    let end = backfill.offset_ranges[&Partition(0)].end;
    assert!(end.0 as u64 > input.records() + 20, "markers and aborted records take offsets too: {end}");
    let outcome = to_the_end(&backfill);
    assert!(outcome.complete && outcome.reached[&Partition(0)] == end, "{outcome:?}");
    assert_eq!(outcome.summary.records, input.records(), "committed records only");
    assert!(Published::read(&bench.broker, &backfill.plan.stream.outputs) == live);
    // Nothing but markers and aborted records.
    let tail = format!("{}", end.0 - 8);
    let published = bench.backfill("tail", &tail, "latest", BackfillWarmUp::None);
    assert_eq!((count(&published), published.letters.len()), (0, 0));
}

#[test]
fn moments_are_those_of_the_records_time_stamps() {
    let Some(broker) = Broker::real() else { return };
    let bench = Bench::on(broker);
    let topic = bench.broker.create("requests", 1);
    let input = generated(100);
    let producer =
        kvset::kafka::topic_producer::TopicProducer::open(&bench.broker.connection, &topic, DEADLINE)
            .expect("a producer");
    for (number, (key, value)) in input.partitions[&0].iter().enumerate() {
        producer.send_to(Some(0), key, value, Some(stamp() + 1000 * number as i64)).expect("room");
    }
    producer.finish().expect("delivered");
    let (from, to) = (format!("@{}", stamp() + 9_500), format!("@{}", stamp() + 40_000));
    let backfill = bench.prepare("moments", &from, &to, BackfillWarmUp::None).expect("a range");
    let offset_range = backfill.offset_ranges[&Partition(0)];
    assert_eq!((offset_range.count_from, offset_range.end), (NextOffset(10), NextOffset(40)));
    let late = BackfillPlaces::Everywhere(LogPlace::Moment(stamp() + 86_400_000)).to_string();
    assert!(matches!(refusal(&bench, "late", &late, "latest"), RangeError::Empty { .. }));
}

/// Deletes records, as retention does.
fn delete_before(broker: &Broker, topic: &str, offset: i64) {
    use rdkafka::admin::{AdminClient, AdminOptions};
    use rdkafka::client::DefaultClientContext;
    let mut config = rdkafka::ClientConfig::new();
    config.set("bootstrap.servers", &broker.connection.brokers);
    let admin: AdminClient<DefaultClientContext> = config.create().expect("a client");
    let mut list = rdkafka::TopicPartitionList::new();
    list.add_partition_offset(topic, 0, rdkafka::Offset::Offset(offset)).expect("a list");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(admin.delete_records(&list, &AdminOptions::new())).expect("deleted");
}

#[test]
fn what_retention_deleted_is_refused_or_begun_after() {
    let Some(broker) = Broker::real() else { return };
    let bench = Bench::on(broker);
    let topic = bench.broker.create("requests", 1);
    let mut input = generated(200);
    input.partitions.remove(&1);
    bench.produce(&input);
    let begun = bench.prepare("begun", "earliest", "latest", BackfillWarmUp::None).expect("a range");
    let shutdown = Shutdown::new();
    begun.run(&shutdown, &StopAfter::new(&shutdown, 50)).expect("a clean run");
    delete_before(&bench.broker, &topic, 60);
    let error = refusal(&bench, "below", "59", "latest").to_string();
    assert!(error.contains("begins at 60") && error.contains("earliest"), "{error}");
    let rest = bench.prepare("rest", "earliest", "latest", BackfillWarmUp::All).expect("a range");
    assert_eq!(rest.offset_ranges[&Partition(0)].begin, NextOffset(60));
    assert!(to_the_end(&rest).complete);
    let published = Published::read(&bench.broker, &rest.plan.stream.outputs);
    assert!(estimates(&published).next().expect("some").warm_up, "what was deleted is missing");
    // A run whose state cannot be rebuilt any more is not bent silently.
    std::fs::remove_dir_all(&begun.settings.state.directory).expect("snapshots");
    let begun = bench.prepare("begun", "earliest", "latest", BackfillWarmUp::None).expect("a range");
    let error = begun.run(&Shutdown::new(), &()).expect_err("history is lost").to_string();
    assert!(error.contains("needed and no longer in the log"), "{error}");
}

/// A topic of which only the newest record of each key is kept, and soon.
fn create_compacted(broker: &Broker, topic: &str) {
    use rdkafka::admin::{AdminOptions, NewTopic, TopicReplication};
    let admin = admin(broker);
    let plan = NewTopic::new(topic, 1, TopicReplication::Fixed(1))
        .set("cleanup.policy", "compact")
        .set("min.cleanable.dirty.ratio", "0.001")
        .set("segment.bytes", "1048576")
        .set("segment.ms", "500");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let results = runtime.block_on(admin.create_topics(&[plan], &AdminOptions::new())).expect("an answer");
    results.into_iter().for_each(|result| drop(result.expect("created")));
}

/// Ends the compaction of a topic, as the service demands of its input.
fn stop_compaction(broker: &Broker, topic: &str) {
    use rdkafka::admin::{AdminOptions, AlterConfig, ResourceSpecifier};
    let plan = AlterConfig::new(ResourceSpecifier::Topic(topic)).set("cleanup.policy", "delete");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let altered = runtime.block_on(admin(broker).alter_configs(&[plan], &AdminOptions::new()));
    altered.expect("an answer").into_iter().for_each(|result| drop(result.expect("altered")));
}

fn admin(broker: &Broker) -> rdkafka::admin::AdminClient<rdkafka::client::DefaultClientContext> {
    let mut config = rdkafka::ClientConfig::new();
    config.set("bootstrap.servers", &broker.connection.brokers);
    config.create().expect("a client")
}

#[test]
fn a_compacted_log_is_read_to_its_end() {
    let Some(broker) = Broker::real() else { return };
    let bench = Bench::on(broker);
    let topic = bench.broker.topic("requests");
    create_compacted(&bench.broker, &topic);
    // Keys that come again, so that their first records go; the pool is the key.
    let mut input = Input::default();
    let source = generated(240);
    for (number, (_, value)) in source.partitions[&0].iter().enumerate() {
        input.push(0, &format!("pool-{}", number % 60), value.clone());
    }
    bench.produce(&input);
    let producer =
        kvset::kafka::topic_producer::TopicProducer::open(&bench.broker.connection, &topic, DEADLINE)
            .expect("a producer");
    let begin = Instant::now();
    // New segments are rolled by new records only.
    let kept = loop {
        let kept = bench.broker.read_all(&topic);
        if kept.first().is_some_and(|record| record.offset > 20) {
            break kept;
        }
        assert!(begin.elapsed() < PATIENCE, "the broker did not compact the log");
        let (key, (_, value)) = (format!("tail-{}", kept.len()), &source.partitions[&0][0]);
        // With a time stamp of its own: by these a segment's age is measured.
        producer
            .send_to(Some(0), key.as_bytes(), value, None)
            .and_then(|()| producer.finish())
            .expect("delivered");
        std::thread::sleep(Duration::from_secs(2));
    };
    stop_compaction(&bench.broker, &topic);
    let live = bench.live(kept.len() as u64);
    let backfill = bench.prepare("compacted", "earliest", "latest", BackfillWarmUp::None).expect("a range");
    let outcome = to_the_end(&backfill);
    assert!(outcome.complete && outcome.summary.records <= kept.len() as u64, "{outcome:?}");
    assert!(Published::read(&bench.broker, &backfill.plan.stream.outputs) == live);
}
