//! A request that a router sent to a replica.

use crate::request::outcome::Outcome;

/// What a request found where.
#[derive(Debug, Clone, Copy)]
pub struct Routed<'a> {
    /// Index of its replica.
    pub replica: usize,
    /// Its number in that replica, counted from 0.
    pub number: u64,
    /// What it found there.
    pub outcome: &'a Outcome,
}
