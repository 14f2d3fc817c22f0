//! Prompts by their tokens.

use crate::units::PageSize;

/// Prompts by their tokens, which engines count hits by. A page that hits is a page of tokens; those of a last page
/// that is not full are tokens of the prompt and no hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PromptTokens {
    /// All tokens.
    pub all: u64,
    /// Tokens of a page.
    pub page: u32,
}

impl PromptTokens {
    /// The tokens of prompts with so many pages, and of their last pages that are not full, as far as known.
    pub fn of(pages: u64, rest_tokens: u64, page_size: PageSize) -> Self {
        let page = page_size.get();
        Self { all: pages.saturating_mul(u64::from(page)).saturating_add(rest_tokens), page }
    }

    /// Pages that hit, by their tokens, as a share of all tokens.
    pub fn hit_rate(self, page_hits: u64) -> f64 {
        share(page_hits.saturating_mul(u64::from(self.page)), self.all)
    }
}

/// `part / whole`, and 0 where the whole is.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
