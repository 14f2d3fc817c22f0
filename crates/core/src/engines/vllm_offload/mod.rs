//! vLLM's own tier in host memory, at one capacity (ENGINES 2, vLLM's tier in host memory).
//!
//! The tier is asked for the chunks after those that the device found. What it finds is loaded, which counts as a use, and
//! storing goes on behind it: what the device had is neither used nor stored. Where it finds nothing, all chunks of the
//! prompt are offered from the first one on, a step of the scheduler at a time. Whether the device's pages are used thus
//! depends on the tier's size, so a larger tier may hold less of a prompt than a smaller one, and each capacity is modelled
//! by itself. Prompts only (`offload_prompt_only`), one request at a time, copies done in the step after theirs.

mod arc;
mod lru;
mod offers;
mod options;
mod residents;

pub use options::{OffloadOptions, OffloadPolicy};

use crate::engines::chunks::Chunks;
use crate::request::event::RequestEvent;
use crate::stack::runs::MAX_PAGES;
use crate::units::{PageCount, PageSize};
use arc::ArcChunks;
use lru::LruChunks;
use offers::Offers;
use residents::Residents;

/// What decides a tier's answers besides its capacity.
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
    chunks: Chunks,
    residents: Box<dyn Residents + Send>,
    /// How often chunks were offered, where that matters.
    offers: Option<Offers>,
}

impl OffloadTier {
    /// An empty tier of so many pages; what of them makes no whole chunk is not used.
    pub fn new(capacity: PageCount, rules: OffloadRules) -> Self {
        let OffloadOptions { policy, store_threshold, blocks_per_chunk } = rules.options;
        let chunks = capacity.0.min(MAX_PAGES) / u64::from(blocks_per_chunk);
        Self {
            rules,
            chunks: Chunks::new(rules.page_size, blocks_per_chunk),
            residents: match policy {
                OffloadPolicy::Lru => Box::new(LruChunks::new(chunks)),
                OffloadPolicy::Arc => Box::new(ArcChunks::new(chunks)),
            },
            offers: (store_threshold >= 2).then(|| Offers::new(store_threshold)),
        }
    }

    /// Serves a request of which the device found so many leading pages; how many after them the tier found.
    pub fn request_after(&mut self, event: &RequestEvent<'_>, above: u64) -> u64 {
        self.chunks.take(event);
        self.residents.enter(&self.chunks.ids);
        self.offers.iter_mut().for_each(|offers| offers.enter(&self.chunks.ids));
        let found = self.look_up(above);
        self.store(event, above, found);
        self.residents.leave();
        self.offers.iter_mut().for_each(Offers::leave);
        found.map_or(above, |end| u64::from(end) * self.chunk_pages()) - above
    }

    /// Pages held.
    pub fn resident(&self) -> PageCount {
        PageCount(self.residents.held() * self.chunk_pages())
    }

    /// Pages written since the start.
    pub fn written(&self) -> PageCount {
        PageCount(self.residents.stored() * self.chunk_pages())
    }

    /// Bytes of memory the model itself takes, near enough to watch a limit with.
    pub fn memory_bytes(&self) -> usize {
        let offers = self.offers.as_ref().map_or(0, Offers::memory_bytes);
        self.residents.memory_bytes() + self.chunks.memory_bytes() + offers
    }

    fn chunk_pages(&self) -> u64 {
        u64::from(self.chunks.pages)
    }

    /// Chunks of the request, at most as many as a path has.
    fn chunk_count(&self) -> u32 {
        self.chunks.ids.len() as u32
    }

    /// Loads the chunks from the one on in which the device's pages end; where those found end, `None` where they are
    /// less than a chunk more than the device has.
    fn look_up(&mut self, above: u64) -> Option<u32> {
        let size = self.chunk_pages();
        let first = (above / size).min(u64::from(self.chunk_count())) as u32;
        let end = self.residents.found((first, self.chunk_count()));
        if u64::from(end) * size < above + size {
            return None;
        }
        self.residents.load((first, end));
        Some(end)
    }

    /// Offers chunks step by step. Those of a step without room are offered again in the next one.
    fn store(&mut self, event: &RequestEvent<'_>, above: u64, found: Option<u32>) {
        let page = u64::from(self.rules.page_size.get());
        let size = self.chunk_pages() * page;
        let prompt = event.input_tokens.unwrap_or(event.page_ids.len() as u64 * page);
        let (mut first, mut done) = match found {
            Some(end) => (end, u64::from(end) * size),
            None => (0, above * page),
        };
        let mut end = first;
        while done < prompt {
            done = prompt.min(done + u64::from(self.rules.prefill_chunk));
            end = (done / size).min(u64::from(self.chunk_count())) as u32;
            if self.offer(first, end) {
                first = end;
            }
        }
        // Each step that decodes offers again, and so does the end. What is being written is there after two of them, and
        // more offers than the threshold change nothing.
        let further = event.output_tokens.unwrap_or(0).max(1);
        let further = further.min(u64::from(self.rules.options.store_threshold) + 2);
        for _ in 0..further {
            if first == end || self.offer(first, end) {
                break;
            }
        }
    }

    /// Whether there was room for what is to be stored of these chunks.
    fn offer(&mut self, first: u32, end: u32) -> bool {
        if first >= end {
            return true;
        }
        let admitted = self.offers.as_mut().map(|offers| offers.count((first, end)));
        self.residents.offer((first, end), admitted.as_deref())
    }
}
