//! One request as the core sees it, whatever format it travelled in.

use crate::request::labels::Labels;
use crate::units::pages::{PageIds, Scope};
use crate::units::{EventTime, PageSize};
use serde::{Deserialize, Serialize};

/// What a log says of a prompt's tokens that came from the serving engine's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CachedTokens {
    /// Nothing.
    #[default]
    Unstated,
    /// It has a usage for the request that leaves the count out, as engines and APIs do where nothing was cached.
    LeftOut,
    /// So many.
    Stated(u64),
}

impl CachedTokens {
    /// What a log says that states `tokens`, or leaves them out; `counts` where it counts the prompt's other tokens.
    pub fn of_usage(tokens: Option<u64>, counts: bool) -> Self {
        match tokens {
            Some(tokens) => Self::Stated(tokens),
            None if counts => Self::LeftOut,
            None => Self::Unstated,
        }
    }

    /// The tokens, zero where the count was left out; nothing where the log says nothing.
    pub fn count(self) -> Option<u64> {
        match self {
            Self::Unstated => None,
            Self::LeftOut => Some(0),
            Self::Stated(tokens) => Some(tokens),
        }
    }

    /// The tokens as the log states them.
    pub fn stated(self) -> Option<u64> {
        self.count().filter(|_| self != Self::LeftOut)
    }
}

impl From<Option<u64>> for CachedTokens {
    fn from(stated: Option<u64>) -> Self {
        Self::of_usage(stated, false)
    }
}

/// A request: the page ids of its prompt and what its log says alongside them.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestEvent<'a> {
    /// When the request arrived.
    pub event_time: EventTime,
    /// Tokens per page, where the event says; else the pool's configured page size holds.
    pub page_size: Option<PageSize>,
    /// What the ids are unique within.
    pub scope: Scope,
    /// Prefix-chained ids of the prompt's pages; the last one may be a partial page, which shows in
    /// `input_tokens` not being a multiple of the page size.
    pub page_ids: PageIds<'a>,
    /// Whether who made the ids declares them chained, so that a right one tells of all before it.
    pub ids_chained: bool,
    /// Ids of the pages the output filled, continuing the prompt's chain; empty where unknown.
    pub output_page_ids: PageIds<'a>,
    /// The token behind each of these pages, those of the prompt first, as far as it is known: SGLang with a draft
    /// head keys a page with it. Empty where pages come as ids.
    pub tokens_behind: PageIds<'a>,
    /// Tokens of the prompt.
    pub input_tokens: Option<u64>,
    /// Tokens generated.
    pub output_tokens: Option<u64>,
    /// From arrival to last token, in milliseconds, where the log says.
    pub duration_ms: Option<u64>,
    /// Before this arrival all requests of its replica are in the log; absent where whoever writes it does not say.
    pub complete_before: Option<EventTime>,
    /// Prompt tokens that the serving engine says came from its cache.
    pub cached_tokens: CachedTokens,
    /// Which cache served the request, on whose behalf.
    pub labels: Labels<&'a str>,
}

impl RequestEvent<'_> {
    /// Pages of the prompt that have ids.
    pub fn prompt_pages(&self) -> u64 {
        self.page_ids.len() as u64
    }

    /// Pages that the answer fills behind the prompt's full ones, `None` where its length is not known. The last token
    /// generated is never stored.
    pub fn answer_pages(&self, page_size: PageSize) -> Option<u64> {
        let page = u64::from(page_size.get());
        let input = self.input_tokens.unwrap_or_else(|| self.prompt_pages().saturating_mul(page));
        let stored = input.saturating_add(self.output_tokens?.saturating_sub(1));
        Some(stored / page - input / page)
    }
}

/// Longest duration of a request: a day, in milliseconds. What is longer is another unit, and would stay in flight
/// long after every other request has ended.
pub const MAX_DURATION_MS: u64 = 86_400_000;

