//! What is wrong with a configuration: every problem at once, each with its key and the way out.

use std::fmt;
use std::path::PathBuf;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file could not be read.
    #[error("cannot read configuration file `{}`: {source}; {}", path.display(), advice(source))]
    Read {
        /// The file requested.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is no TOML. The offending text is left out: it may hold a secret.
    #[error("configuration file `{}` is not valid TOML at {position}: {reason}", path.display())]
    Syntax {
        /// The file requested.
        path: PathBuf,
        /// Line and column.
        position: String,
        /// What the parser expected.
        reason: String,
    },
    /// Keys or values that are not allowed.
    #[error("{}", list(.0))]
    Invalid(Vec<Problem>),
}

/// The way out for whoever cannot read a file.
fn advice(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::InvalidData => "save it as UTF-8",
        _ => "check the path and its permissions",
    }
}

impl SettingsError {
    /// The single problems; empty when the file could not be read at all.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Invalid(problems) => problems,
            Self::Read { .. } | Self::Syntax { .. } => &[],
        }
    }
}

/// One thing wrong with one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key with its section (`estimate.page_size`, `pools[2].page_size`).
    pub key: String,
    /// The value as written; left out where there is none or where it may be a secret.
    pub value: Option<String>,
    /// What would be right.
    pub reason: String,
    /// Where the value came from: the file, or the environment.
    pub origin: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.key)?;
        if let Some(value) = &self.value {
            write!(f, " = {value}")?;
        }
        write!(f, ": {}", self.reason)?;
        self.origin.as_ref().map_or(Ok(()), |origin| write!(f, " (from {origin})"))
    }
}

/// The problems, one per line, under a line that counts them.
fn list(problems: &[Problem]) -> String {
    let noun = if problems.len() == 1 { "problem" } else { "problems" };
    let mut text = format!("the configuration has {} {noun}:", problems.len());
    for problem in problems {
        text.push_str("\n  ");
        text.push_str(&problem.to_string());
    }
    text
}

/// A word for an unknown key, with the nearest known one or all of them.
pub(super) fn unknown_key(name: &str, known: &[&str]) -> String {
    /// How much alike two names must be (Jaro-Winkler, 0 to 1) to suggest one for the other.
    const ALIKE: f64 = 0.8;
    let nearest = known
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .max_by(|left, right| left.0.total_cmp(&right.0));
    match nearest {
        Some((alike, candidate)) if alike >= ALIKE => format!("unknown key; did you mean `{candidate}`?"),
        _ => format!("unknown key; known here are {}", known.join(", ")),
    }
}
