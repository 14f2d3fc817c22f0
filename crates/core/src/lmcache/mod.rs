//! LMCache's cache in the engine's process, at one capacity (ENGINES 2, LMCache in-process).
//!
//! It keeps chunks of tokens, 256 by default, in one LRU order: what a request finds moves to the young end,
//! its first chunk youngest; then room is made for every chunk after those, even where it is there already;
//! then the missing ones are put in prefix order, their first chunk oldest. Since
//! room may be made for nothing and chunks move in two directions, inclusion is not shown: one [`LmcacheCache`]
//! answers for one capacity.
//!
//! Prompts only: LMCache does not store what was generated unless it is told to. Where a request is larger
//! than the cache, its leading chunks are stored, as many as there is room for.

mod saved;

pub use saved::SavedLmcache;

use crate::event::RequestEvent;
use crate::runs::{MAX_PAGES, NodeIndex, Piece, PieceIndex, RunTree};
use crate::units::{PageCount, PageSize};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// What decides a cache's answers beside its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LmcacheRules {
    /// Tokens a page of the log.
    pub page_size: PageSize,
    /// Tokens a chunk.
    pub chunk_tokens: u32,
}

/// The log's pages cannot be grouped into chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a chunk of {chunk_tokens} tokens is not made of whole pages of {page_size} tokens, so what it holds cannot be \
     told: give a multiple of the page as the chunk, or a log with smaller pages"
)]
pub struct ChunkMismatch {
    /// Tokens a chunk.
    pub chunk_tokens: u32,
    /// Tokens a page of the log.
    pub page_size: PageSize,
}

impl LmcacheRules {
    /// Pages a chunk.
    ///
    /// # Errors
    /// [`ChunkMismatch`] where it is no whole number of them.
    pub fn pages_a_chunk(&self) -> Result<u32, ChunkMismatch> {
        let page = self.page_size.get();
        match self.chunk_tokens >= page && self.chunk_tokens.is_multiple_of(page) {
            true => Ok(self.chunk_tokens / page),
            false => Err(ChunkMismatch { chunk_tokens: self.chunk_tokens, page_size: self.page_size }),
        }
    }
}

/// Chunks in one LRU order, serving one request after the other.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "SavedLmcache")]
pub struct LmcacheCache {
    rules: LmcacheRules,
    /// In pages of the log.
    capacity: u64,
    pages_a_chunk: u32,
    /// Chunks there.
    resident: u64,
    tree: RunTree,
    /// The chunks, oldest first.
    queue: PieceIndex,
    /// The request's chunks by id; kept for its memory.
    ids: Vec<u64>,
    /// The nodes those lie in; kept for its memory.
    path: Vec<NodeIndex>,
    /// The pages of one chunk, as they are hashed.
    chunk: Vec<u8>,
}

impl LmcacheCache {
    /// An empty cache of so many pages of the log; what of them makes no whole chunk is not used.
    ///
    /// # Errors
    /// [`ChunkMismatch`] where a chunk is no whole number of pages.
    pub fn new(capacity: PageCount, rules: LmcacheRules) -> Result<Self, ChunkMismatch> {
        let pages_a_chunk = rules.pages_a_chunk()?;
        let mut tree = RunTree::new();
        let queue = tree.arena.new_list();
        Ok(Self {
            rules,
            capacity: capacity.0.min(MAX_PAGES),
            pages_a_chunk,
            resident: 0,
            tree,
            queue,
            ids: Vec::new(),
            path: Vec::new(),
            chunk: Vec::new(),
        })
    }

    /// The modelled capacity, in pages of the log.
    pub fn capacity(&self) -> PageCount {
        PageCount(self.capacity)
    }

    /// The rules it keeps.
    pub fn rules(&self) -> &LmcacheRules {
        &self.rules
    }

    /// Pages the cache holds.
    pub fn resident(&self) -> PageCount {
        PageCount(self.resident * u64::from(self.pages_a_chunk))
    }

    /// Bytes of memory the model itself takes, near enough to watch a limit with.
    pub fn memory_bytes(&self) -> usize {
        self.tree.memory_bytes() + self.ids.capacity() * 8 + self.path.capacity() * size_of::<NodeIndex>()
    }

    /// Serves one request and says how many leading pages of its prompt it found, always whole chunks of them.
    pub fn request(&mut self, event: &RequestEvent<'_>) -> u64 {
        self.request_after(event, 0)
    }

