//! The Kubernetes manifests against the program. `.ci/run` also holds them against Kubernetes' schemas.

use super::{list_at, path, read, settings, takes, text_at, texts, yaml};
use serde_json::Value;
use std::collections::BTreeSet;

const FOLDER: &str = "deploy/kubernetes";
const APP: &str = "app.kubernetes.io/name";

fn manifest(name: &str) -> Value {
    yaml(&format!("{FOLDER}/{name}"))
}

/// The one container of the pods.
fn container() -> Value {
    let containers = list_at(&manifest("stateful-set.yaml"), "/spec/template/spec/containers").to_vec();
    let [container] = &containers[..] else { panic!("one container") };
    container.clone()
}

/// The container's environment; what comes from elsewhere is given a value of its kind.
fn environment() -> Vec<(String, String)> {
    let variable = |entry: &Value| {
        let value = entry["value"].as_str().unwrap_or("kvset-0").to_owned();
        (text_at(entry, "/name").to_owned(), value)
    };
    list_at(&container(), "/env").iter().map(variable).collect()
}

/// The pods' settings.
fn configured() -> kvset::settings::Settings {
    settings(Some(&format!("{FOLDER}/kvset.toml")), &environment())
}

/// The files of a folder that its kustomization must name.
fn files_of(folder: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(path(folder)).expect("the folder").map(|entry| entry.expect("an entry"));
    let files = entries.filter(|entry| entry.path().is_file());
    let names = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name != "kustomization.yaml").collect()
}

#[test]
fn the_kustomizations_list_every_file() {
    let kustomization = manifest("kustomization.yaml");
    let mut listed: BTreeSet<String> = texts(list_at(&kustomization, "/resources")).into_iter().collect();
    listed.extend(texts(list_at(&kustomization, "/configMapGenerator/0/files")));
    assert_eq!(listed, files_of(FOLDER));
    assert_eq!(text_at(&kustomization, "/images/0/newTag"), env!("CARGO_PKG_VERSION"));
    assert_eq!(text_at(&kustomization, "/namespace"), text_at(&manifest("namespace.yaml"), "/metadata/name"));
    let component = manifest("monitoring/kustomization.yaml");
    let listed: BTreeSet<String> = texts(list_at(&component, "/resources")).into_iter().collect();
    assert_eq!(listed, files_of(&format!("{FOLDER}/monitoring")));
}

#[test]
fn the_pods_run_a_command_and_settings_that_there_are() {
    let arguments = texts(list_at(&container(), "/args"));
    takes(&arguments);
    let configured = configured();
    assert_eq!(configured.kafka.instance, "kvset-0", "static membership by the pod's name");
    assert!(arguments.contains(&"/etc/kvset/kvset.toml".to_owned()));
    let mounts = container();
    let mounted = |mount: &str| {
        let mounts = list_at(&mounts, "/volumeMounts");
        mounts
            .iter()
            .find(|entry| entry["mountPath"] == mount)
            .map(|entry| text_at(entry, "/name").to_owned())
    };
    assert_eq!(mounted("/etc/kvset").as_deref(), Some("config"));
    let state = configured.state.directory.to_str().expect("UTF-8");
    let pods = manifest("stateful-set.yaml");
    let claim = text_at(&pods, "/spec/volumeClaimTemplates/0/metadata/name").to_owned();
    assert_eq!(mounted(state), Some(claim), "snapshots survive the pod");
    let config_map = text_at(&pods, "/spec/template/spec/volumes/0/configMap/name").to_owned();
    assert_eq!(config_map, text_at(&manifest("kustomization.yaml"), "/configMapGenerator/0/name"));
}

#[test]
fn ports_and_probes_are_those_of_the_server() {
    let (container, address) = (container(), configured().http.listen.0.expect("a server"));
    let port = u64::from(address.port());
    assert!(address.ip().is_unspecified(), "probes come from outside the pod");
    assert_eq!(container["ports"][0]["containerPort"], port);
    let name = text_at(&container, "/ports/0/name");
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        assert_eq!(text_at(&container, &format!("/{probe}/httpGet/port")), name, "{probe}");
        assert_served(text_at(&container, &format!("/{probe}/httpGet/path")));
    }
    let services = manifest("services.yaml");
    assert_eq!(services["spec"]["ports"][0]["port"], port);
    assert_eq!(text_at(&services, "/spec/ports/0/targetPort"), name);
    let monitor = manifest("monitoring/service-monitor.yaml");
    assert_eq!(text_at(&monitor, "/spec/endpoints/0/port"), text_at(&services, "/spec/ports/0/name"));
    assert_served(text_at(&monitor, "/spec/endpoints/0/path"));
    assert_eq!(manifest("network-policy.yaml")["spec"]["ingress"][0]["ports"][0]["port"], name);
}

