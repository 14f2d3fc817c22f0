//! What a process of the service is put together from.

use crate::clock::Clock;
use crate::events::Observer;

/// What a process is made of alongside its plan: the real things, or those of a simulation.
pub struct ServiceParts<'c, M, O, S> {
    /// Time.
    pub clock: &'c dyn Clock,
    /// Membership in the group.
    pub source: &'c M,
    /// Where outputs and offsets go.
    pub sink: O,
    /// What is done with the records.
    pub stage: S,
    /// Who is notified.
    pub observer: &'c dyn Observer,
}
