//! SGLang's tree over one pool, of full attention, and over a host where there is one (docs/engines/sglang.md).

use super::host::{HicacheRules, HostTier};
use super::node::{NodeIndex, ROOT};
use super::shape::{PagedRequest, spare_pages};
use super::{PoolRules, SglangCache};
use crate::engines::hits::CacheHits;
use crate::engines::profile::Outputs;
use crate::request::event::RequestEvent;
use crate::units::{PageCount, PageSize};
use serde::{Deserialize, Serialize};

/// What decides a cache's answers besides its capacity and its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlainRules {
    /// Tokens per page.
    pub page_size: PageSize,
    /// Whether output tokens enter the cache.
    pub outputs: Outputs,
    /// Whether a head drafts in the same cache; not saved.
    #[serde(skip)]
    pub drafts: bool,
}

impl PoolRules for PlainRules {
    const HAS_OTHER: bool = false;

    fn pools(&self, capacity: PageCount) -> (PageCount, u64) {
        (capacity, capacity.0)
    }

    fn draft(&mut self, drafts: bool) {
        self.drafts = drafts;
    }

    fn host_pools(&self, _: (u64, u64), host: PageCount) -> (u64, u64) {
        (host.0, 0)
    }

    fn serve<H: HostTier>(cache: &mut SglangCache<Self, H>, event: &RequestEvent<'_>) -> CacheHits {
        cache.serve(event)
    }
}

/// Fewest tokens that are loaded back at once: SGLang's `load_back_threshold`.
const LEAST_LOADED_TOKENS: u64 = 10;

/// SGLang's radix cache over a device and a host.
pub type HicacheCache = SglangCache<PlainRules, HicacheRules>;

impl<H: HostTier> SglangCache<PlainRules, H> {
    /// Serves one request to its end.
    fn serve(&mut self, event: &RequestEvent<'_>) -> CacheHits {
        let shape = self.shape(event);
        if shape.least_capacity() > self.capacity.0 {
            self.refuse();
            return CacheHits { hits: 0, refused: true };
        }
        let mut ids = std::mem::take(&mut self.ids);
        self.take_ids(event, &shape, &mut ids);
        let (prompt, outputs) = ids.split_at(shape.prompt_pages);
        let placed = self.place_prompt(prompt, shape.hit_limit, shape.prompt_slots);
        debug_assert!(placed.is_some(), "the request fits the device, and nobody else holds anything");
        let (hits, tail) = placed.unwrap_or((0, ROOT));
        if self.rules.outputs == Outputs::Cached {
            self.decode(&shape);
            // Fits: `least_capacity` was checked against a capacity of 32 bits.
            let (end, private) = (shape.prompt_pages as u64, shape.private_outputs as u32);
            self.insert(end, outputs, private, end);
        }
        self.ids = ids;
        self.tree.unlock(tail);
        self.tree.compact();
        CacheHits { hits, refused: false }
    }

    /// Makes room for the output. The engine takes one page at a time as the output grows, which evicts the same
    /// leaves as asking for all of them at once. Before every token it wants a free page, whether it takes it or not,
    /// so one more where tokens follow in the last page taken; a request that fills the cache goes on without.
    fn decode(&mut self, shape: &PagedRequest) {
        let held = shape.prompt_slots - shape.prompt_pages as u64;
        let spare = u64::from(shape.decodes_on);
        self.held += held;
        let grown = shape.all_slots - shape.prompt_slots;
        self.evict_until_free(grown);
        if shape.all_slots + spare <= self.capacity.0 {
            self.evict_until_free(grown + spare);
        }
        debug_assert!(self.free() >= grown, "only the request's own path is locked");
        self.held -= held;
    }

    /// Counts a request that is turned away.
    pub(super) fn refuse(&mut self) {
        self.loaded = 0;
        self.refused += 1;
    }

    /// How many pages of which kind a request brings.
    pub(super) fn shape(&self, event: &RequestEvent<'_>) -> PagedRequest {
        let PlainRules { page_size, outputs, drafts } = self.rules;
        PagedRequest::of(event, page_size, outputs, drafts)
    }

    /// The request's ids, prompt then known outputs.
    pub(super) fn take_ids(&self, event: &RequestEvent<'_>, shape: &PagedRequest, ids: &mut Vec<u64>) {
        if self.rules.drafts {
            // Every request that is served advances the clock, and neither ids that count from 0 nor tokens are that
            // large.
            shape.take_keyed_ids(event, self.rules.page_size, !self.tree.clock(), ids);
        } else {
            shape.take_ids(event, ids);
        }
    }

