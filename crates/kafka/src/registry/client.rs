//! Single requests to a registry.
//!
//! No text made here repeats what a server answered, for it may repeat what it was sent.

use super::answer;
use crate::authorities::AuthoritiesError;
use crate::http;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kvset_core::units::features::{Feature, MissingFeature};
use kvset_formats::codec::{SchemaId, SchemaRef, WriterSchema, uuid};
use kvset_settings::{SchemaRegistry, Secret, SecretError};
use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body};

/// The largest answer read, in bytes; schemas are some kilobytes.
const MAX_ANSWER: u64 = 4 << 20;
/// What registries call their kind of JSON.
const CONTENT_TYPE: &str = "application/vnd.schemaregistry.v1+json";

/// A failed request, by what it asks for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryFailure {
    /// The same request may be answered later.
    #[error("{0}")]
    Passing(String),
    /// Somebody must change something first.
    #[error("{0}")]
    Lasting(String),
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum RegistryOpenError {
    /// A secret cannot be looked up.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The file of certificates cannot be used.
    #[error("schema_registry.ca_file: {0}")]
    Authorities(#[from] AuthoritiesError),
    /// This build cannot ask it.
    #[error("schema_registry.{setting}: {missing}")]
    Missing {
        /// The setting that asks for more.
        setting: &'static str,
        /// What it needs.
        missing: MissingFeature,
    },
}

/// The setting of a registry that needs TLS, where there is one.
pub fn needs_tls(settings: &SchemaRegistry) -> Option<&'static str> {
    match &settings.ca_file {
        _ if settings.url.as_str().starts_with("https:") => Some("url"),
        Some(_) => Some("ca_file"),
        None => None,
    }
}

/// Asks one registry.
#[derive(Debug)]
pub struct RegistryClient {
    agent: Agent,
    url: String,
    username: String,
    password: Secret,
    token: Secret,
}

impl RegistryClient {
    /// A client for the registry that the settings name; nothing is asked yet.
    ///
    /// # Errors
    /// A file or a secret that the settings refer to is not there.
    pub fn open(settings: &SchemaRegistry) -> Result<Self, RegistryOpenError> {
        if let Some(setting) = needs_tls(settings) {
            let tls = Feature::Tls.require(cfg!(feature = "tls"));
            tls.map_err(|missing| RegistryOpenError::Missing { setting, missing })?;
        }
        let agent = http::agent(settings.ca_file.as_deref(), settings.timeout.as_duration())?;
        let client = Self {
            agent,
            url: settings.url.as_str().to_owned(),
            username: settings.username.clone(),
            password: settings.password.clone(),
            token: settings.token.clone(),
        };
        client.authorization()?;
        Ok(client)
    }

    /// The schema of this name, if there is one.
    ///
    /// # Errors
    /// No answer, or none that says so.
    pub fn schema(&self, name: SchemaRef) -> Result<Option<WriterSchema>, RegistryFailure> {
        let path = match name {
            SchemaRef::Id(id) => format!("/schemas/ids/{id}"),
            SchemaRef::Guid(guid) => format!("/schemas/guids/{}", uuid(guid)),
        };
        self.ask(&path, None, |body| answer::schema(name, body))
    }

    /// The id this schema has under a subject, if it was registered there.
    ///
    /// # Errors
    /// No answer, or none that says so.
    pub fn registered(&self, subject: &str, schema: &str) -> Result<Option<SchemaId>, RegistryFailure> {
        self.ask(&format!("/subjects/{subject}"), Some(schema), answer::id)
    }

    /// Registers a schema under a subject, where it is not yet, and gives its id.
    ///
    /// # Errors
    /// No answer; the subject's compatibility forbids the schema; no right to.
    pub fn register(&self, subject: &str, schema: &str) -> Result<SchemaId, RegistryFailure> {
        let path = format!("/subjects/{subject}/versions");
        let id = self.ask(&path, Some(schema), answer::id)?;
        id.ok_or_else(|| self.lasting(&path, "cannot register there: check schema_registry.url"))
    }

