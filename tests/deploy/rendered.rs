//! What Kustomize and Helm make of the manifests and of the chart: the same objects, which Kubernetes takes.
//!
//! Needs both programs and `kubernetes-validate`: scripts/parts.sh run kubernetes -- cargo test --test deploy

use super::parts_support::named;
use super::{list_at, path, queries, read, text_at, yaml};
use promql_parser::label::MatchOp;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

const CHART: &str = "deploy/helm/kvset";
const PLAIN: &str = "deploy/kubernetes";
const MONITORED: &str = "deploy/kubernetes-with-monitoring";
/// Objects by kind and name.
type Objects = BTreeMap<(String, String), Value>;

/// Runs a part of scripts/parts.sh from the top of the repository.
fn run(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).current_dir(path("")).output();
    let done = done.unwrap_or_else(|error| panic!("{program}: {error}"));
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8(done.stdout).expect("text")
}

/// Renders the chart under the name and into the namespace that the manifests have.
fn helm(values: &[&str]) -> Option<String> {
    let helm = named("KVSET_TEST_HELM")?;
    let release = ["template", "kvset", CHART, "--namespace", "kvset", "--kube-version", "1.33.0"];
    Some(run(&helm, &[&release[..], values].concat()))
}

fn kustomize(folder: &str) -> Option<String> {
    Some(run(&named("KVSET_TEST_KUSTOMIZE")?, &["build", folder]))
}

/// A hash in a name says only that the content is what it is; each tool has one of its own.
fn without_hash(text: &str) -> String {
    let mut parts = text.split("kvset-config-");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        assert_eq!(end, 10, "no hash in {rest}");
        all + "kvset-config" + &rest[end..]
    })
}

fn objects(rendered: &str) -> Objects {
    let documents = rendered.split("\n---\n").map(|document| document.trim_start_matches("---\n"));
    let mut objects = Objects::new();
    for document in documents.filter(|document| !document.trim().is_empty()) {
        let object: Value = serde_saphyr::from_str(&without_hash(document)).expect("YAML");
        let key = (text_at(&object, "/kind").to_owned(), text_at(&object, "/metadata/name").to_owned());
        assert!(objects.insert(key, object).is_none(), "twice: {document}");
    }
    objects
}

/// What `kubectl` makes and the chart leaves to `helm install --create-namespace`.
fn without_namespace(mut objects: Objects) -> Objects {
    objects.remove(&("Namespace".to_owned(), "kvset".to_owned())).expect("a namespace");
    objects
}

fn kinds(objects: &Objects) -> Vec<&str> {
    objects.keys().map(|(kind, _)| kind.as_str()).collect()
}

#[test]
fn operator_objects_are_there_only_with_the_component() {
    let (Some(plain), Some(monitored)) = (kustomize(PLAIN), kustomize(MONITORED)) else { return };
    let (plain, monitored) = (objects(&plain), objects(&monitored));
    let added: Vec<_> = kinds(&monitored).into_iter().filter(|kind| !kinds(&plain).contains(kind)).collect();
    assert_eq!(added, ["PrometheusRule", "ServiceMonitor"]);
    for (key, object) in &plain {
        assert_eq!(monitored.get(key), Some(object), "{key:?}");
    }
    for object in monitored.values().filter(|object| object["kind"] != "Namespace") {
        assert_eq!(text_at(object, "/metadata/namespace"), "kvset", "{object}");
    }
}

#[test]
fn the_chart_renders_what_kustomize_builds() {
    for (folder, values) in [(PLAIN, &[][..]), (MONITORED, &["--set", "monitoring.enabled=true"][..])] {
        let (Some(built), Some(rendered)) = (kustomize(folder), helm(values)) else { return };
        let (built, rendered) = (without_namespace(objects(&built)), objects(&rendered));
        assert_eq!(kinds(&rendered), kinds(&built), "{folder}");
        for (key, object) in &built {
            assert_eq!(rendered.get(key), Some(object), "{folder}: {key:?}");
        }
    }
}

