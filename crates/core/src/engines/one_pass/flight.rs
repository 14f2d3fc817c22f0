//! Requests that are followed while they are in flight ([`Stack::arrive`](crate::stack::Stack::arrive)).

#[cfg(test)]
mod tests;

use super::{Engine, EngineConfig, Footprint};
use crate::engines::profile::OverlapMode;
use crate::request::event::RequestEvent;
use crate::stack::{Access, Growth, Overlap, Stay};

impl EngineConfig {
    /// Whether requests that overlap are modelled, where a log has durations.
    pub(crate) fn models_overlap(&self) -> bool {
        self.overlap == OverlapMode::On && self.profile.spec().can_overlap
    }
}

impl Engine {
    /// Whether requests are followed while they are in flight.
    pub fn follows_flights(&self) -> bool {
        self.stack.follows_flights()
    }

    /// What others hold as the last request arrived, in followed pages; `None` until a request of a log in which
    /// overlap is modelled said how long it took.
    pub fn others_in_flight(&self) -> Option<Overlap> {
        self.stack.others_in_flight()
    }

    /// How long a request is in flight. A sample follows no partial pages, and takes its outputs as evenly.
    pub(super) fn stay(
        &self,
        event: &RequestEvent<'_>,
        footprint: &Footprint<'_>,
        access: &Access<'_>,
    ) -> Stay {
        let Footprint { begins_partial, growth, .. } = *footprint;
        let all = Stay {
            arrival: event.event_time,
            duration_ms: event.duration_ms.unwrap_or(0),
            begins_partial,
            growth,
        };
        if !self.is_sampled() {
            return all;
        }
        let followed = access.pages.len() - access.prompt_pages + access.unshared_outputs as usize;
        let span = u64::from(growth.pages) * growth.tokens_per_page;
        let growth = Growth {
            pages: if growth.pages == 0 { 0 } else { followed as u32 },
            tokens_per_page: span / (followed as u64).max(1),
            ..growth
        };
        Stay { begins_partial: false, growth, ..all }
    }
}
