//! The same as `tests/kafka_kills.rs`, on three real brokers that fail: leaders killed, one slow, one cut off from
//! everybody, the disk of one full; instances are killed meanwhile, join, leave and stand still. Three copies of
//! everything, of which two confirm.
//!
//! A few faults by default. The long run, a fifth of whose kills are brokers':
//!
//! ```text
//! KVSET_KILLS=100 KVSET_KAFKA_NODES=3 scripts/kafka.sh run -- cargo test --test kafka_cluster -- --nocapture
//! ```
//!
//! `KVSET_SEED` chooses other faults, other moments and another log; `KVSET_GROUP_PROTOCOL=consumer` has the group
//! speak the protocol of KIP-848.

// Each test program uses its part of what they share.
#[allow(dead_code)]
mod kafka_support;

use kafka_support::kills::Plan;
use kafka_support::{Broker, number};
use kvset::kafka::config::MemberProtocol;

/// Whether there are three brokers. Where they are demanded and missing, the test fails.
fn are_there() -> bool {
    let there = std::env::var("KVSET_TEST_NODES").is_ok_and(|nodes| nodes == "3");
    let demanded = std::env::var("KVSET_KAFKA_NODES").is_ok_and(|nodes| nodes == "3");
    assert!(
        there || !demanded,
        "KVSET_KAFKA_NODES=3, but KVSET_TEST_NODES does not say that there are three"
    );
    if !there {
        println!(
            "skipped: no three brokers; try KVSET_KAFKA_NODES=3 scripts/kafka.sh run -- cargo test --test \
                  kafka_cluster"
        );
    }
    there
}

#[test]
fn a_cluster_that_fails_leaves_no_trace() {
    let Some(broker) = Broker::real().filter(|_| are_there()) else { return };
    let protocol = match std::env::var("KVSET_GROUP_PROTOCOL").as_deref() {
        Err(_) | Ok("classic") => MemberProtocol::default(),
        Ok("consumer") => MemberProtocol::Consumer,
        Ok(other) => panic!("KVSET_GROUP_PROTOCOL is classic or consumer, not {other}"),
    };
    let (kills, seed) = (number("KVSET_KILLS", 5).max(1), number("KVSET_SEED", 11));
    Plan::three_brokers(kills, protocol, seed.into()).assert_leaves_no_trace(&broker);
}
