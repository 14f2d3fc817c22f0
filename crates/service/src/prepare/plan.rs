//! From settings to what prepare is made of.

#[cfg(not(feature = "tokenize"))]
use crate::plan::features;
use crate::plan::schemas::{self, RegistryError};
use crate::plan::{Ends, PlanError, StreamPlan, dead_letter_limits, max_letter_bytes};
#[cfg(feature = "tokenize")]
use kvset_core::engines::chat_engine::ChatEngine;
use kvset_core::units::PageSize;
use kvset_core::units::ratio::Ratio;
use kvset_core::units::text::TextError;
use kvset_formats::codec::DecodeLimits;
use kvset_kafka::registry::cache::SchemaCache;
use kvset_pipeline::dead_letter_policy::DeadLetterLimits;
use kvset_prepare::template::{FieldPlace, TemplatePart};
use kvset_prepare::{PageRules, Places, PrepareLimits, Preparer, Recipe, Tokenizers};
use kvset_settings::{ModelDirectory, Settings};
use std::sync::Arc;

/// Everything prepare is made of.
#[derive(Clone)]
pub struct PreparePlan {
    /// Its topics, its group and its pace.
    pub stream: StreamPlan,
    /// What shapes its output.
    pub recipe: Arc<Recipe>,
    /// The models.
    pub tokenizers: Tokenizers,
    /// How many refusals are tolerated.
    pub dead_letters: DeadLetterLimits,
    /// The schema registry, where there is one.
    pub registry: Option<Arc<SchemaCache>>,
}

