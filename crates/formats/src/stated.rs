//! How long a prompt is by its record's own word, compared with how long it is here: the one place that decides whether
//! a record holds the whole of it.
//!
//! | prompt | must be |
//! |---|---|
//! | token ids | as many as the record states |
//! | page ids | as many as the stated tokens fill ([`full_pages`](kvset_core::request::event::full_pages)), and of as many tokens wherever they are stated |
//! | text | at least a half of the stated tokens, less [`SLACK`]: the tokenizer at hand need not be the serving engine's |
//!
//! A stand-in tokenizer makes up to some tens of percent more or fewer tokens, and a chat template other than the
//! engine's adds a few. What falls short by more than [`FACTOR`] is a part of a prompt: a log without its tools, or
//! without its system message. Its hits are those of another prompt, so it is refused.

use crate::codec::{DecodeError, ErrorCode};

/// How many times the tokens of a text may be stated.
const FACTOR: u64 = 2;
/// Tokens that a chat template may add to any prompt.
const SLACK: u64 = 32;

/// What a prompt is logged as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptForm {
    /// Ids of its tokens.
    TokenIds,
    /// Ids of its pages, which state their tokens once more.
    PageIds,
    /// Text, tokenised here.
    Text,
}

/// What prompts are logged as that are token ids unless they are text.
pub fn form_of(are_text: bool) -> PromptForm {
    if are_text { PromptForm::Text } else { PromptForm::TokenIds }
}

/// Prompts whose tokens their records state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatedPrompts {
    /// How many there are.
    pub prompts: u64,
    /// Those that have another number of tokens here.
    pub differing: u64,
    /// Tokens of the latter, as their records state them.
    pub stated_tokens: u64,
    /// The same as they were found here.
    pub found_tokens: u64,
}

impl StatedPrompts {
    /// Compares the tokens that a record states with those found in its prompts.
    ///
    /// # Errors
    /// The record does not hold its prompts as they were served. `unread` names parts of the record that may hold the
    /// rest.
    pub fn compare(
        &mut self,
        stated: Option<u64>,
        found: u64,
        form: PromptForm,
        unread: &[impl AsRef<str>],
    ) -> Result<(), DecodeError> {
        // No prompt is empty: where none of its tokens were counted, none were.
        let Some(stated) = stated.filter(|stated| *stated > 0) else { return Ok(()) };
        let is_whole = match form {
            PromptForm::TokenIds | PromptForm::PageIds => stated == found,
            PromptForm::Text => stated <= found.saturating_mul(FACTOR).saturating_add(SLACK),
        };
        if !is_whole {
            return Err(mismatch(stated, found, form, unread));
        }
        self.prompts += 1;
        if stated != found {
            self.differing += 1;
            self.stated_tokens = self.stated_tokens.saturating_add(stated);
            self.found_tokens = self.found_tokens.saturating_add(found);
        }
        Ok(())
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        self.prompts += other.prompts;
        self.differing += other.differing;
        self.stated_tokens = self.stated_tokens.saturating_add(other.stated_tokens);
        self.found_tokens = self.found_tokens.saturating_add(other.found_tokens);
    }

    /// Whether nearly all of so many prompts are as long as their records state: then nothing of them is missing.
    pub fn are_whole(&self, prompts: u64) -> bool {
        const FEWEST: u64 = 3;
        self.prompts >= FEWEST && self.prompts * 10 >= prompts * 9 && self.differing * 20 <= self.prompts
    }

    /// What a reader of the result should know; nothing where all agree.
    pub fn sentence(&self) -> Option<String> {
        let Self { prompts, differing, stated_tokens, found_tokens } = self;
        (*differing > 0).then(|| {
            format!(
                "{differing} of {prompts} prompts have another number of tokens than the log states, {found_tokens} for \
                 {stated_tokens}: the tokenizer or its chat template is not the serving engine's"
            )
        })
    }
}

/// The refusal of a record that states another number of tokens than it holds.
fn mismatch(stated: u64, found: u64, form: PromptForm, unread: &[impl AsRef<str>]) -> DecodeError {
    let (held, cause) = match form {
        PromptForm::TokenIds => (format!("{found} token ids"), ""),
        PromptForm::PageIds => (format!("page ids of {found} tokens"), ""),
        PromptForm::Text => (format!("a text of {found} tokens"), ", or the tokenizer is another model's"),
    };
    let advice = match unread {
        [] => "log whole prompts".to_owned(),
        names => {
            let names: Vec<String> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
            format!("{} may hold the rest and is not read", names.join(", "))
        }
    };
    let detail = format!(
        "the record states {stated} prompt tokens and holds {held}: that is not the whole prompt{cause}; {advice}"
    );
    DecodeError::new(ErrorCode::PromptMismatch, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [&str; 0] = [];

    #[test]
    fn token_ids_agree_to_the_token_and_texts_within_what_tokenizers_explain() {
        let mut all = StatedPrompts::default();
        for (stated, found, form, agrees) in [
            (5, 5, PromptForm::TokenIds, true),
            (5, 4, PromptForm::TokenIds, false),
            (4, 5, PromptForm::TokenIds, false),
            (0, 7, PromptForm::TokenIds, true),
            (232, 100, PromptForm::Text, true),
            (233, 100, PromptForm::Text, false),
            (1, 1000, PromptForm::Text, true),
            (32, 0, PromptForm::Text, true),
            (u64::MAX, u64::MAX, PromptForm::Text, true),
        ] {
            let compared = all.compare(Some(stated), found, form, &NONE);
            assert_eq!(compared.is_ok(), agrees, "{stated} stated, {found} found, {form:?}");
        }
        assert!(all.compare(None, 7, PromptForm::TokenIds, &NONE).is_ok(), "nothing is stated");
        assert_eq!((all.prompts, all.differing), (5, 3));
        let whole = StatedPrompts { prompts: 40, differing: 2, ..StatedPrompts::default() };
        assert!(whole.are_whole(44) && !whole.are_whole(45) && !all.are_whole(5));
    }

    #[test]
    fn a_part_of_a_prompt_is_refused_with_both_numbers_and_the_places_of_the_rest() {
        let mut all = StatedPrompts::default();
        let error = all.compare(Some(500), 12, PromptForm::Text, &["llm.tools"]).expect_err("a part");
        assert_eq!(error.code(), ErrorCode::PromptMismatch);
        let detail = error.detail();
        assert!(["500", "12", "`llm.tools`"].iter().all(|word| detail.contains(word)), "{detail}");
        assert_eq!(all, StatedPrompts::default());
        assert_eq!(all.sentence(), None);
        all.compare(Some(110), 100, PromptForm::Text, &NONE).expect("close enough");
        let sentence = all.sentence().expect("another number");
        assert!(sentence.contains("1 of 1") && sentence.contains("100 for 110"), "{sentence}");
    }
}
