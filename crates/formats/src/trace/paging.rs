//! How prompts of tokens become pages: hashed, or a page a token for those who look at the tokens themselves.

use super::options::ReadOptions;
use super::records::RecordSink;
#[cfg(feature = "tokenize")]
use crate::record::fault::RowFault;
#[cfg(feature = "tokenize")]
use crate::record::generated::Generated;
use crate::record::row::{Draft, RowBatch};
#[cfg(feature = "tokenize")]
use crate::stated::{PromptForm, form_of};
#[cfg(feature = "tokenize")]
use crate::time::Moment;
use kvset_core::request::id_scheme::IdScheme;
use kvset_core::request::labels::{Label, Labels};
#[cfg(feature = "tokenize")]
use kvset_core::units::EventTime;
use kvset_core::units::PageSize;
use kvset_core::units::hashing::{PageHasher, tokens_behind};
use kvset_core::units::pages::Scope;
#[cfg(feature = "tokenize")]
use kvset_tokenize::RequestTokenizer;
use std::ops::Range;

/// What pages are made of the tokens of a prompt.
pub(super) enum Paging {
    /// Chained hashes of so many tokens each; and whether the token behind each page is kept.
    Hashed(PageHasher, bool),
    /// The tokens, each a page of its own whose id is the token's; page ids alongside them are of pages of this size.
    Tokens(PageSize),
}

impl Paging {
    /// Pages of as many tokens as the options say.
    pub fn new(options: &ReadOptions) -> Self {
        let page_size = options.page_tokens();
        match options.keeps_tokens {
            true => Self::Tokens(page_size),
            false => Self::Hashed(PageHasher::new(page_size), options.keeps_tokens_behind),
        }
    }

    /// Tokens per page of what comes as page ids.
    pub fn page_size(&self) -> PageSize {
        match self {
            Self::Hashed(hasher, _) => hasher.page_size(),
            Self::Tokens(page_size) => *page_size,
        }
    }
}

impl RecordSink<'_> {
    /// Files a prompt of token ids and the pages that its answer fills; none where that is empty.
    pub fn file_tokens(&mut self, paging: &mut Paging, tokens: &[u32], answer: &[u32]) {
        self.carried.placeholders.note(tokens);
        self.batch.file_prompt(paging, tokens);
        self.batch.file_answer(paging, tokens, answer);
    }

    /// Tokenises a body and files its prompts; an answer to several is none of theirs. Returns what they are logged as.
    #[cfg(feature = "tokenize")]
    pub fn file_body(
        &mut self,
        (paging, tokenizer): (&mut Paging, &mut RequestTokenizer),
        (body, time): (&[u8], Option<Moment>),
        answer: &Generated,
    ) -> Result<PromptForm, RowFault> {
        let first = self.batch.drafts.len();
        tokenizer.tokenize(body, time.map(|time| EventTime(time.ms())))?;
        let is_one = tokenizer.prompts().len() == 1;
        let answer = if is_one { answer.ids_behind(tokenizer)? } else { Vec::new() };
        let remarks = tokenizer.take_remarks();
        self.carried.chats.add(&remarks);
        let prompts = tokenizer.prompts();
        let form = form_of(prompts.are_text());
        for tokens in prompts.iter() {
            if form == PromptForm::TokenIds {
                self.carried.placeholders.note(tokens);
            }
            self.batch.file_prompt(paging, tokens);
            self.batch.file_answer(paging, tokens, &answer);
        }
        for draft in &mut self.batch.drafts[first..] {
            (draft.asked, draft.opening) = (remarks.asked, remarks.opening);
        }
        Ok(form)
    }
}

impl RowBatch {
    /// Files a prompt of token ids.
    pub(super) fn file_prompt(&mut self, paging: &mut Paging, tokens: &[u32]) {
        let start = self.ids.len();
        match paging {
            Paging::Hashed(hasher, _) => hasher.hash(Scope::GLOBAL, tokens, true, &mut self.ids),
            Paging::Tokens(_) => self.ids.extend(tokens.iter().map(|token| u64::from(*token))),
        }
        let are_tokens = matches!(paging, Paging::Tokens(_));
        let mut labels = Labels::default();
        let ids = start..self.ids.len();
        if let Paging::Hashed(hasher, _) = paging {
            let from = self.text.len();
            self.text.push_str(&IdScheme::of_hasher(hasher.page_size(), false));
            labels.set(Label::IdScheme, Some(from..self.text.len()));
        }
        let tokens_behind = self.file_tokens_behind(paging, tokens, &[]);
        self.drafts.push(Draft {
            labels,
            page_size: Some(if are_tokens { PageSize::ONE } else { paging.page_size() }),
            are_tokens,
            ids,
            tokens_behind,
            ids_chained: true,
            input_tokens: Some(tokens.len() as u64),
            ..Draft::default()
        });
    }

    /// Files the pages that the answer to the last prompt filed fills; none where it is empty.
    pub(super) fn file_answer(&mut self, paging: &mut Paging, tokens: &[u32], answer: &[u32]) {
        let Some(draft) = self.drafts.last_mut() else { return };
        let start = self.ids.len();
        match paging {
            Paging::Hashed(hasher, _) => {
                let mut ids = Vec::new();
                let prompt = (tokens, &self.ids[draft.ids.clone()]);
                hasher.hash_answer(Scope::GLOBAL, prompt, answer, &mut ids);
                self.ids.extend(ids);
            }
            // Of the last token nothing was computed.
            Paging::Tokens(_) => {
                let stored = &answer[..answer.len().saturating_sub(1)];
                self.ids.extend(stored.iter().map(|token| u64::from(*token)));
            }
        }
        draft.output_ids = start..self.ids.len();
        let behind = self.file_tokens_behind(paging, tokens, answer);
        if let Some(draft) = self.drafts.last_mut() {
            draft.tokens_behind = behind;
        }
    }

    /// Files the tokens behind pages, where they are kept.
    fn file_tokens_behind(&mut self, paging: &Paging, prompt: &[u32], answer: &[u32]) -> Range<usize> {
        let start = self.ids.len();
        if let Paging::Hashed(hasher, true) = paging {
            tokens_behind(hasher.page_size(), prompt, answer, &mut self.ids);
        }
        start..self.ids.len()
    }
}
