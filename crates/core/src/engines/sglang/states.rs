//! SGLang with a pool of its own for states of linear attention: one radix tree over that pool and the one of full
//! attention, at one capacity of both together (docs/engines/sglang.md, a pool of states).

use super::host::{HostTier, NoHost, host_rows};
use super::node::{NONE, NodeIndex, ROOT};
use super::shape::{PagedRequest, spare_pages};
use super::{MOST_RESERVED, PoolRules, SglangCache};
use crate::engines::hits::CacheHits;
use crate::engines::hybrid::{Attention, RulesError};
use crate::engines::profile::Outputs;
use crate::request::event::RequestEvent;
use crate::units::ratio::Proportion;
use crate::units::{PageCount, PageSize};
use serde::{Deserialize, Serialize};

/// Tokens between states that a step can keep: SGLang's chunk of linear attention. A larger page takes its place.
const CHUNK: u64 = 64;

/// Tokens of an answer between states that are kept: SGLang's `mamba_track_interval`, a multiple of the page.
const INTERVAL: u64 = 256;

/// States that a request holds: its own, and two to keep others in.
const OWN_STATES: u64 = 3;

/// States that a pool needs to serve any request: those of the request, one that it found and one more to go on with.
const LEAST_STATES: u64 = OWN_STATES + 2;

/// What decides a cache's answers besides its capacity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRules {
    /// The groups of layers: full ones, and states.
    pub attention: Attention,
    /// Memory of states for that of full attention (`mamba_full_memory_ratio`).
    pub mamba_full_memory_ratio: Proportion,
    /// Tokens of one full group that take as much memory as one state of one group.
    pub state_tokens: u32,
    /// Most tokens of a prompt that one step computes (`chunked_prefill_size`).
    pub prefill_chunk: u32,
    /// Tokens per page.
    pub page_size: PageSize,
    /// Whether output tokens enter the cache.
    pub outputs: Outputs,
}

impl StateRules {
    /// Tokens between places where a state can be kept.
    fn grid(&self) -> u64 {
        CHUNK.max(self.page())
    }

    fn page(&self) -> u64 {
        u64::from(self.page_size.get())
    }
}

impl PoolRules for StateRules {
    fn check(&self) -> Result<(), RulesError> {
        let (chunk, page_size) = (self.prefill_chunk, self.page_size);
        if !INTERVAL.is_multiple_of(self.page()) {
            return Err(RulesError::StatePage { page_size });
        }
        if !chunk.is_multiple_of(page_size.get()) {
            return Err(RulesError::ChunkPages { chunk, page_size });
        }
        Ok(())
    }

    /// As the engine splits its memory: states get their share of it, of which one is never used, and full attention
    /// the rest.
    fn pools(&self, capacity: PageCount) -> (PageCount, u64) {
        let (full_groups, state_groups) = self.attention.counts();
        let tokens = capacity.0 * self.page();
        let slot = state_groups * u64::from(self.state_tokens);
        if slot == 0 {
            return (PageCount(0), 0);
        }
        let slots = self.mamba_full_memory_ratio.part_of(tokens) / slot;
        let full = tokens - slots * slot;
        (PageCount(full / full_groups / self.page()), slots.saturating_sub(1))
    }

    fn host_pools(&self, (full, states): (u64, u64), host: PageCount) -> (u64, u64) {
        let (full_groups, state_groups) = self.attention.counts();
        let (row, state) = (full_groups * self.page(), state_groups * u64::from(self.state_tokens));
        // Each pool of the device has a row more than it uses.
        let (pages, states) = ((full + 1) * row, (states + 1) * state);
        let tokens = host.0 * self.page();
        (host_rows(tokens, [pages, states], row), host_rows(tokens, [states, pages], state))
    }

    fn serve<H: HostTier>(cache: &mut StateCache<H>, event: &RequestEvent<'_>) -> CacheHits {
        cache.serve(event)
    }
}

/// A request on its way, in tokens from its beginning.
#[derive(Debug, Clone, Copy)]
struct TokenProgress {
    /// Tokens found or computed.
    done: u64,
    /// Pages that the tree has, and those that the request inserted.
    protected: u64,
    inserted: u64,
    /// Up to where a state is kept that is in no node.
    kept: Option<u64>,
    /// States that it holds.
    states: u64,
    /// The last place on the grid to which the pool of full attention has its prompt, where that lies behind its
    /// hits: another prompt may branch off there.
    junction: Option<u64>,
}

