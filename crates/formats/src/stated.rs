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

/// Tokens by which a count may differ from a text that is whole, alongside one in fifty.
const NEAR: u64 = 8;

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
    /// Those that have about as many: what a template adds, and no part that is missing.
    pub near: u64,
    /// Tokens of those that differ, as their records state them.
    pub stated_tokens: u64,
    /// The same as they were found here.
    pub found_tokens: u64,
}

impl StatedPrompts {
    /// Compares the tokens that a record states with those found in its prompts. Of those that it states apart, as found
    /// in a cache, nobody knows whether they are among the others: what was found says it.
    ///
    /// # Errors
    /// The record does not hold its prompts as they were served. `unread` names parts of the record that may hold the
    /// rest.
    pub fn compare(
        &mut self,
        (stated, apart): (Option<u64>, u64),
        found: u64,
        form: PromptForm,
        unread: &[impl AsRef<str>],
    ) -> Result<(), DecodeError> {
        // No prompt is empty: where none of its tokens were counted, none were.
        let Some(stated) = stated.filter(|stated| *stated > 0) else { return Ok(()) };
        let is_near = |stated: &u64| match form {
            PromptForm::TokenIds | PromptForm::PageIds => *stated == found,
            PromptForm::Text => stated.abs_diff(found) <= NEAR + found / 50,
        };
        let others = [stated.saturating_add(apart), stated.saturating_sub(apart)];
        let stated = std::iter::once(stated).chain(others).find(is_near).unwrap_or(stated);
        let is_whole = match form {
            PromptForm::TokenIds | PromptForm::PageIds => stated == found,
            PromptForm::Text => stated <= found.saturating_mul(FACTOR).saturating_add(SLACK),
        };
        if !is_whole {
            return Err(mismatch(stated, found, form, unread));
        }
        self.prompts += 1;
        self.near += u64::from(stated.abs_diff(found) <= NEAR + found / 50);
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
        self.near += other.near;
        self.stated_tokens = self.stated_tokens.saturating_add(other.stated_tokens);
        self.found_tokens = self.found_tokens.saturating_add(other.found_tokens);
    }

    /// Whether nearly all of so many prompts are as long as their records state: then nothing of them is missing.
    pub fn are_whole(&self, prompts: u64) -> bool {
        const FEWEST: u64 = 3;
        self.prompts >= FEWEST && self.prompts * 10 >= prompts * 9 && self.differing * 20 <= self.prompts
    }

    /// Whether the log's counts agree with nearly all of so many texts: these are what the engine had.
    pub fn agree(&self, prompts: u64) -> bool {
        const FEWEST: u64 = 3;
        self.prompts >= FEWEST && self.prompts * 10 >= prompts * 9 && self.near * 20 >= self.prompts * 19
    }

    /// What a reader of the result should know; nothing where all agree.
    pub fn sentence(&self) -> Option<String> {
        let Self { prompts, differing, near, stated_tokens, found_tokens } = self;
        // A token more here and less there is of no other tokenizer.
        let is_apart = stated_tokens.abs_diff(*found_tokens) * 200 > *stated_tokens || near < prompts;
        (*differing > 0 && is_apart).then(|| {
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
            let compared = all.compare((Some(stated), 0), found, form, &NONE);
            assert_eq!(compared.is_ok(), agrees, "{stated} stated, {found} found, {form:?}");
        }
        assert!(all.compare((None, 0), 7, PromptForm::TokenIds, &NONE).is_ok(), "nothing is stated");
        assert_eq!((all.prompts, all.differing), (5, 3));
        let near = StatedPrompts { prompts: 40, differing: 40, near: 38, ..StatedPrompts::default() };
        assert!(near.agree(44) && !near.agree(45) && !StatedPrompts { near: 37, ..near }.agree(40));
        let whole = StatedPrompts { prompts: 40, differing: 2, ..StatedPrompts::default() };
        assert!(whole.are_whole(44) && !whole.are_whole(45) && !all.are_whole(5));
    }

    /// Counts that hold the cached tokens, or leave them out, were told as another tokenizer's.
    #[test]
    fn cached_tokens_are_among_the_stated_ones_or_not_as_the_prompt_shows() {
        for (stated, form) in
            [(417, PromptForm::TokenIds), (97, PromptForm::TokenIds), (100, PromptForm::Text)]
        {
            let mut all = StatedPrompts::default();
            all.compare((Some(stated), 160), 257, form, &NONE).expect("the whole prompt");
            let is_told = all.sentence().is_some();
            assert!(all.near == 1 && is_told == (form == PromptForm::Text), "{stated}: {form:?}");
        }
        let mut all = StatedPrompts::default();
        assert!(all.compare((Some(300), 160), 257, PromptForm::TokenIds, &NONE).is_err());
    }

    #[test]
    fn a_part_of_a_prompt_is_refused_with_both_numbers_and_the_places_of_the_rest() {
        let mut all = StatedPrompts::default();
        let error = all.compare((Some(500), 0), 12, PromptForm::Text, &["llm.tools"]).expect_err("a part");
        assert_eq!(error.code(), ErrorCode::PromptMismatch);
        let detail = error.detail();
        assert!(["500", "12", "`llm.tools`"].iter().all(|word| detail.contains(word)), "{detail}");
        assert_eq!(all, StatedPrompts::default());
        assert_eq!(all.sentence(), None);
        all.compare((Some(110), 0), 100, PromptForm::Text, &NONE).expect("close enough");
        let sentence = all.sentence().expect("another number");
        assert!(sentence.contains("1 of 1") && sentence.contains("100 for 110"), "{sentence}");
    }
}
