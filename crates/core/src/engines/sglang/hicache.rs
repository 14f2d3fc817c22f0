//! SGLang with HiCache: one tree over the device and the host, at one capacity of each (docs/engines/sglang.md).

use super::MAX_CAPACITY;
use super::flight::FlyingTree;
use super::host::WritePolicy;
use super::node::{NodeIndex, ROOT, SglangNode};
use super::shape::{PagedRequest, spare_pages};
use super::tree::SglangTree;
use crate::engines::hits::CacheHits;
use crate::engines::hybrid::RulesError;
use crate::engines::profile::Outputs;
use crate::request::event::RequestEvent;
use crate::units::heap::heap_bytes;
use crate::units::{PageCount, PageSize, is_countable};
use serde::{Deserialize, Serialize};

/// What the model keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HicacheRules {
    /// Usable pages of the host.
    pub host: PageCount,
    /// When a node is written to the host.
    pub write: WritePolicy,
    /// Tokens per page.
    pub page_size: PageSize,
    /// Whether output tokens enter the cache.
    pub outputs: Outputs,
}

/// Fewest tokens that are loaded back at once: SGLang's `load_back_threshold`.
const LEAST_LOADED_TOKENS: u64 = 10;

/// SGLang's radix cache over a device and a host of fixed numbers of pages.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "super::SavedHicache")]
pub struct HicacheCache {
    capacity: u64,
    rules: HicacheRules,
    /// Requests turned away since the start.
    pub(super) refused: u64,
    pub(super) tree: SglangTree,
    /// Pages that requests in flight hold and that are in no node.
    held: u64,
    /// Pages that the latest of them had loaded back; not saved.
    loaded: u64,
    /// The request's ids, prompt then known outputs, the first one scoped; kept for its memory.
    ids: Vec<u64>,
    /// The nodes from the root to where the request's pages end so far; kept for its memory.
    path: Vec<NodeIndex>,
}

heap_bytes!(HicacheCache { tree, ids, path; capacity, rules, refused, held, loaded });

impl HicacheCache {
    /// An empty cache with so many pages on the device.
    ///
    /// # Errors
    /// When both capacities together exceed [`MAX_CAPACITY`].
    pub fn new(capacity: PageCount, rules: HicacheRules) -> Result<Self, RulesError> {
        let together = PageCount(capacity.0.saturating_add(rules.host.0));
        if together > MAX_CAPACITY {
            return Err(RulesError::TooLarge { asked: together, most: MAX_CAPACITY });
        }
        let tree = SglangTree::new().over_host(rules.write, rules.host.0, 0);
        Ok(Self {
            capacity: capacity.0,
            rules,
            refused: 0,
            tree,
            held: 0,
            loaded: 0,
            ids: Vec::new(),
            path: Vec::new(),
        })
    }

    /// Usable pages of the device.
    pub fn capacity(&self) -> PageCount {
        PageCount(self.capacity)
    }

    /// What it keeps to.
    pub fn rules(&self) -> &HicacheRules {
        &self.rules
    }

    /// Whether its counts are ones that a log can come to.
    pub(crate) fn is_countable(&self) -> bool {
        [self.tree.clock(), self.tree.sequence(), self.refused].into_iter().all(is_countable)
    }

    /// Pages that the device holds.
    pub fn resident(&self) -> PageCount {
        PageCount(self.tree.pages())
    }

    /// Pages that the host holds, those that the device holds as well among them.
    pub fn resident_on_host(&self) -> PageCount {
        PageCount(self.tree.host_pages())
    }

    /// Pages written to the host since the start, those that were there when it was restored among them.
    pub fn written(&self) -> PageCount {
        PageCount(self.tree.host.written)
    }

    /// Pages that the latest request in flight had loaded back as it was looked up.
    pub(crate) fn loaded(&self) -> u64 {
        self.loaded
    }

