//! A process that stands still while its session ends, with work in hand: what it does when it wakes must not count.

use crate::kafka_support::process::{Instance, configure};
use crate::kafka_support::{Broker, Input, PATIENCE, Published, output_topics, wait_for};
use kvset::kafka::config::MemberProtocol;
use kvset::service::plan::task_config;
use kvset::settings::Settings;
use kvset::workload::{Generator, Workload};

const REQUESTS: usize = 3000;

fn backlog() -> Input {
    let mut input = Input::default();
    for partition in 0..2 {
        let workload = Workload {
            seed: partition as u64 + 5,
            start_ms: 36_000_000,
            sessions_per_day: 4000,
            ..Workload::default()
        };
        for request in Generator::new(workload).expect("a workload").take(REQUESTS) {
            input.push_row(partition, &format!("pool-{partition}"), &request.as_row());
        }
    }
    input
}

/// Neither process has a stable name, so that nothing but the group tells them apart: the transactional ids differ.
#[test]
fn a_process_that_was_suspended_beyond_its_session_publishes_nothing_twice() {
    for protocol in [MemberProtocol::default(), MemberProtocol::Consumer] {
        let Some(broker) = Broker::real() else { return };
        let (topic, run) = (broker.create("requests", 2), "suspended");
        let outputs = output_topics(&broker, run, 2);
        let folder = tempfile::tempdir().expect("a folder");
        let extra = match protocol {
            MemberProtocol::Consumer => "group_protocol = \"consumer\"\n",
            MemberProtocol::Classic(_) => {
                "[kafka.properties]\n\"session.timeout.ms\" = 6000\n\"heartbeat.interval.ms\" = 500\n"
            }
        };
        let configs = ["one", "two"].map(|name| configure(&broker, folder.path(), run, name, extra));
        let settings = Settings::load(Some(&configs[0])).expect("usable settings");
        let input = backlog();
        let expected = input.expected(&task_config(&settings).expect("usable settings"));
        let count = |published: &Published| published.estimates.values().map(Vec::len).sum::<usize>();
        input.produce_part(&broker.connection, &topic, 0..REQUESTS / 2);

        let mut one = Instance::start(&configs[0], folder.path().join("one.log"));
        wait_for(|| count(&Published::read(&broker, &outputs)) > 0);
        one.signal("STOP");
        // Brokers answer what it requested, so that it wakes with these records in hand.
        input.produce_part(&broker.connection, &topic, REQUESTS / 2..REQUESTS);
        assert!(count(&Published::read(&broker, &outputs)) < count(&expected), "nothing was left to do");
        let mut two = Instance::start(&configs[1], folder.path().join("two.log"));
        wait_for(|| count(&Published::read(&broker, &outputs)) == count(&expected));
        one.signal("CONT");
        // It learns that it is no member any more, or, after a longer silence, that its transaction was aborted.
        let learned = ["were lost to other members", "joining the group anew", "transaction may stay open"];
        wait_for(|| learned.iter().any(|words| one.said().contains(words)));
        if one.ended().is_none() {
            one.signal("TERM");
        }
        let status = one.wait(PATIENCE);
        assert!(
            status.success() || one.said().contains(learned[2]),
            "{protocol:?}, {status}: {}",
            one.said()
        );
        two.signal("TERM");
        let status = two.wait(PATIENCE);
        assert!(status.success(), "{protocol:?}, {status}: {}", two.said());
        let published = Published::read(&broker, &outputs);
        assert!(published == expected, "{protocol:?}: not what an undisturbed run publishes");
    }
}
