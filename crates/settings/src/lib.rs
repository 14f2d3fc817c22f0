//! Configuration: types, defaults, validation.
//!
//! [`sections`] declares every setting once; the rest of this module reads, checks, prints and
//! fingerprints what is declared there.
// Bad input, a bad disk or a bad broker is an error with a name, never a panic.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

#[macro_use]
mod declare;
#[macro_use]
mod field;
mod check;
mod engine;
mod exposure;
mod fingerprint;
mod load;
mod pool;
mod prepare;
mod problem;
mod properties;
mod questions;
mod reference;
mod render;
mod secret;
mod sections;
mod url;
mod values;

pub use declare::{FieldDoc, SettingsSection};
pub use field::Choice;
pub use load::ENVIRONMENT_PREFIX;
pub use pool::Provisioned;
pub use prepare::ModelDirectory;
pub use problem::{Problem, SettingsError};
pub use properties::Properties;
pub use questions::PoolQuestions;
pub use reference::reference_markdown;
pub use render::default_toml;
pub use secret::{MASK, Secret, SecretError};
pub use sections::{
    Commit, DeadLetters, EstimateSettings, Http, InputSettings, Kafka, LogSettings, OutputSettings, Plan,
    PoolSettings, Prepare, SchemaRegistry, ShutdownSettings, StateSettings, TierSettings, WorkersSettings,
};
pub use url::{HostName, HttpUrl, host_of, is_of_this_machine};
pub use values::{
    AssignmentStrategy, Delivery, GroupProtocol, Listen, LogFilter, LogFormat, OutputEncoding, PoolRate,
    Price, Size, Span, TokenCost, TopicName,
};

use config::{Map, Value, ValueKind};
use declare::TableReader;
use std::ffi::OsString;
use std::path::Path;

/// One section of a [`Settings`], for listing and printing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionDoc {
    /// Its name in the file.
    pub name: &'static str,
    /// What it is about, line by line.
    pub about: &'static [&'static str],
    /// Its settings with their present values.
    pub fields: Vec<FieldDoc>,
}

/// Declares [`Settings`] from its sections, in the order in which they are printed.
macro_rules! settings {
    ($( $(#[doc = $doc:literal])+ $name:ident: $Section:ident, )+) => {
        /// The configuration of the service.
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct Settings {
            $( $(#[doc = $doc])+ pub $name: $Section, )+
            /// Tiers to plan, from the fastest.
            pub tiers: Vec<TierSettings>,
            /// Settings of single pools.
            pub pools: Vec<PoolSettings>,
        }

        /// The names that may stand at the top of the file.
        const SECTIONS: &[&str] = &[$(stringify!($name),)+ "tiers", "pools"];

        impl Settings {
            /// Reads every section and notes every problem.
            fn read(mut root: Map<String, Value>, problems: &mut Vec<Problem>) -> Self {
                note_unknown_sections(&root, problems);
                Self {
                    $( $name: {
                        let (name, section) = (stringify!($name), root.remove(stringify!($name)));
                        $Section::read(&mut TableReader::open(name, section, &$Section::keys(), problems))
                    }, )+
                    tiers: read_list("tiers", root.remove("tiers"), problems),
                    pools: read_list("pools", root.remove("pools"), problems),
                }
            }

            /// Every section but the tiers and pools, with the present values, secrets masked.
            pub fn sections(&self) -> Vec<SectionDoc> {
                vec![$( SectionDoc {
                    name: stringify!($name),
                    about: $Section::ABOUT,
                    fields: self.$name.fields(),
                }, )+]
            }
        }
    };
}

settings! {
    /// Where the log is.
    kafka: Kafka,
    /// Where schemas are.
    schema_registry: SchemaRegistry,
    /// What comes in.
    input: InputSettings,
    /// What goes out.
    output: OutputSettings,
    /// How pools are estimated.
    estimate: EstimateSettings,
    /// When requirements have converged and recommendations change.
    plan: Plan,
    /// From raw logs to request events.
    prepare: Prepare,
    /// When unusable records are too many.
    dead_letters: DeadLetters,
    /// Snapshots.
    state: StateSettings,
    /// When to commit.
    commit: Commit,
    /// How to stop.
    shutdown: ShutdownSettings,
    /// Threads and queues.
    workers: WorkersSettings,
    /// Metrics and health.
    http: Http,
    /// Logging.
    log: LogSettings,
}

impl Settings {
    /// Loads the file, where one is given, and over it the process's environment.
    ///
    /// # Errors
    /// The file cannot be read or is no TOML; or all that is wrong with its keys and values.
    pub fn load(file: Option<&Path>) -> Result<Self, SettingsError> {
        Self::load_with(file, std::env::vars_os())
    }

    /// Like [`Settings::load`], with an environment of the caller's.
    pub fn load_with(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, SettingsError> {
        let read = |path: &Path| {
            std::fs::read_to_string(path)
                .map_err(|source| SettingsError::Read { path: path.to_owned(), source })
        };
        let text = file.map(read).transpose()?;
        Self::of_file(file.zip(text.as_deref()), variables)
    }

    /// Like [`Settings::load_with`], with a file that was already read.
    pub fn of_file(
        file: Option<(&Path, &str)>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, SettingsError> {
        let mut problems = Vec::new();
        let root = load::load(file, variables.into_iter(), &mut problems)?;
        let settings = Self::read(root, &mut problems);
        settings.check(&mut problems);
        if problems.is_empty() { Ok(settings) } else { Err(SettingsError::Invalid(problems)) }
    }

    /// The same settings, some of which were changed since they were read.
    ///
    /// # Errors
    /// What they contradict.
    pub fn checked(self) -> Result<Self, SettingsError> {
        let mut problems = Vec::new();
        self.check(&mut problems);
        if problems.is_empty() { Ok(self) } else { Err(SettingsError::Invalid(problems)) }
    }
}

/// Notes names at the top of the file that are no sections.
fn note_unknown_sections(root: &Map<String, Value>, problems: &mut Vec<Problem>) {
    let mut unknown: Vec<_> = root.iter().filter(|(name, _)| !SECTIONS.contains(&name.as_str())).collect();
    unknown.sort_by_key(|(name, _)| name.as_str());
    problems.extend(unknown.into_iter().map(|(name, value)| Problem {
        key: name.clone(),
        value: None,
        reason: problem::unknown_key(name, SECTIONS),
        origin: value.origin().map(str::to_owned),
    }));
}

/// Reads the blocks of a list.
fn read_list<S: SettingsSection>(name: &str, value: Option<Value>, problems: &mut Vec<Problem>) -> Vec<S> {
    let Some(value) = value else { return Vec::new() };
    let origin = value.origin().map(str::to_owned);
    let ValueKind::Array(entries) = value.kind else {
        let reason = format!("expected [[{name}]] blocks in the configuration file");
        problems.push(Problem { key: name.to_owned(), value: None, reason, origin });
        return Vec::new();
    };
    let entry = |(index, value)| {
        let path = format!("{name}[{index}]");
        S::read(&mut TableReader::open(&path, Some(value), &S::keys(), problems))
    };
    entries.into_iter().enumerate().map(entry).collect()
}

#[cfg(test)]
mod tests;
