//! What never changes about a pool, and which events fit it.

use super::kind::PoolKind;
use super::live::{LivePool, ModelledCache, check_size};
use super::refusal::Refusal;
use super::shown::ShownMoment;
use crate::estimate::estimator::PoolFigures;
use crate::request::event::{RequestEvent, check_cached_tokens, check_numbers};
use crate::request::id_scheme::IdScheme;
use crate::request::labels::Label;
use crate::units::PageSize;
use crate::units::heap::heap_bytes;
use std::sync::Arc;

/// What never changes about a pool.
#[derive(Debug)]
pub(super) struct PoolIdentity {
    pub(super) name: Box<str>,
    pub(super) partition: i32,
    pub(super) kind: Arc<PoolKind>,
}

heap_bytes!(PoolIdentity { name; partition, kind });

impl PoolIdentity {
    pub(super) fn page_size(&self, live: Option<&LivePool>) -> Option<PageSize> {
        self.kind.config().cache.page_size.or(live.map(|live| live.cache.page_size))
    }

    /// The page size that holds for this event: the configured one, else that of the first accepted event.
    pub(super) fn page_size_for(
        &self,
        event: &RequestEvent<'_>,
        live: Option<&LivePool>,
    ) -> Result<PageSize, Refusal> {
        match (self.page_size(live), event.page_size) {
            (Some(expected), Some(found)) if expected != found => {
                Err(Refusal::PageSizeMismatch { expected, found })
            }
            (known, found) => known.or(found).ok_or(Refusal::UnknownPageSize),
        }
    }

    /// The page size of an event that is not too large and does not contradict itself.
    pub(super) fn check(
        &self,
        event: &RequestEvent<'_>,
        live: Option<&LivePool>,
    ) -> Result<PageSize, Refusal> {
        let page_size = self.page_size_for(event, live)?;
        check_numbers(event)?;
        check_size(event, page_size, self.kind.config())?;
        check_cached_tokens(event, page_size)?;
        Ok(page_size)
    }

    pub(super) fn figures<'a>(
        &'a self,
        cache: &'a ModelledCache,
        rejected_records: u64,
        at: ShownMoment,
    ) -> PoolFigures<'a> {
        PoolFigures {
            pool: &self.name,
            partition: self.partition,
            fingerprint: self.kind.fingerprint(),
            config: self.kind.config(),
            page_size: cache.page_size,
            page_bytes: cache.page_bytes,
            curve: &cache.curve,
            accepted_requests: cache.engine.stack().requests(),
            first_seen: cache.first_seen,
            next_offset: at.next_offset,
            missing: at.missing,
            accumulated_pages: cache.engine.stack().accumulated_pages(),
            tracked_pages: cache.engine.stack().tracked_pages(),
            chain_violations: cache.chain_violations,
            rejected_records,
            output_reuse_unseen: cache.output_reuse_unseen,
            models_overlap: cache.engine.follows_flights() || cache.caches.follows_flights(),
            observers: cache.observers.as_deref(),
        }
    }
}

/// The scheme of a pool's page ids once it has taken this event, where it was `known` before.
pub(super) fn id_scheme_for(
    event: &RequestEvent<'_>,
    known: Option<IdScheme>,
) -> Result<Option<IdScheme>, Refusal> {
    let Some(name) = event.labels.get(Label::IdScheme) else { return Ok(known) };
    match known {
        Some(expected) if expected.name() == *name => Ok(known),
        _ => match (IdScheme::new(name).ok_or(Refusal::InvalidIdScheme)?, known) {
            (found, Some(expected)) => Err(Refusal::IdSchemeMismatch { expected, found }),
            (found, None) => Ok(Some(found)),
        },
    }
}