    /// Requests turned away since the start because the device cannot hold them even alone.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Serves one request to its end and says what it found on the device at its start, and how many pages behind that were
    /// loaded back from the host.
    ///
    /// Output pages whose ids the event does not tell are pages nobody shares. Ids beyond the
    /// tokens, and tokens beyond the ids, are left out.
    pub fn request(&mut self, event: &RequestEvent<'_>) -> (CacheHits, u64) {
        let shape = PagedRequest::of(event, self.rules.page_size, self.rules.outputs, false);
        if shape.least_capacity() > self.capacity {
            self.refused += 1;
            return (CacheHits { hits: 0, refused: true }, 0);
        }
        let mut ids = std::mem::take(&mut self.ids);
        shape.take_ids(event, &mut ids);
        let (device, host) = self.look_up(&ids[..shape.hit_limit]);
        let host = self.load_back(host);
        self.prefill(&ids, &shape, device + host);
        self.tree.next_step();
        if self.rules.outputs == Outputs::Cached {
            self.decode(&shape);
            // Fits: `least_capacity` was checked against a capacity of 32 bits.
            self.insert(&ids, shape.private_outputs as u32, shape.prompt_pages);
        }
        self.ids = ids;
        self.tree.unpin();
        self.tree.compact();
        (CacheHits { hits: device, refused: false }, host)
    }

    /// Matches and stamps; gives the pages found on the device, and those after them that the host holds.
    fn look_up(&mut self, ids: &[u64]) -> (u64, u64) {
        self.path.clear();
        self.path.push(ROOT);
        let matched = self.tree.descend(&mut self.path, ids, 0, false);
        self.tree.touch_all(&self.path);
        let on_device = self.path.iter().map(|index| self.tree.node(*index)).filter(|node| node.on_device);
        let device = on_device.map(SglangNode::pages).sum();
        (device, matched as u64 - device)
    }

    /// Loads what the host holds of the path back and locks it; gives the pages loaded. Too few tokens are left where
    /// they are, and the path then ends where the device's part does.
    fn load_back(&mut self, wanted: u64) -> u64 {
        let own = self.nodes_on_device();
        self.tree.pin(self.path[own - 1]);
        if !self.is_loaded_back(wanted) {
            self.path.truncate(own);
            return 0;
        }
        self.tree.pin_on_host(self.tip());
        self.make_room(wanted, 0);
        self.tree.unpin_on_host();
        self.tree.load(&self.path[own..]);
        self.tree.pin(self.tip());
        wanted
    }

    /// Nodes of the path that the device holds, the root among them.
    fn nodes_on_device(&self) -> usize {
        self.path.iter().take_while(|index| self.tree.node(**index).on_device).count()
    }

    /// Whether so many pages are enough to be loaded back.
    fn is_loaded_back(&self, pages: u64) -> bool {
        pages * u64::from(self.rules.page_size.get()) >= LEAST_LOADED_TOKENS
    }

    /// Makes room for the rest of the prompt and inserts it.
    fn prefill(&mut self, ids: &[u64], shape: &PagedRequest, hits: u64) {
        self.make_room(shape.prompt_slots - hits + spare_pages(self.rules.page_size), 0);
        self.insert(&ids[..shape.prompt_pages], 0, 0);
        self.tree.pin(self.tip());
    }

    /// Makes room for the output, as without a host.
    fn decode(&mut self, shape: &PagedRequest) {
        let (grown, held) =
            (shape.all_slots - shape.prompt_slots, shape.prompt_slots - shape.prompt_pages as u64);
        self.make_room(grown, held);
        let spare = u64::from(shape.decodes_on);
        if shape.all_slots + spare <= self.capacity {
            self.make_room(grown + spare, held);
        }
    }

