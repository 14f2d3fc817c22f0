//! The upper end of what caches find, where a log has the lengths of answers and not their ids.
//!
//! Engines keep what they generate, and the next prompt of a conversation contains it. Without ids the stack cannot
//! tell which pages of the prompt these are: it takes them as new, and that is the lower end. [`AnswerReuse`] follows
//! the stack and tells the upper one: a prompt that goes on behind the whole of an earlier one brings that one's
//! answer back, as many pages as the answer filled or the prompt goes on for, each answer once.
//!
//! One stack tells both ends. A request's pages lie in it as one run, the answer's behind the prompt's
//! ([`stack`](crate::stack)). A prompt whose known pages end where the request ended that touched the last of them
//! finds the next pages of that run at the needs that go on there. From then on the stack of the upper end holds the
//! same pages in the same order, but for those that were brought back: below, they still lie where they were, and
//! nobody will ask for them. So a need of the upper end is that of the lower one, less the pages brought back from
//! requests after the one that touched the page last.
//!
//! Pages beyond the tracked bound stay there.

mod brought;
#[cfg(test)]
mod tests;

use crate::engines::one_pass::{Engine, Extent};
use crate::request::event::RequestEvent;
use crate::request::outcome::{BEYOND, Outcome, Run};
use crate::units::{PageCount, PageSize};
use brought::PrefixSums;
use std::collections::VecDeque;

/// Follows the requests of an engine that keeps what it generates.
#[derive(Debug, Default)]
pub struct AnswerReuse {
    /// The requests that left pages without ids, from the oldest on that the stack still knows.
    ends: VecDeque<RequestEnd>,
    brought: PrefixSums,
    /// What the sample has left of the answers' pages, as the engine has it.
    sampled_outputs: u64,
    /// What the last request found.
    outcome: Outcome,
}

/// Where a request ended.
#[derive(Debug, Clone, Copy)]
struct RequestEnd {
    /// Its number in the pool.
    request: u64,
    /// Its pages with ids.
    pages: u64,
    /// Those without, behind them, until a prompt brings them back.
    outputs: u32,
}

impl AnswerReuse {
    /// Follows a request, the pool's number `request`, that the `engine` has just taken with this `outcome`. Returns
    /// what it finds at the upper end, where that differs from the first answer brought back on; before that both are
    /// one, and once requests are followed while they are in flight nothing is reported.
    pub fn observe(
        &mut self,
        event: &RequestEvent<'_>,
        request: u64,
        page_size: PageSize,
        engine: &Engine,
        outcome: &Outcome,
    ) -> Option<&Outcome> {
        if engine.follows_flights() {
            return None;
        }
        let extent = engine.extent(event, page_size, outcome.page_accesses, &mut self.sampled_outputs)?;
        let returned = self.returned(outcome, &extent);
        if returned.is_some() || self.brought.any() {
            self.read(outcome);
        }
        if let Some(returned) = returned {
            self.bring_back(returned, &extent, engine.stack().max_tracked_pages());
        }
        self.keep_end(request, &extent, engine.stack().max_tracked_pages());
        self.brought.any().then_some(&self.outcome)
    }

    /// Pages that prompts brought back so far, in followed pages.
    pub fn pages(&self) -> u64 {
        self.brought.total()
    }

    /// The pages that the request at hand brings back: the place of the end that it goes on behind, the pages known
    /// up to there, and how many come back.
    fn returned(&self, outcome: &Outcome, extent: &Extent) -> Option<(usize, u64, u32)> {
        let known = outcome.known_pages();
        let room = extent.prompt.checked_sub(known).filter(|room| *room > 0)?;
        let last = outcome.unlooked.last().or(outcome.runs.last()).filter(|run| run.need != BEYOND)?;
        let at = self.ends.binary_search_by_key(&last.last_touched_by, |end| end.request).ok()?;
        let end = self.ends.get(at).filter(|end| end.pages == known && end.outputs > 0)?;
        // A request's pages are counted in 32 bits.
        Some((at, known, u64::from(end.outputs).min(room) as u32))
    }

    /// Takes over what the request at hand finds at the lower end, at the needs of the upper one.
    fn read(&mut self, found: &Outcome) {
        let Self { ends, brought, outcome, .. } = self;
        outcome.copy(found);
        for run in outcome.runs.iter_mut().chain(&mut outcome.unlooked).filter(|run| run.need != BEYOND) {
            let newer = ends.partition_point(|end| end.request <= run.last_touched_by);
            run.need -= brought.from(newer);
        }
    }

    /// Adds pages to what the request at hand finds, as a run behind the last one: its last page may be computed anew.
    fn bring_back(&mut self, (at, known, pages): (usize, u64, u32), extent: &Extent, bound: PageCount) {
        let Outcome { runs, unlooked, new_pages, .. } = &mut self.outcome;
        let Some(last) = unlooked.last().or(runs.last()).copied() else { return };
        let run = Run { pages, need: last.need_at(last.pages), ..last };
        let hits = extent.lookup_limit.saturating_sub(known).min(u64::from(pages)) as u32;
        Run { pages: hits, ..run }.push_upto(bound, runs);
        Run { pages: pages - hits, need: run.need_at(hits), ..run }.push_upto(bound, unlooked);
        *new_pages -= u64::from(pages);
        self.ends[at].outputs = 0;
        self.brought.add(at, pages);
    }

    /// Notes where the request at hand ended, and lets go of those that the stack has forgotten: each of them has a
    /// page in it.
    fn keep_end(&mut self, request: u64, extent: &Extent, bound: PageCount) {
        if extent.outputs == 0 {
            return;
        }
        self.ends.push_back(RequestEnd { request, pages: extent.pages, outputs: extent.outputs });
        self.brought.push();
        let most = usize::try_from(bound.0).unwrap_or(usize::MAX);
        if self.ends.len() > most.saturating_mul(2) {
            let forgotten = self.ends.len() - most;
            self.ends.drain(..forgotten);
            self.brought.forget(forgotten);
        }
    }
}
