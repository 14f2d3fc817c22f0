//! The `sglang` profile: SGLang's prefix cache, node by node, at one capacity (docs/engines/sglang.md).
//!
//! SGLang evicts a whole leaf node at once, so more capacity can lose hits and no stack distance
//! exists: one [`SglangCache`] answers for one capacity, and a curve made of several is pointwise.
//! Its parts are the rules of its pools, of which there are one or two, and what is below the device.
//! Over one pool requests come one after another, or overlap ([`load`](super::load)).

mod auxiliary;
mod flight;
mod host;
mod node;
mod one_pool;
mod progress;
mod saved;
mod shape;
mod sides;
mod states;
mod tree;
mod windows;
mod writes;

pub use host::{HicacheRules, HostTier, NoHost, WritePolicy};
pub use one_pool::{HicacheCache, PlainRules};
pub use saved::{SavedSides, SglangRestoreError, SglangSaved, SglangSavedNode};
pub use states::{StateCache, StateRules};
pub use windows::{WindowCache, WindowPoolRules};

use crate::engines::hits::CacheHits;
use crate::engines::hybrid::RulesError;
use crate::request::event::RequestEvent;
use crate::units::heap::HeapBytes;
use crate::units::{PageCount, is_countable};
use node::{NodeIndex, ROOT, SglangNode};
pub(in crate::engines) use shape::PagedRequest;
use tree::SglangTree;

/// The largest capacity one cache models: nodes and pages are counted in 32 bits.
pub const MAX_CAPACITY: PageCount = PageCount(u32::MAX as u64 - 1);

/// Most tokens of an answer that a request reserves before it starts: SGLang's `CLIP_MAX_NEW_TOKENS`.
const MOST_RESERVED: u64 = 4096;

/// The rules of a cache's pools: how they split its memory, and how requests take their pages.
pub trait PoolRules: Sized {
    /// Whether there is a pool alongside that of full attention.
    const HAS_OTHER: bool = true;

    /// Pages of full attention, and pages or states of the other pool, in the memory of so many pages of one group's
    /// layers.
    fn pools(&self, capacity: PageCount) -> (PageCount, u64);
    /// The same of a host with so many pages of one group's layers under a device with such pools: what it has of
    /// each is in their ratio.
    fn host_pools(&self, device: (u64, u64), host: PageCount) -> (u64, u64);
    /// Pages of a window in the other pool; none in one of states, and where there is no other pool.
    fn other_window(&self) -> Option<u64> {
        None
    }
    /// Whether a cache can keep these.
    ///
    /// # Errors
    /// [`RulesError`] where the page is none that they can be modelled at.
    fn check(&self) -> Result<(), RulesError> {
        Ok(())
    }
    /// Lets a head draft, or none, where that can be.
    fn draft(&mut self, _drafts: bool) {}
    /// Serves one request to its end and says what it found at its start.
    fn serve<H: HostTier>(cache: &mut SglangCache<Self, H>, event: &RequestEvent<'_>) -> CacheHits;
}

/// SGLang's radix cache in a fixed amount of memory.
#[derive(Debug, Clone)]
pub struct SglangCache<R = PlainRules, H = NoHost> {
    capacity: PageCount,
    rules: R,
    host: H,
    /// Pages of the pool of full attention.
    full: u64,
    /// Pages of the pool of windows, or states of the other.
    other: u64,
    /// Requests turned away since the start.
    refused: u64,
    tree: SglangTree,
    /// Pages that requests in flight hold and that are in no node.
    held: u64,
    /// Pages that the latest request had loaded back; not saved.
    loaded: u64,
    /// The request's ids, prompt then known outputs, the first one scoped; kept for its memory.
    ids: Vec<u64>,
    /// The nodes that a lookup passes, or up to where the request's pages end so far; kept for its memory.
    path: Vec<NodeIndex>,
    /// The node whose path, and whose window or state, is locked.
    anchor: NodeIndex,
}

impl<R, H> HeapBytes for SglangCache<R, H> {
    fn heap_bytes(&self) -> usize {
        let Self { tree, ids, path, capacity: _, rules: _, host: _, full: _, other: _, .. } = self;
        let Self { refused: _, held: _, loaded: _, anchor: _, .. } = self;
        tree.heap_bytes() + ids.heap_bytes() + path.heap_bytes()
    }
}

impl<R: PoolRules> SglangCache<R> {
    /// A cache with room for so many pages in each of its pools, whatever the ratio between them: within that many,
    /// nothing is ever evicted.
    ///
    /// # Errors
    /// As [`SglangCache::new`].
    pub fn never_evicting(capacity: PageCount, rules: R) -> Result<Self, RulesError> {
        Self::empty(capacity, rules, NoHost, true)
    }

