//! One request's measured hits, compared with what the model says they need.

use crate::request::event::{CachedTokens, RequestEvent};
use crate::request::outcome::{BEYOND, Need, Outcome, Run};
use crate::request::sample::Sample;
use crate::units::PageSize;
use crate::units::heap::flat;
use crate::units::ratio::Ratio;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The full pages among a request's cached tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedPages {
    /// All of them.
    pub all: u64,
    /// Those that are followed, where pages are sampled.
    pub followed: u64,
    /// The log leaves the count out, which is taken as zero.
    pub is_taken_as_zero: bool,
    /// They are those of all tokens of the prompt, or of all but the last one, which no look-up finds.
    pub is_all_but_last: bool,
}

impl CachedPages {
    /// So many pages, as the log states them, where all pages are followed.
    pub const fn stated(pages: u64) -> Self {
        Self { all: pages, followed: pages, is_taken_as_zero: false, is_all_but_last: false }
    }

    /// What the event says; `None` where it says nothing. A last page that is not full counts where such
    /// pages do (`include_partial`) and all of the prompt was cached.
    pub fn of(
        event: &RequestEvent<'_>,
        page_size: PageSize,
        include_partial: bool,
        sample_rate: Ratio,
    ) -> Option<Self> {
        let tokens = event.cached_tokens.count()?;
        let is_taken_as_zero = event.cached_tokens == CachedTokens::LeftOut;
        let rest = event.input_tokens.and_then(|all| all.checked_sub(tokens));
        let is_all_but_last = tokens > 0 && rest.is_some_and(|rest| rest <= 1);
        let size = u64::from(page_size.get());
        let whole_prompt = include_partial && event.input_tokens == Some(tokens);
        let all = if whole_prompt { tokens.div_ceil(size) } else { tokens / size };
        if sample_rate == Ratio::ONE {
            return Some(Self { is_taken_as_zero, is_all_but_last, ..Self::stated(all) });
        }
        let leading = event.page_ids.first(usize::try_from(all).unwrap_or(usize::MAX));
        let followed = Sample::at(sample_rate).followed(event.scope, leading).count() as u64;
        Some(Self { all, followed, is_taken_as_zero, is_all_but_last })
    }
}

/// How far prompts and answers of the log explain what a request found, in leading followed pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explanation {
    /// Pages that prompts had before.
    pub by_prompts: u64,
    /// Those, and pages behind them that an answer may have left.
    pub by_answers: u64,
}

impl Explanation {
    /// By what prompts had before, and nothing else.
    pub fn by_prompts(pages: u64) -> Self {
        Self { by_prompts: pages, by_answers: pages }
    }

    /// Hits that neither explains.
    pub fn beyond(self, hits: u64) -> u64 {
        hits.saturating_sub(self.by_answers)
    }

    /// Hits that only an answer explains.
    pub fn generated(self, hits: u64) -> u64 {
        hits.min(self.by_answers).saturating_sub(self.by_prompts)
    }

    /// What a cache finds that has the answer's pages among the hits, too. A model that does not know which of its
    /// pages they are has them behind those it knows: they are hits where all of these are, and each needs one page
    /// more.
    pub fn in_cache(self, hits: u64, outcome: &Outcome) -> Cow<'_, Outcome> {
        let reusable = outcome.reusable_prefix();
        let pages = hits.min(self.by_answers).saturating_sub(reusable);
        if pages == 0 {
            return Cow::Borrowed(outcome);
        }
        let mut outcome = outcome.clone();
        let need = outcome.need_of_prefix(reusable).saturating_add(1);
        let last_touched_by = outcome.runs.last().map_or(0, |run| run.last_touched_by);
        // A request's pages are counted in 32 bits.
        outcome.runs.push(Run { pages: pages as u32, need, step: 1, last_touched_by });
        Cow::Owned(outcome)
    }
}

/// What a request tells of the cache that served it. All pages are followed pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MeasuredReading {
    /// The cache held at least `at_least` and less than `less_than` pages at that moment.
    Between {
        /// Need of the last page that hit; 0 where none did.
        at_least: Need,
        /// Need of the first page that was there once and did not hit; `None` where there is no such page.
        less_than: Option<Need>,
    },
    /// More pages hit than the log explains.
    BeyondLog {
        /// So many more.
        pages: u64,
    },
}

flat!(MeasuredReading);

impl MeasuredReading {
    /// Reads `hits` measured pages of a request with this outcome.
    pub fn of(hits: u64, outcome: &Outcome) -> Self {
        let reusable = outcome.reusable_prefix();
        if hits > reusable {
            return Self::BeyondLog { pages: hits - reusable };
        }
        let less_than = (hits < reusable).then(|| outcome.need_of_prefix(hits + 1));
        // A need beyond the tracked bound bounds nothing that can be known.
        let less_than = less_than.filter(|need| *need != BEYOND);
        Self::Between { at_least: outcome.need_of_prefix(hits), less_than }
    }
}
