//! A profile's rules over the stack: what a request looks up, touches and leaves behind (docs/engines.md, section 2).

mod flight;
mod range;

pub use range::{EngineRange, RangeEngine};

use crate::engines::profile::{Layout, Outputs, OverlapMode, Profile};
use crate::request::event::{PageCountMismatch, RequestEvent, full_pages};
use crate::request::outcome::Outcome;
use crate::request::sample::Sample;
use crate::stack::{
    Access, ChainCheck, ChainPolicy, ChainViolation, Follower, Growth, Lookup, MAX_REQUEST_PAGES, Stack,
    StackConfig, Upcoming,
};
use crate::units::heap::heap_bytes;
use crate::units::pages::PageIds;
use crate::units::ratio::Ratio;
use crate::units::{PageCount, PageSize};
use range::Footing;
use serde::{Deserialize, Serialize};

/// What shapes an engine's results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineConfig {
    /// The modelled engine; one that has a single stack
    /// ([`CacheConfig::engine`](crate::engines::config::CacheConfig::engine)).
    pub profile: Profile,
    /// Whether output pages enter the cache; only the `vllm` profile has any.
    pub outputs: Outputs,
    /// Count a partial last page.
    pub include_partial_page: bool,
    /// Share of the pages followed, chosen by a hash of their ids (SHARDS, FAST '15).
    pub sample_rate: Ratio,
    /// Largest capacity with exact results, in (sampled) pages.
    pub max_tracked_pages: PageCount,
    /// Which ids are watched for chain violations.
    pub chain_check: ChainCheck,
    /// What happens to a request that violates the chain.
    pub chain_policy: ChainPolicy,
    /// Whether requests that overlap are modelled, once one says how long it took. Left out of snapshots, whose engines
    /// have that of the configuration they are resumed with.
    #[serde(skip)]
    pub overlap: OverlapMode,
    /// Whether pages that are computed again leave a copy, as in vLLM's pool. Likewise left out of snapshots.
    #[serde(skip)]
    pub keeps_copies: bool,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            profile: Profile::Paper,
            outputs: Outputs::Cached,
            include_partial_page: false,
            sample_rate: Ratio::ONE,
            max_tracked_pages: PageCount(crate::stack::MAX_TRACKED_PAGES),
            chain_check: ChainCheck::Sampled,
            chain_policy: ChainPolicy::Report,
            overlap: OverlapMode::Off,
            keeps_copies: false,
        }
    }
}

impl EngineConfig {
    /// How its stack is kept.
    fn stack(&self) -> StackConfig {
        StackConfig {
            order: self.profile.spec().order,
            max_tracked_pages: self.max_tracked_pages,
            chain_check: self.chain_check,
            chain_policy: self.chain_policy,
        }
    }
}

/// One pool's cache as a profile sees it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Engine {
    config: EngineConfig,
    stack: Stack,
    /// The previous request ended in a page that cannot be shared; it takes room until reused.
    previous_partial: bool,
    /// Output pages the sample has not taken yet, in units of one page over the rate's denominator.
    sampled_outputs: u64,
    /// The request's followed pages, where they are not one slice of the event.
    #[serde(skip)]
    pages: Vec<u64>,
    /// The last request accepted, for the replicas that follow.
    #[serde(skip)]
    last: LastRequest,
    /// The requests of the range that is being merged.
    #[serde(skip)]
    waiting: Option<std::vec::IntoIter<Footing>>,
}

heap_bytes!(Engine { stack, pages, waiting; config, previous_partial, sampled_outputs, last });

/// What a request comes to in any cache of the same rules, whatever that holds.
#[derive(Debug, Clone, Copy, Default)]
struct LastRequest {
    /// Followed pages of the prompt, and how many of them can be hits.
    prompt_pages: u64,
    rest_tokens: u32,
    lookup_limit: usize,
    /// Output pages without ids, before sampling.
    unshared_outputs: u64,
    partial: bool,
}

/// The cache of a replica that serves some of a pool's requests, kept along the stack of the pool's engine. It finds
/// what an engine of its own would.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct FollowingEngine {
    follower: Follower,
    /// As of [`Engine`].
    previous_partial: bool,
    sampled_outputs: u64,
}

heap_bytes!(FollowingEngine { follower; previous_partial, sampled_outputs });

