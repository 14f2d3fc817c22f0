//! What measured requests add up to, whatever their caches are modelled by.

use super::intervals::Agreed;
use super::reading::{CachedPages, Explanation};
use crate::request::outcome::Outcome;
use crate::units::is_countable;
use serde::{Deserialize, Serialize};

/// Counts over requests that say what they found. Pages are followed pages, but for `cached_pages`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests.
    pub requests: u64,
    /// Those whose usage leaves the count out: taken as zero.
    pub taken_as_zero: u64,
    /// Those of which all tokens but the last were found, and at least one.
    pub all_but_last: u64,
    /// Full pages in their cached tokens.
    pub cached_pages: u64,
    /// Followed pages among them.
    pub hits: u64,
    /// Those of the hits that an earlier request generated and no prompt had before.
    pub generated: u64,
    /// Pages accessed.
    pub page_accesses: u64,
    /// Tokens of prompts behind their full pages, as far as known.
    pub rest_tokens: u64,
    /// Hits of one cache without limit.
    pub unlimited: u64,
    /// Requests that found more than prompts and answers of the log explain.
    pub requests_beyond_log: u64,
    /// The pages they found too many.
    pub pages_beyond_log: u64,
}

impl Counts {
    /// Those of one request: what it says, what one cache for all requests has, and how far the log explains it in the
    /// cache that served it.
    pub(super) fn of(
        cached: CachedPages,
        shared: &Outcome,
        unlimited: u64,
        explanation: Explanation,
    ) -> Self {
        let hits = cached.followed;
        let beyond = explanation.beyond(hits);
        Self {
            requests: 1,
            taken_as_zero: u64::from(cached.is_taken_as_zero),
            all_but_last: u64::from(cached.is_all_but_last),
            cached_pages: cached.all,
            hits,
            generated: explanation.generated(hits),
            page_accesses: shared.page_accesses,
            rest_tokens: u64::from(shared.rest_tokens),
            unlimited,
            requests_beyond_log: u64::from(beyond > 0),
            pages_beyond_log: beyond,
        }
    }

    /// Takes others in.
    pub fn add(&mut self, other: &Self) {
        self.change(other, |count, by| *count += by);
    }

    /// Takes others out that were taken in before.
    pub fn remove(&mut self, other: &Self) {
        self.change(other, |count, by| *count -= by);
    }

    fn change(&mut self, other: &Self, by: impl Fn(&mut u64, u64)) {
        self.all_mut().into_iter().zip(other.all()).for_each(|(count, other)| by(count, other));
    }

    /// Whether these, read back from a snapshot, can be added to.
    pub fn are_sound(&self) -> bool {
        self.all().into_iter().all(is_countable)
    }

    /// Whether any request states how many of its tokens were cached.
    pub fn state_something(&self) -> bool {
        self.requests > self.taken_as_zero
    }

    /// Whether the requests are those of the decode side of a split deployment: it is handed all of each prompt but the
    /// last token, so that nothing of a cache shows.
    pub fn are_of_decode_side(&self) -> bool {
        self.all_but_last > 0 && self.all_but_last == self.requests && self.pages_beyond_log > 0
    }

    /// Whether nothing was found, and something could have been.
    pub(super) fn find_nothing(&self) -> bool {
        self.cached_pages == 0 && self.hits == 0 && self.unlimited > 0
    }

    fn all(&self) -> [u64; 11] {
        let mut copy = *self;
        copy.all_mut().map(|count| *count)
    }

    fn all_mut(&mut self) -> [&mut u64; 11] {
        let Self {
            requests, taken_as_zero, all_but_last, cached_pages, hits, generated, page_accesses, ..
        } = self;
        let Self { rest_tokens, unlimited, requests_beyond_log, pages_beyond_log, .. } = self;
        [
            requests,
            taken_as_zero,
            all_but_last,
            cached_pages,
            hits,
            generated,
            page_accesses,
            rest_tokens,
            unlimited,
            requests_beyond_log,
            pages_beyond_log,
        ]
    }
}

/// What an estimate is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Agreement {
    pub(super) counts: Counts,
    /// The capacity that most of those that can tell agree on.
    pub(super) agreed: Option<Agreed>,
    /// Requests that can tell, and their pages.
    pub(super) told: (u64, u64),
    /// Caches that served requests.
    pub(super) replicas: u64,
}
