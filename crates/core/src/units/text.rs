//! Values that are read from a text.

/// Why a text is not what it should be: it quotes the text and says what is expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TextError(pub(crate) String);