    /// Serves what is left of a request of which a tier above found so many leading pages: it is asked for the chunks
    /// from the one on that those end in, and says how many pages after them it found.
    pub fn request_after(&mut self, event: &RequestEvent<'_>, above: u64) -> u64 {
        self.take_ids(event);
        let mut path = std::mem::take(&mut self.path);
        self.tree.enter(&self.ids, &mut path);
        self.path = path;
        let (chunks, size) = (self.ids.len() as u32, u64::from(self.pages_a_chunk));
        // At most the chunks, which are counted in 32 bits.
        let first = (above / size).min(u64::from(chunks)) as u32;
        let found = self.tree.run_from(&self.path, 0, (first, chunks));
        self.refresh(first, found);
        let room = self.make_room(u64::from(chunks - found));
        self.put(found, found + room as u32);
        self.tree.release(&self.path);
        (u64::from(found) * size).saturating_sub(above)
    }

    /// Chunks the cache can hold.
    fn chunks(&self) -> u64 {
        self.capacity / u64::from(self.pages_a_chunk)
    }

    /// Groups the full pages of the prompt into full chunks, the first one keyed by its scope.
    fn take_ids(&mut self, event: &RequestEvent<'_>) {
        let ids = event.page_ids;
        let page = u64::from(self.rules.page_size.get());
        let full = event.input_tokens.map_or(u64::MAX, |tokens| tokens / page).min(ids.len() as u64);
        let (pages, size) = (ids.first(full as usize), self.pages_a_chunk as usize);
        self.ids.clear();
        for start in (0..pages.len() / size).map(|chunk| chunk * size) {
            let chunk = pages.from(start).first(size);
            let id = match (size, chunk.get(0)) {
                (1, Some(id)) => id,
                _ => {
                    self.chunk.clear();
                    self.chunk.extend_from_slice(chunk.as_packed());
                    xxh3_64(&self.chunk)
                }
            };
            self.ids.push(id);
        }
        if let Some(first) = self.ids.first_mut() {
            *first = event.scope.first_page(*first);
        }
    }

    /// Moves the chunks `first..hits`, which were found, to the young end, the first one youngest.
    fn refresh(&mut self, first: u32, hits: u32) {
        if first == hits {
            return;
        }
        for index in (0..self.path.len()).rev() {
            let node = self.path[index];
            let mut found: Vec<(u32, PieceIndex)> = self
                .tree
                .pieces(node)
                .filter(|(_, piece)| piece.from < hits && piece.to > first)
                .map(|(index, piece)| (piece.from, index))
                .collect();
            found.sort_unstable();
            for (from, piece) in found.into_iter().rev() {
                let piece = if from < first { self.tree.cut(piece, first) } else { piece };
                if self.tree.arena.get(piece).to > hits {
                    self.tree.cut(piece, hits);
                }
                self.tree.arena.unlink(piece);
                self.tree.arena.get_mut(piece).ascending = false;
                self.push(piece);
            }
        }
    }

    /// Appends a run that leaves from its end, joined to the one before it where it continues that.
    fn push(&mut self, piece: PieceIndex) {
        let last = self.tree.arena.last(self.queue);
        self.tree.arena.push(self.queue, piece);
        let Some(last) = last else { return };
        let (earlier, later) = (self.tree.arena.get(last).clone(), self.tree.arena.get(piece).clone());
        if earlier.node == later.node && !earlier.ascending && later.to == earlier.from {
            self.tree.arena.get_mut(last).from = later.from;
            self.tree.remove_piece(piece);
        }
    }

    /// Evicts the oldest chunks until there is room for so many, or nothing is left; returns how many there
    /// is room for.
    fn make_room(&mut self, chunks: u64) -> u64 {
        let wanted = chunks.min(self.chunks());
        let mut left = wanted.saturating_sub(self.chunks() - self.resident);
        self.resident -= left;
        while left > 0
            && let Some(oldest) = self.tree.arena.first(self.queue)
        {
            let gone = u64::from(self.tree.arena.get(oldest).pages()).min(left);
            self.tree.drop_first(oldest, gone as u32);
            left -= gone;
        }
        wanted
    }

    /// Puts the chunks `from..to`, in prefix order; one that is there keeps its place.
    fn put(&mut self, from: u32, to: u32) {
        for index in 0..self.path.len() {
            let node = self.path[index];
            let (first, end) = self.tree.span(node);
            let (mut at, end) = (first.max(from), end.min(to));
            while at < end {
                let there = self.tree.covered_up_to(node, 0, at);
                if there > at {
                    at = there;
                    continue;
                }
                let later = self.tree.pieces(node).filter(|(_, piece)| piece.from > at);
                let gap = later.map(|(_, piece)| piece.from).min().unwrap_or(end).min(end);
                let piece = self.tree.add_piece(Piece::new(node, 0, (at, gap), 0));
                self.tree.arena.get_mut(piece).ascending = true;
                self.tree.arena.push(self.queue, piece);
                self.resident += u64::from(gap - at);
                at = gap;
            }
        }
    }
}
