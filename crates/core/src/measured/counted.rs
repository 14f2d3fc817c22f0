//! What an estimate is made of, whatever the caches are modelled by.

use super::intervals::Agreed;

/// The measured requests of a trace or window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    /// Requests that say what they found.
    pub(super) requests: u64,
    /// Full pages in their cached tokens.
    pub(super) cached_pages: u64,
    /// The capacity that most of those that can tell agree on.
    pub(super) agreed: Option<Agreed>,
    /// Requests that can tell, and their pages.
    pub(super) told: (u64, u64),
    /// Caches that served requests.
    pub(super) replicas: u64,
    /// Requests that found more than the log shows was there.
    pub(super) requests_beyond_log: u64,
    /// The followed pages they found too many.
    pub(super) pages_beyond_log: u64,
}
