//! Topics that are deleted and created again under a running service.

use crate::kafka_support::{Broker, Published, StopAfter, wait_for};
use crate::recovery::{input, settings};
use kvset::kafka::offsets::Offsets;
use kvset::position::Partition;
use kvset::service::error::ServiceError;
use kvset::service::estimating::serve;
use kvset::service::events::{Observer, ServiceEvent};
use kvset::service::shutdown::Shutdown;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PARTITIONS: u32 = 2;

/// Counts records that were committed with their offset, by what the service says of them.
#[derive(Default)]
struct Processed(AtomicU64);

impl Observer for Processed {
    fn on(&self, event: &ServiceEvent<'_>) {
        if let ServiceEvent::Progress { counts, .. } = event {
            self.0.fetch_add(counts.records, Ordering::SeqCst);
        }
    }
}

/// Lets the service process 100 records of each partition, deletes its input, and creates it anew with so many.
fn recreate(broker: &Broker, again: usize) -> (ServiceError, Vec<Option<i64>>, Published) {
    let input = input();
    let mut plan = broker.plan(&settings(), "run", PARTITIONS);
    // The client learns of the new topic when that is longer than the one before.
    for name in ["topic.metadata.refresh.fast.interval.ms", "retry.backoff.max.ms"] {
        plan.stream.connection.properties.push((name.to_owned(), "5000".to_owned()));
    }
    let topic = broker.create("requests", PARTITIONS);
    input.produce_part(&broker.connection, &topic, 0..100);
    let (shutdown, processed) = (Shutdown::new(), Processed::default());
    let limit = StopAfter::new(&shutdown, u64::MAX);
    let ended = std::thread::scope(|scope| {
        let service = scope.spawn(|| serve(&plan, &shutdown, &[&processed as &dyn Observer, &limit]));
        wait_for(|| processed.0.load(Ordering::SeqCst) == 200);
        std::thread::sleep(Duration::from_secs(1));
        broker.delete(&topic);
        broker.create("requests", PARTITIONS);
        input.produce_part(&broker.connection, &topic, 0..again);
        service.join().expect("no panic")
    });
    let offsets = Offsets::open(&broker.connection, &plan.stream.membership.group, &topic).expect("a client");
    let partitions = [Partition(0), Partition(1)];
    let committed = offsets.committed(&partitions, Duration::from_secs(20)).expect("an answer");
    let committed = committed.into_iter().map(|(_, next)| next.map(|next| next.0)).collect();
    (ended.expect_err("another topic"), committed, Published::read(broker, &plan.stream.outputs))
}

#[test]
fn a_longer_topic_of_the_same_name_is_not_mixed_with_the_one_before() {
    let Some(broker) = Broker::real() else { return };
    let (error, committed, published) = recreate(&broker, 301);
    assert!(matches!(error, ServiceError::Recreated { .. }), "{error}");
    let said = error.to_string();
    for part in [&broker.topic("requests"), "recreated", "'s id was", "new group name"] {
        assert!(said.contains(part), "`{part}` in {said}");
    }
    assert_eq!(committed, [None, None], "no offset of the new topic is committed");
    let mut before = input();
    before.partitions.values_mut().for_each(|records| records.truncate(100));
    let task = broker.plan(&settings(), "unused", PARTITIONS).task;
    assert!(published == before.expected(&task), "what was published is of the first log alone");
}

#[test]
fn a_topic_that_is_created_anew_and_stays_empty_is_noticed() {
    let Some(broker) = Broker::real() else { return };
    let (error, committed, _) = recreate(&broker, 0);
    assert!(matches!(error, ServiceError::Recreated { .. }), "{error}");
    assert_eq!(committed, [None, None]);
}

/// The service keeps nothing of what it published: it goes on in the new topic.
#[test]
fn output_topics_that_are_created_anew_stop_nothing() {
    let Some(broker) = Broker::real() else { return };
    let input = input();
    let plan = broker.plan(&settings(), "run", PARTITIONS);
    let topic = broker.create("requests", PARTITIONS);
    input.produce_part(&broker.connection, &topic, 0..100);
    let (shutdown, processed) = (Shutdown::new(), Processed::default());
    let limit = StopAfter::new(&shutdown, input.records());
    std::thread::scope(|scope| {
        let service = scope.spawn(|| serve(&plan, &shutdown, &[&processed as &dyn Observer, &limit]));
        wait_for(|| processed.0.load(Ordering::SeqCst) == 200);
        std::thread::sleep(Duration::from_secs(1));
        broker.delete(&plan.stream.outputs.results.name);
        broker.create("run.estimates", PARTITIONS);
        input.produce_part(&broker.connection, &topic, 100..usize::MAX);
        service.join().expect("no panic").expect("goes on");
    });
    let (after, whole) = (Published::read(&broker, &plan.stream.outputs), input.expected(&plan.task));
    for (pool, estimates) in &after.estimates {
        assert!(!estimates.is_empty() && whole.estimates[pool].ends_with(estimates), "pool {pool}");
    }
    assert_eq!(after.estimates.len(), whole.estimates.len());
}
