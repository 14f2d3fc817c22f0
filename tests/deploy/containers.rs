//! The image and the compose stack against the program.

use super::{list_at, path, read, settings, takes, text_at, texts, yaml};
use kvset::codec::pool_partition;
use kvset::core::units::capacity::{CapacitySize, CapacitySpec};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// The lines of the Dockerfile, continued ones joined.
fn instructions() -> Vec<String> {
    let joined = read("Dockerfile").replace("\\\n", " ");
    let lines = joined.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// The image's environment.
fn image_environment() -> Vec<(String, String)> {
    let lines = instructions().into_iter().filter_map(|line| line.strip_prefix("ENV ").map(str::to_owned));
    let pairs: Vec<String> =
        lines.flat_map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>()).collect();
    pairs.iter().filter_map(|pair| pair.split_once('=')).map(owned).collect()
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn what_the_image_copies_is_there_and_is_sent_to_the_build() {
    let ignored = read(".dockerignore");
    let copies: Vec<String> = instructions().into_iter().filter(|line| line.starts_with("COPY ")).collect();
    let from_here = copies.iter().filter(|line| !line.contains("--from="));
    let mut sources = BTreeSet::new();
    for line in from_here {
        let words: Vec<&str> = line.split(' ').collect();
        sources.extend(words[1..words.len() - 1].iter().map(|word| (*word).to_owned()));
    }
    assert!(sources.len() >= 4, "{sources:?}");
    for source in sources {
        assert!(path(&source).exists(), "Dockerfile copies {source}, which is not there");
        assert!(
            ignored.lines().any(|line| line == format!("!{source}")),
            ".dockerignore keeps {source} back"
        );
    }
}

#[test]
fn the_image_is_built_with_features_that_there_are_and_a_compiler_that_is_new_enough() {
    let manifest: toml::Value = toml::from_str(&read("Cargo.toml")).expect("a manifest");
    let build = instructions().into_iter().find(|line| line.contains("cargo build")).expect("a build");
    let named = build.split("--features ").nth(1).and_then(|rest| rest.split(' ').next()).expect("features");
    for feature in named.split(',') {
        assert!(manifest["features"].get(feature).is_some(), "there is no feature `{feature}`");
    }
    let minor = |version: &str| {
        let minor = version.split(['.', '-']).nth(1);
        minor.and_then(|minor| minor.parse::<u32>().ok())
    };
    let oldest =
        manifest["workspace"]["package"]["rust-version"].as_str().and_then(minor).expect("a version");
    let image =
        instructions().into_iter().find_map(|line| line.strip_prefix("FROM rust:").map(str::to_owned));
    let used = image.as_deref().and_then(minor).expect("a version");
    assert!(used >= oldest, "the image builds with 1.{used}, the manifest wants 1.{oldest}");
}

#[test]
fn the_image_runs_as_nobody_with_settings_and_a_command_that_there_are() {
    let instructions = instructions();
    assert!(instructions.iter().any(|line| line.starts_with("FROM ") && line.contains(":nonroot@sha256:")));
    let settings = settings(None, &image_environment());
    let port = settings.http.listen.0.expect("a server").port();
    assert!(instructions.contains(&format!("EXPOSE {port}")));
    let state = settings.state.directory.to_str().expect("UTF-8").to_owned();
    assert!(instructions.contains(&format!("VOLUME {state}")));
    let command = instructions.iter().find_map(|line| line.strip_prefix("CMD ")).expect("a command");
    takes(&serde_json::from_str::<Vec<String>>(command).expect("a list"));
}

fn service(name: &str) -> Value {
    service_of("docker-compose.yml", name)
}

fn service_of(file: &str, name: &str) -> Value {
    yaml(file)["services"].get(name).unwrap_or_else(|| panic!("no service {name}")).clone()
}

/// A service's environment over the image's.
fn environment(service: &Value) -> Vec<(String, String)> {
    let given = service["environment"].as_object().expect("an environment");
    let given = given.iter().map(|(name, value)| (name.clone(), value.as_str().expect("a text").to_owned()));
    image_environment().into_iter().chain(given).collect()
}

#[test]
fn the_stack_runs_commands_and_settings_that_there_are() {
    for name in ["kvset", "load", "load-chat"] {
        let service = service(name);
        assert_eq!(text_at(&service, "/image"), concat!("kvset:", env!("CARGO_PKG_VERSION")), "{name}");
        let settings = settings(None, &environment(&service));
        assert_eq!(settings.kafka.brokers, "kafka:9092", "{name}");
        if service.get("command").is_some() {
            takes(&texts(list_at(&service, "/command")));
        }
    }
    let settings = settings(None, &environment(&service("kvset")));
    let topics = text_at(&service("topics"), "/command/0").to_owned();
    for topic in [&settings.input.topic, &settings.output.topic, &settings.output.dead_letter_topic] {
        assert!(topics.contains(&format!("create {}", topic.as_str())), "{} is not made", topic.as_str());
    }
    for name in ["load", "load-chat"] {
        let load = texts(list_at(&service(name), "/command"));
        assert!(load.contains(&settings.input.topic.as_str().to_owned()), "{name}");
    }
}

/// One pool in four partitions left three of them idle, between three capacities of which none was near what it needs.
#[test]
fn the_stack_is_configured_as_a_user_s_would_be() {
    let settings = settings(None, &environment(&service("kvset")));
    let topics = text_at(&service("topics"), "/command/0").to_owned();
    let after = |text: &str, word: &str| {
        text.split(word).nth(1).and_then(|rest| rest.split_whitespace().next().map(str::to_owned))
    };
    let partitions =
        after(&topics, "--partitions ").and_then(|count| count.parse().ok()).expect("partitions");
    let pool = |name: &str| {
        let load = texts(list_at(&service(name), "/command"));
        load.iter().skip_while(|argument| *argument != "--pool").nth(1).expect("a pool").clone()
    };
    let placed: BTreeSet<i32> =
        ["load", "load-chat"].map(|name| pool_partition(&pool(name), partitions)).into();
    assert_eq!(placed.len(), 2, "each pool has a partition of its own");

    let bytes = |spec: &CapacitySpec| match spec.size {
        CapacitySize::Bytes(bytes) => bytes.0,
        CapacitySize::Pages(_) => panic!("sizes to buy are in bytes"),
    };
    let sizes: Vec<u64> = settings.estimate.capacities.iter().map(bytes).collect();
    let provisioned = bytes(settings.estimate.questions.provisioned.as_ref().expect("what there is today"));
    assert!(sizes.contains(&provisioned), "what there is is one of the sizes");
    assert!(sizes.windows(2).all(|pair| pair[1] <= 2 * pair[0]), "{sizes:?}: steps as memory is sold in");

    let estimates =
        topics.lines().find(|line| line.contains(settings.output.topic.as_str())).expect("the topic");
    let retention = settings.output.retention.as_duration().as_millis();
    for config in ["cleanup.policy=compact,delete".to_owned(), format!("retention.ms={retention}")] {
        assert!(estimates.contains(&config), "made as --create-topics makes it, with {config}: {estimates}");
    }
}

/// The image has no shell: what a health check runs is the program itself, with arguments that it takes.
#[test]
fn the_health_check_runs_the_image_s_program_without_a_shell() {
    let service = service("kvset");
    let check = texts(list_at(&service, "/healthcheck/test"));
    let entry = instructions().iter().find_map(|line| line.strip_prefix("ENTRYPOINT ").map(str::to_owned));
    let entry: Vec<String> = serde_json::from_str(&entry.expect("an entry point")).expect("a list");
    assert_eq!(check[..2], ["CMD".to_owned(), entry[0].clone()]);
    takes(&check[2..]);
    let listen = settings(None, &environment(&service)).http.listen.0;
    assert!(listen.is_some_and(|address| address.port() != 0), "there is an address to ask");
}

/// vLLM's connector and the service agree on the folder, and what the service writes outlives its container.
#[test]
fn the_stack_without_a_broker_follows_the_folder_that_its_vllm_writes() {
    let [vllm, kvset] = ["vllm", "kvset"].map(|name| service_of("deploy/vllm/docker-compose.yml", name));
    assert_eq!(text_at(&kvset, "/image"), concat!("kvset:", env!("CARGO_PKG_VERSION")));
    let given = settings(None, &environment(&kvset));
    let command = texts(list_at(&vllm, "/command"));
    let connector: Value = serde_json::from_str(&command[2]).expect("JSON");
    assert_eq!(command[1], "--kv-transfer-config");
    let folder = text_at(&connector, "/kv_connector_extra_config/path").to_owned();
    assert_eq!(given.input.folder.as_deref(), Some(Path::new(&folder)));
    let mounts = |service: &Value| texts(list_at(service, "/volumes"));
    assert!(mounts(&vllm).contains(&format!("events:{folder}")), "{vllm}");
    assert!(mounts(&kvset).contains(&format!("events:{folder}:ro")), "{kvset}");
    let kept = given.state.directory.display().to_string();
    assert!(
        given.output.file.starts_with(&kept) && mounts(&kvset).contains(&format!("state:{kept}")),
        "{kvset}"
    );
    let module = text_at(&connector, "/kv_connector_module_path").replace('.', "/");
    let source = mounts(&vllm)[0].split(':').next().map(|source| path("deploy/vllm").join(source));
    assert!(source.expect("a source").join(module).is_dir(), "the module is where Python looks");
    let check = texts(list_at(&kvset, "/healthcheck/test"));
    takes(&check[2..]);
    for port in [&vllm, &kvset].iter().flat_map(|service| texts(list_at(service, "/ports"))) {
        assert!(port.starts_with("127.0.0.1:"), "{port}");
    }
}

#[test]
fn prometheus_scrapes_the_service_and_grafana_asks_prometheus() {
    let prometheus = yaml("deploy/prometheus/prometheus.yml");
    let port = settings(None, &image_environment()).http.listen.0.expect("a server").port();
    assert_eq!(text_at(&prometheus, "/scrape_configs/0/static_configs/0/targets/0"), format!("kvset:{port}"));
    for rules in texts(list_at(&prometheus, "/rule_files")) {
        assert!(path("deploy/prometheus").join(&rules).is_file(), "{rules}");
    }
    let source = yaml("deploy/grafana/provisioning/datasources/prometheus.yml");
    let dashboard = read("deploy/grafana/dashboards/kvset.json");
    let uid = text_at(&source, "/datasources/0/uid");
    let dashboard: Value = serde_json::from_str(&dashboard).expect("a dashboard");
    for panel in list_at(&dashboard, "/panels").iter().filter(|panel| panel["targets"].is_array()) {
        assert_eq!(text_at(panel, "/datasource/uid"), uid, "{}", panel["title"]);
    }
}

#[test]
fn mounted_files_are_there_and_ports_are_on_loopback() {
    for name in ["prometheus", "grafana"] {
        for mount in texts(list_at(&service(name), "/volumes")) {
            let source = mount.split(':').next().expect("a source");
            assert!(path(source).exists(), "{name} mounts {source}, which is not there");
        }
    }
    for name in ["kafka", "kvset", "prometheus", "grafana"] {
        for port in texts(list_at(&service(name), "/ports")) {
            assert!(port.starts_with("127.0.0.1:"), "{name} listens to the world: {port}");
        }
    }
}
