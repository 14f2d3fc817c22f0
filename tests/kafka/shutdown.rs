//! How the real program stops: in order when asked to, at once when asked twice, and in any case within its
//! deadline.

use crate::kafka_support::process::{Instance, configure};
use crate::kafka_support::{Broker, Input, PATIENCE, output_topics};
use kvset::workload::{Generator, Workload};
use std::path::Path;

/// Nothing is committed by the clock, so that there is something to commit when the service stops.
const PACE: &str = "[commit]\nevery = \"10m\"\n[shutdown]\n";

/// The program at work on a few records, all of them processed and none committed.
fn at_work(broker: &Broker, folder: &Path, deadline: &str) -> Instance {
    let topic = broker.create("requests", 1);
    let _topics = output_topics(broker, "stop", 1);
    let mut input = Input::default();
    // All within a minute of event time: an estimate that waited would be committed soon.
    let workload = Workload { start_ms: 36_000_000, sessions_per_day: 10_000_000, ..Workload::default() };
    for request in Generator::new(workload).expect("a workload").take(20) {
        assert!(request.as_row().event.event_time.0 < 36_060_000, "not within the first minute");
        input.push_row(0, "pool", &request.as_row());
    }
    input.produce(&broker.connection, &topic);
    let extra = format!("{PACE}deadline = \"{deadline}\"\n[log]\nlevel = \"info,kvset=debug\"\n");
    let config = configure(broker, folder, "stop", "one", &extra);
    let mut instance = Instance::start(&config, folder.join("one.log"));
    instance.wait_for("partition 0: new group", PATIENCE);
    instance
}

#[test]
fn a_signal_stops_the_service_in_order() {
    for signal in ["TERM", "INT"] {
        for broker in Broker::all() {
            let folder = tempfile::tempdir().expect("a folder");
            let mut instance = at_work(&broker, folder.path(), "30s");
            instance.signal(signal);
            let status = instance.wait(PATIENCE);
            assert!(status.success(), "{status}: {}", instance.said());
            assert!(instance.said().contains("stopped in order"), "{}", instance.said());
        }
    }
}

/// Brokers that are gone for good: the offsets of what was done cannot be committed any more.
#[test]
fn a_second_signal_forces_the_service_to_stop() {
    let (broker, folder) = (Broker::mock(), tempfile::tempdir().expect("a folder"));
    let mut instance = at_work(&broker, folder.path(), "10m");
    drop(broker);
    instance.signal("TERM");
    instance.wait_for("stopping: within", PATIENCE);
    instance.signal("TERM");
    assert_eq!(instance.wait(PATIENCE).code(), Some(1), "{}", instance.said());
}

#[test]
fn the_deadline_ends_a_shutdown_that_waits_for_brokers() {
    let (broker, folder) = (Broker::mock(), tempfile::tempdir().expect("a folder"));
    let mut instance = at_work(&broker, folder.path(), "2s");
    drop(broker);
    instance.signal("TERM");
    assert_eq!(instance.wait(PATIENCE).code(), Some(1), "{}", instance.said());
    let said = instance.said();
    assert!(said.contains("shutdown.deadline = 2s") || said.contains("error: "), "{said}");
}

/// There is nothing to put in order yet, and brokers are looked for for minutes.
#[test]
fn a_signal_ends_at_once_what_has_not_found_a_broker_yet() {
    let (broker, folder) = (Broker::mock(), tempfile::tempdir().expect("a folder"));
    let config = configure(&broker, folder.path(), "stop", "one", "[shutdown]\ndeadline = \"10m\"\n");
    drop(broker);
    // A service asked to stop has stopped in order; a job has not been done.
    let commands = [(vec!["run"], 0), (vec!["watch"], 1), (vec!["backfill", "--from", "earliest"], 1)];
    for (command, code) in commands {
        let log = folder.path().join(format!("{}.log", command[0]));
        let mut instance = Instance::start_command(&command, &config, log);
        instance.wait_for("check kafka.brokers and the network", PATIENCE);
        instance.signal("INT");
        assert_eq!(instance.wait(PATIENCE).code(), Some(code), "{command:?}: {}", instance.said());
    }
}
