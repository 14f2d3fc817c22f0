//! The models whose tokenizers turn requests into token ids, by name.

#[cfg(feature = "tokenize")]
use kvset_core::engines::chat_engine::ChatEngine;
use kvset_core::units::EventTime;
#[cfg(not(feature = "tokenize"))]
use kvset_core::units::features::{Feature, MissingFeature};
use kvset_formats::codec::DecodeError;
#[cfg(feature = "tokenize")]
use kvset_formats::codec::ErrorCode;
use kvset_formats::stated::PromptForm;
#[cfg(feature = "tokenize")]
use kvset_formats::stated::form_of;
use kvset_formats::trace::Generated;
#[cfg(feature = "tokenize")]
use kvset_tokenize::{ChatRemarks, RequestTokenizer, TokenizeLimits};
#[cfg(feature = "tokenize")]
use std::sync::Arc;

#[cfg(feature = "tokenize")]
pub use kvset_tokenize::Model;

/// Takes the tokens of one prompt, those of its answer as far as they are known, and what the prompt was logged as.
pub(super) type TakePrompt<'a> = dyn FnMut(&[u32], &[u32], PromptForm) -> Result<(), DecodeError> + 'a;

/// A thread's tokenizers: a model each, by name, and one for every other name. Clones share what they
/// remember of texts met before.
#[derive(Clone, Default)]
pub struct Tokenizers {
    #[cfg(feature = "tokenize")]
    named: Vec<(String, RequestTokenizer)>,
    #[cfg(feature = "tokenize")]
    other: Option<RequestTokenizer>,
    #[cfg(feature = "tokenize")]
    engine: ChatEngine,
}

#[cfg(feature = "tokenize")]
impl Tokenizers {
    /// Tokenizers of named models, and of the one for every other name. `limits` are of each; `engine` served the
    /// requests.
    pub fn new(
        named: impl IntoIterator<Item = (String, Arc<Model>)>,
        other: Option<Arc<Model>>,
        limits: TokenizeLimits,
        engine: ChatEngine,
    ) -> Self {
        let tokenizer = |model| RequestTokenizer::new(model, limits).served_by(engine);
        Self {
            named: named.into_iter().map(|(name, model)| (name, tokenizer(model))).collect(),
            other: other.map(tokenizer),
            engine,
        }
    }

    /// The same, which look where prompts part early, too.
    pub fn watching_partings(self) -> Self {
        let watching = RequestTokenizer::watching_partings;
        Self {
            named: self.named.into_iter().map(|(name, tokenizer)| (name, watching(tokenizer))).collect(),
            other: self.other.map(watching),
            ..self
        }
    }

    /// What chats held since the last call that engines treat each in a way of its own, in sentences.
    pub(super) fn remarks(&mut self) -> Vec<String> {
        let mut remarks = ChatRemarks::default();
        for tokenizer in self.named.iter_mut().map(|(_, tokenizer)| tokenizer).chain(&mut self.other) {
            remarks.add(&tokenizer.take_remarks());
        }
        remarks.sentences(self.engine, "prepare.chat_engine")
    }

    /// Tokenises a request, which is the body for the model of this name at this time; shows `take` each prompt with
    /// its answer, and returns what they are.
    pub(super) fn tokenize(
        &mut self,
        (model, body, time): (Option<&str>, &[u8], EventTime),
        answer: &Generated,
        take: &mut TakePrompt<'_>,
    ) -> Result<PromptForm, DecodeError> {
        let named = self.named.iter_mut().find(|(name, _)| Some(name.as_str()) == model);
        let tokenizer = named.map(|(_, tokenizer)| tokenizer).or(self.other.as_mut());
        let Some(tokenizer) = tokenizer else {
            let detail = match model {
                Some(_) => "prepare.models has no tokenizer for the request's model",
                None => "the request names no model, and prepare.models has none for every name",
            };
            return Err(DecodeError::new(ErrorCode::UnknownModel, detail));
        };
        tokenizer.tokenize(body, Some(time))?;
        let answer = answer.ids_behind(tokenizer)?;
        let prompts = tokenizer.prompts();
        let form = form_of(prompts.are_text());
        prompts.iter().try_for_each(|tokens| take(tokens, &answer, form))?;
        Ok(form)
    }
}

/// Without the feature `tokenize` there are none.
#[cfg(not(feature = "tokenize"))]
impl Tokenizers {
    /// The same: they look at nothing.
    pub fn watching_partings(self) -> Self {
        self
    }

    pub(super) fn remarks(&mut self) -> Vec<String> {
        Vec::new()
    }

    pub(super) fn tokenize(
        &mut self,
        _: (Option<&str>, &[u8], EventTime),
        _: &Generated,
        _take: &mut TakePrompt<'_>,
    ) -> Result<PromptForm, DecodeError> {
        let detail = MissingFeature(Feature::Tokenize).to_string();
        Err(DecodeError::new(kvset_formats::codec::ErrorCode::UnknownModel, detail))
    }
}

#[cfg(all(test, feature = "tokenize"))]
mod tests {
    use super::*;

    #[test]
    fn a_model_without_a_tokenizer_is_refused() {
        let mut tokenizers = Tokenizers::default();
        let refused =
            tokenizers.tokenize((Some("m"), b"{}", EventTime(0)), &Generated::Unknown, &mut |_, _, _| Ok(()));
        assert_eq!(refused.expect_err("no model").code(), ErrorCode::UnknownModel);
    }
}
