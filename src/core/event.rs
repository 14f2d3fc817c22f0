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
