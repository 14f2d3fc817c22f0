//! The shape of the program, kept true: imports point inward and the core stays pure (docs/design.md, section 3).

use std::fs;
use std::path::{Path, PathBuf};

/// Every Rust file below `folder`, or the one file that it is, tests inside files included: they must be as pure as
/// what they test.
fn sources(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    if whole.is_file() {
        return vec![whole];
    }
    let mut pending = vec![whole];
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
    assert!(!found.is_empty(), "{folder} has no sources");
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
    names_none_of("crates/core/src", &IO);
}

#[test]
fn the_pipeline_is_sans_io() {
    names_none_of("crates/pipeline/src", &IO);
}

#[test]
fn preparing_is_a_function_of_the_record() {
    names_none_of("crates/prepare/src", &IO);
}

/// The parts of `src/present`, each of which may name those before it.
const PRESENT: [&str; 7] = ["words.rs", "document", "questions", "pool", "plots", "html", "terminal"];

#[test]
fn what_is_shown_is_a_function_of_facts() {
    let outer = ["kvset_kafka", "kvset_service", "kvset_formats", "crate::telemetry", "crate::cli"];
    for part in PRESENT.iter().filter(|part| **part != "terminal") {
        let path = format!("src/present/{part}");
        names_none_of(&path, &IO);
        names_none_of(&path, &outer);
    }
}

#[test]
fn parts_of_what_is_shown_name_those_before_them() {
    for (at, part) in PRESENT.iter().enumerate() {
        let later: Vec<String> = PRESENT[at + 1..]
            .iter()
            .map(|later| format!("present::{}::", later.trim_end_matches(".rs")))
            .collect();
        let later: Vec<&str> = later.iter().map(String::as_str).collect();
        names_none_of(&format!("src/present/{part}"), &later);
    }
}

/// Which layers each layer may name in its manifest; cargo refuses to compile what names others.
const LAYERS: [(&str, &[&str]); 9] = [
    ("core", &[]),
    ("tokenize", &["core"]),
    ("formats", &["core", "tokenize"]),
    ("prepare", &["core", "formats", "tokenize"]),
    ("pipeline", &["core", "formats"]),
    ("snapshot", &["core", "formats", "pipeline"]),
    ("settings", &["core", "formats", "prepare"]),
    ("kafka", &["core", "formats", "pipeline", "settings"]),
    ("service", &["core", "formats", "kafka", "pipeline", "prepare", "settings", "snapshot", "tokenize"]),
];

#[test]
fn each_layer_depends_on_the_layers_below_it_only() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = fs::read_dir(root.join("crates")).expect("the layers").count();
    assert_eq!(folders, LAYERS.len(), "every folder of crates/ is a layer of this list");
    for (layer, below) in LAYERS {
        let path = root.join("crates").join(layer).join("Cargo.toml");
        let manifest: toml::Table =
            fs::read_to_string(&path).expect("a manifest").parse().expect("a readable manifest");
        let dependencies = manifest["dependencies"].as_table().expect("dependencies");
        for name in dependencies.keys() {
            if let Some(named) = name.strip_prefix("kvset-") {
                assert!(below.contains(&named), "{layer} depends on {named}");
            }
        }
        let brokers = dependencies.contains_key("rdkafka");
        assert_eq!(brokers, layer == "kafka", "{layer}: only kafka names rdkafka");
    }
}

/// A comment is no wider than what fits beside the code; a row of a table is one line, whatever its length.
#[test]
fn comments_are_no_wider_than_the_page() {
    const MOST: usize = 121;
    let is_table = |line: &str| line.trim_start().trim_start_matches(['/', '!']).starts_with(" |");
    for path in ["src", "crates", "tests", "benches"].iter().flat_map(|folder| sources(folder)) {
        let text = fs::read_to_string(&path).expect("a readable source");
        for (number, line) in text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//"))
        {
            let is_narrow = line.chars().count() <= MOST || is_table(line);
            assert!(is_narrow, "{}:{} is wider than {MOST} characters", path.display(), number + 1);
        }
    }
}
