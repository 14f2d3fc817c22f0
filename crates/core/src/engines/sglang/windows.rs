//! SGLang with a pool of its own for windows: one radix tree over that pool and the one of full attention, at one
//! capacity of both together (docs/engines/sglang.md, a pool of windows).

use super::host::{HostTier, NoHost, host_rows};
use super::node::{NONE, NodeIndex, ROOT, SglangNode};
use super::progress::PageProgress;
use super::shape::{PagedRequest, spare_pages};
use super::tree::SglangTree;
use super::{MOST_RESERVED, PoolRules, SglangCache};
use crate::engines::hits::CacheHits;
use crate::engines::hybrid::{Attention, GroupKind, RulesError};
use crate::engines::profile::Outputs;
use crate::request::event::RequestEvent;
use crate::units::ratio::Ratio;
use crate::units::{PageCount, PageSize};
use serde::{Deserialize, Serialize};

/// What decides a cache's answers besides its capacity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowPoolRules {
    /// The groups of layers: full ones, and windows of one size.
    pub attention: Attention,
    /// Tokens of the pool of windows for each token of the pool of full attention (`swa_full_tokens_ratio`).
    pub swa_full_tokens_ratio: Ratio,
    /// Most tokens of a prompt that one step computes (`chunked_prefill_size`).
    pub prefill_chunk: u32,
    /// Tokens per page.
    pub page_size: PageSize,
    /// Whether output tokens enter the cache.
    pub outputs: Outputs,
}

impl WindowPoolRules {
    /// Tokens before the one that looks: the engine's size of a window.
    pub(super) fn window(&self) -> u64 {
        match self.attention.other() {
            Some(GroupKind::Window(tokens)) => u64::from(tokens) - 1,
            None | Some(GroupKind::Full | GroupKind::Mamba) => 0,
        }
    }

    /// Whole pages that hold a window.
    pub(super) fn window_pages(&self) -> u64 {
        self.window().div_ceil(self.page())
    }

    pub(super) fn page(&self) -> u64 {
        u64::from(self.page_size.get())
    }
}

impl PoolRules for WindowPoolRules {
    fn check(&self) -> Result<(), RulesError> {
        let (chunk, page_size) = (self.prefill_chunk, self.page_size);
        if !chunk.is_multiple_of(page_size.get()) {
            return Err(RulesError::ChunkPages { chunk, page_size });
        }
        Ok(())
    }

    /// As the engine splits its memory, a page of full attention takes a page of each full group and the ratio of one
    /// of each window.
    fn pools(&self, capacity: PageCount) -> (PageCount, u64) {
        let (full_groups, windows) = self.attention.counts();
        let full = self.swa_full_tokens_ratio.unit_of(capacity.0, full_groups, windows);
        (PageCount(full), self.swa_full_tokens_ratio.share_of(full))
    }

    fn host_pools(&self, (full, windows): (u64, u64), host: PageCount) -> (u64, u64) {
        let (full_groups, window_groups) = self.attention.counts();
        let rows = [full_groups, window_groups].map(|groups| groups * self.page());
        // Each pool of the device has a page more than it uses.
        let bytes = [(full + 1) * rows[0], (windows + 1) * rows[1]];
        let tokens = host.0 * self.page();
        (host_rows(tokens, bytes, rows[0]), host_rows(tokens, [bytes[1], bytes[0]], rows[1]))
    }

    fn other_window(&self) -> Option<u64> {
        Some(self.window_pages())
    }

    fn serve<H: HostTier>(cache: &mut WindowCache<H>, event: &RequestEvent<'_>) -> CacheHits {
        cache.serve(event)
    }
}

/// What a lookup comes to, in pages.
#[derive(Debug, Clone, Copy)]
struct WindowsLookup {
    /// Leading pages that can be gone on from on the device, and the node where they end.
    hits: u64,
    own: NodeIndex,
    /// Pages behind them that the engine takes to be on the host, and those of windows that are only there.
    promised: u64,
    windows: u64,
    /// Leading pages that can be gone on from once these are loaded back.
    with_host: u64,
    /// Leading pages that the pool of full attention has.
    full: u64,
}

