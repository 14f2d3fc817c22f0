//! vLLM's own tier in host memory, at one capacity (docs/engines/vllm.md, the tier in host memory).
//!
//! The tier is asked for the chunks after those that the device found. What it finds is loaded, which counts as a
//! use, and storing goes on behind it: what the device had is neither used nor stored. Where it finds nothing, all
//! chunks of the prompt are offered from the first one on, a step of the scheduler at a time. Whether the device's
//! pages are used thus depends on the tier's size, so a larger tier may hold less of a prompt than a smaller one, and
//! each capacity is modelled by itself. Prompts only (`offload_prompt_only`), one request at a time, copies done in
//! the step after theirs.

mod arc;
mod groups;
mod look_up;
mod lru;
mod offers;
mod options;
mod residents;
mod saved;

pub use options::{MAX_OPTION, OffloadOptions, OffloadPolicy};
pub use saved::SavedOffload;

use crate::engines::chunks::Chunks;
use crate::engines::hits::CacheHits;
use crate::engines::hybrid::{
    Attention, BlockRetention, DraftHead, HybridCache, HybridRules, LookedUpPrompt, RulesError,
};
use crate::request::event::RequestEvent;
use crate::stack::runs::MAX_PAGES;
use crate::units::heap::heap_bytes;
use crate::units::{PageCount, PageSize, is_countable};
use arc::ArcChunks;
use lru::LruChunks;
use offers::Offers;
use residents::{GroupSpan, MOST_GROUPS, Residents};

/// What decides a tier's answers besides its capacity and the groups of layers above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffloadRules {
    /// Its configuration.
    pub options: OffloadOptions,
    /// Tokens per page of the log.
    pub page_size: PageSize,
    /// Most tokens of a prompt that one step computes (`max_num_batched_tokens`).
    pub prefill_chunk: u32,
}

/// The tier, serving one request after the other.
#[derive(Debug)]
pub struct OffloadTier {
    rules: OffloadRules,
    capacity: PageCount,
    attention: Attention,
    retention: BlockRetention,
    /// The head that drafts in the pool above it.
    head: DraftHead,
    chunks: Chunks,
    /// Those of the prompt being served.
    chunk_count: u32,
    residents: Box<dyn Residents + Send>,
    /// How often chunks were offered, where that matters.
    offers: Option<Offers>,
    /// The prompt being served, and what is computed of it in tokens, with what was found here.
    prompt: LookedUpPrompt,
    computed: u64,
    /// The first of its chunks that is not stored yet.
    first: u32,
}

heap_bytes!(OffloadTier {
    chunks, residents, offers;
    rules, capacity, attention, retention, head, chunk_count, prompt, computed, first
});

impl OffloadTier {
    /// An empty tier of so many pages under full attention alone; what of them makes no whole chunk is not used.
    pub fn new(capacity: PageCount, rules: OffloadRules) -> Self {
        Self::of_groups(capacity, rules, Attention::default(), BlockRetention::default())
    }

    /// An empty tier under a pool of these rules, of so many of its blocks: a chunk of one group takes as many of
    /// them as it has pages.
    ///
    /// # Errors
    /// When the pool keeps pages of windows that are no ends of chunks, or has more groups than are modelled.
    pub fn under(
        capacity: PageCount,
        options: OffloadOptions,
        pool: &HybridRules,
    ) -> Result<Self, RulesError> {
        Self::check(options, pool)?;
        let HybridRules { attention, retention, prefill_chunk, page_size, .. } = pool.clone();
        let rules = OffloadRules { options, page_size, prefill_chunk };
        let tier = Self::of_groups(capacity, rules, attention, retention);
        Ok(Self { head: pool.head, ..tier })
    }

    /// Lets a head draft in the pool above it, which a saved state does not say.
    pub(crate) fn draft(&mut self, head: DraftHead) {
        self.head = head;
    }

    /// Whether a tier can be modelled under a pool of these rules.
    ///
    /// # Errors
    /// What [`OffloadTier::under`] refuses.
    pub fn check(options: OffloadOptions, pool: &HybridRules) -> Result<(), RulesError> {
        let HybridRules { attention, retention, page_size, .. } = pool;
        let chunk = u64::from(options.blocks_per_chunk) * u64::from(page_size.get());
        if let (BlockRetention::Every(interval), Some(_)) = (*retention, attention.other())
            && !u64::from(interval).is_multiple_of(chunk)
        {
            return Err(RulesError::RetentionChunk { interval, chunk });
        }
        let (groups, most) = (attention.groups().len(), MOST_GROUPS);
        if groups > most {
            return Err(RulesError::OffloadGroups { groups, most });
        }
        Ok(())
    }