#[test]
fn the_charts_values_reach_the_objects() {
    let values = [
        ("replicas", "5"),
        ("image.repository", "registry.example/kvset"),
        ("image.tag", "7"),
        ("config", "[kafka]"),
        ("storage.className", "fast"),
        ("storage.size", "1Ti"),
        ("prometheusNamespace", "watchers"),
        ("serviceAccount.annotations.role", "reader"),
        ("nodeSelector.disk", "ssd"),
        ("env[0].name", "KAFKA_PASSWORD"),
        ("env[0].value", "from-elsewhere"),
    ];
    let set: Vec<String> = values.iter().map(|(name, value)| format!("--set={name}={value}")).collect();
    let Some(rendered) = helm(&set.iter().map(String::as_str).collect::<Vec<_>>()) else { return };
    let all = objects(&rendered);
    let object = |kind: &str, name: &str| &all[&(kind.to_owned(), name.to_owned())];
    let pods = object("StatefulSet", "kvset");
    assert_eq!(pods["spec"]["replicas"], 5);
    assert_eq!(text_at(pods, "/spec/template/spec/containers/0/image"), "registry.example/kvset:7");
    assert_eq!(text_at(pods, "/spec/template/spec/nodeSelector/disk"), "ssd");
    let environment = list_at(pods, "/spec/template/spec/containers/0/env");
    assert!(environment.iter().any(|entry| entry["name"] == "KAFKA_PASSWORD"), "{environment:?}");
    assert!(environment.iter().any(|entry| entry["name"] == "KVSET__KAFKA__INSTANCE"), "{environment:?}");
    let claim = &pods["spec"]["volumeClaimTemplates"][0]["spec"];
    assert_eq!(
        (text_at(claim, "/storageClassName"), text_at(claim, "/resources/requests/storage")),
        ("fast", "1Ti")
    );
    assert_eq!(text_at(object("ConfigMap", "kvset-config"), "/data/kvset.toml").trim(), "[kafka]");
    let policy = object("NetworkPolicy", "kvset").to_string();
    assert!(policy.contains("\"watchers\"") && !policy.contains("\"monitoring\""), "{policy}");
    assert_eq!(text_at(object("ServiceAccount", "kvset"), "/metadata/annotations/role"), "reader");
    let Some(scaled) = helm(&["--set", "replicas=null"]) else { return };
    let scaled = &objects(&scaled)[&("StatefulSet".to_owned(), "kvset".to_owned())];
    assert!(scaled["spec"].get("replicas").is_none(), "an upgrade would undo what an autoscaler did");
    // A changed setting rolls the pods: the name of what they mount is another.
    let Some(unchanged) = helm(&[]) else { return };
    let name = |rendered: &str| {
        let begin = rendered.find("name: kvset-config-").expect("a name");
        rendered[begin..].lines().next().map(str::to_owned)
    };
    assert_ne!(name(&rendered), name(&unchanged));
}

/// Values with what a cluster adds to any workload; those of the chart itself win where names meet.
const ADDED: &str = r#"
image: { repository: "registry.example:5000/kvset", tag: "7", digest: "sha256:DIGEST" }
commonLabels: { team: inference, app.kubernetes.io/name: other }
commonAnnotations: { owner: us }
podLabels: { cost: "42" }
podAnnotations: { sidecar.istio.io/inject: "false" }
extraArgs: ["--config", "{{ quoted }} \"<&"]
envFrom: [{ secretRef: { name: kafka } }]
extraVolumes: [{ name: authorities, secret: { secretName: kafka-ca } }]
extraVolumeMounts: [{ name: authorities, mountPath: /etc/authorities, readOnly: true }]
terminationGracePeriodSeconds: 90
monitoring: { enabled: true, labels: { release: prometheus } }
"#;

#[test]
fn what_a_cluster_adds_reaches_the_objects_and_changes_no_selector() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("values.yaml");
    std::fs::write(&file, ADDED.replace("DIGEST", &"a1".repeat(32))).expect("written");
    let file = file.to_str().expect("UTF-8");
    let Some(rendered) = helm(&["--values", file]) else { return };
    let all = objects(&rendered);
    for ((kind, name), object) in &all {
        let labels = &object["metadata"]["labels"];
        assert_eq!(
            (&labels["team"], &labels["app.kubernetes.io/name"]),
            (&"inference".into(), &"kvset".into()),
            "{kind} {name}"
        );
        assert_eq!(object["metadata"]["annotations"]["owner"], "us", "{kind} {name}");
        let is_of_the_operator = ["ServiceMonitor", "PrometheusRule"].contains(&kind.as_str());
        assert_eq!(labels["release"] == "prometheus", is_of_the_operator, "{kind} {name}");
    }
    let set = &all[&("StatefulSet".to_owned(), "kvset".to_owned())];
    let selected = serde_json::json!({"app.kubernetes.io/name": "kvset"});
    assert_eq!(set["spec"]["selector"]["matchLabels"], selected, "a selector cannot be changed later");
    let pod = &set["spec"]["template"];
    assert_eq!(pod["metadata"]["labels"]["cost"], "42");
    assert_eq!(pod["metadata"]["labels"]["app.kubernetes.io/name"], "kvset");
    assert_eq!(pod["metadata"]["annotations"]["sidecar.istio.io/inject"], "false");
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 90);
    let container = &pod["spec"]["containers"][0];
    let digest = format!("registry.example:5000/kvset@sha256:{}", "a1".repeat(32));
    assert_eq!(text_at(container, "/image"), digest, "a digest goes before a tag");
    let arguments = list_at(container, "/args");
    assert_eq!(arguments[arguments.len() - 2..], ["--config", "{{ quoted }} \"<&"]);
    assert_eq!(container["envFrom"][0]["secretRef"]["name"], "kafka");
    let named = |pointer: &str| list_at(pod, pointer).iter().any(|entry| entry["name"] == "authorities");
    assert!(named("/spec/volumes") && named("/spec/containers/0/volumeMounts"), "{pod}");
}

