//! The rules of one cache, and what they make of one request before it is served.

use super::attention::{Attention, BlockRetention, GroupKind};
use super::head::DraftHead;
use crate::engines::profile::Outputs;
use crate::request::event::RequestEvent;
use crate::units::{PageCount, PageSize};
use serde::{Deserialize, Serialize};

/// What decides a cache's answers besides its capacity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HybridRules {
    /// The groups.
    pub attention: Attention,
    /// Which pages of windows and states stay named.
    pub retention: BlockRetention,
    /// Most tokens of a prompt that one step computes (`max_num_batched_tokens`).
    pub prefill_chunk: u32,
    /// Tokens per block.
    pub page_size: PageSize,
    /// Whether output tokens enter the cache.
    pub outputs: Outputs,
    /// The head of the model's own that drafts in the same cache. Left out of snapshots: the caches of a model with
    /// such a head are saved with it.
    #[serde(skip)]
    pub head: DraftHead,
}

/// Why an engine, or a tier, cannot be modelled by its rules at a page size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// vLLM refuses it as well.
    #[error(
        "a retention interval of {interval} tokens is no multiple of the page ({page_size} tokens): choose one, 0 or none"
    )]
    Retention {
        /// The interval requested.
        interval: u32,
        /// Tokens per page.
        page_size: PageSize,
    },
    /// vLLM refuses it as well.
    #[error(
        "a retention interval of {interval} tokens is no multiple of a chunk of the tier below ({chunk} tokens), which vLLM \
         requires: choose one that is, 0 or none, or another blocks_per_chunk"
    )]
    RetentionChunk {
        /// The interval requested.
        interval: u32,
        /// Tokens per chunk.
        chunk: u64,
    },
    /// There are too many groups.
    #[error(
        "{groups} groups over vLLM's tier in host memory, at most {most} are modelled: leave the tier out"
    )]
    OffloadGroups {
        /// The groups requested.
        groups: usize,
        /// How many there may be.
        most: usize,
    },
    /// The log's pages cannot be grouped into chunks of LMCache's.
    #[error(
        "a chunk of {chunk_tokens} tokens is not made of whole pages of {page_size} tokens, so what it holds cannot be \
         told: give a multiple of the page as the chunk, or a log with smaller pages"
    )]
    StoredChunk {
        /// Tokens per chunk.
        chunk_tokens: u32,
        /// Tokens per page of the log.
        page_size: PageSize,
    },
    /// SGLang's device, or that and its host together, has more pages than are modelled.
    #[error("a capacity of {asked} pages is more than the sglang profile models ({most}): ask for less")]
    TooLarge {
        /// Pages requested.
        asked: PageCount,
        /// How many there may be.
        most: PageCount,
    },
    /// Nothing would ever be computed.
    #[error(
        "a prefill chunk of {chunk} tokens is smaller than the page ({page_size} tokens): choose a larger one"
    )]
    Chunk {
        /// The chunk requested.
        chunk: u32,
        /// Tokens per page.
        page_size: PageSize,
    },
    /// SGLang refuses it as well.
    #[error(
        "a prefill chunk of {chunk} tokens is no multiple of the page ({page_size} tokens), which SGLang requires: choose one \
         that is"
    )]
    ChunkPages {
        /// The chunk requested.
        chunk: u32,
        /// Tokens per page.
        page_size: PageSize,
    },
    /// SGLang refuses it as well.
    #[error(
        "a page of {page_size} tokens does not divide 256, which are the tokens between states that SGLang keeps: choose one \
         that does"
    )]
    StatePage {
        /// Tokens per page.
        page_size: PageSize,
    },
    /// The groups do not say it.
    #[error(
        "how large a state is has to be known to split the memory: give --state-tokens, or set \
         state_tokens, the tokens of one full group that take as much"
    )]
    NoStateSize,
}

impl HybridRules {
    /// Whether a cache can keep these.
    ///
    /// # Errors
    /// [`RulesError`] where the interval is no multiple of the page, or the chunk smaller than it.
    pub fn check(&self) -> Result<(), RulesError> {
        let page_size = self.page_size;
        if let BlockRetention::Every(interval) = self.retention
            && !interval.is_multiple_of(page_size.get())
        {
            return Err(RulesError::Retention { interval, page_size });
        }
        if self.prefill_chunk < page_size.get() {
            return Err(RulesError::Chunk { chunk: self.prefill_chunk, page_size });
        }
        Ok(())
    }

    /// Tokens per page.
    pub(super) fn page(&self) -> u64 {
        u64::from(self.page_size.get())
    }

    /// Pages of the groups alongside the full ones that a hit must find before its end.
    pub(super) fn need(&self) -> u64 {
        match self.attention.other() {
            None | Some(GroupKind::Full) => 0,
            Some(GroupKind::Window(tokens)) => u64::from(tokens - 1).div_ceil(self.page()),
            Some(GroupKind::Mamba) => 1,
        }
    }