/// Why a request was refused; the engine did not change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineRefusal {
    /// Its ids do not fit its tokens.
    #[error(transparent)]
    PageCount(#[from] PageCountMismatch),
    /// Its ids break the chain, and the policy is to refuse that.
    #[error(transparent)]
    Chain(#[from] ChainViolation),
}

/// Where a request's pages end, in followed pages.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Pages of the prompt.
    pub prompt: u64,
    /// Only this many leading ones can be hits.
    pub lookup_limit: u64,
    /// The prompt's pages, and the output's that have ids.
    pub pages: u64,
    /// The output's without ids, behind them.
    pub outputs: u32,
}

/// What a request stores, before sampling.
struct Footprint<'a> {
    prompt: PageIds<'a>,
    /// Tokens of the prompt behind its full pages, where a page that is not full does not count.
    rest_tokens: u32,
    /// Leading prompt pages that can be hits.
    lookup_limit: usize,
    known_outputs: PageIds<'a>,
    unshared_outputs: u64,
    partial: bool,
    /// Whether the prompt ends within a page, and the pages its output takes beyond that one.
    begins_partial: bool,
    growth: Growth,
}

impl Engine {
    /// An engine that has seen nothing.
    pub fn new(config: EngineConfig) -> Self {
        Self {
            config,
            stack: Stack::new(config.stack()),
            previous_partial: false,
            sampled_outputs: 0,
            pages: Vec::new(),
            last: LastRequest::default(),
            waiting: None,
        }
    }

    /// Looks a request up and makes it the most recent one. Needs and counts are of followed pages:
    /// divide them by the sample rate.
    ///
    /// # Errors
    /// [`EngineRefusal`]; nothing has changed then.
    pub fn observe(
        &mut self,
        event: &RequestEvent<'_>,
        page_size: PageSize,
        outcome: &mut Outcome,
    ) -> Result<(), EngineRefusal> {
        if self.stack.is_merging() && self.observe_next(outcome) {
            return Ok(());
        }
        let footprint = self.footprint(event, page_size)?;
        let mut pages = std::mem::take(&mut self.pages);
        let result = self.access(event, &footprint, &mut pages, outcome);
        self.pages = pages;
        Ok(result?)
    }

    /// What [`Engine::observe`] would find of a request; nothing is touched, but that requests in flight end whose
    /// time has come. Pages forgotten beyond the tracked bound are left out.
    ///
    /// # Errors
    /// Its ids do not fit its tokens.
    pub fn look_up(
        &mut self,
        event: &RequestEvent<'_>,
        page_size: PageSize,
        outcome: &mut Outcome,
    ) -> Result<(), PageCountMismatch> {
        let footprint = self.footprint(event, page_size)?;
        self.stack.pass_time(event.event_time);
        let mut pages = std::mem::take(&mut self.pages);
        let (access, prompt_pages) = self.access_of(event, &footprint, &mut pages);
        self.stack.look_up(&access, outcome);
        (outcome.page_accesses, outcome.rest_tokens) = (prompt_pages, footprint.rest_tokens);
        self.pages = pages;
        Ok(())
    }

    /// How many leading followed pages of a prompt the engine has, those among them that cannot be hits; nothing is
    /// touched. `outcome` is room to look them up in.
    pub fn known_pages(
        &mut self,
        event: &RequestEvent<'_>,
        page_size: PageSize,
        outcome: &mut Outcome,
    ) -> u64 {
        match self.look_up(event, page_size, outcome) {
            Ok(()) => outcome.known_pages(),
            // Of ids that do not fit the prompt's tokens nothing is known.
            Err(_) => 0,
        }
    }

