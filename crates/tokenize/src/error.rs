//! Why a model cannot be used, and why a body is refused. No text quotes a prompt.

use kvset_core::request::refusal::{DecodeError, ErrorCode};
use std::path::PathBuf;

/// A model directory that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A file that every model needs is missing, or a file cannot be read.
    #[error("cannot read {}: {source}; a model directory holds tokenizer.json, tokenizer_config.json and, for chats, chat_template.jinja", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// `tokenizer.json` is not one that the `tokenizers` library reads.
    #[error("{file} is no tokenizer that can be used: {reason}")]
    Tokenizer {
        /// The file's name.
        file: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// `tokenizer_config.json` is not JSON, or a field has the wrong type.
    #[error("{file} is not a tokenizer's configuration: {reason}")]
    Config {
        /// The file's name.
        file: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A chat template does not parse.
    #[error("the chat template {name} does not parse: {reason}")]
    Template {
        /// `default`, `tool_use` or another name the model gives it.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Translates a JSON parser's error without its text, which may quote the body.
pub(super) fn of_json(error: &serde_json::Error) -> DecodeError {
    use serde_json::error::Category;
    let what = match error.classify() {
        Category::Eof => "the JSON breaks off",
        Category::Data => "a field has the wrong type",
        Category::Syntax | Category::Io => "not valid JSON",
    };
    let detail = format!("{what}, at or before byte {} of line {}", error.column(), error.line());
    DecodeError::new(ErrorCode::InvalidBody, detail)
}
