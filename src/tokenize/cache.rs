//! Token ids of pieces of text met before, in bounded memory.

use hashbrown::HashMap;

type Pieces = HashMap<Box<str>, Box<[u32]>, foldhash::fast::RandomState>;

/// What an entry costs beside its text and its ids.
const ENTRY_BYTES: usize = 64;

/// Two generations of pieces: what is used moves to the young one, and when that is full the old one is
/// dropped whole. So a piece in use is kept, and eviction costs nothing a piece.
pub(super) struct PieceCache {
    young: Pieces,
    old: Pieces,
    young_bytes: usize,
    /// What one generation may hold.
    generation_bytes: usize,
}

impl PieceCache {
    /// A cache of at most `max_bytes`; 0 keeps nothing.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            young: Pieces::default(),
            old: Pieces::default(),
            young_bytes: 0,
            generation_bytes: max_bytes / 2,
        }
    }

    /// The ids of a piece, if it is known. The texts are compared, not only their hashes.
    pub fn get(&mut self, piece: &str) -> Option<&[u32]> {
        if !self.young.contains_key(piece)
            && let Some((piece, ids)) = self.old.remove_entry(piece)
        {
            self.keep(piece, ids);
        }
        self.young.get(piece).map(|ids| &**ids)
    }

    /// Remembers a piece's ids, where it is not larger than a generation.
    pub fn insert(&mut self, piece: &str, ids: &[u32]) {
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
    fn what_is_larger_than_a_generation_is_not_kept() {
        let mut cache = PieceCache::new(400);
        cache.insert(&"x".repeat(200), &[1]);
        assert_eq!(cache.get(&"x".repeat(200)), None);
        let mut none = PieceCache::new(0);
        none.insert("", &[]);
        assert_eq!(none.get(""), None);
    }
}
