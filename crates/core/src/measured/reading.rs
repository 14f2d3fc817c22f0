//! One request's measured hits, held against what the model says they need.

use crate::event::RequestEvent;
use crate::outcome::{BEYOND, Need, Outcome};
use crate::ratio::Ratio;
use crate::sample::Sample;
use crate::units::PageSize;
use serde::{Deserialize, Serialize};

/// The full pages among a request's cached tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedPages {
    /// All of them.
    pub all: u64,
    /// Those that are followed, where pages are sampled.
    pub followed: u64,
}

impl CachedPages {
    /// What the event says; `None` where it says nothing. A last page that is not full counts where such
    /// pages do (`include_partial`) and all of the prompt was cached.
    pub fn of(
        event: &RequestEvent<'_>,
        page_size: PageSize,
        include_partial: bool,
        sample_rate: Ratio,
    ) -> Option<Self> {
        let tokens = event.cached_tokens.stated()?;
        let size = u64::from(page_size.get());
        let whole_prompt = include_partial && event.input_tokens == Some(tokens);
        let all = if whole_prompt { tokens.div_ceil(size) } else { tokens / size };
        if sample_rate == Ratio::ONE {
            return Some(Self { all, followed: all });
        }
        let leading = event.page_ids.first(usize::try_from(all).unwrap_or(usize::MAX));
        let followed = Sample::at(sample_rate).followed(event.scope, leading).count() as u64;
        Some(Self { all, followed })
    }
}

/// What a request tells of the cache that served it. All pages are followed pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reading {
    /// The cache held at least `at_least` and less than `less_than` pages at that moment.
    Between {
        /// Need of the last page that hit; 0 where none did.
        at_least: Need,
        /// Need of the first page that was there once and did not hit; `None` where there is no such page.
        less_than: Option<Need>,
    },
    /// More pages hit than were ever touched in this cache, as far as the log shows.
    BeyondLog {
        /// So many more.
        pages: u64,
    },
}

impl Reading {
    /// Reads `hits` measured pages of a request with this outcome.
    pub fn of(hits: u64, outcome: &Outcome) -> Self {
        let reusable = outcome.reusable_prefix();
        if hits > reusable {
            return Self::BeyondLog { pages: hits - reusable };
        }
        let less_than = (hits < reusable).then(|| outcome.need_of_prefix(hits + 1));
        // A need beyond the tracked bound bounds nothing that can be told.
        let less_than = less_than.filter(|need| *need != BEYOND);
        Self::Between { at_least: outcome.need_of_prefix(hits), less_than }
    }
}