    /// Pages that groups of a kind lose of what they find.
    pub(super) fn lost(&self, kind: GroupKind) -> u32 {
        u32::from(self.head.is_in(kind))
    }

    /// Whether a look-up goes one page further than a hit can.
    fn looks_behind(&self) -> bool {
        self.head.drafts() && self.attention.groups().len() > 1
    }

    /// Pages begun by so many tokens, with the room that drafts take behind them.
    pub(super) fn begun(&self, tokens: u64) -> u64 {
        (tokens + u64::from(self.head.tokens)).div_ceil(self.page())
    }

    /// Pages that a window has passed once so many tokens are computed.
    pub(super) fn passed(&self, tokens: u32, computed: u64) -> u64 {
        (computed + 1).saturating_sub(u64::from(tokens)) / self.page()
    }
}

/// A request in tokens and pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RequestShape {
    /// Tokens of the prompt; of a request that was preempted, all tokens that it had come to.
    pub prompt: u64,
    /// Those of the prompt as it was looked up first.
    pub first_prompt: u64,
    /// Tokens stored in the end.
    pub stored: u64,
    /// Leading prompt pages that may be hits: the prompt's last token is always computed.
    pub limit: u64,
    /// Leading prompt pages that are looked up: with a draft head, groups that share a pool look up the page that
    /// they lose behind those.
    pub looked_up: u64,
    /// Full prompt pages.
    pub prompt_pages: usize,
    /// Full pages after those whose ids are known.
    pub known_outputs: usize,
}

impl RequestShape {
    pub(super) fn of(event: &RequestEvent<'_>, rules: &HybridRules) -> Self {
        let page = rules.page();
        let covered = (event.page_ids.len() as u64).saturating_mul(page);
        // A log may leave the partial last page out.
        let prompt =
            event.input_tokens.map_or(covered, |tokens| tokens.min(covered.saturating_add(page - 1)));
        let sampled = match rules.outputs {
            Outputs::Cached => event.output_tokens.unwrap_or(0),
            Outputs::Ignored => 0,
        };
        let stored = prompt.saturating_add(sampled.saturating_sub(1));
        let output_pages = stored / page - prompt / page;
        // Where the tokens are unknown the last page may be followed by more, as in the stack profiles.
        let limit = if event.input_tokens.is_none() { prompt } else { prompt.saturating_sub(1) } / page;
        Self {
            prompt,
            first_prompt: prompt,
            stored,
            limit,
            looked_up: if rules.looks_behind() { prompt / page } else { limit },
            // Both are at most the number of ids, so they fit.
            prompt_pages: (prompt / page) as usize,
            known_outputs: (event.output_page_ids.len() as u64).min(output_pages) as usize,
        }
    }

    /// The same of a request that goes on with so many tokens, which it had come to before it was preempted. What it
    /// keeps for others is still that of its prompt.
    pub(super) fn up_to(self, tokens: u64, rules: &HybridRules) -> Self {
        let behind = u64::from(!rules.looks_behind());
        Self { prompt: tokens, looked_up: tokens.saturating_sub(behind) / rules.page(), ..self }
    }

    /// Leading pages that may be hits of what it has come to.
    pub(super) fn findable(&self, rules: &HybridRules) -> u64 {
        let goes_on = self.prompt > self.first_prompt;
        if goes_on { (self.prompt - 1) / rules.page() } else { self.limit }
    }

    /// Whether one that was read back is of a request that a pool of this capacity can hold.
    pub(super) fn is_sound(&self, capacity: u64, rules: &HybridRules) -> bool {
        let page = rules.page();
        self.stored.div_ceil(page) <= capacity
            && self.first_prompt <= self.prompt
            && self.prompt <= self.stored
            && self.limit.max(self.prompt_pages as u64) <= self.first_prompt / page
            && self.looked_up <= self.prompt / page
    }
}

/// What a lookup found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct HybridLookup {
    /// Leading pages found in every group.
    pub hits: u64,
    /// Leading pages found in the full groups, where those are more; else 0.
    pub junction: u64,
}

/// The steps of a request: how far it is computed at the end of each.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestSteps<'a> {
    pub rules: &'a HybridRules,
    pub shape: RequestShape,
    pub found: HybridLookup,
    /// Tokens that are there before the first step: what was found, and what a tier below had behind it.
    pub start: u64,
    /// What the groups alongside the full ones keep.
    pub other: Option<GroupKind>,
}

impl<'a> RequestSteps<'a> {
    pub(super) fn of(rules: &'a HybridRules, shape: RequestShape, found: HybridLookup) -> Self {
        Self { rules, shape, found, start: found.hits * rules.page(), other: rules.attention.other() }
    }

    /// The same where so many tokens are there before the first step.
    pub(super) fn from(self, start: u64) -> Self {
        Self { start, ..self }
    }

    /// Whether some of them come from a tier below.
    pub(super) fn loads(&self) -> bool {
        self.start > self.found.hits * self.rules.page()
    }