/// Most tokens of a prompt, of an output, or from a cache.
pub const MAX_TOKENS: u64 = u32::MAX as u64;

/// A number that the request cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ImpossibleNumber {
    /// No request can.
    #[error("{field} is {value}, more than any request has: at most {limit}")]
    OutOfBounds {
        /// The field it is in.
        field: &'static str,
        /// What the event says.
        value: u64,
        /// The most it may say.
        limit: u64,
    },
    /// The engine says that more of the prompt came from its cache than the prompt has.
    #[error("{cached} cached_tokens are more than the prompt's {prompt} tokens")]
    CachedTokens {
        /// Tokens that came from the cache, as the event says.
        cached: u64,
        /// Tokens of the prompt: as stated, or what its page ids have room for.
        prompt: u64,
    },
}

/// Refuses an event that says a number which no request can have: one of them would distort its pool for as long as
/// it says.
///
/// # Errors
/// [`ImpossibleNumber::OutOfBounds`].
pub fn check_numbers(event: &RequestEvent<'_>) -> Result<(), ImpossibleNumber> {
    let numbers = [
        ("duration_ms", event.duration_ms, MAX_DURATION_MS),
        ("input_tokens", event.input_tokens, MAX_TOKENS),
        ("output_tokens", event.output_tokens, MAX_TOKENS),
        ("cached_tokens", event.cached_tokens.stated(), MAX_TOKENS),
    ];
    let outside = |(field, value, limit): (&'static str, Option<u64>, u64)| {
        value.filter(|value| *value > limit).map(|value| ImpossibleNumber::OutOfBounds {
            field,
            value,
            limit,
        })
    };
    numbers.into_iter().find_map(outside).map_or(Ok(()), Err)
}

/// Refuses an event with more cached tokens than its prompt has. Where the event does not state its prompt's
/// tokens, its page ids have room for so many.
///
/// # Errors
/// [`ImpossibleNumber::CachedTokens`].
pub fn check_cached_tokens(event: &RequestEvent<'_>, page_size: PageSize) -> Result<(), ImpossibleNumber> {
    let Some(cached) = event.cached_tokens.stated() else { return Ok(()) };
    let room = || event.prompt_pages().saturating_mul(u64::from(page_size.get()));
    let prompt = event.input_tokens.unwrap_or_else(room);
    if cached <= prompt { Ok(()) } else { Err(ImpossibleNumber::CachedTokens { cached, prompt }) }
}

/// A prompt's page ids are neither its full pages nor its full pages and one partial page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{ids} page ids do not fit {tokens} prompt tokens at {page_size} tokens per page: expected {}", self.expected())]
pub struct PageCountMismatch {
    /// Page ids the event holds, or names.
    pub ids: u64,
    /// Prompt tokens the event states.
    pub tokens: u64,
    /// Tokens per page.
    pub page_size: PageSize,
}

impl PageCountMismatch {
    /// How many ids would fit, in words.
    fn expected(&self) -> String {
        let size = u64::from(self.page_size.get());
        match (self.tokens / size, self.tokens.div_ceil(size)) {
            (full, all) if full == all => full.to_string(),
            (full, all) => format!("{full} or {all}"),
        }
    }
}

