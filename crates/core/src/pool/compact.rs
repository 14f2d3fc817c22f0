//! Compact events: completed at the pool's door, so that everything behind it sees all ids of a prompt.

use super::{Arrival, Pool, PoolAccess, Refusal};
use crate::request::event::{KnownPrefix, RequestEvent};
use crate::stack::UnknownPrefix;
use crate::units::pages::{PageIds, Scope};
use crate::units::ratio::Ratio;
use crate::windows::tally::RequestSummary;

/// Memory to read one request after another in.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// The request, summed up.
    pub(super) summary: RequestSummary,
    /// All ids of a compact event's prompt.
    ids: Vec<u64>,
}

impl Pool {
    /// The event that a compact one stands for, its prompt's pages all in `ids`; one that lists them all as it is.
    ///
    /// # Errors
    /// An event whose prefix the pool cannot tell is refused and counted, as by [`Pool::observe`].
    pub fn complete<'e>(
        &mut self,
        event: &RequestEvent<'e>,
        ids: &'e mut Vec<u64>,
    ) -> Result<RequestEvent<'e>, Refusal> {
        let Some(prefix) = event.known_prefix else { return Ok(*event) };
        if let Err(unknown) = self.resolve(event.scope, prefix, ids) {
            self.rejected_records += 1;
            return Err(unknown.into());
        }
        ids.extend(event.page_ids.iter());
        Ok(RequestEvent { page_ids: PageIds::from_slice(ids), known_prefix: None, ..*event })
    }

    /// Observes the event that a compact one stands for. Kept out of the way of the others.
    #[inline(never)]
    pub(super) fn observe_compact(
        &mut self,
        event: &RequestEvent<'_>,
        arrival: Arrival,
        room: &mut Room,
    ) -> Result<PoolAccess, Refusal> {
        let Room { summary, ids } = room;
        let whole = self.complete(event, ids)?;
        self.observe_whole(&whole, arrival, summary)
    }

    /// Writes the ids of a prefix that an event of this scope names.
    pub(super) fn resolve(
        &mut self,
        scope: Scope,
        prefix: KnownPrefix,
        ids: &mut Vec<u64>,
    ) -> Result<(), UnknownPrefix> {
        if self.identity.kind.config().sample_rate != Ratio::ONE {
            return Err(UnknownPrefix::Sampled);
        }
        match &mut self.live {
            Some(live) => live.cache.engine.resolve(scope, prefix, ids),
            None => Err(UnknownPrefix::NotHeld { pages: prefix.pages.get() }),
        }
    }
}