impl TokenProgress {
    /// Pages that belong to the request alone.
    fn own_pages(&self, page: u64) -> u64 {
        self.done.div_ceil(page) - self.protected
    }
}

/// SGLang's radix cache over a pool of full attention and a pool of states.
pub type StateCache<H = NoHost> = SglangCache<StateRules, H>;

impl<H: HostTier> StateCache<H> {
    /// Serves one request to its end.
    fn serve(&mut self, event: &RequestEvent<'_>) -> CacheHits {
        let (page, shape) =
            (self.rules.page(), PagedRequest::of(event, self.rules.page_size, self.rules.outputs, false));
        self.loaded = 0;
        if shape.prompt == 0 {
            return CacheHits::default();
        }
        let sampled = shape.stored - shape.prompt + 1;
        let reserved = shape.prompt.saturating_add(sampled.min(MOST_RESERVED)) + page;
        if self.other < LEAST_STATES || shape.all_slots > self.full || reserved >= self.full * page {
            self.refused += 1;
            return CacheHits { hits: 0, refused: true };
        }
        shape.take_ids(event, &mut self.ids);
        let mut progress = self.look_up(shape.hit_limit);
        let hits = progress.protected - self.loaded;
        self.prefill(&shape, &mut progress);
        if sampled > 1 {
            self.checkpoint(&mut progress);
            self.tree.next_step();
            self.decode(&shape, &mut progress);
        }
        self.finish(&progress);
        self.unlock();
        self.tree.unpin();
        self.tree.next_step();
        self.tree.compact();
        CacheHits { hits, refused: false }
    }

    /// Matches, stamps what can be gone on from, locks it, loads back what only the host has of it, and takes the
    /// states that a request holds.
    fn look_up(&mut self, limit: usize) -> TokenProgress {
        let (page, grid) = (self.rules.page(), self.rules.grid());
        self.path.clear();
        let (mut tip, mut full) = (ROOT, 0);
        // Pages up to the last state on the device, and the node; and on either side, with nodes up to that.
        let (mut own, mut device, mut hits, mut anchor) = (0, ROOT, 0, 0);
        while let Some(index) = self.tree.step(tip, &self.ids[full..limit], false) {
            full += self.tree.node(index).pages() as usize;
            self.path.push(index);
            if self.tree.auxiliary.holds(index) {
                (own, device) = (full as u64, index);
            }
            if device == index || self.tree.host.auxiliary.holds(index) {
                (anchor, hits) = (self.path.len(), full as u64);
            }
            tip = index;
        }
        self.path.truncate(anchor);
        let anchor = self.path.last().copied().unwrap_or(ROOT);
        if anchor != ROOT && device == anchor {
            self.tree.auxiliary.move_behind(NONE, anchor);
        }
        self.tree.touch_all(&self.path);
        self.lock(anchor);
        // A copy of what is found first, then the other two: all of them before any page is taken.
        let held = u64::from(anchor != ROOT);
        self.loaded = hits - own;
        if self.loaded > 0 {
            self.load_back(anchor, device);
        } else {
            self.make_room_for_states(held, 0);
        }
        self.make_room_for_states(OWN_STATES - held, held);
        let junction = full as u64 * page / grid * grid;
        TokenProgress {
            done: hits * page,
            protected: hits,
            inserted: 0,
            kept: None,
            states: OWN_STATES,
            junction: Some(junction).filter(|junction| *junction > hits * page),
        }
    }

    /// Makes room for a copy of the state that only the host has at the end of the path, which is locked, and loads
    /// it back with the pages before it that only the host has. Meanwhile the device's last state on the path stays.
    /// A request that fits has room for all of them.
    fn load_back(&mut self, anchor: NodeIndex, device: NodeIndex) {
        self.tree.lock_last_window(device);
        self.tree.pin_on_host(anchor);
        self.tree.host.auxiliary.unlist(anchor);
        self.make_room_for_states(1, 0);
        self.make_room_for_path();
        self.make_room_for_states(1, 1);
        self.tree.unpin_on_host();
        self.tree.load(&self.path);
        self.tree.hold_other(anchor, 1);
        self.tree.unlock_last_window(device);
    }

    /// Computes the prompt, in steps of a chunk.
    fn prefill(&mut self, shape: &PagedRequest, progress: &mut TokenProgress) {
        let (page, chunk) = (self.rules.page(), u64::from(self.rules.prefill_chunk));
        // The engine counts the first step in whole pages.
        let mut counted = (shape.prompt - progress.done).next_multiple_of(page);
        while progress.done < shape.prompt {
            let step = if counted <= chunk { shape.prompt - progress.done } else { chunk / page * page };
            self.make_room(step.div_ceil(page) + spare_pages(self.rules.page_size), progress);
            self.keep_state(step, progress);
            progress.done += step;
            if progress.done < shape.prompt {
                self.tree.next_step();
                self.checkpoint(progress);
                counted = shape.prompt - progress.done;
            }
        }
    }

