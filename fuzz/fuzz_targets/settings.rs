//! Configuration: a TOML file, and behind a zero byte the environment, one variable a line. Seeds:
//! `fuzz/seeds/settings` and `config`.
#![no_main]

use kvset::settings::{File, Settings, SettingsError};
use libfuzzer_sys::fuzz_target;
use std::ffi::OsString;
use std::path::Path;

/// Stands where inputs hold a secret; no error may repeat it.
const SECRET: &str = "hunter2hunter2";

fuzz_target!(|input: &str| {
    let (text, environment) = input.split_once('\0').unwrap_or((input, ""));
    let variable = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((OsString::from(format!("KVSET__{name}")), OsString::from(value)))
    };
    let file = File { path: Path::new("fuzz.toml"), text };
    match Settings::of_file(Some(file), environment.lines().filter_map(variable)) {
        Ok(settings) => drop(settings.sections()),
        Err(SettingsError::Invalid(problems)) => {
            assert!(!problems.is_empty());
            let secrets = problems.iter().filter(|problem| problem.key.ends_with("password"));
            for problem in secrets {
                assert!(!problem.to_string().contains(SECRET), "a secret is shown");
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