/// The listed pages of a prompt that count, behind a prefix that is named, if any: its full pages, and the partial
/// last one where that is requested.
///
/// Logs hold either `floor` or `ceil` of `input_tokens / page_size` ids. With `ceil` of a number that
/// is not whole, the last id is a partial page. An event that does not state its tokens cannot show a
/// partial page, so all its ids count.
///
/// # Errors
///
/// [`PageCountMismatch`] when the number of ids is neither of the two.
pub fn full_pages<'a>(
    event: &RequestEvent<'a>,
    page_size: PageSize,
    include_partial: bool,
) -> Result<PageIds<'a>, PageCountMismatch> {
    let ids = event.page_ids;
    let Some(tokens) = event.input_tokens else { return Ok(ids) };
    let page_tokens = u64::from(page_size.get());
    let (full, all) = (tokens / page_tokens, tokens.div_ceil(page_tokens));
    let count = event.prompt_pages();
    match (count == full, count == all) {
        (true, _) => Ok(ids),
        (false, true) if include_partial => Ok(ids),
        (false, true) => Ok(ids.first(ids.len().saturating_sub(1))),
        (false, false) => Err(PageCountMismatch { ids: count, tokens, page_size }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pages(ids: &[u64], tokens: Option<u64>, include_partial: bool) -> Result<Vec<u64>, PageCountMismatch> {
        let event = RequestEvent {
            page_ids: PageIds::from_slice(ids),
            input_tokens: tokens,
            ..RequestEvent::default()
        };
        let page_size = PageSize::new(16).expect("not zero");
        full_pages(&event, page_size, include_partial).map(|ids| ids.iter().collect())
    }

    #[test]
    fn only_a_partial_last_page_is_cut() {
        assert_eq!(pages(&[1, 2, 3], Some(40), false), Ok(vec![1, 2]), "ceil ids: the third is partial");
        assert_eq!(pages(&[1, 2, 3], Some(40), true), Ok(vec![1, 2, 3]));
        assert_eq!(pages(&[1, 2], Some(40), false), Ok(vec![1, 2]), "floor ids: no partial page logged");
        assert_eq!(pages(&[1, 2], Some(40), true), Ok(vec![1, 2]));
        assert_eq!(pages(&[1, 2, 3], Some(48), false), Ok(vec![1, 2, 3]), "a multiple has no partial page");
        assert_eq!(pages(&[1, 2, 3], None, false), Ok(vec![1, 2, 3]), "unknown tokens cut nothing");
        assert_eq!(pages(&[9], Some(3), false), Ok(vec![]), "a prompt shorter than a page");
        assert_eq!(pages(&[], Some(0), false), Ok(vec![]));
    }

    #[test]
    fn an_answer_fills_the_pages_that_its_stored_tokens_end() {
        let page_size = PageSize::new(16).expect("not zero");
        let filled = |input_tokens, output_tokens| {
            let event = RequestEvent {
                page_ids: PageIds::from_slice(&[1, 2]),
                input_tokens,
                output_tokens,
                ..RequestEvent::default()
            };
            event.answer_pages(page_size)
        };
        assert_eq!(filled(Some(40), Some(8)), Some(0), "47 tokens are stored");
        assert_eq!(filled(Some(40), Some(9)), Some(1), "48 tokens are");
        assert_eq!(filled(None, Some(16)), Some(0), "behind the pages that are listed");
        assert_eq!(filled(None, Some(33)), Some(2));
        assert_eq!(filled(Some(40), Some(0)), Some(0), "nothing is generated");
        assert_eq!(filled(Some(40), None), None);
    }

    #[test]
    fn a_count_that_fits_neither_is_refused_without_the_ids() {
        let error = pages(&[77777], Some(40), false).expect_err("one id for 40 tokens");
        assert_eq!(
            error.to_string(),
            "1 page ids do not fit 40 prompt tokens at 16 tokens per page: expected 2 or 3"
        );
        assert!(pages(&[1, 2, 3, 4], Some(48), true).is_err());
        assert!(pages(&[], Some(u64::MAX), true).is_err());
    }

    proptest! {
        #[test]
        fn what_counts_never_exceeds_the_tokens(tokens in 0u64..200, count in 0usize..16) {
            let ids = vec![5u64; count];
            match pages(&ids, Some(tokens), false) {
                Ok(kept) => {
                    prop_assert!(kept.len() as u64 * 16 <= tokens);
                    prop_assert!(kept.len() as u64 == tokens / 16);
                }
                Err(_) => prop_assert!(count as u64 != tokens / 16 && count as u64 != tokens.div_ceil(16)),
            }
        }
    }
}
