//! Prompt tokens that a provider wrote to its cache, as the log's usage counts them.

use kvset_formats::trace::CacheWrites;
use serde::Serialize;

/// What the log says of cache writes; Anthropic's API bills them by how long they are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct CacheWritesResult {
    /// Requests whose usage counts cache writes, those that wrote nothing too.
    pub requests: u64,
    /// Tokens written.
    pub tokens: u64,
    /// Those of them that are kept for five minutes.
    pub five_minute_tokens: u64,
    /// Those that are kept for an hour.
    pub one_hour_tokens: u64,
    /// Those of which the log does not say for how long.
    pub unstated_tokens: u64,
}

impl CacheWritesResult {
    pub(super) fn add(&mut self, writes: &CacheWrites) {
        self.requests += 1;
        self.tokens = self.tokens.saturating_add(writes.tokens);
        self.five_minute_tokens = self.five_minute_tokens.saturating_add(writes.five_minutes);
        self.one_hour_tokens = self.one_hour_tokens.saturating_add(writes.one_hour);
        self.unstated_tokens = self.unstated_tokens.saturating_add(writes.unstated());
    }

    /// What there is, once there is something.
    pub(super) fn found(self) -> Option<Self> {
        (self.requests > 0).then_some(self)
    }
}
