//! Secrets: written in place, or as a reference to where they are kept, and never printed.

use super::field::{Field, ValueRefusal, quoted, text_of};
use config::Value;
use std::fmt;

/// What is shown in place of a secret.
pub const MASK: &str = "********";

/// Why a reference to a secret leads nowhere. Names the setting and the place, never the value.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("{key} refers to file `{path}`, which cannot be read: {source}")]
    File {
        /// The setting.
        key: String,
        /// The file it refers to.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The environment variable is not set.
    #[error("{key} refers to environment variable `{variable}`, which is not set")]
    Environment {
        /// The setting.
        key: String,
        /// The variable it refers to.
        variable: String,
    },
}

/// Whether a text only says where a value is kept.
pub(super) fn is_reference(text: &str) -> bool {
    text.starts_with("file:") || text.starts_with("env:")
}

/// The text itself, or what it refers to; a file's last line break is not part of it.
pub(super) fn look_up(key: &str, text: &str) -> Result<String, SecretError> {
    if let Some(path) = text.strip_prefix("file:") {
        let fail = |source| SecretError::File { key: key.to_owned(), path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(fail)?;
        return Ok(text.trim_end_matches(['\r', '\n']).to_owned());
    }
    match text.strip_prefix("env:") {
        None => Ok(text.to_owned()),
        Some(variable) => std::env::var(variable)
            .map_err(|_| SecretError::Environment { key: key.to_owned(), variable: variable.to_owned() }),
    }
}

/// A secret as it is written in the configuration; empty for none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A secret, or `file:/path` or `env:NAME`, which say where it is kept.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether none is given.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The secret itself, read anew from where it is kept.
    ///
    /// # Errors
    /// `key`, which is the setting's name, refers to what is not there.
    pub fn resolve(&self, key: &str) -> Result<String, SecretError> {
        look_up(key, &self.0)
    }

    /// The secret that is written in place; none for a reference and for no secret.
    pub(super) fn literal(&self) -> Option<&str> {
        (!self.is_empty() && !is_reference(&self.0)).then_some(self.0.as_str())
    }

    /// What may be shown: the reference, or a mask.
    fn shown(&self) -> &str {
        if self.literal().is_some() { MASK } else { &self.0 }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Secret").field(&self.shown()).finish()
    }
}

impl Field for Secret {
    type Bound = bool;

    const MAY_BE_SECRET: bool = true;

    const ALLOWED: &'static str =
        "a text, or \"file:/path\" or \"env:NAME\", where it is looked up and never printed";

    fn read(value: &Value) -> Result<Self, ValueRefusal> {
        text_of(value).map(Self::new)
    }

    fn toml(&self) -> Option<String> {
        Some(quoted(self.shown()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked_and_a_reference_is_shown() {
        for (written, shown) in [("", ""), ("hunter2", MASK), ("env:NAME", "env:NAME")] {
            let secret = Secret::new(written);
            assert_eq!(secret.toml(), Some(quoted(shown)));
            assert_eq!(format!("{secret:?}"), format!("Secret({shown:?})"));
        }
    }
}