    fn of_groups(
        capacity: PageCount,
        rules: OffloadRules,
        attention: Attention,
        retention: BlockRetention,
    ) -> Self {
        let OffloadOptions { policy, store_threshold, blocks_per_chunk } = rules.options;
        let chunks = capacity.0.min(MAX_PAGES) / u64::from(blocks_per_chunk);
        Self {
            rules,
            capacity,
            attention,
            retention,
            head: DraftHead::default(),
            chunks: Chunks::new(rules.page_size, blocks_per_chunk),
            chunk_count: 0,
            residents: match policy {
                OffloadPolicy::Lru => Box::new(LruChunks::new(chunks)),
                OffloadPolicy::Arc => Box::new(ArcChunks::new(chunks)),
            },
            offers: (store_threshold >= 2).then(|| Offers::new(store_threshold)),
            prompt: LookedUpPrompt::default(),
            computed: 0,
            first: 0,
        }
    }

    /// Whether it is one of so many blocks, with these options, whose counts a log can come to.
    pub(crate) fn is_of(&self, (blocks, options): (PageCount, OffloadOptions)) -> bool {
        self.capacity == blocks && self.rules.options == options && is_countable(self.residents.stored())
    }

    /// Serves a request of which the device found so many leading pages, full attention alone; how many after them
    /// the tier found.
    pub fn request_after(&mut self, event: &RequestEvent<'_>, above: u64) -> u64 {
        let page = u64::from(self.rules.page_size.get());
        let prompt = event.input_tokens.unwrap_or(event.page_ids.len() as u64 * page);
        self.enter(event, LookedUpPrompt { prompt, findable: prompt, hits: above, junction: 0 });
        self.load();
        let found = self.computed / page - above;
        let (mut done, mut is_stored) = (self.computed, true);
        while done < prompt {
            done = prompt.min(done + u64::from(self.rules.prefill_chunk));
            is_stored = self.store(self.chunks_of(done));
        }
        // Each step that decodes offers what is left again, and so does the end.
        for _ in 0..event.output_tokens.unwrap_or(0).max(1).min(self.retries()) {
            if is_stored {
                break;
            }
            is_stored = self.store(self.chunks_of(done));
        }
        self.leave();
        found
    }

    /// Serves a request in the pool that it is under: what that found, and how many pages after them the tier had.
    pub fn request_under(&mut self, pool: &mut HybridCache, event: &RequestEvent<'_>) -> (CacheHits, u64) {
        pool.request_over(event, self)
    }

    /// Begins a request, and looks up what follows the device's pages.
    fn enter(&mut self, event: &RequestEvent<'_>, prompt: LookedUpPrompt) {
        let ids = self.chunks.take(event);
        self.residents.enter(ids);
        self.offers.iter_mut().for_each(|offers| offers.enter(ids));
        // At most as many as a path has.
        self.chunk_count = ids.len() as u32;
        let found = self.look_up(&prompt);
        self.computed = found.unwrap_or(prompt.hits * u64::from(self.rules.page_size.get()));
        (self.prompt, self.first) = (prompt, 0);
    }

    /// Loads what was found. Storing goes on behind it; where nothing was found, from the first chunk on.
    fn load(&mut self) {
        if self.computed > self.prompt.hits * u64::from(self.rules.page_size.get()) {
            let spans = self.loaded();
            self.residents.load(&spans);
            self.first = self.computed.div_ceil(self.chunk_tokens()) as u32;
        }
    }

    /// One step of the scheduler under full attention alone: offers all chunks before `end` that it has not stored
    /// yet. Those of a step without room are offered again in the next one; whether there was any.
    fn store(&mut self, end: u32) -> bool {
        self.residents.step();
        let is_stored = self.offer(&[(0, (self.first, end))]);
        if is_stored {
            self.first = self.first.max(end);
        }
        is_stored
    }

    /// Whether there was room for what is to be stored of these chunks.
    fn offer(&mut self, spans: &[GroupSpan]) -> bool {
        if spans.iter().all(|(_, (from, to))| from >= to) {
            return true;
        }
        let admitted = self.offers.as_mut().map(|offers| offers.count(spans));
        self.residents.offer(spans, admitted.as_deref())
    }

    fn leave(&mut self) {
        self.residents.leave();
        self.offers.iter_mut().for_each(Offers::leave);
    }

    /// What is being written is there after two more steps, and more offers than the threshold change nothing.
    fn retries(&self) -> u64 {
        u64::from(self.rules.options.store_threshold) + 2
    }

    /// Pages held.
    pub fn resident(&self) -> PageCount {
        PageCount(self.residents.held() * self.chunk_pages())
    }

    /// Pages written since the start.
    pub fn written(&self) -> PageCount {
        PageCount(self.residents.stored() * self.chunk_pages())
    }

    fn chunk_pages(&self) -> u64 {
        u64::from(self.chunks.pages)
    }

    fn chunk_tokens(&self) -> u64 {
        self.chunk_pages() * u64::from(self.rules.page_size.get())
    }

    /// Full chunks of the request in so many tokens.
    fn chunks_of(&self, tokens: u64) -> u32 {
        (tokens / self.chunk_tokens()).min(u64::from(self.chunk_count)) as u32
    }
}