/// SGLang's radix cache over a pool of full attention and a pool of windows.
pub type WindowCache<H = NoHost> = SglangCache<WindowPoolRules, H>;

impl<H: HostTier> WindowCache<H> {
    /// Serves one request to its end.
    fn serve(&mut self, event: &RequestEvent<'_>) -> CacheHits {
        let shape = PagedRequest::of(event, self.rules.page_size, self.rules.outputs, false);
        self.loaded = 0;
        if shape.prompt == 0 {
            return CacheHits::default();
        }
        let sampled = shape.stored - shape.prompt + 1;
        let reserved = shape.prompt.saturating_add(sampled.min(MOST_RESERVED)) + self.rules.page();
        if shape.all_slots > self.full || reserved >= self.full * self.rules.page() {
            self.refused += 1;
            return CacheHits { hits: 0, refused: true };
        }
        shape.take_ids(event, &mut self.ids);
        let found = self.look_up(shape.hit_limit);
        let first = self.admit(&found, shape.prompt, sampled);
        let hits = found.hits + self.loaded;
        let mut progress = PageProgress::new(hits, Some(found.full).filter(|full| *full > hits));
        let is_admitted = first.is_some_and(|first| self.prefill(&shape, first, &mut progress));
        if is_admitted {
            if self.answer(&shape, sampled, &mut progress) {
                self.checkpoint(shape.stored, true, &mut progress);
            }
        } else {
            self.refused += 1;
        }
        self.unlock();
        self.tree.unpin();
        self.tree.next_step();
        self.tree.compact();
        self.loaded = if is_admitted { self.loaded } else { 0 };
        let hits = if is_admitted { found.hits } else { 0 };
        CacheHits { hits, refused: !is_admitted }
    }

    /// Matches, stamps what can be gone on from on either side, and locks what of it is on the device.
    fn look_up(&mut self, limit: usize) -> WindowsLookup {
        let (window, page) = (self.rules.window(), self.rules.page());
        self.path.clear();
        let (mut tip, mut full) = (ROOT, 0);
        // Nodes and pages up to where windows are there, on the device and on either side.
        let (mut own, mut both) = ((0, 0), (0, 0));
        // Tokens of windows up to here without a gap, likewise; from the root on nothing lies before them.
        let mut unbroken = [u64::MAX; 2];
        while let Some(index) = self.tree.step(tip, &self.ids[full..limit], false) {
            let pages = self.tree.node(index).pages();
            full += pages as usize;
            self.path.push(index);
            let is_held = self.tree.auxiliary.holds(index);
            let sides = [is_held, is_held || self.tree.host.auxiliary.holds(index)];
            let found = (self.path.len(), full as u64);
            for ((is_there, run), found_there) in
                sides.into_iter().zip(&mut unbroken).zip([&mut own, &mut both])
            {
                *run = if is_there { run.saturating_add(pages * page) } else { 0 };
                if is_there && *run >= window {
                    *found_there = found;
                }
            }
            tip = index;
        }
        self.path.truncate(both.0);
        let best = self.path.last().copied().unwrap_or(ROOT);
        self.refresh(best);
        self.tree.touch_all(&self.path);
        let behind = self.path[own.0..].iter().map(|index| self.tree.node(*index));
        let promised = behind.filter(|node| node.on_host).map(SglangNode::pages).sum();
        let missing = self.tree.last_window(best).filter(|index| !self.tree.auxiliary.holds(*index));
        let windows = missing.map(|index| self.tree.node(index).pages()).sum();
        let anchor = own.0.checked_sub(1).map_or(ROOT, |last| self.path[last]);
        self.lock(anchor);
        let (hits, with_host) = (own.1, both.1);
        WindowsLookup { hits, own: anchor, promised, windows, with_host, full: full as u64 }
    }