    /// Where the pages of a request end that the engine takes. `page_accesses` are its followed prompt pages, and
    /// `sampled_outputs` is what the sample has left of the answers before, 0 at first.
    pub fn extent(
        &self,
        event: &RequestEvent<'_>,
        page_size: PageSize,
        page_accesses: u64,
        sampled_outputs: &mut u64,
    ) -> Option<Extent> {
        let Footprint { prompt, lookup_limit, known_outputs, unshared_outputs, .. } =
            self.footprint(event, page_size).ok()?;
        let followed = |pages: PageIds<'_>| match self.is_sampled() {
            true => Sample::at(self.config.sample_rate).followed(event.scope, pages).count() as u64,
            false => pages.len() as u64,
        };
        let (outputs, left) = self.sample_count(unshared_outputs, *sampled_outputs);
        *sampled_outputs = left;
        Some(Extent {
            prompt: page_accesses,
            lookup_limit: page_accesses.saturating_sub(followed(prompt.from(lookup_limit))),
            pages: page_accesses + followed(known_outputs),
            outputs,
        })
    }

    /// Whether a request's ids fit its tokens, so that [`Engine::observe`] takes it unless it breaks a chain.
    ///
    /// # Errors
    /// They do not.
    pub fn check(&self, event: &RequestEvent<'_>, page_size: PageSize) -> Result<(), PageCountMismatch> {
        self.footprint(event, page_size).map(|_| ())
    }

    /// Completes what was read back from a snapshot; whether it is kept as `config` says and can go on.
    pub fn resume(&mut self, config: &EngineConfig) -> bool {
        (self.config.overlap, self.config.keeps_copies) = (config.overlap, config.keeps_copies);
        self.config == *config
            && self.stack.is_like(&Self::new(*config).stack)
            && (config.models_overlap() || !self.stack.follows_flights())
    }

    /// Relies on nobody's word that ids are chained any more ([`Stack::disprove_chains`]).
    pub fn disprove_chains(&mut self) {
        self.stack.disprove_chains();
    }

    /// The request that [`Engine::observe`] is about to make of the stack, to be looked ahead at; none where
    /// that would not pay, or where other pages are followed than the event's own.
    pub fn upcoming<'a>(&'a self, event: &RequestEvent<'a>) -> Option<Upcoming<'a>> {
        let follows_these = self.config.sample_rate == Ratio::ONE;
        follows_these.then(|| self.stack.upcoming(event.scope, event.page_ids, event.ids_chained))?
    }

    /// Whether a request of so many pages may make the engine forget pages, which replicas that follow it rule out.
    pub fn may_forget(&self, pages: u64) -> bool {
        self.stack.may_forget(pages)
    }

    /// How it is kept.
    pub fn config(&self) -> EngineConfig {
        self.config
    }

    /// The stack below, for its counts.
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    fn access(
        &mut self,
        event: &RequestEvent<'_>,
        footprint: &Footprint<'_>,
        buffer: &mut Vec<u64>,
        outcome: &mut Outcome,
    ) -> Result<(), ChainViolation> {
        if event.duration_ms.is_some() && self.config.models_overlap() {
            self.stack.follow_flights();
        }
        let (access, prompt_pages) = self.access_of(event, footprint, buffer);
        if self.stack.follows_flights() {
            self.stack.arrive(&access, self.stay(event, footprint, &access), outcome)?;
        } else {
            self.stack.access(&access, outcome)?;
        }
        (outcome.page_accesses, outcome.rest_tokens) = (prompt_pages, footprint.rest_tokens);
        (_, self.sampled_outputs) = self.sample_count(footprint.unshared_outputs, self.sampled_outputs);
        self.previous_partial = footprint.partial;
        self.last = LastRequest {
            prompt_pages,
            rest_tokens: footprint.rest_tokens,
            lookup_limit: access.lookup_limit,
            unshared_outputs: footprint.unshared_outputs,
            partial: footprint.partial,
        };
        Ok(())
    }

    /// What a request comes to for the stack, and the pages of its prompt that are followed; `buffer` holds them where
    /// they are not one slice of the event.
    fn access_of<'a>(
        &self,
        event: &RequestEvent<'_>,
        footprint: &Footprint<'a>,
        buffer: &'a mut Vec<u64>,
    ) -> (Access<'a>, u64) {
        let scope = event.scope;
        let (sampled, sample) = (self.is_sampled(), Sample::at(self.config.sample_rate));
        let mut access = Access {
            scope,
            pages: footprint.prompt,
            ids_chained: event.ids_chained,
            prompt_pages: footprint.prompt.len(),
            lookup_limit: footprint.lookup_limit,
            unshared_outputs: self.sample_count(footprint.unshared_outputs, self.sampled_outputs).0,
            extra_need: self.extra_need(self.previous_partial),
            keeps_copies: self.config.keeps_copies,
        };
        let mut prompt_pages = footprint.prompt.len();
        if sampled || !footprint.known_outputs.is_empty() {
            buffer.clear();
            sample.append_followed(scope, footprint.prompt.first(footprint.lookup_limit), buffer);
            access.lookup_limit = buffer.len();
            sample.append_followed(scope, footprint.prompt.from(footprint.lookup_limit), buffer);
            prompt_pages = buffer.len();
            access.prompt_pages = prompt_pages;
            sample.append_followed(scope, footprint.known_outputs, buffer);
            access.pages = PageIds::from_slice(buffer);
        }
        (access, prompt_pages as u64)
    }

    fn is_sampled(&self) -> bool {
        self.config.sample_rate != Ratio::ONE
    }

    /// The room that the page takes in which the request before in the same cache ended.
    fn extra_need(&self, previous_partial: bool) -> u64 {
        u64::from(previous_partial && !self.is_sampled())
    }

    /// The sampled share of pages without ids, with what was left of earlier requests and what is for the next.
    fn sample_count(&self, pages: u64, left: u64) -> (u32, u64) {
        let (whole, carry) = self.config.sample_rate.split(pages, left);
        (whole.min(MAX_REQUEST_PAGES) as u32, carry)
    }

    fn footprint<'a>(
        &self,
        event: &RequestEvent<'a>,
        page_size: PageSize,
    ) -> Result<Footprint<'a>, PageCountMismatch> {
        if self.config.profile.spec().layout == Layout::Blocks {
            return self.vllm_footprint(event, page_size);
        }
        let prompt = full_pages(event, page_size, self.config.include_partial_page)?;
        let rest_tokens = if self.config.include_partial_page { 0 } else { rest_tokens(event, page_size) };
        Ok(Footprint {
            prompt,
            rest_tokens,
            lookup_limit: prompt.len(),
            known_outputs: PageIds::EMPTY,
            unshared_outputs: 0,
            partial: false,
            begins_partial: false,
            growth: Growth::default(),
        })
    }

    /// vLLM, step by step as in docs/engines/vllm.md: full pages only; the prompt's last token is always
    /// computed; the last sampled token stores nothing; a partial page takes room once released.
    fn vllm_footprint<'a>(
        &self,
        event: &RequestEvent<'a>,
        page_size: PageSize,
    ) -> Result<Footprint<'a>, PageCountMismatch> {
        let size = u64::from(page_size.get());
        let prompt = full_pages(event, page_size, false)?;
        let tokens = event.input_tokens.unwrap_or(prompt.len() as u64 * size);
        let lookup_limit = match event.input_tokens {
            Some(tokens) => usize::try_from(tokens.saturating_sub(1) / size).unwrap_or(usize::MAX),
            None => prompt.len(),
        };
        let generated = match self.config.outputs {
            Outputs::Cached => event.output_tokens.unwrap_or(0).saturating_sub(1),
            Outputs::Ignored => 0,
        };
        let stored = tokens.saturating_add(generated);
        let output_pages = stored / size - tokens / size;
        let known = usize::try_from(output_pages).unwrap_or(usize::MAX);
        let known_outputs = event.output_page_ids.first(known);
        Ok(Footprint {
            prompt,
            rest_tokens: rest_tokens(event, page_size),
            lookup_limit: lookup_limit.min(prompt.len()),
            known_outputs,
            unshared_outputs: output_pages - known_outputs.len() as u64,
            partial: !stored.is_multiple_of(size),
            begins_partial: !tokens.is_multiple_of(size),
            growth: Growth {
                pages: (stored.div_ceil(size) - tokens.div_ceil(size)).min(MAX_REQUEST_PAGES) as u32,
                next_token: tokens.next_multiple_of(size) + 1 - tokens,
                tokens_per_page: size,
                tokens: event.output_tokens.unwrap_or(0),
            },
        })
    }
}

