//! Why a model cannot be used, and why a request is refused. No text quotes a prompt.

use std::borrow::Cow;
use std::fmt;
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

/// Why a request was refused. The names are a contract: dead-letter headers and metric labels carry
/// them; new ones may be added, none changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TokenizeCode {
    /// Not JSON, or a known field has the wrong type.
    InvalidBody,
    /// Neither `messages` nor `prompt` is there, or a message lacks what it needs.
    MissingField,
    /// Images, audio, video, files or another content that is not text.
    UnsupportedContent,
    /// A field that changes the prompt in a way this program does not follow.
    UnsupportedField,
    /// A field that is part of the prompt in the API the body was written for, and that no chat template
    /// renders; the detail names it.
    UnrenderedField,
    /// Messages, but the model has no chat template.
    NoChatTemplate,
    /// The chat template called `raise_exception`.
    TemplateRefused,
    /// The chat template failed on these messages.
    TemplateFailed,
    /// The tokenizer failed on this text.
    TokenizerFailed,
    /// The body, or the prompt made from it, is larger than its limit.
    RequestTooLarge,
}

impl TokenizeCode {
    /// Every code with its stable name, in the order of this page: the name of a refusal is that of its record's.
    pub const NAMES: [(Self, &'static str); 10] = [
        (Self::InvalidBody, "invalid_body"),
        (Self::MissingField, "missing_field"),
        (Self::UnsupportedContent, "unsupported_content"),
        (Self::UnsupportedField, "unsupported_field"),
        (Self::UnrenderedField, "unrendered_field"),
        (Self::NoChatTemplate, "no_chat_template"),
        (Self::TemplateRefused, "template_refused"),
        (Self::TemplateFailed, "template_failed"),
        (Self::TokenizerFailed, "tokenizer_failed"),
        (Self::RequestTooLarge, "request_too_large"),
    ];

    /// The stable name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }
}

impl fmt::Display for TokenizeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A refused request: the bounded code and one line for people, made of fixed words, field names,
/// positions, counts and limits only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct TokenizeError {
    code: TokenizeCode,
    detail: Cow<'static, str>,
}

impl TokenizeError {
    /// A refusal with this code; `detail` must quote no payload.
    pub(super) fn new(code: TokenizeCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { code, detail: detail.into() }
    }

    /// Translates a JSON parser's error without its text, which may quote the body.
    pub(super) fn from_json(error: &serde_json::Error) -> Self {
        use serde_json::error::Category;
        let what = match error.classify() {
            Category::Eof => "the JSON breaks off",
            Category::Data => "a field has the wrong type",
            Category::Syntax | Category::Io => "not valid JSON",
        };
        let detail = format!("{what}, at or before byte {} of line {}", error.column(), error.line());
        Self::new(TokenizeCode::InvalidBody, detail)
    }

    /// The bounded code.
    pub fn code(&self) -> TokenizeCode {
        self.code
    }

    /// One line for people.
    pub fn detail(&self) -> &str {
        &self.detail
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_code_is_its_variant_in_snake_case() {
        let names: BTreeSet<_> = TokenizeCode::NAMES.iter().map(|(code, _)| code.name()).collect();
        assert_eq!(names.len(), TokenizeCode::NAMES.len());
        for (code, _) in TokenizeCode::NAMES {
            let camel: String =
                code.name().split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
            assert_eq!(camel, format!("{code:?}"));
        }
    }
}