    /// Lets a request in whose prompt is not loaded yet, and loads back what the host has of it: tokens that its
    /// first step computes at most, or `None` where it would wait for ever.
    fn admit(&mut self, found: &WindowsLookup, prompt: u64, sampled: u64) -> Option<u64> {
        let page = self.rules.page();
        let rest = |hits: u64| prompt - hits * page;
        let first = self.first_chunk(rest(found.hits + found.promised), sampled, found.windows * page)?;
        if found.with_host == found.hits {
            return Some(first);
        }
        match self.load_back(found.own) {
            true => {
                self.loaded = found.with_host - found.hits;
                Some(first)
            }
            false if found.promised > 0 => self.first_chunk(rest(found.hits), sampled, 0),
            false => Some(first),
        }
    }

    /// Loads back what only the host has of the path and of its last window, and locks the path; where the pool of
    /// windows has no room, nothing is loaded, and the path ends with `own`, which the device has.
    fn load_back(&mut self, own: NodeIndex) -> bool {
        let best = self.path.last().copied().unwrap_or(ROOT);
        // What the device has stays locked meanwhile.
        self.lock(best);
        self.tree.pin_on_host(best);
        let held = &self.tree.auxiliary;
        let parts: Vec<_> = self.tree.last_window(best).filter(|index| !held.holds(*index)).collect();
        parts.iter().for_each(|index| self.tree.host.auxiliary.unlist(*index));
        self.make_room_for_path();
        let windows = parts.iter().map(|index| self.tree.node(*index).pages()).sum();
        let has_room = self.make_room_for_windows(windows, 0);
        self.tree.unpin_on_host();
        if has_room {
            self.tree.unlock_last_window(own);
            self.tree.load(&self.path);
            for &index in parts.iter().rev() {
                let pages = self.tree.node(index).pages();
                self.tree.hold_other(index, pages);
            }
        } else {
            self.tree.host.kept = NONE;
            parts.iter().for_each(|index| self.tree.host.auxiliary.list(*index));
            self.unlock();
            self.tree.pin(own);
            self.anchor = own;
            let kept = self.path.iter().position(|index| *index == own).map_or(0, |at| at + 1);
            self.path.truncate(kept);
        }
        has_room
    }

    /// Computes the prompt, in steps of a chunk, the first of at most so many tokens; `false` where the pool of
    /// windows has less room than the engine waits for.
    fn prefill(&mut self, shape: &PagedRequest, first: u64, progress: &mut PageProgress) -> bool {
        let page = self.rules.page();
        let mut done = progress.allocated * page;
        let mut limit = first;
        // The engine counts the first step in whole pages.
        let mut counted = (shape.prompt - done).next_multiple_of(page);
        while done < shape.prompt {
            let step = if counted <= limit { shape.prompt - done } else { limit / page * page };
            if step == 0 {
                return false;
            }
            self.make_room(step.div_ceil(page) + spare_pages(self.rules.page_size), progress);
            done += step;
            progress.allocated = done.div_ceil(page);
            if done < shape.prompt {
                self.tree.next_step();
                self.checkpoint(done, false, progress);
                let free = self.free_windows(progress).saturating_sub(1) * page;
                (limit, counted) = (u64::from(self.rules.prefill_chunk).min(free), shape.prompt - done);
            }
        }
        true
    }

