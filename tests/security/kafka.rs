//! Every client of the service against a real Kafka that demands authentication, and TLS.
//!
//! `KVSET_KAFKA_SECURED=1 scripts/kafka.sh run -- cargo test --features tls --test security`

use crate::kafka_support::{Broker, Input, Published, serve_records};
use kvset::kafka::topics::{TopicPlan, Topics};
use kvset::settings::Settings;
use kvset::workload::{Generator, Workload};
use std::num::NonZeroU32;
use std::time::Duration;
use tempfile::TempDir;

/// The user and password that scripts/kafka.sh gives the broker.
const LOGIN: [(&str, &str); 2] = [("sasl.username", "kvset"), ("sasl.password", "kvset-password")];

/// Produces, consumes in a group, publishes in transactions and reads back. Topics are made by the one
/// who needs no password.
fn round_trip(broker: &Broker) {
    let maker = Broker::real().expect("the broker that has the secured listener");
    let mut input = Input::default();
    let workload = Workload { start_ms: 36_000_000, sessions_per_day: 4000, ..Workload::default() };
    for request in Generator::new(workload).expect("a workload").take(60) {
        input.push_row(0, "pool", &request.as_row());
    }
    input.produce(&broker.connection, &maker.create("requests", 1));
    let mut plan = maker.plan(&Settings::default(), "run", 1);
    plan.stream.connection = broker.connection.clone();
    serve_records(&plan, input.records()).expect("a clean run");
    let published = Published::read(broker, &plan.stream.outputs);
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
    broker.create("made", 1);
    round_trip(&broker);
    let stranger = with(&[("sasl.username", "kvset"), ("sasl.password", "hunter2-marker")]);
    let error = refusal(&stranger.expect("a broker"));
    assert!(!error.contains("hunter2") && error.contains("check sasl.username"), "{error}");
}

/// Creates a topic whose name begins so: scripts/kafka.sh gives rights by that.
fn created(maker: &Broker, prefix: &str, name: &str) -> String {
    let name = format!("{prefix}{}", maker.topic(name));
    let plan = TopicPlan { name: name.clone(), partitions: NonZeroU32::MIN, compacted_for: None };
    let topics = Topics::new(&maker.connection, Duration::from_secs(30)).expect("a client");
    topics.create(&[plan]).expect("a topic");
    name
}

/// The program as a user with a password, of this group and with these topics of requests, estimates and dead letters.
fn program(words: &[&str], group: &str, topics: [&str; 3]) -> Option<(assert_cmd::Command, TempDir)> {
    let login = properties("SASL_PLAINTEXT", "PLAIN", &LOGIN);
    let broker = Broker::secured("KVSET_TEST_SASL", &login)?;
    let [input, estimates, letters] = topics;
    let settings = format!(
        "[kafka]\nbrokers = \"{}\"\ngroup = \"{group}\"\n[kafka.properties]\n{}\n[input]\ntopic = \"{input}\"\n\
         [output]\ntopic = \"{estimates}\"\ndead_letter_topic = \"{letters}\"\n[http]\nlisten = \"\"\n",
        broker.connection.brokers,
        login.iter().map(|(name, value)| format!("\"{name}\" = \"{value}\"\n")).collect::<String>(),
    );
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("kvset.toml"), settings).expect("written");
    let mut command = assert_cmd::Command::cargo_bin("kvset").expect("the program");
    command.current_dir(directory.path()).args(words);
    Some((command, directory))
}

const CONNECT: [&str; 3] = ["config", "check", "--connect"];

/// No right to see the input was taken for a broker that does not answer, and nothing else was tried; no right to the
/// group for an answer that came too late.
#[test]
fn config_check_connect_tells_what_a_user_may_not_see_from_a_broker_that_is_away() {
    let Some(maker) = Broker::real() else { return };
    let [estimates, letters] = ["estimates", "letters"].map(|name| maker.create(name, 1));
    let (open, closed) = (maker.create("requests", 1), created(&maker, "forbidden.", "requests"));
    for (group, input, failed) in [
        ("group", closed.as_str(), "FAILED  input.topic        asking ".to_owned()),
        ("forbidden.group", open.as_str(), "FAILED  group              ".to_owned()),
    ] {
        let Some((mut command, _files)) = program(&CONNECT, group, [input, &estimates, &letters]) else {
            return;
        };
        let said = String::from_utf8(command.output().expect("run").stdout).expect("UTF-8");
        assert!(said.contains(&failed) && said.contains("grant this user access"), "{said}");
        assert_eq!(said.lines().filter(|line| line.starts_with("FAILED")).count(), 1, "{said}");
        assert_eq!(said.matches("can be written to (tried").count(), 2, "the rest is tried:\n{said}");
    }
}

