//! The upper end of a replay's figures, where the log has the lengths of answers and not their ids.

use kvset_core::engines::one_pass::Engine;
use kvset_core::estimate::Estimate;
use kvset_core::pool::{Pool, ShownMoment};
use kvset_core::questions::answer_reuse::AnswerReuse;
use kvset_core::request::event::RequestEvent;
use kvset_core::units::{Offset, PageCount};
use kvset_core::windows::overlaps::Overlaps;
use kvset_core::windows::tally::{Position, RequestSummary, Tally};

/// Follows a replay of an engine that keeps what it generates.
#[derive(Debug, Default)]
pub(super) struct UpperEnd {
    reuse: AnswerReuse,
    /// What is counted, from the first answer brought back on; what was before is at both ends the same.
    tally: Option<Tally>,
    /// Room to sum a request up in.
    summary: RequestSummary,
}

impl UpperEnd {
    /// Follows the request that `pool` has just taken, its number `request`.
    pub(super) fn observe(&mut self, event: &RequestEvent<'_>, request: u64, pool: &Pool, counted: bool) {
        let (Some(page_size), Some(engine), Some((outcome, _))) =
            (pool.page_size(), pool.engine(), pool.last_request())
        else {
            return;
        };
        let Some(upper) = self.reuse.observe(event, request, page_size, engine, outcome) else { return };
        let (Some(rules), Some((counts, first))) =
            (pool.counting_rules().filter(|_| counted), pool.since_start())
        else {
            return;
        };
        let position = Position { arrival: request, offset: Offset(0), event_time: event.event_time };
        let Self { summary, tally, .. } = self;
        let tally = match tally {
            Some(tally) => tally,
            none => {
                let mut before = Tally { observation: None, overlaps: Overlaps::default(), ..counts.clone() };
                summary.read(outcome, position, &rules);
                before.remove(summary, summary.pages_unseen_since(first));
                none.insert(before)
            }
        };
        summary.read(upper, position, &rules);
        tally.add(summary, summary.pages_unseen_since(first));
    }

    /// Pages that prompts brought back, and the estimate over every request that counts; `None` where both ends are
    /// one, and where requests were followed while they were in flight.
    pub(super) fn result(&self, pool: &Pool, at: impl Into<ShownMoment>) -> Option<(u64, Estimate)> {
        if pool.engine().is_none_or(Engine::follows_flights) {
            return None;
        }
        // Who is in flight is the same at both ends.
        let overlaps = pool.counted_since_start()?.overlaps.clone();
        let counts = Tally { overlaps, ..self.tally.clone()? };
        let returned_pages = pool.config().cache.sample_rate.whole_of(self.reuse.pages());
        let estimate = pool.estimate_of(&counts, PageCount(self.reuse.pages()), at)?;
        Some((returned_pages, estimate))
    }
}