/// Why there is nothing to prepare with.
#[derive(Debug, thiserror::Error)]
pub enum PreparePlanError {
    /// A model cannot be loaded.
    #[error("prepare.models: {directory}: {reason}")]
    Model {
        /// The entry as it is written.
        directory: ModelDirectory,
        /// What is wrong with it.
        reason: String,
    },
    /// The secret key of page ids is none.
    #[error("prepare.hash_key: {reason}")]
    HashKey {
        /// What a key looks like.
        reason: TextError,
    },
    /// Secrets, topics or brokers.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// Tokens per page where no setting says.
const PAGE_SIZE: PageSize = PageSize::new(64).unwrap();
/// Most prompts of one record: each becomes a record of its own.
const MAX_PROMPTS: usize = 1024;

impl PreparePlan {
    /// Makes the plan: loads the models, looks at the topics. With `create_topics`, output topics that
    /// are missing are created, with as many partitions as the input topic has.
    ///
    /// # Errors
    /// What keeps prepare from starting, with what to do about it.
    pub fn make(settings: &Settings, create_topics: bool) -> Result<Self, PreparePlanError> {
        let prepare = &settings.prepare;
        let tokenizers = tokenizers(settings)?;
        let registry = schemas::open(&settings.schema_registry);
        let (results, results_key) = match &prepare.output_topic {
            Some(topic) => (topic, "prepare.output_topic"),
            None => (&settings.input.topic, "input.topic"),
        };
        let ends = Ends {
            group: &prepare.group,
            input: (&prepare.topic, "prepare.topic", "whoever writes the log"),
            results: (results, results_key, None),
            dead_letters: (&prepare.dead_letter_topic, "prepare.dead_letter_topic"),
            threads: prepare.threads,
        };
        Ok(Self {
            stream: StreamPlan::make(settings, &ends, create_topics)?,
            recipe: Arc::new(keyed_recipe(settings)?),
            tokenizers,
            dead_letters: dead_letter_limits(settings),
            registry: registry.map_err(|error| PlanError::from(RegistryError::from(error)))?,
        })
    }
}

/// A preparer by itself, for records that come from elsewhere than a topic, which looks where prompts part early.
///
/// # Errors
/// A model cannot be loaded.
pub fn preparer(settings: &Settings) -> Result<Preparer, PreparePlanError> {
    Ok(Preparer::new(Arc::new(keyed_recipe(settings)?), tokenizers(settings)?.watching_partings()))
}

/// The recipe with the secret key that page ids are made with, where one is set.
fn keyed_recipe(settings: &Settings) -> Result<Recipe, PreparePlanError> {
    const NAME: &str = "prepare.hash_key";
    let secret = &settings.prepare.hash_key;
    let key = (!secret.is_empty()).then(|| secret.resolve(NAME)).transpose().map_err(PlanError::from)?;
    let key = key.map(|key| key.trim().parse()).transpose();
    let hash_key = key.map_err(|reason: TextError| PreparePlanError::HashKey { reason })?;
    Ok(Recipe { hash_key, ..recipe(settings) })
}

/// What shapes the output, but for the secret key: pure, so that a replay of the same log gives the same bytes.
pub fn recipe(settings: &Settings) -> Recipe {
    let prepare = &settings.prepare;
    let rules = |name: &str| {
        let pool = settings.pool_config(name);
        PageRules {
            page_size: pool.cache.page_size.unwrap_or(PAGE_SIZE),
            include_partial_page: pool.cache.include_partial_page,
            sample_rate: if prepare.sample { pool.cache.sample_rate } else { Ratio::ONE },
        }
    };
    Recipe {
        format: prepare.format,
        preset: prepare.preset,
        places: Places { request: prepare.request.clone(), response: prepare.response.clone() },
        pool: prepare.pool.clone(),
        model: prepare.model.clone(),
        namespace: Some(settings.prepare.namespace.clone()).filter(|namespace| !namespace.is_empty()),
        event_time: prepare.event_time.parts().iter().find_map(|part| match part {
            TemplatePart::Place { place, .. } => Some::<FieldPlace>(place.clone()),
            TemplatePart::Text(_) => None,
        }),
        time_unit: prepare.event_time_unit,
        hash_key: None,
        pools: settings.pools.iter().map(|pool| (pool.name.clone(), rules(&pool.name))).collect(),
        other_pools: rules(""),
        limits: PrepareLimits {
            decode: DecodeLimits {
                max_record_bytes: usize::try_from(prepare.max_record_bytes.0).unwrap_or(usize::MAX),
                max_pages_per_request: settings.input.max_pages_per_request as usize,
                ..DecodeLimits::default()
            },
            max_tokens: prepare.max_tokens as usize,
            max_prompts: MAX_PROMPTS,
            max_event_bytes: usize::try_from(prepare.max_event_bytes.0).unwrap_or(usize::MAX),
        },
        max_letter_bytes: max_letter_bytes(settings),
        letters: prepare.dead_letters,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        fingerprint: settings.fingerprint_hex(),
    }
}

/// The engine that served the requests of the log: as it is set, else the one whose cache is estimated.
#[cfg(feature = "tokenize")]
fn chat_engine(settings: &Settings) -> ChatEngine {
    let of_cache = || settings.pool_config("").cache.profile.spec().chats;
    settings.prepare.chat_engine.or_else(of_cache).unwrap_or_default()
}

#[cfg(feature = "tokenize")]
fn tokenizers(settings: &Settings) -> Result<Tokenizers, PreparePlanError> {
    use kvset_prepare::Model;
    use kvset_tokenize::TokenizeLimits;
    let prepare = &settings.prepare;
    let bytes = |size: kvset_settings::Size| usize::try_from(size.0).unwrap_or(usize::MAX);
    let max_body_bytes = bytes(prepare.max_record_bytes);
    let limits = TokenizeLimits {
        max_body_bytes,
        // A template may repeat a little of what it is given, and adds its own.
        max_prompt_bytes: max_body_bytes.saturating_mul(2),
        cache_bytes: bytes(prepare.cache) / prepare.models.len().max(1),
    };
    let load = |entry: &ModelDirectory| {
        Model::load(entry.directory())
            .map(Arc::new)
            .map_err(|error| PreparePlanError::Model { directory: entry.clone(), reason: error.to_string() })
    };
    let (mut named, mut other) = (Vec::new(), None);
    for entry in &prepare.models {
        match entry.name() {
            Some(name) => named.push((name.to_owned(), load(entry)?)),
            None => other = Some(load(entry)?),
        }
    }
    Ok(Tokenizers::new(named, other, limits, chat_engine(settings)))
}

#[cfg(not(feature = "tokenize"))]
fn tokenizers(settings: &Settings) -> Result<Tokenizers, PreparePlanError> {
    features::check_models(settings).map_err(PlanError::from)?;
    Ok(Tokenizers::default())
}
