//! Values that are read from a text.

/// Why a text is not what it should be: it says what is expected, and quotes the text unless that is secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TextError(pub(crate) String);
