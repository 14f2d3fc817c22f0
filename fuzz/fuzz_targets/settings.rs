//! Configuration: a TOML file, and behind a zero byte the environment, one variable a line. Seeds:
//! `fuzz/seeds/settings` and `config`.
#![no_main]

use kvset::settings::{Problem, Settings, SettingsError, SettingsFile};
use libfuzzer_sys::fuzz_target;
use std::ffi::OsString;
use std::path::Path;

/// Stands where inputs hold a secret; no error may repeat it.
const SECRET: &str = "hunter2hunter2";

/// Where it stands.
const SECRET_KEYS: [&str; 2] = ["schema_registry.password", "kafka.properties.\"sasl.password\""];

fuzz_target!(|input: &str| {
    let (text, environment) = input.split_once('\0').unwrap_or((input, ""));
    let variable = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((OsString::from(format!("KVSET__{name}")), OsString::from(value)))
    };
    let file = SettingsFile { path: Path::new("fuzz.toml"), text };
    match Settings::of_file(Some(file), environment.lines().filter_map(variable)) {
        Ok(settings) => drop(settings.sections()),
        Err(SettingsError::Invalid(problems)) => {
            assert!(!problems.is_empty());
            let is_secret = |problem: &&Problem| SECRET_KEYS.contains(&problem.key.as_str());
            let secrets = problems.iter().filter(is_secret);
            for problem in secrets {
                assert!(!problem.to_string().contains(SECRET), "a secret is shown");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
