//! The dashboard and the alerts against a real Prometheus that scrapes a healthy service.
//!
//! Needs `prometheus` and `promtool` (Debian's package `prometheus`); skipped, saying so, where they are not
//! installed, and failed there with KVSET_REQUIRE_PARTS=1.

use super::parts_support::missing;
use super::queries::{self, Asked};
use super::running::{Running, SOON};
use super::{list_at, path, promql, read, scaling, text_at};
use serde_json::Value;
use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Alerts that may be on their way in a service that has only begun: its requirements still move.
const MAY_BE_PENDING: [&str; 1] = ["KvsetNotConverged"];

/// Whether the program is there. Where parts are demanded and it is missing, the test fails.
fn installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return true;
    }
    missing(&format!("there is no `{program}`; Debian's package `prometheus` has it"));
    false
}

fn promtool(arguments: &[&str]) {
    let done = Command::new("promtool").args(arguments).current_dir(path("")).output().expect("it runs");
    let said = [done.stdout, done.stderr].concat();
    assert!(done.status.success(), "promtool {arguments:?}: {}", String::from_utf8_lossy(&said));
}

#[test]
fn promtool_takes_the_configuration_and_the_rules() {
    if installed("promtool") {
        promtool(&["check", "config", "deploy/prometheus/prometheus.yml"]);
        promtool(&["check", "rules", "--lint=all", "--lint-fatal", "deploy/prometheus/alerts.yml"]);
    }
}

#[test]
fn every_alert_fires_when_it_should_and_not_before() {
    let tests: Value = serde_saphyr::from_str(&read("tests/deploy/alerts.test.yml")).expect("YAML");
    let cases: Vec<&Value> =
        list_at(&tests, "/tests").iter().flat_map(|test| list_at(test, "/alert_rule_test")).collect();
    for alert in queries::alert_names() {
        let of_alert = |fires: bool| {
            let fits = |case: &&&Value| {
                text_at(case, "/alertname") == alert && list_at(case, "/exp_alerts").is_empty() != fires
            };
            cases.iter().filter(fits).count()
        };
        assert!(of_alert(true) > 0, "no test in which {alert} fires");
        assert!(of_alert(false) > 0, "no test in which {alert} does not fire");
    }
    if installed("promtool") {
        promtool(&["test", "rules", "tests/deploy/alerts.test.yml"]);
    }
}

#[test]
fn replicas_are_scaled_by_numbers_alone() {
    if installed("promtool") {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("scaling.test.yml");
        std::fs::write(&file, scaling::promtool_tests().to_string()).expect("a disk");
        promtool(&["test", "rules", &file.to_string_lossy()]);
    }
}

/// A Prometheus on loopback, killed when dropped.
struct Prometheus {
    child: Child,
    address: String,
    folder: TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The configuration that is deployed, with another target and quicker.
fn quickened(target: &str) -> String {
    let rules = path("deploy/prometheus/alerts.yml");
    let mut text = read("deploy/prometheus/prometheus.yml");
    for (deployed, here) in [
        ("scrape_interval: 10s", "scrape_interval: 1s".to_owned()),
        ("evaluation_interval: 10s", "evaluation_interval: 1s".to_owned()),
        ("- alerts.yml", format!("- {}", rules.display())),
        ("\"kvset:9464\"", format!("\"{target}\"")),
    ] {
        assert_eq!(text.matches(deployed).count(), 1, "{deployed} in\n{text}");
        text = text.replace(deployed, &here);
    }
    text
}

impl Prometheus {
    fn start(target: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("prometheus.yml");
        std::fs::write(&config, quickened(target)).expect("a disk");
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("a loopback port").to_string();
        let log = File::create(log_of(folder.path())).expect("a disk");
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("it starts");
        Self { child, address, folder }
    }