/// A namespace held one release: the second one was refused for the names of the first.
#[test]
fn two_releases_of_one_namespace_share_no_object_and_select_none_of_each_others() {
    let staging = ["--set", "name=kvset-staging", "--set", "monitoring.enabled=true"];
    let (Some(one), Some(other)) = (helm(&staging[2..]), helm(&staging)) else { return };
    let (one, other) = (objects(&one), objects(&other.replace("kvset-staging-config-", "kvset-config-")));
    let is_config = |kind: &str| kind == "ConfigMap";
    for (kind, name) in one.keys().filter(|(kind, _)| !is_config(kind)) {
        assert!(!other.contains_key(&(kind.clone(), name.clone())), "{kind} {name} is in both");
        let renamed = name.replacen("kvset", "kvset-staging", 1);
        assert!(other.contains_key(&(kind.clone(), renamed)), "{kind} {name} is in one alone");
    }
    let label = serde_json::json!({"app.kubernetes.io/name": "kvset-staging"});
    let object = |kind: &str, name: &str| &other[&(kind.to_owned(), name.to_owned())];
    let set = object("StatefulSet", "kvset-staging");
    assert_eq!(set["spec"]["selector"]["matchLabels"], label);
    assert_eq!(set["spec"]["template"]["metadata"]["labels"], label);
    assert_eq!(set["spec"]["serviceName"], "kvset-staging-pods");
    assert_eq!(set["spec"]["template"]["spec"]["serviceAccountName"], "kvset-staging");
    assert_eq!(object("Service", "kvset-staging-pods")["spec"]["selector"], label);
    assert_eq!(object("NetworkPolicy", "kvset-staging")["spec"]["podSelector"]["matchLabels"], label);
    let rules = object("PrometheusRule", "kvset-staging").to_string();
    assert!(rules.contains(r#"job=\"kvset-staging\""#) && !rules.contains(r#"job=\"kvset\""#), "{rules}");
}

#[test]
fn pods_connect_to_anything_unless_their_egress_is_named() {
    let policy = |values: &[&str]| {
        let rendered = helm(values)?;
        Some(objects(&rendered)[&("NetworkPolicy".to_owned(), "kvset".to_owned())].clone())
    };
    let brokers = ["--set", "egress[0].ports[0].port=9092", "--set", "egress[0].ports[0].protocol=TCP"];
    let (Some(open), Some(named)) = (policy(&[]), policy(&brokers)) else { return };
    assert_eq!(
        (&open["spec"]["policyTypes"], &open["spec"]["egress"]),
        (&serde_json::json!(["Ingress"]), &Value::Null)
    );
    assert_eq!(named["spec"]["policyTypes"], serde_json::json!(["Ingress", "Egress"]));
    let ports: Vec<_> =
        list_at(&named, "/spec/egress").iter().flat_map(|rule| list_at(rule, "/ports")).collect();
    assert_eq!(ports.iter().map(|port| &port["port"]).collect::<Vec<_>>(), [53, 53, 9092]);
}

/// A misspelled value was taken in silence, and what it was meant to change stayed as it was.
#[test]
fn a_value_that_the_chart_does_not_have_is_refused_by_its_name() {
    let Some(helm) = named("KVSET_TEST_HELM") else { return };
    for (value, said) in [
        ("replica=5", "'replica' not allowed"),
        ("storage.sise=1Gi", "'sise' not allowed"),
        ("replicas=many", "/replicas"),
        ("extraArgs=--create-topics", "/extraArgs"),
        ("image.digest=latest", "/image/digest"),
        ("image.repository=kvset:7", "/image/repository"),
        ("monitoring.enabled=maybe", "/monitoring/enabled"),
        ("name=Staging", "/name"),
        ("egress[0].from=anywhere", "'from' not allowed"),
        ("commonLabels.number=1", "/commonLabels/number"),
    ] {
        let arguments = ["template", "kvset", CHART, "--kube-version", "1.33.0", "--set", value];
        let done = Command::new(&helm).args(arguments).current_dir(path("")).output().expect("it runs");
        let errors = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && errors.contains(said), "{value}: {errors}");
    }
}

/// Whether a value is of a type that the schema allows for it.
fn is_of_type(schema: &Value, value: &Value) -> bool {
    let name = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    match &schema["type"] {
        Value::String(allowed) => allowed == name || (allowed == "number" && name == "integer"),
        Value::Array(allowed) => allowed.iter().any(|allowed| allowed == name),
        _ => schema["enum"].as_array().is_some_and(|allowed| allowed.contains(value)),
    }
}

/// Asserts that the schema describes exactly the values there are, all the way down.
fn assert_described(schema: &Value, values: &Value, at: &str) {
    assert!(is_of_type(schema, values), "{at} is {values}, which the schema does not allow");
    let (Some(described), Some(values)) = (schema["properties"].as_object(), values.as_object()) else {
        return;
    };
    assert_eq!(schema["additionalProperties"], false, "{at}: misspelled values are not refused");
    for (name, value) in values {
        let schema =
            described.get(name).unwrap_or_else(|| panic!("{at}/{name} is not in values.schema.json"));
        assert_described(schema, value, &format!("{at}/{name}"));
    }
    let lists = ["global", "requests", "limits", "claims"];
    let missing =
        described.keys().find(|name| !values.contains_key(*name) && !lists.contains(&name.as_str()));
    assert_eq!(missing, None, "{at}: the schema describes what values.yaml does not have");
}

#[test]
fn the_schema_describes_every_value_and_no_other() {
    let schema = serde_json::from_str(&read(&format!("{CHART}/values.schema.json"))).expect("JSON");
    assert_described(&schema, &yaml(&format!("{CHART}/values.yaml")), "");
}

/// Neither was scraped, nor was a rule loaded, in a cluster with kube-prometheus-stack: its Prometheus selects by
/// this label.
#[test]
fn what_the_operator_reads_has_the_label_that_kube_prometheus_stack_selects_by() {
    let values = yaml(&format!("{CHART}/values.yaml"));
    let release = text_at(&values, "/monitoring/labels/release");
    for file in ["service-monitor", "alert-rules"] {
        let object = yaml(&format!("deploy/kubernetes/monitoring/{file}.yaml"));
        assert_eq!(text_at(&object, "/metadata/labels/release"), release, "{file}");
    }
}

#[test]
fn helm_finds_nothing_wrong_with_the_chart() {
    if let Some(helm) = named("KVSET_TEST_HELM") {
        run(&helm, &["lint", "--strict", CHART]);
    }
    let chart = yaml(&format!("{CHART}/Chart.yaml"));
    assert_eq!(text_at(&chart, "/version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(text_at(&chart, "/appVersion"), env!("CARGO_PKG_VERSION"));
    assert_eq!(read(&format!("{CHART}/kvset.toml")), read("deploy/kubernetes/kvset.toml"));
    assert_eq!(read(&format!("{CHART}/alerts.yml")), read("deploy/prometheus/alerts.yml"));
}

#[test]
fn kubernetes_takes_what_is_rendered() {
    let (Some(validate), Some(built)) = (named("KVSET_TEST_KUBERNETES_VALIDATE"), kustomize(MONITORED))
    else {
        return;
    };
    let Some(rendered) = helm(&["--set", "monitoring.enabled=true"]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [("kustomize", built), ("helm", rendered)] {
        // The objects of the Prometheus Operator are in no schema of Kubernetes.
        let of_kubernetes =
            text.split("\n---\n").filter(|document| !document.contains("monitoring.coreos.com/"));
        let file = folder.path().join(format!("{name}.yaml"));
        let text = of_kubernetes.collect::<Vec<_>>().join("\n---\n");
        assert!(text.matches("kind: ").count() >= 6, "{text}");
        std::fs::write(&file, text).expect("a disk");
        let said =
            Command::new(&validate).args(["--strict", "--quiet"]).arg(&file).output().expect("it runs");
        let complaints = [said.stdout, said.stderr].concat();
        assert!(said.status.success() && complaints.is_empty(), "{}", String::from_utf8_lossy(&complaints));
    }
}

/// A job called as the service is, `kvset-pods`, once kept KvsetDown from ever firing in a cluster.
#[test]
fn the_operator_gives_the_job_the_name_that_alerts_ask_for() {
    let monitor = yaml("deploy/kubernetes/monitoring/service-monitor.yaml");
    let label = text_at(&monitor, "/spec/jobLabel");
    let job = yaml("deploy/kubernetes/services.yaml")["metadata"]["labels"][label].clone();
    let prometheus = yaml("deploy/prometheus/prometheus.yml");
    assert_eq!(job, text_at(&prometheus, "/scrape_configs/0/job_name"));
    let mut asked = 0;
    for (name, operation, value) in
        queries::alerts().iter().flat_map(|alert| super::promql::matchers(&alert.text))
    {
        if name == "job" {
            assert!(matches!(operation, MatchOp::Equal), "{value}");
            assert_eq!(job, value);
            asked += 1;
        }
    }
    assert!(asked > 0, "no alert asks for a job");
}