#[test]
fn a_service_that_may_not_write_its_output_ends_and_names_the_topic_and_the_right() {
    let Some(maker) = Broker::real() else { return };
    let (input, letters) = (maker.create("requests", 1), maker.create("letters", 1));
    let estimates = created(&maker, "readable.", "estimates");
    let topics = [input.as_str(), &estimates, &letters];
    let Some((mut command, _files)) = program(&["run"], "unwritten", topics) else { return };
    let workload = Workload { start_ms: 36_000_000, sessions_per_day: 40_000, ..Workload::default() };
    let mut requests = Input::default();
    for request in Generator::new(workload).expect("a workload").take(600) {
        requests.push_row(0, "pool", &request.as_row());
    }
    requests.produce(&maker.connection, &input);
    let output = command.timeout(Duration::from_secs(110)).output().expect("run");
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last = said.lines().last().unwrap_or_default();
    assert!(last.contains(&estimates) && last.contains("grant this user access"), "{said}");
}

#[test]
fn config_check_connect_tells_a_topic_that_may_be_read_and_not_written_to() {
    let Some(maker) = Broker::real() else { return };
    let (input, estimates) = (maker.create("requests", 1), maker.create("estimates", 1));
    let letters = created(&maker, "readable.", "letters");
    let Some((mut command, _files)) = program(&CONNECT, "kvset", [&input, &estimates, &letters]) else {
        return;
    };
    let output = command.output().expect("run");
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(1), "{said}");
    for line in [
        format!("ok      right to write     {estimates} can be written to"),
        format!("FAILED  right to write     {letters}: "),
        "Topic authorization failed".to_owned(),
    ] {
        assert!(said.contains(&line), "{line:?} is missing in:\n{said}");
    }
    assert_eq!(said.lines().filter(|line| line.starts_with("FAILED")).count(), 1, "{said}");
    assert!(!said.contains("kvset-password"), "{said}");
    let records = maker.read_all(&estimates);
    assert!(records.is_empty(), "readers of committed records see nothing of it");
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
    let stranger = directory.path().join("stranger.pem");
    std::fs::write(&stranger, crate::authority::stranger()).expect("written");
    let error = refusal(&with(stranger.to_str().expect("UTF-8")).expect("a broker"));
    assert!(error.contains("check ssl.ca.location"), "{error}");
}

/// A token endpoint that lets one client in, and gives it tokens as the broker's test validator takes them.
#[cfg(feature = "tls")]
fn token_endpoint() -> (tokio::runtime::Runtime, String) {
    use axum::http::{HeaderMap, StatusCode, header};
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    use serde_json::json;

    async fn token(headers: HeaderMap, form: String) -> Result<String, StatusCode> {
        let login = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let expected = format!("Basic {}", STANDARD.encode("kvset:client-secret"));
        if login != Some(&expected) || form != "grant_type=client_credentials&scope=kafka%3Aall" {
            return Err(StatusCode::UNAUTHORIZED);
        }
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.expect("after 1970").as_secs();
        let claims = json!({ "sub": "kvset", "iat": now, "exp": now + 600 }).to_string();
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let token = format!("{}.{}.", part(r#"{"alg":"none"}"#), part(&claims));
        Ok(json!({ "access_token": token, "token_type": "Bearer", "expires_in": 600 }).to_string())
    }

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
    let url = format!("http://{}/token", listener.local_addr().expect("bound"));
    let routes = axum::Router::new().route("/token", axum::routing::post(token));
    drop(runtime.spawn(async { axum::serve(listener, routes).await }));
    (runtime, url)
}

#[cfg(feature = "tls")]
#[test]
fn a_token_of_the_client_credentials_grant_lets_in_and_a_wrong_secret_is_not_shown() {
    let (_runtime, url) = token_endpoint();
    let with = |secret| {
        let more = [
            ("sasl.oauthbearer.method", "oidc"),
            ("sasl.oauthbearer.token.endpoint.url", url.as_str()),
            ("sasl.oauthbearer.client.id", "kvset"),
            ("sasl.oauthbearer.client.secret", secret),
            ("sasl.oauthbearer.scope", "kafka:all"),
        ];
        Broker::secured("KVSET_TEST_SASL", &properties("SASL_PLAINTEXT", "OAUTHBEARER", &more))
    };
    let Some(broker) = with("client-secret") else { return };
    round_trip(&broker);
    let error = refusal(&with("hunter2-marker").expect("a broker"));
    assert!(!error.contains("hunter2"), "{error}");
}
