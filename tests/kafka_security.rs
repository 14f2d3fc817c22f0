//! Every client of the service against a real Kafka that demands authentication, and TLS.
//!
//! `KVSET_KAFKA_SECURED=1 scripts/kafka.sh run -- cargo test --features tls --test kafka_security`

// Each test program uses its part of what they share.
#[allow(dead_code)]
mod kafka_support;

use kafka_support::{Broker, Input, Published, serve_records};
use kvset::kafka::topics::Topics;
use kvset::settings::Settings;
use kvset::workload::{Generator, Workload};
use std::time::Duration;

/// The user and password that scripts/kafka.sh gives the broker.
const LOGIN: [(&str, &str); 2] = [("sasl.username", "kvset"), ("sasl.password", "kvset-password")];

/// Creates topics, produces, consumes in a group, publishes in transactions and reads back.
fn round_trip(broker: &Broker) {
    let mut input = Input::default();
    let workload = Workload { start_ms: 36_000_000, sessions_per_day: 4000, ..Workload::default() };
    for request in Generator::new(workload).expect("a workload").take(60) {
        input.push_row(0, "pool", &request.as_row());
    }
    input.produce(&broker.connection, &broker.create("requests", 1));
    let plan = broker.plan(&Settings::default(), "run", 1);
    serve_records(&plan, input.records()).expect("a clean run");
    let published = Published::read(broker, &plan.outputs);
    assert!(!published.estimates.is_empty());
    assert!(published == input.expected(&plan.task));
}

fn properties<'a>(
    protocol: &'a str,
    mechanism: &'a str,
    more: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    let first = [("security.protocol", protocol), ("sasl.mechanisms", mechanism)];
    first.iter().chain(more).copied().collect()
}

/// What asking for a topic ends with.
fn refusal(broker: &Broker) -> String {
    let topics = Topics::new(&broker.connection, Duration::from_secs(5)).expect("properties are fine");
    topics.partitions("any").expect_err("not let in").to_string()
}

#[test]
fn a_password_lets_in_and_a_wrong_one_is_not_shown() {
    let with = |login: &[(&str, &str)]| {
        Broker::secured("KVSET_TEST_SASL", &properties("SASL_PLAINTEXT", "PLAIN", login))
    };
    let Some(broker) = with(&LOGIN) else { return };
    round_trip(&broker);
    let stranger = with(&[("sasl.username", "kvset"), ("sasl.password", "hunter2-marker")]);
    let error = refusal(&stranger.expect("a broker"));
    assert!(!error.contains("hunter2") && error.contains("check"), "{error}");
}

#[cfg(feature = "tls")]
#[test]
fn scram_lets_in() {
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let properties = properties("SASL_PLAINTEXT", mechanism, &LOGIN);
        let Some(broker) = Broker::secured("KVSET_TEST_SASL", &properties) else { return };
        round_trip(&broker);
    }
}

#[cfg(feature = "tls")]
#[test]
fn tls_trusts_the_authority_it_is_given_and_no_other() {
    let Ok(authority) = std::env::var("KVSET_TEST_CA") else {
        println!("skipped: no secured broker");
        return;
    };
    let with = |authority: &str| {
        let more = [LOGIN[0], LOGIN[1], ("ssl.ca.location", authority)];
        Broker::secured("KVSET_TEST_SASL_SSL", &properties("SASL_SSL", "SCRAM-SHA-512", &more))
    };
    let Some(broker) = with(&authority) else { return };
    round_trip(&broker);
    let directory = tempfile::tempdir().expect("a directory");
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
    let key = rcgen::KeyPair::generate().expect("a key");
    let stranger = directory.path().join("stranger.pem");
    std::fs::write(&stranger, params.self_signed(&key).expect("a certificate").pem()).expect("written");
    let error = refusal(&with(stranger.to_str().expect("UTF-8")).expect("a broker"));
    assert!(error.contains("check"), "{error}");
}