    /// Takes room for a prompt of which `looked_up` leading pages may be found, and for tokens behind it up to
    /// `slots` pages in all, loads back what the host has of it, and inserts it; gives the pages found on the device,
    /// and its last node, which is locked. `None` where there is no room.
    pub(super) fn place_prompt(
        &mut self,
        prompt: &[u64],
        looked_up: usize,
        slots: u64,
    ) -> Option<(u64, NodeIndex)> {
        let (own, device, host) = self.look_up(&prompt[..looked_up]);
        let wanted = slots - device + spare_pages(self.rules.page_size);
        let mut found = self.path[own - 1];
        if self.free() + self.tree.unlocked_pages() < wanted {
            self.tree.unlock(found);
            return None;
        }
        // Too few tokens are left where they are.
        if host * u64::from(self.rules.page_size.get()) >= LEAST_LOADED_TOKENS {
            let last_own = std::mem::replace(&mut found, self.tip());
            self.load_back(own, host);
            self.tree.lock(found);
            self.tree.unlock(last_own);
        } else {
            self.path.truncate(own);
        }
        self.evict_until_free(wanted - self.loaded);
        let hits = device + self.loaded;
        self.insert(hits, &prompt[hits as usize..], 0, 0);
        let tail = self.tip();
        self.tree.lock(tail);
        self.tree.unlock(found);
        self.tree.next_step();
        Some((device, tail))
    }

    /// Matches, locks what the device has of the path, and stamps all of it; gives the nodes and the pages of the
    /// device's part, and the pages behind it that only the host has.
    fn look_up(&mut self, ids: &[u64]) -> (usize, u64, u64) {
        self.loaded = 0;
        self.path.clear();
        self.path.push(ROOT);
        let matched = self.tree.descend(&mut self.path, ids) as u64;
        let own = match self.host.rules() {
            Some(_) => self.path.iter().take_while(|index| self.tree.node(**index).on_device).count(),
            None => self.path.len(),
        };
        let host: u64 = self.path[own..].iter().map(|index| self.tree.node(*index).pages()).sum();
        self.tree.lock(self.path[own - 1]);
        self.tree.touch_all(&self.path);
        (own, matched - host, host)
    }

    /// Loads so many pages back, which only the host has of the path behind its first `own` nodes.
    fn load_back(&mut self, own: usize, pages: u64) {
        self.tree.pin_on_host(self.tip());
        self.evict_until_free(pages);
        self.tree.unpin_on_host();
        self.tree.load(&self.path[own..]);
        self.loaded = pages;
    }

    /// Touches the path that ends at a node, after `end` pages, and inserts known and private pages behind it.
    pub(super) fn place_outputs(&mut self, tail: NodeIndex, end: u64, outputs: &[u64], private: u32) {
        self.tree.path_to(tail, &mut self.path);
        if self.host.rules().is_none() {
            self.tree.touch_all(&self.path);
        }
        self.insert(end, outputs, private, end);
    }

    /// Inserts ids and `private` pages behind the path, which stands for `end` pages. With a host the path is passed
    /// once more; pages up to `inserted` were counted when this request inserted them before. Without one SGLang
    /// passes it as well, but all of it is stamped already, and whatever got a later stamp lies below and so goes
    /// first.
    fn insert(&mut self, mut end: u64, mut ids: &[u64], private: u32, inserted: u64) {
        if self.host.rules().is_some() {
            self.pass_path(inserted);
        }
        while let Some(index) = self.tree.step(self.tip(), ids, true) {
            self.tree.enter(index);
            self.path.push(index);
            let pages = self.tree.node(index).pages();
            ids = &ids[pages as usize..];
            end += pages;
            self.tree.pass(index, end, inserted);
        }
        if !ids.is_empty() || private > 0 {
            let leaf = self.tree.add_leaf(self.tip(), ids, private);
            self.path.push(leaf);
            self.tree.pass(leaf, u64::MAX, inserted);
        }
    }

    /// An insertion stamps and passes the path.
    fn pass_path(&mut self, inserted: u64) {
        let mut end = 0;
        for &index in &self.path {
            self.tree.touch(index);
            end += self.tree.node(index).pages();
            self.tree.pass(index, end, inserted);
        }
    }

    /// Free pages of the device.
    pub(super) fn free(&self) -> u64 {
        self.capacity.0.saturating_sub(self.tree.pages() + self.held)
    }

    /// Evicts until so many pages are free, or nothing is left to evict.
    pub(super) fn evict_until_free(&mut self, wanted: u64) {
        while self.free() < wanted && self.tree.evict_oldest_leaf() {}
    }

    /// The node where the request's pages end so far.
    fn tip(&self) -> NodeIndex {
        self.path.last().copied().unwrap_or(ROOT)
    }
}
