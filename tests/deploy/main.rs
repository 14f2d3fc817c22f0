//! What is deployed fits the program: queries name metrics that are exported, manifests name commands,
//! settings, ports and paths that there are.

mod containers;
mod exported;
// Each test program uses its part of what they share.
#[allow(dead_code)]
#[path = "../kafka_support/mod.rs"]
mod kafka_support;
mod kubernetes;
mod one_number;
#[path = "../parts_support/mod.rs"]
mod parts_support;
mod prometheus;
mod promql;
#[path = "../python_support/mod.rs"]
mod python_support;
mod queries;
#[allow(dead_code)]
#[path = "../registry_support/mod.rs"]
mod registry_support;
mod rendered;
mod running;
mod scaling;

use clap::Parser as _;
use kvset::settings::Settings;
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A file of the repository.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A file of YAML with one document.
fn yaml(name: &str) -> Value {
    serde_saphyr::from_str(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The text at a JSON pointer.
fn text_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no text at {pointer}: {value}"))
}

/// The entries at a JSON pointer.
fn list_at<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.unwrap_or_else(|| panic!("no list at {pointer}: {value}"))
}

/// The texts of a list.
fn texts(list: &[Value]) -> Vec<String> {
    list.iter().map(|entry| entry.as_str().unwrap_or_else(|| panic!("no text: {entry}")).to_owned()).collect()
}

/// Asserts that the program takes these arguments.
fn takes(arguments: &[String]) {
    let all = ["kvset"].into_iter().chain(arguments.iter().map(String::as_str));
    if let Err(error) = kvset::cli::Cli::try_parse_from(all) {
        panic!("{arguments:?} is refused: {error}");
    }
}

/// Asserts that the program takes these settings from the environment, over the file where there is one.
fn settings(file: Option<&str>, variables: &[(String, String)]) -> Settings {
    let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let file = file.map(path);
    Settings::load_with(file.as_deref(), variables).unwrap_or_else(|error| panic!("{file:?}: {error}"))
}
