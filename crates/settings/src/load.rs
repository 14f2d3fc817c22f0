//! From a file and the environment to one tree of values, each knowing where it came from.

use super::problem::{Problem, SettingsError};
use config::{Config, ConfigError, Environment, Map, Source, Value, ValueKind};
use std::ffi::OsString;
use std::path::Path;

/// Environment variables with this prefix are settings: `KVSET__ESTIMATE__PAGE_SIZE`.
pub const ENVIRONMENT_PREFIX: &str = "KVSET__";

/// What the `config` crate calls the environment.
const ENVIRONMENT_ORIGIN: &str = "the environment";

/// Whether a value came from the environment, where everything is a text.
pub fn from_environment(value: &Value) -> bool {
    value.origin() == Some(ENVIRONMENT_ORIGIN)
}

/// A TOML file that was already read, as a source of the `config` crate.
#[derive(Debug, Clone)]
struct TomlFile {
    origin: String,
    table: toml::Table,
}

impl Source for TomlFile {
    fn clone_into_box(&self) -> Box<dyn Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ConfigError> {
        let convert = |(key, value): (&String, &toml::Value)| (key.clone(), convert(&self.origin, value));
        Ok(self.table.iter().map(convert).collect())
    }
}

/// One TOML value, marked with the file it came from.
fn convert(origin: &String, value: &toml::Value) -> Value {
    let kind = match value {
        toml::Value::String(text) => ValueKind::String(text.clone()),
        toml::Value::Integer(number) => ValueKind::I64(*number),
        toml::Value::Float(number) => ValueKind::Float(*number),
        toml::Value::Boolean(flag) => ValueKind::Boolean(*flag),
        toml::Value::Datetime(moment) => ValueKind::String(moment.to_string()),
        toml::Value::Array(entries) => {
            ValueKind::Array(entries.iter().map(|entry| convert(origin, entry)).collect())
        }
        toml::Value::Table(table) => {
            ValueKind::Table(table.iter().map(|(key, value)| (key.clone(), convert(origin, value))).collect())
        }
    };
    Value::new(Some(origin), kind)
}

/// Parses a file. The parser's own message is not passed on whole: it quotes the line, which may hold a
/// secret.
fn parse(path: &Path, text: &str) -> Result<TomlFile, SettingsError> {
    let table = text.parse::<toml::Table>().map_err(|error| SettingsError::Syntax {
        path: path.to_owned(),
        position: position(text, error.span().map_or(0, |span| span.start)),
        reason: error.message().to_owned(),
    })?;
    Ok(TomlFile { origin: path.display().to_string(), table })
}

/// `line 3, column 7` of a byte offset.
fn position(text: &str, offset: usize) -> String {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    format!("line {line}, column {column}")
}

/// The variables that are settings; those that cannot be are noted.
fn settings_variables(
    variables: impl Iterator<Item = (OsString, OsString)>,
    problems: &mut Vec<Problem>,
) -> Map<String, String> {
    let mut found = Map::new();
    for (name, value) in variables {
        let Some(name) =
            name.to_str().filter(|name| name.to_ascii_uppercase().starts_with(ENVIRONMENT_PREFIX))
        else {
            continue;
        };
        let mut refuse = |reason: &str| {
            let origin = Some(ENVIRONMENT_ORIGIN.to_owned());
            problems.push(Problem { key: name.to_owned(), value: None, reason: reason.to_owned(), origin });
        };
        match value.into_string() {
            Err(_) => refuse("the value is not valid UTF-8"),
            // An index would make the `config` crate fill a list up to it.
            Ok(_) if name.contains(['[', ']']) => refuse("lists are written whole, separated by commas"),
            Ok(value) => {
                found.insert(name.to_owned(), value);
            }
        }
    }
    found
}

/// The tree of all values: the file's, by where it was read, which errors name, and what it holds; and over it the
/// environment's.
pub fn load(
    file: Option<(&Path, &str)>,
    variables: impl Iterator<Item = (OsString, OsString)>,
    problems: &mut Vec<Problem>,
) -> Result<Map<String, Value>, SettingsError> {
    let mut builder = Config::builder();
    let mut root = Map::new();
    if let Some((path, text)) = file {
        let mut file = parse(path, text)?;
        // Top-level names are taken as paths by the `config` crate; a name that is no plain word is
        // unknown anyway, and goes round it.
        let plain = |key: &str| key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let odd: Vec<String> = file.table.keys().filter(|key| !plain(key)).cloned().collect();
        for key in odd {
            if let Some(value) = file.table.remove(&key) {
                root.insert(key, convert(&file.origin, &value));
            }
        }
        builder = builder.add_source(file);
    }
    let variables = settings_variables(variables, problems);
    let environment = Environment::with_prefix("KVSET").prefix_separator("__").separator("__");
    let merged = builder.add_source(environment.source(Some(variables))).build();
    match merged.map(|config| config.cache.kind) {
        Ok(ValueKind::Table(table)) => root.extend(table),
        Ok(_) => {}
        Err(error) => problems.push(Problem {
            key: "configuration".to_owned(),
            value: None,
            reason: error.to_string(),
            origin: None,
        }),
    }
    Ok(root)
}