    /// Serves one request to its end and says what it found at its start.
    ///
    /// Output pages whose ids the event does not tell are pages nobody shares. Ids beyond the
    /// tokens, and tokens beyond the ids, are left out.
    pub fn request(&mut self, event: &RequestEvent<'_>) -> CacheHits {
        R::serve(self, event)
    }
}

impl<R: PoolRules> SglangCache<R, HicacheRules> {
    /// Serves one request to its end and says what it found at its start: pages that it could go on from on the
    /// device, and those behind them that it could for what was loaded back.
    pub fn request(&mut self, event: &RequestEvent<'_>) -> (CacheHits, u64) {
        (R::serve(self, event), self.loaded)
    }
}

impl<R: PoolRules, H: HostTier> SglangCache<R, H> {
    /// An empty cache in the memory of so many pages of one group's layers.
    ///
    /// # Errors
    /// When the capacities of device and host together exceed [`MAX_CAPACITY`].
    pub fn new(capacity: PageCount, rules: R, host: H) -> Result<Self, RulesError> {
        Self::empty(capacity, rules, host, false)
    }

    fn empty(capacity: PageCount, rules: R, host: H, never_evicts: bool) -> Result<Self, RulesError> {
        rules.check()?;
        let below = host.rules().map_or(0, |host| host.host.0);
        let asked = PageCount(capacity.0.saturating_add(below));
        if asked > MAX_CAPACITY {
            return Err(RulesError::TooLarge { asked, most: MAX_CAPACITY });
        }
        let (PageCount(full), other) =
            if never_evicts { (capacity, capacity.0) } else { rules.pools(capacity) };
        let mut tree = SglangTree::new(rules.other_window());
        if let Some(below) = host.rules() {
            let (pages, others) = rules.host_pools((full, other), below.host);
            tree = tree.over_host(below.write, pages, others);
        }
        Ok(Self {
            capacity,
            rules,
            host,
            full,
            other,
            refused: 0,
            tree,
            held: 0,
            loaded: 0,
            ids: Vec::new(),
            path: Vec::new(),
            anchor: ROOT,
        })
    }
}

impl<R, H> SglangCache<R, H> {
    /// The modelled capacity of the device.
    pub fn capacity(&self) -> PageCount {
        self.capacity
    }

    /// What its pools keep to.
    pub fn rules(&self) -> &R {
        &self.rules
    }

    /// The same, to be changed.
    pub(crate) fn rules_mut(&mut self) -> &mut R {
        &mut self.rules
    }

    /// What is below the device.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// Whether each of its pools has all of the capacity.
    pub fn never_evicts(&self) -> bool {
        self.full == self.capacity.0 && self.other == self.capacity.0
    }

    /// Pages of the pool of full attention, and pages or states of the other.
    pub fn pools(&self) -> (PageCount, u64) {
        (PageCount(self.full), self.other)
    }

    /// The same of the host.
    pub fn host_pools(&self) -> (PageCount, u64) {
        (PageCount(self.tree.host.room), self.tree.host.other_room)
    }

    /// What nodes have of the device's pools.
    pub fn resident(&self) -> (PageCount, u64) {
        (PageCount(self.tree.pages()), self.tree.auxiliary.pages())
    }

    /// What they have of the host's; some of that the device has as well.
    pub fn resident_on_host(&self) -> (PageCount, u64) {
        (PageCount(self.tree.host.pages), self.tree.host.auxiliary.pages())
    }

    /// Whether its counts are ones that a log can come to.
    pub(crate) fn is_countable(&self) -> bool {
        [self.tree.clock(), self.tree.sequence(), self.refused].into_iter().all(is_countable)
    }

    /// Pages of full attention written to the host since the start, those that were there when it was restored among
    /// them.
    pub fn written(&self) -> PageCount {
        PageCount(self.tree.host.written)
    }

    /// Pages that the latest request had loaded back.
    pub(crate) fn loaded(&self) -> u64 {
        self.loaded
    }

    /// Requests turned away since the start because the pools cannot hold them even alone.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Locks the path to `tip`, and the window or the state at its end.
    fn lock(&mut self, tip: NodeIndex) {
        self.tree.pin(tip);
        self.anchor = tip;
        self.tree.lock_last_window(tip);
    }

    /// Unlocks the window or the state that was locked.
    fn unlock(&mut self) {
        let anchor = std::mem::replace(&mut self.anchor, ROOT);
        self.tree.unlock_last_window(anchor);
    }

    /// Makes room in the pool of full attention for what of the path only the host has.
    fn make_room_for_path(&mut self) {
        let nodes = self.path.iter().map(|index| self.tree.node(*index));
        let missing: u64 = nodes.filter(|node| !node.on_device).map(SglangNode::pages).sum();
        while self.tree.pages() + missing > self.full && self.tree.evict_oldest_leaf() {}
    }
}