    /// Asks the API; `None` while it does not answer.
    fn get(&self, path: &str, parameters: &[(&str, &str)]) -> Option<Value> {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(parameters);
        let url = format!("http://{}/api/v1/{path}?{}", self.address, query.finish());
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(SOON));
        let mut answer = config.build().new_agent().get(&url).call().ok()?;
        let text = answer.body_mut().read_to_string().ok()?;
        let answer: Value = serde_json::from_str(&text).ok()?;
        assert_eq!(answer["status"], "success", "{url}: {text}");
        Some(answer["data"].clone())
    }

    /// The series a query gives now.
    fn ask(&self, query: &str) -> Vec<Value> {
        let data = self.get("query", &[("query", query)]);
        data.and_then(|data| data["result"].as_array().cloned()).unwrap_or_default()
    }

    /// Asks until there is something.
    fn find(&self, place: &str, query: &str, until: Instant) {
        while self.ask(query).is_empty() {
            let said = std::fs::read_to_string(log_of(self.folder.path())).unwrap_or_default();
            assert!(Instant::now() < until, "{place}: nothing for {query}\n{said}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// The values of a label, as Grafana asks for those of a variable.
    fn label_values(&self, metric: &str, label: &str) -> Vec<String> {
        let data = self.get(&format!("label/{label}/values"), &[("match[]", metric)]);
        let values = data.and_then(|data| data.as_array().cloned()).unwrap_or_default();
        values.iter().map(|value| value.as_str().expect("a text").to_owned()).collect()
    }
}

fn log_of(folder: &Path) -> std::path::PathBuf {
    folder.join("prometheus.log")
}

/// A panel's query for every choice of the dashboard's variables.
fn choices(asked: &Asked, windows: &[String], targets: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for window in windows {
        for target in targets {
            let text = asked.text.replace("$pool", ".*").replace("$window", window);
            found.push(text.replace("$target", target));
        }
    }
    found.sort();
    found.dedup();
    found
}

#[test]
fn no_panel_is_empty_and_no_alert_fires_on_a_healthy_service() {
    if !installed("prometheus") {
        return;
    }
    let running = Running::start();
    let target = running.service.trim_start_matches("http://").trim_end_matches('/');
    let prometheus = Prometheus::start(target);
    let until = Instant::now() + SOON;
    prometheus.find(&running.said(), "kvset_window_requests{window=\"all\"}", until);
    prometheus.find(&running.said(), "kvset_window_requests{window=\"tumbling:1m\"}", until);
    let windows = prometheus.label_values("kvset_window_requests", "window");
    let targets = prometheus.label_values("kvset_required_capacity_pages", "target");
    assert!(windows.len() == 3 && !targets.is_empty(), "{windows:?} {targets:?}");
    for asked in queries::dashboard() {
        for text in choices(&asked, &windows, &targets) {
            prometheus.find(&asked.place, &text, until);
        }
    }
    for asked in queries::alerts() {
        for selector in promql::selectors(&asked.text) {
            prometheus.find(&asked.place, &selector, until);
        }
    }
    let replicas = scaling::query_of([("pool", "alpha"), ("window", "all"), ("tier", "hbm")]);
    prometheus.find("the autoscaler", &replicas, until);
    for sample in prometheus.ask(&replicas) {
        let value: f64 = text_at(&sample, "/value/1").parse().expect("a number");
        assert!(scaling::replicas(value) >= 1 && value.fract() == 0.0, "{sample}");
    }
    assert_quiet(&prometheus, until);
}

/// Asserts that every rule was evaluated, and that nothing is wrong.
fn assert_quiet(prometheus: &Prometheus, until: Instant) {
    let rules = loop {
        let data = prometheus.get("rules", &[]).expect("it answers");
        let rules = list_at(&data, "/groups/0/rules").to_vec();
        if rules.iter().all(|rule| rule["health"] == "ok") {
            break rules;
        }
        assert!(Instant::now() < until, "{rules:?}");
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!(rules.len(), queries::alert_names().len());
    for rule in rules {
        let may_be_pending = MAY_BE_PENDING.contains(&text_at(&rule, "/name"));
        let state = text_at(&rule, "/state");
        assert!(state == "inactive" || may_be_pending && state == "pending", "{rule}");
    }
}