    /// Tokens that the first step computes at most, where windows of so many tokens are to be loaded back; `None`
    /// where the request would wait for ever.
    fn first_chunk(&self, rest: u64, sampled: u64, loaded: u64) -> Option<u64> {
        let (page, window) = (self.rules.page(), self.rules.window());
        let chunk = u64::from(self.rules.prefill_chunk);
        let sampled = sampled.min(MOST_RESERVED);
        let needed =
            |rest: u64| rest.min(chunk).saturating_sub(window) + (rest + sampled).min(window) + page + loaded;
        let free = (self.other.saturating_sub(self.tree.auxiliary.locked_pages())) * page;
        let whole = needed(rest.next_multiple_of(page));
        if whole < free {
            return Some(chunk);
        }
        // Where the whole pool would not do, the engine takes smaller steps.
        let step = free.saturating_sub(needed(0)) / page * page;
        (whole >= self.other * page && step > 0).then_some(chunk.min(step))
    }

    /// Inserts the prompt where more than one token is sampled, and makes the rest of the answer; `false` where the
    /// engine ends it before, since the pool of windows has no room for the next page. Nothing of such an answer is
    /// inserted.
    fn answer(&mut self, shape: &PagedRequest, sampled: u64, progress: &mut PageProgress) -> bool {
        if sampled <= 1 {
            return true;
        }
        self.checkpoint(shape.prompt, false, progress);
        self.tree.next_step();
        self.decode(shape, progress)
    }

    /// Makes the answer, a token at a time. Before each the engine looks whether there is room for the page that it
    /// takes, gives back what the window has passed, and wants a free page in both pools, whether it takes one or
    /// not. So nothing happens but where a page is given back or taken, and at the token after.
    fn decode(&mut self, shape: &PagedRequest, progress: &mut PageProgress) -> bool {
        let (page, window) = (self.rules.page(), self.rules.window());
        let mut tokens = shape.prompt + 1;
        while tokens <= shape.stored {
            let takes = tokens.div_ceil(page) > progress.allocated;
            if takes && !self.make_room(1, progress) {
                return false;
            }
            let slides = tokens > shape.prompt + 1 && progress.is_due(tokens - 1, window, page);
            if slides {
                progress.slide(tokens - 1, window, page);
            }
            self.make_room(1, progress);
            progress.allocated = tokens.div_ceil(page);
            tokens = if slides || takes || tokens == shape.prompt + 1 {
                tokens + 1
            } else {
                let next_page = progress.allocated * page + 1;
                next_page.min(progress.next_due(window, page) + 1).max(tokens + 1)
            };
        }
        true
    }

    /// Inserts what is computed so far, or, the first time, what lies before the junction where there is one: another
    /// prompt may branch off there.
    fn checkpoint(&mut self, computed: u64, is_finished: bool, progress: &mut PageProgress) {
        let (page, window) = (self.rules.page(), self.rules.window());
        let is_due = |pages: &u64| *pages > progress.protected && pages * page <= computed;
        let junction = progress.junction.filter(is_due);
        let tokens = junction.map_or(computed, |pages| pages * page);
        if !is_finished {
            progress.slide_if_due(tokens - 1, window, page);
        }
        let pages = tokens / page;
        let tip = self.insert(pages, progress);
        self.unlock();
        self.lock(tip);
        progress.protected = pages;
        if junction.is_some() {
            progress.junction = None;
            if !is_finished {
                progress.slide_if_due(computed - 1, window, page);
            }
        }
    }

    /// Inserts the first `pages` of the request; gives the node they end at. The pool of windows takes what it lacks
    /// of those beyond the protected ones, from where the window has not passed them.
    ///
    /// The protected pages are those of the locked path, which nobody else touches meanwhile: the walk goes on from
    /// its end. SGLang walks from the root and stamps these nodes again, which leaves them in the same order, each
    /// before its children and all behind the nodes of other requests.
    fn insert(&mut self, pages: u64, progress: &mut PageProgress) -> NodeIndex {
        let known = self.ids.len().min(pages as usize);
        // Fits: the pages were checked against a capacity of 32 bits.
        let private = (pages - known as u64) as u32;
        let inserted = std::mem::replace(&mut progress.inserted, pages);
        if inserted == 0 {
            self.pass_path();
        }
        let (mut tip, mut end) = (self.anchor, progress.protected);
        while let Some(index) = self.tree.step(tip, &self.ids[end as usize..known], true) {
            let start = end;
            end += self.tree.node(index).pages();
            self.tree.enter(index);
            if !self.tree.auxiliary.holds(index) {
                self.hold_from(index, start, end, progress.passed, u64::MAX);
            }
            self.tree.pass(index, end, inserted);
            tip = index;
        }
        let is_new = end < pages;
        if is_new {
            tip = self.tree.add_leaf(tip, &self.ids[end as usize..known], private);
            self.hold_from(tip, end, pages, progress.passed, self.rules.window_pages());
        }
        self.refresh(tip);
        match is_new {
            true => self.tree.pass(tip, pages, inserted),
            false => self.tree.write_what_is_new(tip),
        }
        tip
    }