    /// Asks once and gives what `read` finds in the answer; `None` when the registry says that there is
    /// no such thing.
    fn ask<T>(
        &self,
        path: &str,
        schema: Option<&str>,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, RegistryFailure> {
        let response = self.send(path, schema)?;
        let status = response.status();
        let body = response.into_body().into_with_config().limit(MAX_ANSWER).read_to_vec();
        let body = body.map_err(|error| self.failure(path, &error))?;
        if status == StatusCode::OK {
            let foreign =
                || self.lasting(path, "the answer is not a schema registry's: check schema_registry.url");
            return read(&body).map(Some).ok_or_else(foreign);
        }
        match (status.as_u16(), answer::error_code(&body)) {
            (404, Some(40401..=40403)) => Ok(None),
            (status, code) => Err(self.refusal(path, status, code)),
        }
    }

    fn send(&self, path: &str, schema: Option<&str>) -> Result<Response<Body>, RegistryFailure> {
        let authorization =
            self.authorization().map_err(|error| RegistryFailure::Lasting(error.to_string()))?;
        let unfit =
            || self.lasting(path, "schema_registry.token holds characters that a header cannot carry");
        let header = |value| http::secret_header(value).ok_or_else(unfit);
        let authorization = authorization.map(header).transpose()?;
        let url = format!("{}{path}", self.url);
        let sent = match schema {
            None => {
                let mut request = self.agent.get(url).header("Accept", CONTENT_TYPE);
                if let Some(value) = authorization {
                    request = request.header("Authorization", value);
                }
                request.call()
            }
            Some(schema) => {
                let question = serde_json::json!({ "schema": schema }).to_string();
                let mut request =
                    self.agent.post(url).header("Accept", CONTENT_TYPE).content_type(CONTENT_TYPE);
                if let Some(value) = authorization {
                    request = request.header("Authorization", value);
                }
                request.send(question)
            }
        };
        sent.map_err(|error| self.failure(path, &error))
    }

    /// The value of the header that says who asks.
    fn authorization(&self) -> Result<Option<String>, SecretError> {
        if !self.token.is_empty() {
            return Ok(Some(format!("Bearer {}", self.token.resolve("schema_registry.token")?)));
        }
        if self.username.is_empty() {
            return Ok(None);
        }
        let password = self.password.resolve("schema_registry.password")?;
        Ok(Some(format!("Basic {}", STANDARD.encode(format!("{}:{password}", self.username)))))
    }

    fn lasting(&self, path: &str, what: &str) -> RegistryFailure {
        RegistryFailure::Lasting(self.text(path, what))
    }

    fn text(&self, path: &str, what: &str) -> String {
        format!("schema registry {}{path}: {what}", self.url)
    }

    /// A request that got no answer.
    fn failure(&self, path: &str, error: &ureq::Error) -> RegistryFailure {
        match error {
            _ if http::is_untrusted(error) => RegistryFailure::Lasting(self.text(
                path,
                &format!("no secure connection: {error}; check schema_registry.ca_file and the server's certificate"),
            )),
            ureq::Error::BodyExceedsLimit(limit) => {
                self.lasting(path, &format!("the answer is larger than {limit} bytes"))
            }
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
                self.lasting(path, "no such address: check schema_registry.url")
            }
            error => RegistryFailure::Passing(self.text(path, &error.to_string())),
        }
    }

    /// An answer that is not the one requested.
    fn refusal(&self, path: &str, status: u16, code: Option<u32>) -> RegistryFailure {
        let code = code.map(|code| format!(" (error code {code})")).unwrap_or_default();
        let advice = match status {
            401 | 403 => "; check schema_registry.username and password, or token, and their rights",
            300..=399 => ", a redirect, which is not followed: set schema_registry.url to where it leads",
            404 => ", which is not a schema registry's: check schema_registry.url",
            409 | 422 => "; the subject's compatibility refuses this version of the schema",
            _ => "",
        };
        let text = self.text(path, &format!("answered {status}{code}{advice}"));
        match status {
            408 | 429 | 500.. => RegistryFailure::Passing(text),
            _ => RegistryFailure::Lasting(text),
        }
    }
}
