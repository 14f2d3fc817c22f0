//! Snapshots that hosts share over a real S3 server: an instance is killed, and one on another host, with an
//! empty disk, goes on from what it finds there.
//!
//! Needs a server: scripts/parts.sh run s3 -- cargo test --features object-store-s3 --test kafka shared_snapshots

use crate::kafka_support::process::{Instance, configure};
use crate::kafka_support::{Broker, Input, PATIENCE, Published, output_topics, wait_for};
use crate::parts_support::named;
use kvset::service::plan::task_config;
use kvset::settings::Settings;
use kvset::workload::{Generator, Workload};
use std::path::Path;

/// Requests before the instance is killed, and in all.
const REQUESTS: (usize, usize) = (400, 700);
/// Partitions wait for a killed member until its session ends.
const SESSION: &str = "properties = { \"session.timeout.ms\" = 6000, \"heartbeat.interval.ms\" = 500 }\n";

/// A bucket of a server that asks nobody who he is.
struct Bucket {
    server: String,
    name: String,
}

impl Bucket {
    fn create(server: String) -> Self {
        let name = format!("kvset-{}", std::process::id());
        let bucket = Self { server, name };
        let made = agent().put(bucket.url()).send_empty().expect("answered");
        assert_eq!(made.status(), 200, "{}", bucket.url());
        bucket
    }

    /// By path: servers alongside AWS have no name for every bucket.
    fn url(&self) -> String {
        format!("{}/{}", self.server, self.name)
    }

    /// The names of its objects.
    fn objects(&self) -> Vec<String> {
        let mut answer = agent().get(format!("{}?list-type=2", self.url())).call().expect("answered");
        let text = answer.body_mut().read_to_string().expect("text");
        let names = text.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
        names.map(|(name, _)| name.to_owned()).collect()
    }

    /// What the object_store crate reads of the environment.
    fn start(&self, config: &Path, log: std::path::PathBuf) -> Instance {
        let shared = format!("s3://{}/state", self.name);
        let environment = [
            ("KVSET__STATE__SHARED", shared.as_str()),
            ("AWS_ENDPOINT", self.server.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "false"),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
        ];
        Instance::start_with(&["run"], config, log, &environment)
    }
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build().new_agent()
}

fn input() -> Input {
    let workload = Workload { start_ms: 36_000_000, sessions_per_day: 4000, ..Workload::default() };
    let mut input = Input::default();
    for request in Generator::new(workload).expect("a workload").take(REQUESTS.1) {
        input.push_row(0, "alpha", &request.as_row());
    }
    input
}

#[test]
fn a_new_host_restores_from_s3_what_a_killed_one_left() {
    let Some(server) = named("KVSET_TEST_S3") else { return };
    let bucket = Bucket::create(server);
    let (broker, folder) = (Broker::mock(), tempfile::tempdir().expect("a folder"));
    let topic = broker.create("requests", 1);
    let outputs = output_topics(&broker, "s3", 1);
    let input = input();
    let [first, second] =
        ["first", "second"].map(|host| configure(&broker, folder.path(), "s3", host, SESSION));

    input.produce_part(&broker.connection, &topic, 0..REQUESTS.0);
    let instance = bucket.start(&first, folder.path().join("first.log"));
    let whole = format!("{:020}", REQUESTS.0);
    wait_for(|| bucket.objects().iter().any(|name| name.ends_with(&whole)));
    // Killed: it can neither commit nor write any more.
    drop(instance);

    input.produce_part(&broker.connection, &topic, REQUESTS.0..REQUESTS.1);
    let log = folder.path().join("second.log");
    let mut instance = bucket.start(&second, log);
    instance.wait_for(&format!("snapshot at {}", REQUESTS.0), PATIENCE);
    let settings = Settings::load(Some(&second)).expect("usable settings");
    let expected = input.expected(&task_config(&settings).expect("usable settings"));
    wait_for(|| estimates(&Published::read(&broker, &outputs)) >= estimates(&expected));
    instance.signal("TERM");
    assert!(instance.wait(PATIENCE).success(), "{}", instance.said());
    assert!(Published::read(&broker, &outputs) == expected, "{}", instance.said());
}

fn estimates(published: &Published) -> usize {
    published.estimates.values().map(Vec::len).sum()
}
