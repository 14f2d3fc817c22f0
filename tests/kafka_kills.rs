//! The service, killed without warning at random moments, publishes what an undisturbed run publishes.
//!
//! A few kills by default. The long run, which prints its table:
//!
//! ```text
//! KVSET_KILLS=40 scripts/kafka.sh run -- cargo test --test kafka_kills -- --nocapture
//! ```
//!
//! `KVSET_SEED` chooses other moments and another log.

// Each test program uses its part of what they share.
#[allow(dead_code)]
mod kafka_support;

use kafka_support::Broker;
use kafka_support::kills::kill_run;

fn number(name: &str, default: u32) -> u32 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn kills_leave_no_trace() {
    let Some(broker) = Broker::real() else { return };
    let kills = number("KVSET_KILLS", 5).max(1);
    let table = kill_run(&broker, 300 * kills as usize, kills, number("KVSET_SEED", 11).into());
    println!("{table}");
    assert_eq!((table.missing, table.doubled, table.different), (0, 0, 0), "{table}");
    assert_eq!((table.kills, table.restarts), (kills, kills));
    assert!(table.estimates > 30 && table.restored > 0, "too little happened: {table}");
}