    /// The first insertion passes what was found, too.
    fn pass_path(&mut self) {
        let mut end = 0;
        for at in 0..self.path.len() {
            end += self.tree.node(self.path[at]).pages();
            self.tree.pass(self.path[at], end, 0);
        }
    }

    /// The pool of windows takes the pages of a node from `passed` on; the node stands for those from `start` to
    /// `end`. What the window has passed is split off, and what lies before the last `tail` pages, so that locking
    /// these locks no more.
    fn hold_from(&mut self, index: NodeIndex, start: u64, end: u64, passed: u64, tail: u64) {
        let live = start.max(passed);
        if live >= end {
            return;
        }
        if live > start {
            self.tree.split(index, (live - start) as usize);
        }
        let pages = end - live;
        if pages > tail {
            let before = self.tree.split(index, (pages - tail) as usize);
            self.tree.hold_other(before, pages - tail);
        }
        self.tree.hold_other(index, pages.min(tail));
    }

    /// The nodes of a window and a page before the end of `tip` become the newest of their pool, the last of them
    /// first.
    fn refresh(&mut self, tip: NodeIndex) {
        let reach = self.rules.window() + self.rules.page();
        let (mut index, mut covered, mut younger) = (tip, 0, NONE);
        while index != ROOT && covered < reach {
            if self.tree.auxiliary.holds(index) {
                self.tree.auxiliary.move_behind(younger, index);
                younger = index;
            }
            covered += self.tree.node(index).pages() * self.rules.page();
            index = self.tree.node(index).parent;
        }
    }

    /// Evicts until so many pages are free in both pools, as far as the request leaves any to evict. The oldest
    /// leaves go first, whole, for the pool of full attention. For the pool of windows its oldest nodes do: leaves
    /// whole, of the others the windows alone. `false` where the pool of windows has no room then.
    fn make_room(&mut self, wanted: u64, progress: &PageProgress) -> bool {
        let (full, windows) = progress.own_pages();
        while self.tree.pages() + full + wanted > self.full && self.tree.evict_oldest_leaf() {}
        self.make_room_for_windows(wanted, windows)
    }

    /// The same in the pool of windows alone, of which the request has so many pages itself; `false` where it has no
    /// room.
    fn make_room_for_windows(&mut self, wanted: u64, own: u64) -> bool {
        let is_short = |tree: &SglangTree, room| tree.auxiliary.pages() + own + wanted > room;
        let mut candidate = None;
        while is_short(&self.tree, self.other) {
            let next = candidate.or_else(|| self.tree.auxiliary.oldest_unlocked(None));
            let Some(index) = next else { return false };
            candidate = self.tree.auxiliary.oldest_unlocked(Some(index));
            self.tree.evict_other(index);
            if candidate.is_none() {
                break;
            }
        }
        !is_short(&self.tree, self.other)
    }

    /// Pages of the pool of windows that a step may take: free ones and those that may be evicted.
    fn free_windows(&self, progress: &PageProgress) -> u64 {
        self.other.saturating_sub(self.tree.auxiliary.locked_pages() + progress.own_pages().1)
    }
}
