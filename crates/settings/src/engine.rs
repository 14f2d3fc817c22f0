//! The options of engines as settings: read and presented as the core declares them, and what of them holds for one
//! pool.

use super::declare::{DeclaredSetting, FieldDoc, SettingEntry, TableReader};
use super::field::{ValueRefusal, quoted};
use super::load::from_environment;
use super::{EstimateSettings, PoolSettings};
use config::{Value, ValueKind};
use kvset_core::engines::hybrid::RulesError;
use kvset_core::engines::rules::{EngineOption, EngineRules, EngineRulesError, GivenOptions};
use std::ops::RangeInclusive;

/// The options that a section sets; `OF_POOL`: of those in which pools may differ.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EngineOptions<const OF_POOL: bool>(pub(super) GivenOptions);

impl<const OF_POOL: bool> EngineOptions<OF_POOL> {
    /// The options of the section.
    fn options() -> impl Iterator<Item = &'static EngineOption> {
        EngineRules::options_by_name().filter(|option| option.differs_by_pool || !OF_POOL)
    }
}

impl<const OF_POOL: bool> SettingEntry for EngineOptions<OF_POOL> {
    type Bound = bool;

    fn keys(_: &'static str) -> Vec<&'static str> {
        Self::options().map(|option| option.key).collect()
    }

    fn read(
        reader: &mut TableReader<'_>,
        _: &'static str,
        default: Self,
        _: Option<RangeInclusive<bool>>,
    ) -> Self {
        let mut options = default;
        for option in Self::options() {
            let give = |value: &Value| {
                options.0.give(option, &text_of(option, value)?).map_err(ValueRefusal::Because)
            };
            reader.setting(option.key, false, || option.values.to_string(), give);
        }
        options
    }

    fn describe(&self, declared: DeclaredSetting<Self, bool>) -> Vec<FieldDoc> {
        let describe = |option: &'static EngineOption| FieldDoc {
            name: option.key,
            doc: option.doc,
            allowed: option.values.to_string(),
            value: self.0.text(option.key).map(toml),
            example: Some(toml(option.example)),
            shapes_results: declared.shapes_results,
        };
        Self::options().map(describe).collect()
    }
}

/// A value as the option reads it; texts from the environment may be numbers, texts from a file are none.
fn text_of(option: &EngineOption, value: &Value) -> Result<String, ValueRefusal> {
    match &value.kind {
        ValueKind::I64(number) => Ok(number.to_string()),
        ValueKind::U64(number) => Ok(number.to_string()),
        ValueKind::Float(number) => Ok(number.to_string()),
        ValueKind::String(text) if !option.values.are_numbers() || from_environment(value) => {
            Ok(text.clone())
        }
        _ => Err(ValueRefusal::NotAllowed),
    }
}

/// The value as TOML that reads back the same.
fn toml(text: &str) -> String {
    match text.parse::<f64>() {
        Ok(_) => text.to_owned(),
        Err(_) => quoted(text),
    }
}

impl EstimateSettings {
    /// What the engine of a pool is configured with; the pool's own settings come first.
    pub(super) fn rules(&self, own: Option<&PoolSettings>) -> EngineRules {
        let general = &self.engine_options.0;
        match own {
            Some(own) => own.engine_options.0.over(general, self.engine).rules(self.engine),
            None => general.rules(self.engine),
        }
    }
}

/// The setting that an engine refuses.
pub(super) fn refused_key(error: &EngineRulesError) -> &'static str {
    match error {
        EngineRulesError::Foreign { key, .. } | EngineRulesError::Range { key, .. } => key,
        EngineRulesError::Page(RulesError::StoredChunk { .. }) => "chunk_tokens",
        EngineRulesError::Page(RulesError::TooLarge { .. }) => "hicache",
        EngineRulesError::Page(RulesError::Retention { .. } | RulesError::RetentionChunk { .. }) => {
            "retention_interval"
        }
        EngineRulesError::Page(RulesError::Chunk { .. } | RulesError::ChunkPages { .. }) => "prefill_chunk",
        EngineRulesError::Page(RulesError::StatePage { .. }) => "page_size",
        EngineRulesError::Page(RulesError::NoStateSize | RulesError::OffloadGroups { .. }) => "attention",
    }
}
