//! The service, under faults at random moments, publishes what an undisturbed run publishes.
//!
//! Instances are killed without warning, join and leave; the broker is stopped or killed and started
//! again. A few faults by default. The long run, which prints its table:
//!
//! ```text
//! KVSET_KILLS=40 scripts/kafka.sh run -- cargo test --test kafka_kills -- --nocapture
//! ```
//!
//! `KVSET_SEED` chooses other faults, other moments and another log. A broker that this repository's
//! script did not start is left alone. `tests/kafka_cluster.rs` does the same to three brokers.

// Each test program uses its part of what they share.
#[allow(dead_code)]
mod kafka_support;

use kafka_support::kills::Plan;
use kafka_support::{Broker, number};
use kvset::kafka::config::MemberProtocol;
use std::sync::Mutex;

/// One run at a time: both restart the broker.
static ALONE: Mutex<()> = Mutex::new(());

fn leaves_no_trace(protocol: MemberProtocol) {
    let Some(broker) = Broker::real() else { return };
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (kills, seed) = (number("KVSET_KILLS", 6).max(1), number("KVSET_SEED", 11));
    Plan::one_broker(kills, protocol, seed.into()).assert_leaves_no_trace(&broker);
}

#[test]
fn faults_leave_no_trace() {
    leaves_no_trace(MemberProtocol::default());
}

#[test]
fn faults_leave_no_trace_in_a_group_of_the_new_protocol() {
    leaves_no_trace(MemberProtocol::Consumer);
}
