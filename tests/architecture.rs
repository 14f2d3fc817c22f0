//! The shape of the program, kept true: imports point inward and the core stays pure (DESIGN 3).

use std::fs;
use std::path::{Path, PathBuf};

/// Every Rust file below `folder`, tests inside files included: they must be as pure as what they test.
fn sources(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder)];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).expect("a source folder") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    assert!(!found.is_empty(), "src/{folder} has no sources");
    found
}

/// Asserts that no line of code below `folder` names any of `words`; comments may.
fn names_none_of(folder: &str, words: &[&str]) {
    for path in sources(folder) {
        let text = fs::read_to_string(&path).expect("a readable source");
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let named = words.iter().find(|word| code.contains(**word));
            assert_eq!(named, None, "{}:{} names what it must not know", path.display(), number + 1);
        }
    }
}

const IO: [&str; 11] = [
    "rdkafka",
    "tokio",
    "std::fs",
    "std::env",
    "std::net",
    "std::thread",
    "std::io",
    "SystemTime",
    "Instant",
    "tracing::",
    "metrics::",
];

#[test]
fn the_core_names_no_broker_runtime_file_or_clock() {
    names_none_of("core", &IO);
    let outer =
        ["codec", "pipeline", "kafka", "runtime", "telemetry", "cli", "settings", "trace", "snapshot"];
    let imports: Vec<_> = outer.iter().map(|module| format!("crate::{module}")).collect();
    names_none_of("core", &imports.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn the_pipeline_is_sans_io() {
    names_none_of("pipeline", &IO);
    names_none_of("pipeline", &["crate::kafka", "crate::runtime", "crate::telemetry", "crate::cli"]);
}

#[test]
fn preparing_is_a_function_of_the_record() {
    names_none_of("prepare", &IO);
    names_none_of("prepare", &["crate::kafka", "crate::runtime", "crate::telemetry", "crate::cli"]);
}

#[test]
fn only_the_kafka_module_names_rdkafka() {
    for folder in [
        "core",
        "codec",
        "pipeline",
        "prepare",
        "snapshot",
        "runtime",
        "telemetry",
        "live",
        "report",
        "trace",
        "workload",
        "model",
        "settings",
    ] {
        // The library's name may stand in a message; its code may not be named.
        names_none_of(folder, &["rdkafka::", "use rdkafka", "extern crate rdkafka"]);
    }
}

#[test]
fn the_report_is_a_function_of_facts() {
    names_none_of("report", &IO);
    names_none_of(
        "report",
        &["crate::kafka", "crate::runtime", "crate::telemetry", "crate::cli", "crate::trace"],
    );
}