/// Tokens of a prompt behind its full pages; none where the event does not count its tokens.
fn rest_tokens(event: &RequestEvent<'_>, page_size: PageSize) -> u32 {
    // Less than a page, whose tokens are counted in 32 bits.
    event.input_tokens.map_or(0, |tokens| (tokens % u64::from(page_size.get())) as u32)
}

impl FollowingEngine {
    /// Takes the request that the pool's `engine` has just accepted: what [`Engine::observe`] would find in an engine
    /// of this replica's requests alone, chain violations left out.
    pub fn observe(&mut self, engine: &Engine, outcome: &mut Outcome) {
        let LastRequest { prompt_pages, rest_tokens, unshared_outputs, partial, .. } = engine.last;
        let (outputs, left) = engine.sample_count(unshared_outputs, self.sampled_outputs);
        self.follower.access(&engine.stack, self.lookup(engine), outputs, outcome);
        (outcome.page_accesses, outcome.rest_tokens) = (prompt_pages, rest_tokens);
        (self.sampled_outputs, self.previous_partial) = (left, partial);
    }

    /// What [`FollowingEngine::observe`] would find; nothing is touched.
    pub fn look_up(&mut self, engine: &Engine, outcome: &mut Outcome) {
        self.follower.look_up(&engine.stack, self.lookup(engine), outcome);
        (outcome.page_accesses, outcome.rest_tokens) = (engine.last.prompt_pages, engine.last.rest_tokens);
    }