/// Asserts that the HTTP server has a route of this path.
fn assert_served(path: &str) {
    let server = read("src/telemetry/server.rs");
    assert!(server.contains(&format!(".route(\"{path}\"")), "the server has no {path}");
}

#[test]
fn selectors_and_names_belong_together() {
    let pods = manifest("stateful-set.yaml");
    let label = |value: &Value, place: &str| value.pointer(place).map(|labels| labels[APP].clone());
    let app = label(&pods, "/spec/template/metadata/labels").expect("the pods' labels");
    assert_eq!(app, "kvset");
    for (file, place) in [
        ("stateful-set.yaml", "/spec/selector/matchLabels"),
        ("services.yaml", "/spec/selector"),
        ("services.yaml", "/metadata/labels"),
        ("monitoring/service-monitor.yaml", "/spec/selector/matchLabels"),
        ("disruption-budget.yaml", "/spec/selector/matchLabels"),
        ("network-policy.yaml", "/spec/podSelector/matchLabels"),
    ] {
        assert_eq!(label(&manifest(file), place), Some(app.clone()), "{file}");
    }
    let service = manifest("services.yaml");
    assert_eq!(text_at(&pods, "/spec/serviceName"), text_at(&service, "/metadata/name"));
    let account = manifest("service-account.yaml");
    assert_eq!(text_at(&pods, "/spec/template/spec/serviceAccountName"), text_at(&account, "/metadata/name"));
}

#[test]
fn a_pod_has_longer_to_stop_than_the_service_takes() {
    let pods = manifest("stateful-set.yaml");
    let grace = pods.pointer("/spec/template/spec/terminationGracePeriodSeconds").and_then(Value::as_u64);
    let deadline = configured().shutdown.deadline.as_duration().as_secs();
    assert!(grace.expect("a number of seconds") > deadline);
}

/// The example that the documentation gives of an autoscaler.
fn scaled_object() -> Value {
    let page = read("docs/operations.md");
    let mut blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let block = blocks.find(|block| block.contains("kind: ScaledObject")).expect("an example");
    serde_saphyr::from_str(block).expect("YAML")
}

#[test]
fn the_autoscaler_s_example_scales_these_pods_by_the_lag_of_their_group() {
    let (example, pods, configured) = (scaled_object(), manifest("stateful-set.yaml"), configured());
    assert_eq!(text_at(&example, "/spec/scaleTargetRef/kind"), text_at(&pods, "/kind"));
    assert_eq!(text_at(&example, "/spec/scaleTargetRef/name"), text_at(&pods, "/metadata/name"));
    let trigger = &example["spec"]["triggers"][0]["metadata"];
    assert_eq!(trigger["bootstrapServers"], configured.kafka.brokers.as_str());
    assert_eq!(trigger["consumerGroup"], configured.kafka.group.as_str());
    assert_eq!(trigger["topic"], configured.input.topic.as_str());
    assert_eq!(trigger["lagThreshold"], configured.http.ready_max_lag.to_string());
    assert!(example["spec"]["minReplicaCount"].as_u64() > Some(0), "windows close while somebody reads");
}

#[test]
fn pods_run_without_rights_they_do_not_need() {
    let pods = manifest("stateful-set.yaml");
    let pod = pods.pointer("/spec/template/spec").expect("a pod");
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["automountServiceAccountToken"], false);
    let rights = &container()["securityContext"];
    assert_eq!(rights["readOnlyRootFilesystem"], true);
    assert_eq!(rights["allowPrivilegeEscalation"], false);
    assert_eq!(rights["capabilities"]["drop"][0], "ALL");
    let enforced = &manifest("namespace.yaml")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
    assert_eq!(*enforced, "restricted");
}
