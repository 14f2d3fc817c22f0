//! A request as its pool has taken it.

use crate::engines::one_pass::Engine;
use crate::questions::generated::GeneratedPages;
use crate::request::event::RequestEvent;
use crate::request::outcome::Outcome;
use crate::units::PageSize;

/// A request that a pool has accepted.
#[derive(Debug, Clone, Copy)]
pub struct Accepted<'a> {
    /// The request.
    pub event: &'a RequestEvent<'a>,
    /// The session it belongs to, where the log says.
    pub session: Option<&'a str>,
    /// What the pool's own stack says of it.
    pub outcome: &'a Outcome,
    /// Tokens per page.
    pub page_size: PageSize,
    /// Its number among the accepted ones, counted from 0.
    pub index: u64,
    /// Whether it counts, or only fills caches.
    pub counted: bool,
    /// The pool's engine, which has just accepted it.
    pub engine: &'a Engine,
    /// Where earlier prompts end and how far their answers reach, where that is followed already. Where it names pages,
    /// the event has these names, and the engine knows them by these.
    pub generated: Option<&'a GeneratedPages>,
}