    fn lookup(&self, engine: &Engine) -> Lookup {
        Lookup {
            limit: engine.last.lookup_limit,
            extra_need: engine.extra_need(self.previous_partial),
            keeps_copies: engine.config.keeps_copies,
        }
    }

    /// An engine of the same requests that depends on no other.
    pub fn into_engine(self, of: &Engine, config: EngineConfig) -> Engine {
        let Self { follower, previous_partial, sampled_outputs } = self;
        let fresh = Engine::new(config);
        let stack = follower.into_stack(&of.stack, fresh.stack.config());
        Engine { stack, previous_partial, sampled_outputs, ..fresh }
    }

    /// Completes what was read back from a snapshot; whether it fits the pool's engine and can go on.
    pub fn resume(&mut self, engine: &Engine) -> bool {
        self.follower.resume(&engine.stack)
    }

    /// Requests taken so far.
    pub fn requests(&self) -> u64 {
        self.follower.requests()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(profile: Profile, outputs: Outputs) -> Engine {
        Engine::new(EngineConfig { profile, outputs, ..EngineConfig::default() })
    }

    fn observe(engine: &mut Engine, ids: &[u64], input: u64, output: u64) -> Outcome {
        let mut outcome = Outcome::default();
        let event = RequestEvent {
            page_ids: PageIds::from_slice(ids),
            input_tokens: Some(input),
            output_tokens: Some(output),
            ..RequestEvent::default()
        };
        engine.observe(&event, PageSize::new(4).expect("not zero"), &mut outcome).expect("chained");
        outcome
    }

    #[test]
    fn vllm_recomputes_the_last_page_of_a_fully_cached_prompt() {
        let mut engine = engine(Profile::Vllm, Outputs::Ignored);
        observe(&mut engine, &[1, 2], 8, 1);
        assert_eq!(observe(&mut engine, &[1, 2], 8, 1).reusable_prefix(), 1);
        assert_eq!(observe(&mut engine, &[1, 2], 9, 1).reusable_prefix(), 2);
    }

    #[test]
    fn vllm_stores_outputs_but_for_the_last_token_and_a_partial_page_takes_room() {
        let mut cached = engine(Profile::Vllm, Outputs::Cached);
        assert_eq!(observe(&mut cached, &[1], 4, 5).new_pages, 2, "4 + 4 tokens fill two pages");
        assert_eq!(observe(&mut cached, &[1], 5, 1).need_of_prefix(1), 1, "no partial page before it");
        assert_eq!(observe(&mut cached, &[1], 5, 1).need_of_prefix(1), 2, "the partial page takes one");
        let mut ignored = engine(Profile::Vllm, Outputs::Ignored);
        assert_eq!(observe(&mut ignored, &[1], 4, 5).new_pages, 1);
    }

    #[test]
    fn output_pages_with_ids_can_be_reused() {
        let mut engine = engine(Profile::Vllm, Outputs::Cached);
        let (prompt, output) = ([1], [2]);
        let event = RequestEvent {
            page_ids: PageIds::from_slice(&prompt),
            output_page_ids: PageIds::from_slice(&output),
            input_tokens: Some(4),
            output_tokens: Some(9),
            ..RequestEvent::default()
        };
        let mut outcome = Outcome::default();
        engine.observe(&event, PageSize::new(4).expect("not zero"), &mut outcome).expect("chained");
        assert_eq!((outcome.page_accesses, outcome.new_pages), (1, 3), "one page has an id, one is unshared");
        assert_eq!(observe(&mut engine, &[1, 2, 3], 12, 1).reusable_prefix(), 2);
    }

    #[test]
    fn a_sample_follows_the_same_pages_in_every_request() {
        let config =
            EngineConfig { sample_rate: "0.25".parse().expect("a share"), ..EngineConfig::default() };
        let mut engine = Engine::new(config);
        let ids: Vec<u64> = (0..40_000).collect();
        let first = observe(&mut engine, &ids, 160_000, 0);
        let second = observe(&mut engine, &ids, 160_000, 0);
        assert!((9_500..10_500).contains(&first.page_accesses), "{} of 40000", first.page_accesses);
        assert_eq!(
            (second.page_accesses, second.reusable_prefix()),
            (first.page_accesses, first.page_accesses)
        );
    }
}