    /// The first page that the groups alongside the full ones hold before the first step.
    pub(super) fn first_held(&self) -> u64 {
        match self.other {
            Some(GroupKind::Window(tokens)) => self.rules.passed(tokens, self.start),
            _ => self.start.div_ceil(self.rules.page()).saturating_sub(self.rules.need()),
        }
    }

    /// The end of the prompt's step that starts at `done`.
    pub(super) fn prefill(&self, done: u64) -> u64 {
        let page = self.rules.page();
        let next = (done + u64::from(self.rules.prefill_chunk)).min(self.shape.prompt);
        if self.other != Some(GroupKind::Mamba) {
            return next;
        }
        let next = if next < self.shape.prompt { next / page * page } else { next };
        let stops = [self.resumed_from().1, self.found.junction].map(|pages| pages * page);
        stops.into_iter().filter(|stop| done < *stop && *stop < next).min().unwrap_or(next)
    }

    /// Where a later request can go on from in pages, lower one first: one with the same prompt, and one whose prompt
    /// goes on behind it. These differ with a draft head only.
    pub(super) fn resumed_from(&self) -> (u64, u64) {
        match self.rules.head.drafts() {
            true => (self.shape.limit.saturating_sub(1), (self.shape.prompt_pages as u64).saturating_sub(1)),
            false => (self.shape.limit, self.shape.limit),
        }
    }

    /// The next step of the output, from `done` on, in which a block is taken or given back: where it
    /// starts. Every step computes one token.
    pub(super) fn next_decode(&self, done: u64) -> u64 {
        let page = self.rules.page();
        let drafted = u64::from(self.rules.head.tokens);
        let take = (done + drafted).next_multiple_of(page) - drafted;
        match self.other {
            None | Some(GroupKind::Full) => take,
            Some(GroupKind::Mamba) => {
                let take = take.min(done.next_multiple_of(page));
                take.min((done.max(1) - 1).next_multiple_of(page) + 1)
            }
            Some(GroupKind::Window(tokens)) => {
                let tokens = u64::from(tokens);
                let slide = match (done + 1).checked_sub(tokens) {
                    Some(passed) => passed.next_multiple_of(page) + tokens - 1,
                    None => tokens - 1 + page,
                };
                take.min(slide)
            }
        }
    }

    /// The next step of the output in which a block is taken, given back, or named where others can ask for it
    /// (`names`), from `done` on; at most the end.
    pub(super) fn next_event(&self, done: u64, names: bool) -> u64 {
        let next = self.next_decode(done).min(self.shape.stored);
        if names { next.min((done + 1).next_multiple_of(self.rules.page()) - 1) } else { next }
    }

    /// Most blocks the request holds at once while its prompt is computed, without those that are `shared` with
    /// others of what was found, given the first page that the groups alongside the full ones still hold.
    pub(super) fn prefill_peak(&self, shared: impl Fn(u64) -> u64) -> u64 {
        let mut done = self.start;
        let (mut peak, mut first) = (0, true);
        while done < self.shape.prompt {
            let next = self.prefill(done);
            let low = match self.other {
                _ if first => self.first_held(),
                Some(GroupKind::Window(tokens)) => self.rules.passed(tokens, done).min(self.found.hits),
                _ => self.found.hits,
            };
            peak = peak.max(self.held(done, next, first).saturating_sub(shared(low)));
            (done, first) = (next, false);
        }
        peak
    }

    /// Most blocks the request holds at once.
    pub(super) fn peak(&self) -> u64 {
        let page = self.rules.page();
        let mut peak = self.prefill_peak(|_| 0);
        let (done, first) = (self.start.max(self.shape.prompt), self.start >= self.shape.prompt);
        if self.shape.stored > self.shape.prompt {
            // While decoding, the full groups only grow, and a window or a state is largest just after it took a
            // page: states at the page itself, the others as many tokens before it as are drafted.
            for ahead in [0, u64::from(self.rules.head.tokens)] {
                let last = (self.shape.stored - 1 + ahead) / page * page;
                let last = last.saturating_sub(ahead).max(done);
                peak = peak.max(self.held(last, last + 1, first && last == done));
            }
        }
        peak
    }

    /// Blocks held once the step from `done` to `next` has taken its own.
    fn held(&self, done: u64, next: u64, first: bool) -> u64 {
        let page = self.rules.page();
        let (before, after) = (self.rules.begun(done), self.rules.begun(next));
        let states = (done.div_ceil(page), next.div_ceil(page));
        let of_group = |kind: &GroupKind| match kind {
            GroupKind::Full => after,
            GroupKind::Mamba => u64::from(states.0 > 0) + u64::from(states.1 > states.0),
            GroupKind::Window(_) if first => after - self.first_held(),
            GroupKind::Window(tokens) => after - self.rules.passed(*tokens, done).min(before),
        };
        self.rules.attention.groups().iter().map(of_group).sum()
    }
}
