//! A model directory: its tokenizer, its chat templates and the tokens they name. No weights.

use super::encoder::{Encoder, TOKENIZER_FILE};
use super::error::ModelError;
use super::fields::ObjectFields;
use super::template::ChatTemplates;
use minijinja::Value;
use minijinja::value::ValueKind;
use std::fmt;
use std::path::Path;
use xxhash_rust::xxh3::Xxh3;

const CONFIG_FILE: &str = "tokenizer_config.json";
const TEMPLATE_FILE: &str = "chat_template.jinja";
const TEMPLATE_FOLDER: &str = "additional_chat_templates";
const TEMPLATE_EXTENSION: &str = "jinja";

/// What a model does to a request before it computes: render, then tokenise. Shared by threads.
pub struct Model {
    pub(super) encoder: Encoder,
    /// None where the model has no chat template.
    pub(super) templates: Option<ChatTemplates>,
    /// `bos_token` and its like, which templates name.
    pub(super) specials: Vec<(String, Value)>,
    fingerprint: u64,
}

/// The texts of the files a model is made of.
#[derive(Debug, Clone, Default)]
pub struct ModelFiles {
    /// `tokenizer.json`.
    pub tokenizer: Vec<u8>,
    /// `tokenizer_config.json`; empty where there is none.
    pub config: Vec<u8>,
    /// `chat_template.jinja` as `default`, and `additional_chat_templates/NAME.jinja` as NAME.
    pub templates: Vec<(String, String)>,
}

impl ModelFiles {
    /// Reads a model directory.
    ///
    /// # Errors
    /// [`ModelError::Read`] where `tokenizer.json` is missing or a file cannot be read.
    pub fn read(directory: &Path) -> Result<Self, ModelError> {
        let read = |name: &str| {
            let file = directory.join(name);
            std::fs::read(&file).map_err(|source| ModelError::Read { file, source })
        };
        Ok(Self {
            tokenizer: read(TOKENIZER_FILE)?,
            config: optional(read(CONFIG_FILE))?.unwrap_or_default(),
            templates: read_templates(directory)?,
        })
    }
}

/// Nothing where the file is not there.
fn optional<T>(read: Result<T, ModelError>) -> Result<Option<T>, ModelError> {
    match read {
        Err(ModelError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

fn read_templates(directory: &Path) -> Result<Vec<(String, String)>, ModelError> {
    let read = |file: std::path::PathBuf| {
        std::fs::read_to_string(&file).map_err(|source| ModelError::Read { file, source })
    };
    let mut templates = Vec::new();
    if let Some(default) = optional(read(directory.join(TEMPLATE_FILE)))? {
        templates.push(("default".to_owned(), default));
    }
    let folder = directory.join(TEMPLATE_FOLDER);
    let failed = |source| ModelError::Read { file: folder.clone(), source };
    let Some(entries) = optional(std::fs::read_dir(&folder).map_err(failed))? else { return Ok(templates) };
    let mut files = Vec::new();
    for entry in entries {
        files.push(entry.map_err(failed)?.path());
    }
    // A directory lists its files in any order.
    files.sort();
    for file in files {
        let name = file.file_stem().and_then(|name| name.to_str()).map(str::to_owned);
        let is_template = file.extension().is_some_and(|extension| extension == TEMPLATE_EXTENSION);
        if let Some(name) = name.filter(|_| is_template) {
            templates.push((name, read(file)?));
        }
    }
    Ok(templates)
}

impl Model {
    /// Loads a model directory: `tokenizer.json`, `tokenizer_config.json`, `chat_template.jinja` and
    /// `additional_chat_templates/`. A template file goes before one in the configuration.
    ///
    /// # Errors
    /// [`ModelError`] when a file cannot be read or used.
    pub fn load(directory: &Path) -> Result<Self, ModelError> {
        Self::new(ModelFiles::read(directory)?)
    }

    /// A model of files already read.
    ///
    /// # Errors
    /// [`ModelError`] when one of them cannot be used.
    pub fn new(files: ModelFiles) -> Result<Self, ModelError> {
        let fingerprint = fingerprint(&files);
        let config = match files.config.is_empty() {
            true => ObjectFields::default(),
            false => serde_json::from_slice(&files.config)
                .map_err(|error| ModelError::Config { file: CONFIG_FILE, reason: error.to_string() })?,
        };
        let mut templates = files.templates;
        for (name, source) in configured_templates(&config)? {
            if !templates.iter().any(|(known, _)| *known == name) {
                templates.push((name, source));
            }
        }
        let specials = special_tokens(&config);
        let templates = match templates.is_empty() {
            true => None,
            false => Some(ChatTemplates::compile(templates, &specials)?),
        };
        Ok(Self { encoder: Encoder::from_json(&files.tokenizer)?, templates, specials, fingerprint })
    }

    /// Identifies the files: equal fingerprints mean equal token ids for equal requests.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("fingerprint", &format_args!("{:016x}", self.fingerprint))
            .field("has_chat_template", &self.templates.is_some())
            .finish_non_exhaustive()
    }
}

impl PartialEq for Model {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl Eq for Model {}

fn fingerprint(files: &ModelFiles) -> u64 {
    let mut hash = Xxh3::new();
    let mut part = |bytes: &[u8]| {
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    part(&files.tokenizer);
    part(&files.config);
    for (name, source) in &files.templates {
        part(name.as_bytes());
        part(source.as_bytes());
    }
    hash.digest()
}

/// The templates in the configuration: one, or a list of named ones.
fn configured_templates(config: &ObjectFields) -> Result<Vec<(String, String)>, ModelError> {
    let wrong = || ModelError::Config {
        file: CONFIG_FILE,
        reason: "chat_template is neither a string nor a list of names and templates".to_owned(),
    };
    let Some(configured) = config.get("chat_template").filter(|value| !value.is_none()) else {
        return Ok(Vec::new());
    };
    if let Some(source) = configured.as_str() {
        return Ok(vec![("default".to_owned(), source.to_owned())]);
    }
    let field = |entry: &Value, name: &str| -> Result<String, ModelError> {
        let value = entry.get_attr(name).map_err(|_| wrong())?;
        value.as_str().map(str::to_owned).ok_or_else(wrong)
    };
    let entries = configured.try_iter().map_err(|_| wrong())?;
    entries.map(|entry| Ok((field(&entry, "name")?, field(&entry, "template")?))).collect()
}

/// `bos_token` and every other field that names a token, by its text.
fn special_tokens(config: &ObjectFields) -> Vec<(String, Value)> {
    let named = config.0.iter().filter(|(name, _)| name.ends_with("_token"));
    let texts = named.filter_map(|(name, value)| {
        let text = match value.kind() {
            ValueKind::String => value.clone(),
            ValueKind::Map => value.get_attr("content").ok()?,
            _ => return None,
        };
        Some((name.clone(), text))
    });
    texts.collect()
}
