//! The schema registry of a run: opening it, and the ids of the schemas that are written.

use crate::backoff::Backoff;
use crate::clock::SystemClock;
use kvset_formats::codec::SchemaId;
use kvset_kafka::registry::cache::SchemaCache;
use kvset_kafka::registry::client::{RegistryClient, RegistryFailure, RegistryOpenError};
use kvset_settings::SchemaRegistry;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// Why a registry cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Something that the settings refer to is not there.
    #[error(transparent)]
    Open(#[from] RegistryOpenError),
    /// The registry does not answer as it should.
    #[error(transparent)]
    Failure(#[from] RegistryFailure),
    /// The schema is not registered, and may not be by this program.
    #[error(
        "schema registry {url}: subject `{subject}` does not have the schema this program writes: register it \
         there, or set schema_registry.auto_register = true"
    )]
    NotRegistered {
        /// The registry.
        url: String,
        /// Where the schema was looked for.
        subject: String,
    },
}

/// The registry that the settings name, if they do; nothing is asked yet.
///
/// # Errors
/// A file or a secret that the settings refer to is not there.
pub fn open(settings: &SchemaRegistry) -> Result<Option<Arc<SchemaCache>>, RegistryOpenError> {
    if settings.url.as_str().is_empty() {
        return Ok(None);
    }
    let max_schemas = NonZeroUsize::new(settings.max_schemas as usize).unwrap_or(NonZeroUsize::MIN);
    Ok(Some(Arc::new(SchemaCache::new(RegistryClient::open(settings)?, max_schemas))))
}

/// The id of the schema that values of this topic are written with; passing troubles are waited out
/// for `retry_for`. Subjects are named as Confluent's `TopicNameStrategy` does.
///
/// # Errors
/// The registry does not answer in time, refuses, or does not have it.
pub fn id_of_values(
    settings: &SchemaRegistry,
    client: &RegistryClient,
    topic: &str,
    schema: &str,
    retry_for: Duration,
) -> Result<SchemaId, RegistryError> {
    let subject = format!("{topic}-value");
    let ask = || {
        if settings.auto_register {
            client.register(&subject, schema).map(Some)
        } else {
            client.registered(&subject, schema)
        }
    };
    let mut retry = Backoff::lasting(&SystemClock, retry_for);
    let found = loop {
        match ask() {
            Err(RegistryFailure::Passing(reason)) if retry.wait() => tracing::warn!("{reason}"),
            answer => break answer?,
        }
    };
    let url = settings.url.as_str().to_owned();
    found.ok_or(RegistryError::NotRegistered { url, subject })
}
