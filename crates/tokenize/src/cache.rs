//! Token ids of pieces of text met before, in bounded memory that threads share.

use hashbrown::HashMap;
use std::hash::BuildHasher;
use std::sync::{Mutex, PoisonError};

type Pieces = HashMap<Box<str>, Box<[u32]>, foldhash::fast::RandomState>;

/// Parts of the memory that are locked one by one, so that threads seldom wait for each other.
const SHARDS: usize = 16;

/// What an entry costs alongside its text and its ids.
const ENTRY_BYTES: usize = 64;

/// Pieces met by any thread: a conversation that goes on elsewhere is still known.
pub(super) struct SharedCache {
    shards: Box<[Mutex<PieceCache>]>,
    hasher: foldhash::fast::RandomState,
}

impl SharedCache {
    /// A cache of at most `max_bytes` in all; 0 keeps nothing.
    pub fn new(max_bytes: usize) -> Self {
        let shard = || Mutex::new(PieceCache::new(max_bytes / SHARDS));
        let shards = std::iter::repeat_with(shard).take(SHARDS).collect();
        Self { shards, hasher: foldhash::fast::RandomState::default() }
    }

    /// Appends the ids of a piece, if it is known.
    pub fn append(&self, piece: &str, ids: &mut Vec<u32>) -> bool {
        self.with(piece, |cache| cache.get(piece).map(|known| ids.extend(known)).is_some())
    }

    /// Remembers a piece's ids, where it is not too large.
    pub fn insert(&self, piece: &str, ids: &[u32]) {
        self.with(piece, |cache| cache.insert(piece, ids));
    }

    fn with<T>(&self, piece: &str, act: impl FnOnce(&mut PieceCache) -> T) -> T {
        let shard = self.hasher.hash_one(piece) as usize % self.shards.len();
        // A shard is whole after every call, so a panic elsewhere does not spoil it.
        act(&mut self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Two generations of pieces: what is used moves to the young one, and when that is full the old one is
/// dropped whole. So a piece in use is kept, and eviction costs nothing a piece.
struct PieceCache {
    young: Pieces,
    old: Pieces,
    young_bytes: usize,
    /// What one generation may hold.
    generation_bytes: usize,
}

impl PieceCache {
    /// A cache of at most `max_bytes`; 0 keeps nothing.
    fn new(max_bytes: usize) -> Self {
        Self {
            young: Pieces::default(),
            old: Pieces::default(),
            young_bytes: 0,
            generation_bytes: max_bytes / 2,
        }
    }

    /// The ids of a piece, if it is known. The texts are compared, not only their hashes.
    fn get(&mut self, piece: &str) -> Option<&[u32]> {
        if !self.young.contains_key(piece)
            && let Some((piece, ids)) = self.old.remove_entry(piece)
        {
            self.keep(piece, ids);
        }
        self.young.get(piece).map(|ids| &**ids)
    }

    /// Remembers a piece's ids, where it is not larger than a generation.
    fn insert(&mut self, piece: &str, ids: &[u32]) {
        if cost(piece, ids) <= self.generation_bytes {
            self.keep(piece.into(), ids.into());
        }
    }

    fn keep(&mut self, piece: Box<str>, ids: Box<[u32]>) {
        let cost = cost(&piece, &ids);
        if self.young_bytes + cost > self.generation_bytes {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += cost;
        self.young.insert(piece, ids);
    }
}

fn cost(piece: &str, ids: &[u32]) -> usize {
    piece.len() + size_of_val(ids) + ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_in_use_outlives_the_others_and_memory_is_bounded() {
        let mut cache = PieceCache::new(4000);
        cache.insert("in use", &[1, 2]);
        for number in 0..1000u32 {
            cache.insert(&format!("piece {number}"), &[number]);
            assert_eq!(cache.get("in use"), Some(&[1, 2][..]), "after {number}");
            assert!(cache.young_bytes <= 2000 && cache.young.len() + cache.old.len() < 60);
        }
        assert_eq!(cache.get("piece 999"), Some(&[999][..]));
        assert_eq!(cache.get("piece 0"), None);
    }

    #[test]
    fn what_one_thread_met_another_one_knows() {
        let cache = SharedCache::new(1 << 20);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..100u32).for_each(|number| cache.insert(&number.to_string(), &[number])));
        });
        let mut ids = Vec::new();
        assert!((0..100u32).all(|number| cache.append(&number.to_string(), &mut ids)));
        assert_eq!(ids, (0..100).collect::<Vec<u32>>());
        assert!(!cache.append("no", &mut ids));
    }

    #[test]
    fn what_is_larger_than_a_generation_is_not_kept() {
        let mut cache = PieceCache::new(400);
        cache.insert(&"x".repeat(200), &[1]);
        assert_eq!(cache.get(&"x".repeat(200)), None);
        let mut none = PieceCache::new(0);
        none.insert("", &[]);
        assert_eq!(none.get(""), None);
    }
}
