//! Values that are read from a text.

/// Why a text is not what it should be: it says what is expected, and quotes the text unless that is secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TextError(pub(crate) String);

/// The value of this name among all of a kind; the error names them.
///
/// # Errors
/// None has this name.
pub fn named<T: Copy>(all: &[(&str, T)], kind: &str, text: &str) -> Result<T, String> {
    all.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
        format!("unknown {kind} `{text}`: expected one of {}", names.join(", "))
    })
}
