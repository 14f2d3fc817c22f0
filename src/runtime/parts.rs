//! What a process of the service is put together from.

use super::checkpoints::Checkpoints;
use super::clock::Clock;
use super::observe::Observer;

/// What a service is made of beside its plan: the real things, or those of a simulation.
pub struct Parts<'c, S, O, W> {
    /// Time.
    pub clock: &'c dyn Clock,
    /// Membership in the group.
    pub source: &'c S,
    /// Where outputs and offsets go.
    pub outlet: O,
    /// Who does the work.
    pub workers: W,
    /// Snapshots, if any are kept.
    pub checkpoints: Option<Checkpoints>,
    /// Who is told.
    pub observer: &'c dyn Observer,
}
