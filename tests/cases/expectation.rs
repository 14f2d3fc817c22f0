//! What must hold of what a command printed.

use regex::RegexBuilder;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What one command printed.
pub struct Seen {
    code: Option<i32>,
    out: String,
    err: String,
    json: Option<Value>,
}

impl Seen {
    pub fn new(code: Option<i32>, out: String, err: String) -> Self {
        Self { code, json: serde_json::from_str(&out).ok(), out, err }
    }

    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// What it said, in one line.
    fn words(&self) -> String {
        let text = if self.json.is_some() { self.err.clone() } else { format!("{}\n{}", self.out, self.err) };
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines.join(" / ").chars().take(400).collect()
    }
}

/// What must hold; everything that is named.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Expectation {
    /// An exit code, or `"nonzero"`.
    exit: Option<Value>,
    /// Dotted paths in the JSON on standard output, and their values.
    json: BTreeMap<String, Value>,
    /// Regular expressions, in any case, that both streams together must show.
    contains: Vec<String>,
    stdout_contains: Vec<String>,
    stderr_contains: Vec<String>,
    not_contains: Vec<String>,
    /// One of these must hold.
    any_of: Vec<Expectation>,
}

impl Expectation {
    /// What does not hold; nothing where all does.
    pub fn missed(&self, seen: &Seen) -> Vec<String> {
        let mut missed = Vec::new();
        match &self.exit {
            Some(Value::String(text)) if text == "nonzero" && seen.code == Some(0) => {
                missed.push("exit 0".to_owned())
            }
            Some(Value::Number(code)) if code.as_i64() != seen.code.map(i64::from) => {
                missed.push(format!("exit {:?}: {}", seen.code, seen.words()));
            }
            _ => {}
        }
        for (path, want) in &self.json {
            let Some(json) = &seen.json else {
                missed.push(format!("no JSON: {}", seen.words()));
                break;
            };
            let found = at(json, path);
            let holds = if found.is_empty() {
                meets(None, want)
            } else {
                found.iter().any(|each| meets(Some(each), want))
            };
            if !holds {
                let shown: Vec<String> = found.iter().take(4).map(Value::to_string).collect();
                missed.push(format!("{path} is [{}], not {want}", shown.join(", ")));
            }
        }
        let both = format!("{}\n{}", seen.out, seen.err);
        for (text, patterns) in
            [(&both, &self.contains), (&seen.out, &self.stdout_contains), (&seen.err, &self.stderr_contains)]
        {
            for pattern in patterns.iter().filter(|pattern| !is_found(pattern, text)) {
                missed.push(format!("nothing matches /{pattern}/: {}", seen.words()));
            }
        }
        for pattern in self.not_contains.iter().filter(|pattern| is_found(pattern, &both)) {
            missed.push(format!("/{pattern}/ is matched: {}", seen.words()));
        }
        let ways: Vec<Vec<String>> = self.any_of.iter().map(|way| way.missed(seen)).collect();
        if !ways.is_empty() && ways.iter().all(|way| !way.is_empty()) {
            missed.extend(ways.into_iter().map(|way| format!("either: {}", way.join("; "))));
        }
        missed
    }
}

fn is_found(pattern: &str, text: &str) -> bool {
    let built = RegexBuilder::new(pattern).case_insensitive(true).multi_line(true).build();
    built.unwrap_or_else(|error| panic!("{pattern}: {error}")).is_match(text)
}

/// The values at a dotted path: a key, an index, `*` for each of a list, `#` for a length, `+` for the sum.
fn at(value: &Value, path: &str) -> Vec<Value> {
    let mut found = vec![value.clone()];
    for step in path.split('.') {
        if step == "+" {
            let numbers: Option<Vec<f64>> = found.iter().map(Value::as_f64).collect();
            found = numbers.map(|numbers| Value::from(numbers.iter().sum::<f64>())).into_iter().collect();
            continue;
        }
        let inner = |value: &Value| -> Vec<Value> {
            match (step, value) {
                ("#", Value::Array(list)) => vec![list.len().into()],
                ("#", Value::Object(object)) => vec![object.len().into()],
                ("*", Value::Array(list)) => list.clone(),
                (step, Value::Array(list)) => {
                    step.parse().ok().and_then(|index: usize| list.get(index)).cloned().into_iter().collect()
                }
                (step, Value::Object(object)) => object.get(step).cloned().into_iter().collect(),
                _ => Vec::new(),
            }
        };
        found = found.iter().flat_map(inner).collect();
    }
    found
}

/// Whether what was seen is what is wanted; nothing was seen at an absent place.
fn meets(seen: Option<&Value>, want: &Value) -> bool {
    let number = |value: &Value| value.as_f64();
    match want {
        Value::Object(rule) => {
            let listed = |list: &Value| {
                list.as_array()
                    .is_some_and(|list| list.iter().any(|each| seen.is_some_and(|seen| equal(seen, each))))
            };
            if let Some(list) = rule.get("not") {
                return !listed(list);
            }
            if let Some(list) = rule.get("in") {
                return listed(list);
            }
            if let Some(pattern) = rule.get("matches").and_then(Value::as_str) {
                return seen.and_then(Value::as_str).is_some_and(|text| is_found(pattern, text));
            }
            let Some(seen) = seen.and_then(number) else { return false };
            if let Some(approximate) = rule.get("approx").and_then(number) {
                let share = rule.get("rel").and_then(number).unwrap_or(0.01);
                return (seen - approximate).abs() <= share * approximate.abs();
            }
            let bound = |name: &str| rule.get(name).and_then(number).unwrap_or(seen);
            bound("min") <= seen && seen <= bound("max")
        }
        Value::Null => seen.is_none_or(Value::is_null),
        want => seen.is_some_and(|seen| equal(seen, want)),
    }
}

/// Equal values; numbers by what they are worth.
fn equal(left: &Value, right: &Value) -> bool {
    match (left.as_f64(), right.as_f64()) {
        (Some(left), Some(right)) => left == right,
        _ => left == right,
    }
}