    /// Inserts ids and `private` pages after them from the root down, the path standing for the first of them. Pages up to
    /// `inserted` were counted when this request inserted them before.
    fn insert(&mut self, ids: &[u64], private: u32, inserted: usize) {
        let mut end = 0;
        for at in 0..self.path.len() {
            let index = self.path[at];
            self.tree.touch(index);
            end += self.tree.node(index).pages();
            self.tree.pass(index, end, inserted as u64);
        }
        while let Some(index) = self.tree.step(self.tip(), &ids[end as usize..], true) {
            self.tree.enter(index);
            self.path.push(index);
            end += self.tree.node(index).pages();
            self.tree.pass(index, end, inserted as u64);
        }
        if (end as usize) < ids.len() || private > 0 {
            let leaf = self.tree.add_leaf(self.tip(), &ids[end as usize..], private);
            self.path.push(leaf);
            self.tree.pass(leaf, u64::MAX, inserted as u64);
        }
    }

    /// Evicts until `wanted` pages of the device are free alongside the `held` ones, which belong to the request but
    /// are in no node.
    fn make_room(&mut self, wanted: u64, held: u64) {
        while self.capacity - self.tree.pages() < wanted + held {
            // Only this request's own path is locked, and `least_capacity` leaves room alongside it,
            // so there is a leaf to evict for as long as room is short.
            let evicted = self.tree.evict_oldest_leaf();
            debug_assert!(evicted, "the request fits the device, so something is left to evict");
            if !evicted {
                return;
            }
        }
    }

    /// The node where the request's pages end so far.
    fn tip(&self) -> NodeIndex {
        self.path.last().copied().unwrap_or(ROOT)
    }
}

impl FlyingTree for HicacheCache {
    fn tree(&self) -> &SglangTree {
        &self.tree
    }

    fn tree_mut(&mut self) -> &mut SglangTree {
        &mut self.tree
    }

    fn pages(&self) -> u64 {
        self.capacity
    }

    fn page(&self) -> u64 {
        u64::from(self.rules.page_size.get())
    }

    fn held(&mut self) -> &mut u64 {
        &mut self.held
    }

    fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.tree.pages() + self.held)
    }

    fn refuse(&mut self) {
        self.loaded = 0;
        self.refused += 1;
    }

    fn shape(&self, event: &RequestEvent<'_>) -> PagedRequest {
        PagedRequest::of(event, self.rules.page_size, self.rules.outputs, false)
    }

    fn ids(&self, event: &RequestEvent<'_>, shape: &PagedRequest) -> Vec<u64> {
        let mut ids = Vec::new();
        shape.take_ids(event, &mut ids);
        ids
    }

    fn place_prompt(&mut self, prompt: &[u64], looked_up: usize, slots: u64) -> Option<(u64, NodeIndex)> {
        self.loaded = 0;
        let (device, host) = self.look_up(&prompt[..looked_up]);
        let own = self.nodes_on_device();
        let last_own = self.path[own - 1];
        self.tree.lock(last_own);
        let wanted = slots - device + spare_pages(self.rules.page_size);
        if !self.has_room(wanted) {
            self.tree.unlock(last_own);
            return None;
        }
        if self.is_loaded_back(host) {
            self.loaded = host;
            self.tree.pin_on_host(self.tip());
            self.evict_until_free(host);
            self.tree.unpin_on_host();
            self.tree.load(&self.path[own..]);
        } else {
            self.path.truncate(own);
        }
        let found = self.tip();
        self.tree.lock(found);
        self.evict_until_free(wanted - self.loaded);
        self.insert(prompt, 0, 0);
        let tail = self.tip();
        self.tree.lock(tail);
        self.tree.unlock(found);
        self.tree.unlock(last_own);
        self.tree.next_step();
        Some((device, tail))
    }

    fn place_outputs(&mut self, tail: NodeIndex, prompt_pages: usize, outputs: &[u64], private: u32) {
        let mut path = std::mem::take(&mut self.path);
        self.tree.path_to(tail, &mut path);
        self.path = path;
        // The path stands for the prompt, whose ids are not looked at.
        let mut ids = vec![0; prompt_pages];
        ids.extend_from_slice(outputs);
        self.insert(&ids, private, prompt_pages);
    }

    fn evict_leaf(&mut self) -> bool {
        self.tree.evict_oldest_leaf()
    }
}
