//! The queries of the dashboard and of the alerts.

use super::promql::{self, Names, Query};
use super::{list_at, read, text_at, yaml};
use serde_json::Value;
use std::collections::BTreeSet;

const DASHBOARD: &str = "deploy/grafana/dashboards/kvset.json";
const ALERTS: &str = "deploy/prometheus/alerts.yml";

/// A query and where it stands.
pub struct Asked {
    pub place: String,
    pub text: String,
    /// Labels its legend or annotations show.
    pub shown: Names,
}

impl Asked {
    /// The query, all of whose names must be right.
    pub fn checked(&self) -> Query {
        promql::check(&self.text).unwrap_or_else(|error| panic!("{}: {error}", self.place))
    }
}

/// Every query there is.
pub fn all() -> Vec<Asked> {
    let mut asked = dashboard();
    asked.extend(alerts());
    asked.push(super::scaling::query());
    asked
}

/// The queries of the panels, with their variables.
pub fn dashboard() -> Vec<Asked> {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).expect("a dashboard");
    let mut asked = Vec::new();
    of_panels(list_at(&dashboard, "/panels"), &mut asked);
    assert!(asked.len() > 20, "only {} queries in {DASHBOARD}", asked.len());
    asked
}

/// The queries of panels, rows with panels of their own among them.
fn of_panels(panels: &[Value], asked: &mut Vec<Asked>) {
    for panel in panels {
        for target in panel["targets"].as_array().into_iter().flatten() {
            asked.push(Asked {
                place: format!("{DASHBOARD}, panel `{}`", text_at(panel, "/title")),
                text: text_at(target, "/expr").replace("$__rate_interval", "1m"),
                shown: between(target["legendFormat"].as_str().unwrap_or_default(), "{{", "}}"),
            });
        }
        of_panels(panel["panels"].as_array().map_or(&[], Vec::as_slice), asked);
    }
}

/// The rules of the alerts' one group.
fn rules() -> Vec<Value> {
    list_at(&yaml(ALERTS), "/groups").iter().flat_map(|group| list_at(group, "/rules").to_vec()).collect()
}

/// The alerts' names.
pub fn alert_names() -> BTreeSet<String> {
    rules().iter().map(|rule| text_at(rule, "/alert").to_owned()).collect()
}

/// The expressions of the alerts.
pub fn alerts() -> Vec<Asked> {
    let of_rule = |rule: Value| {
        let annotations = rule["annotations"].as_object().expect("annotations");
        let words: String = annotations.values().filter_map(Value::as_str).collect();
        Asked {
            place: format!("{ALERTS}, alert {}", text_at(&rule, "/alert")),
            text: text_at(&rule, "/expr").to_owned(),
            shown: between(&words, "$labels.", " }}"),
        }
    };
    rules().into_iter().map(of_rule).collect()
}

/// What stands between two marks, each time.
fn between(text: &str, left: &str, right: &str) -> Names {
    let parts = text.split(left).skip(1).filter_map(|rest| rest.split_once(right));
    parts.map(|(name, _)| name.trim().to_owned()).filter(|name| !name.contains('$')).collect()
}

#[test]
fn every_query_names_metrics_and_labels_that_are_exported() {
    for asked in all() {
        let query = asked.checked();
        let missing = asked.shown.difference(&query.labels).next();
        assert_eq!(missing, None, "{}: the result has no such label: {}", asked.place, asked.text);
    }
}

#[test]
fn the_variables_of_the_dashboard_are_labels_of_their_metrics() {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).expect("a dashboard");
    let variables = list_at(&dashboard, "/templating/list");
    assert!(!variables.is_empty());
    for variable in variables {
        let text = text_at(variable, "/query/query");
        let inner = text.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
        let (metric, label) =
            inner.and_then(|inner| inner.rsplit_once(", ")).expect("label_values(metric, label)");
        let query = promql::check(metric).unwrap_or_else(|error| panic!("{error}"));
        assert!(query.labels.contains(label), "{metric} has no label {label}");
        assert_eq!(text_at(variable, "/name"), label);
    }
}

#[test]
fn every_alert_has_a_severity_and_a_section_that_says_what_to_do() {
    let operations = read("docs/operations.md");
    let sections: BTreeSet<_> = operations.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let alerts = alert_names();
    assert!(alerts.len() >= 8);
    for rule in rules() {
        let name = text_at(&rule, "/alert");
        assert!(sections.contains(name), "docs/operations.md has no section for {name}");
        assert!(["critical", "warning", "info"].contains(&text_at(&rule, "/labels/severity")), "{name}");
        assert!(!text_at(&rule, "/annotations/summary").is_empty(), "{name}");
    }
    let described = sections.iter().filter(|section| section.starts_with("Kvset"));
    for section in described {
        assert!(alerts.contains(*section), "docs/operations.md describes {section}, which is no alert");
    }
}

#[test]
fn the_rules_for_kubernetes_are_the_same() {
    let (plain, operator) = (yaml(ALERTS), yaml("deploy/kubernetes/monitoring/alert-rules.yaml"));
    assert_eq!(operator["spec"]["groups"], plain["groups"]);
}