    /// Keeps a state of a step that is about to be computed: the last one on the grid from where it begins, or that
    /// at the junction where it is one of these.
    fn keep_state(&self, step: u64, progress: &mut TokenProgress) {
        let grid = self.rules.grid();
        if step < grid {
            return;
        }
        let (begin, last) = (progress.done, progress.done + step / grid * grid);
        let is_kept =
            |junction: &u64| (begin + 1..=last).contains(junction) && (junction - begin).is_multiple_of(grid);
        progress.kept = Some(progress.junction.filter(is_kept).unwrap_or(last));
    }

    /// Inserts up to the state that was kept, where there is one: the tree takes it, and the request another one in
    /// its place.
    fn checkpoint(&mut self, progress: &mut TokenProgress) {
        let Some(kept) = progress.kept.take() else { return };
        self.make_room_for_states(1, progress.states);
        let pages = kept / self.rules.page();
        let tip = self.insert(pages, progress.inserted);
        self.unlock();
        self.lock(tip);
        (progress.protected, progress.inserted) = (pages, pages);
    }

    /// Makes the answer, a token at a time. Before each the engine wants a free page, whether it takes one or not, so
    /// nothing happens but where one is taken, and at the token after. States are kept on the way, the last of them
    /// for the end.
    fn decode(&mut self, shape: &PagedRequest, progress: &mut TokenProgress) {
        let page = self.rules.page();
        while progress.done < shape.stored {
            self.make_room(1, progress);
            let takes = progress.done.is_multiple_of(page);
            let is_first = progress.done == shape.prompt;
            progress.done = match takes || is_first {
                true => progress.done + 1,
                false => progress.done.next_multiple_of(page).min(shape.stored),
            };
        }
        let last = shape.stored / INTERVAL * INTERVAL;
        progress.kept = Some(last).filter(|last| *last > shape.prompt);
    }

    /// Inserts up to the state that was kept last, which the tree takes, and gives the others back.
    fn finish(&mut self, progress: &TokenProgress) {
        if let Some(kept) = progress.kept {
            self.insert(kept / self.rules.page(), progress.inserted);
        }
    }

    /// Inserts the first `pages` of the request, with a state at their end where there is none; gives the node they
    /// end at, which becomes the newest. So many of them the request inserted before.
    fn insert(&mut self, pages: u64, inserted: u64) -> NodeIndex {
        let known = self.ids.len().min(pages as usize);
        // Fits: the pages were checked against a capacity of 32 bits.
        let private = (pages - known as u64) as u32;
        let (mut tip, mut end) = (ROOT, 0);
        while let Some(index) = self.tree.step(tip, &self.ids[end..known], true) {
            end += self.tree.node(index).pages() as usize;
            self.tree.enter(index);
            self.tree.pass(index, end as u64, inserted);
            tip = index;
        }
        let is_new = (end as u64) < pages;
        if is_new {
            tip = self.tree.add_leaf(tip, &self.ids[end..known], private);
        } else {
            self.tree.touch(tip);
        }
        match self.tree.auxiliary.holds(tip) {
            true => self.tree.auxiliary.move_behind(NONE, tip),
            false => self.tree.hold_other(tip, 1),
        }
        match is_new {
            true => self.tree.pass(tip, pages, inserted),
            false => self.tree.write_what_is_new(tip),
        }
        tip
    }

    /// Evicts until so many pages are free, as far as the request leaves any to evict: the oldest leaf first, whole,
    /// its state with it.
    fn make_room(&mut self, wanted: u64, progress: &TokenProgress) {
        let own = progress.own_pages(self.rules.page());
        while self.tree.pages() + own + wanted > self.full && self.tree.evict_oldest_leaf() {}
    }

    /// Evicts until so many states are free alongside those that the request holds: the oldest that is not locked
    /// first, of a leaf the whole leaf, of another node the state alone.
    fn make_room_for_states(&mut self, wanted: u64, held: u64) {
        while self.tree.auxiliary.pages() + held + wanted > self.other {
            let Some(index) = self.tree.auxiliary.oldest_unlocked(None) else { return };
            self.tree.evict_other(index);
        }
    }
}
