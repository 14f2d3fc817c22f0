//! The example that scales an engine's replicas: its query, against what is exported, and in Prometheus' own
//! arithmetic.

use super::promql;
use super::queries::Asked;
use super::{list_at, text_at, yaml};
use serde_json::{Value, json};

const MANIFEST: &str = "deploy/keda/scaled-object.yaml";

/// The pool and the tier that the example names.
const NAMES: [(&str, &str); 3] = [("pool", "llama"), ("window", "last:3000"), ("tier", "replica")];

/// The one trigger.
fn trigger() -> Value {
    let triggers = list_at(&yaml(MANIFEST), "/spec/triggers").to_vec();
    let [trigger] = &triggers[..] else { panic!("one trigger") };
    assert_eq!(text_at(trigger, "/type"), "prometheus");
    trigger["metadata"].clone()
}

/// Its query.
pub fn query() -> Asked {
    Asked {
        place: MANIFEST.to_owned(),
        text: text_at(&trigger(), "/query").to_owned(),
        shown: Default::default(),
    }
}

/// The query with other values of its labels.
pub fn query_of(labels: [(&str, &str); 3]) -> String {
    NAMES.iter().zip(labels).fold(query().text, |text, ((label, named), (_, wanted))| {
        let named = format!("{label}=\"{named}\"");
        assert!(text.contains(&named), "{text} has no {named}");
        text.replace(&named, &format!("{label}=\"{wanted}\""))
    })
}

/// Replicas that the autoscaler has for a value: it divides by the threshold and rounds up.
pub fn replicas(value: f64) -> u64 {
    let threshold: f64 = text_at(&trigger(), "/threshold").parse().expect("a number");
    (value / threshold).ceil() as u64
}

#[test]
fn the_query_asks_for_one_pool_and_one_tier_in_a_window_that_there_is_by_default() {
    let query = query();
    assert!(query.checked().labels.is_empty(), "one number, not one a series: {}", query.text);
    let named: Vec<(String, String)> =
        promql::matchers(&query.text).into_iter().map(|(label, _, value)| (label, value)).collect();
    assert_eq!(named, NAMES.map(|(label, value)| (label.to_owned(), value.to_owned())));
    let windows = kvset::settings::Settings::default().estimate.windows;
    assert!(windows.iter().any(|window| window.to_string() == "last:3000"), "{windows:?}");
}

#[test]
fn the_manifest_has_bounds_and_keeps_the_replicas_while_nothing_is_known() {
    let manifest = yaml(MANIFEST);
    let number = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_u64).expect("a number");
    assert!(number("/spec/minReplicaCount") >= 1 && number("/spec/maxReplicaCount") <= 64);
    assert_eq!(text_at(&manifest, "/spec/fallback/behavior"), "currentReplicas");
    assert_eq!(text_at(&trigger(), "/ignoreNullValues"), "false", "no answer must not be no replica");
    assert_eq!(replicas(3.0), 3, "units are replicas");
}

/// Rules for promtool in which the query has these answers: none where there is no number.
pub fn promtool_tests() -> Value {
    let series = |instance: &str, values: &str| {
        let labels = "pool=\"llama\", window=\"last:3000\", tier=\"replica\"";
        json!({
            "series": format!("kvset_tier_recommended_units{{{labels}, job=\"kvset\", instance=\"{instance}\"}}"),
            "values": values,
        })
    };
    let other = json!({
        "series": "kvset_tier_recommended_units{pool=\"mistral\", window=\"last:3000\", tier=\"replica\", job=\"kvset\", instance=\"a\"}",
        "values": "40x20",
    });
    let asks = |time: &str, answer: Option<u64>| {
        let samples: Vec<Value> =
            answer.iter().map(|value| json!({ "labels": "{}", "value": value })).collect();
        json!({ "expr": query().text, "eval_time": time, "exp_samples": samples })
    };
    json!({
        "evaluation_interval": "1m",
        "tests": [
            {
                "name": "a pool that has settled, and then needs one replica more",
                "interval": "1m",
                "input_series": [series("a", "3x5 4x10"), other],
                "promql_expr_test": [asks("5m", Some(3)), asks("6m", Some(4))],
            },
            {
                "name": "a pool that is not known yet",
                "interval": "1m",
                "input_series": [series("a", "NaN NaN NaN 3x9"), other],
                "promql_expr_test": [asks("2m", None), asks("3m", Some(3))],
            },
            {
                "name": "a pool that moved: the former instance still answers",
                "interval": "1m",
                "input_series": [series("a", "3x5 stale"), series("b", "_x2 4x10"), other],
                "promql_expr_test": [asks("1m", Some(3)), asks("4m", Some(4)), asks("8m", Some(4))],
            },
            {
                "name": "nobody reports the pool",
                "interval": "1m",
                "input_series": [other],
                "promql_expr_test": [asks("5m", None)],
            },
        ],
    })
}
