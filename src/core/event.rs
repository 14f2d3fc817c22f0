//! One request as the core sees it, whatever format it travelled in.

use super::pages::{PageIds, Scope};
use super::units::{EventTime, PageSize};

/// A request: the page ids of its prompt and what its log says beside them.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestEvent<'a> {
    /// When the request arrived.
    pub event_time: EventTime,
    /// Tokens a page, where the event says; else the pool's configured page size holds.
    pub page_size: Option<PageSize>,
    /// What the ids are unique within.
    pub scope: Scope,
    /// Prefix-chained ids of the prompt's pages; the last one may be a partial page, which shows in
    /// `input_tokens` not being a multiple of the page size.
    pub page_ids: PageIds<'a>,
    /// Ids of the pages the output filled, continuing the prompt's chain; empty where unknown.
    pub output_page_ids: PageIds<'a>,
    /// Tokens of the prompt.
    pub input_tokens: Option<u64>,
    /// Tokens generated.
    pub output_tokens: Option<u64>,
    /// From arrival to last token, in milliseconds, where the log says.
    pub duration_ms: Option<u64>,
}

impl<'a> RequestEvent<'a> {
    /// The prompt's pages that are cached: the full ones, and a partial last one where it counts.
    ///
    /// A log that writes the partial page's id too has one id more than the prompt has full pages.
    pub fn cached_pages(&self, page_size: PageSize, include_partial_page: bool) -> PageIds<'a> {
        match self.input_tokens {
            Some(tokens) if !include_partial_page => {
                let full = tokens / u64::from(page_size.get());
                self.page_ids.first(usize::try_from(full).unwrap_or(usize::MAX))
            }
            _ => self.page_ids,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_last_page_is_left_out_unless_asked_for() {
        let page_size = PageSize::new(16).expect("not zero");
        let ids = [1, 2, 3];
        let event = |input_tokens| RequestEvent {
            page_ids: PageIds::from_slice(&ids),
            input_tokens,
            ..RequestEvent::default()
        };
        assert_eq!(event(Some(40)).cached_pages(page_size, false).len(), 2);
        assert_eq!(event(Some(40)).cached_pages(page_size, true).len(), 3);
        assert_eq!(event(Some(48)).cached_pages(page_size, false).len(), 3);
        assert_eq!(event(Some(63)).cached_pages(page_size, false).len(), 3);
        assert_eq!(event(None).cached_pages(page_size, false).len(), 3, "no token count: all ids are pages");
    }
}
