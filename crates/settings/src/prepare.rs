//! The types of settings that only `kvset prepare` has.

use super::field::{Choice, ValueRefusal, parsed};
use kvset_formats::codec::LetterContent;
use kvset_prepare::template::Template;
use kvset_prepare::{FieldPath, NumberUnit, Preset, RawFormat, TimeUnit};
use std::fmt;
use std::path::{Path, PathBuf};

/// A model directory, and the name of the model it is for; without one it is for every other name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelDirectory {
    name: Option<String>,
    directory: PathBuf,
}

impl ModelDirectory {
    /// The model's name.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What the commented default shows.
    pub(super) fn examples() -> Vec<Self> {
        let named = |name: &str, directory: &str| Self {
            name: Some(name.to_owned()),
            directory: PathBuf::from(directory),
        };
        vec![
            named("llama-70b", "/models/llama-70b"),
            Self { name: None, directory: PathBuf::from("/models/qwen3") },
        ]
    }
}

impl fmt::Display for ModelDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name}={}", self.directory.display()),
            None => write!(f, "{}", self.directory.display()),
        }
    }
}

impl ModelDirectory {
    fn of(text: &str) -> Result<Self, ValueRefusal> {
        let (name, directory) = match text.split_once('=') {
            Some((name, directory)) => (Some(name.to_owned()), directory),
            None => (None, text),
        };
        if directory.is_empty() || name.as_ref().is_some_and(String::is_empty) {
            return Err(ValueRefusal::NotAllowed);
        }
        Ok(Self { name, directory: PathBuf::from(directory) })
    }
}

text_fields! {
    ModelDirectory: "\"NAME=DIRECTORY\", or a directory for every other name", Self::of, Self::to_string;
    Template: "text with {field}, {field.of.field}, {key} or {header:NAME}; {field?} may be missing", parsed, Self::to_string;
    FieldPath: "a path of field names joined by dots", parsed, Self::to_string;
}

impl Choice for RawFormat {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("auto", RawFormat::Auto),
        ("openai", RawFormat::Openai),
        ("token-ids", RawFormat::TokenIds),
        ("page-ids", RawFormat::PageIds),
    ];
}

impl Choice for TimeUnit {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("auto", TimeUnit::Auto),
        ("s", TimeUnit::Stated(NumberUnit::Seconds)),
        ("ms", TimeUnit::Stated(NumberUnit::Milliseconds)),
        ("us", TimeUnit::Stated(NumberUnit::Microseconds)),
        ("ns", TimeUnit::Stated(NumberUnit::Nanoseconds)),
    ];
}

impl Choice for LetterContent {
    const NAMES: &'static [(&'static str, Self)] =
        &[("raw", LetterContent::Raw), ("redacted", LetterContent::Redacted), ("off", LetterContent::Off)];
}

impl Choice for Preset {
    const NAMES: &'static [(&'static str, Self)] = &Self::NAMES;
}
