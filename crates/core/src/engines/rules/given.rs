//! The options of engines as somebody gave them, in a configuration or on a command line.

use super::{EngineOption, EngineRules};
use crate::engines::profile::{OverlapMode, Profile};
use std::collections::BTreeMap;

/// Options that were given, by name, and their values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GivenOptions {
    texts: BTreeMap<&'static str, String>,
    values: EngineRules,
}

/// The option by which requests that overlap are modelled; it is on where it is left out.
const OVERLAP: &str = "overlap";

impl GivenOptions {
    /// Gives the option of this name a value.
    ///
    /// # Errors
    /// What is wrong with the text, and what is expected.
    pub fn give(&mut self, option: &EngineOption, text: &str) -> Result<(), String> {
        for named in EngineRules::options_named(option.key) {
            named.read(&mut self.values, text)?;
        }
        self.texts.insert(option.key, text.to_owned());
        Ok(())
    }

    /// The names of those that were given.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.texts.keys().copied()
    }

    /// Whether the option of this name was given.
    pub fn has(&self, key: &str) -> bool {
        self.texts.contains_key(key)
    }

    /// What was given for the option of this name.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.texts.get(key).map(String::as_str)
    }

    /// The rules with every option, whichever engine has it.
    pub fn values(&self) -> EngineRules {
        let overlap = if self.has(OVERLAP) { self.values.overlap } else { OverlapMode::On };
        EngineRules { overlap, ..self.values.clone() }
    }

    /// The rules of an engine. An option that it has not is in them all the same, to be [refused](EngineRules::check).
    pub fn rules(&self, engine: Profile) -> EngineRules {
        let mut rules = EngineRules::default();
        for option in EngineRules::OPTIONS.iter().filter(|option| self.has(option.key)) {
            let is_of_another = EngineRules::options_named(option.key).any(|other| other.is_of(engine));
            if option.is_of(engine) || !is_of_another {
                option.take(&mut rules, &self.values);
            }
        }
        if !self.has(OVERLAP) {
            rules.overlap =
                EngineRules { overlap: OverlapMode::On, ..rules.clone() }.of_profile(engine).overlap;
        }
        rules
    }

    /// These over those that hold in general. A general option that an engine would read, and reads no longer with
    /// these, is passed over: what holds for all pools means nothing to one whose own options exclude it.
    pub fn over(&self, general: &Self, engine: Profile) -> Self {
        let merged = self.chain(general, |_| true);
        let (alone, together) = (general.rules(engine), merged.rules(engine));
        self.chain(general, |option| !option.is_read(&alone, engine) || option.is_read(&together, engine))
    }

    /// These, and of the general ones those that are kept.
    fn chain(&self, general: &Self, is_kept: impl Fn(&EngineOption) -> bool) -> Self {
        let mut all = self.clone();
        for option in EngineRules::OPTIONS {
            if let Some(text) =
                general.texts.get(option.key).filter(|_| !self.has(option.key) && is_kept(option))
            {
                option.take(&mut all.values, &general.values);
                all.texts.insert(option.key, text.clone());
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::ratio::Ratio;

    /// Options given as `key = value` pairs.
    fn given(pairs: &[(&str, &str)]) -> GivenOptions {
        let mut all = GivenOptions::default();
        for (key, text) in pairs {
            let option = EngineRules::options_named(key).next().expect(key);
            all.give(option, text).expect(text);
        }
        all
    }

    #[test]
    fn an_option_of_two_engines_is_given_to_the_one_that_is_modelled() {
        let both = given(&[("watermark", "0.5")]);
        let half = Ratio::per_mille(500);
        let (store, process) = (both.rules(Profile::Mooncake), both.rules(Profile::LmcacheMp));
        assert_eq!((store.watermark, store.mp_watermark), (half, EngineRules::MP_WATERMARK));
        assert_eq!((process.watermark, process.mp_watermark), (EngineRules::WATERMARK, half));
        assert!(both.rules(Profile::Vllm).check(Profile::Vllm, None).is_err());
    }

    #[test]
    fn what_a_pools_own_options_exclude_of_the_general_ones_is_passed_over() {
        let general = given(&[
            ("attention", "full+window:128"),
            ("retention_interval", "none"),
            ("prefill_chunk", "512"),
        ]);
        let own = given(&[("attention", "full")]).over(&general, Profile::Vllm).rules(Profile::Vllm);
        assert_eq!(own, EngineRules { overlap: OverlapMode::On, ..EngineRules::default() });
        let head = given(&[("attention", "full"), ("draft_head", "1")]).over(&general, Profile::Vllm);
        assert_eq!((head.has("retention_interval"), head.text("prefill_chunk")), (false, Some("512")));
        assert_eq!(given(&[]).over(&general, Profile::Vllm), general);
    }

    #[test]
    fn a_general_option_that_no_pool_reads_is_kept_to_be_refused() {
        let general = given(&[("chunk_tokens", "512")]);
        let own = given(&[("draft_head", "1")]).over(&general, Profile::Vllm).rules(Profile::Vllm);
        assert!(
            own.check(Profile::Vllm, None).is_err_and(|error| error.to_string().contains("`chunk_tokens`"))
        );
    }
}
