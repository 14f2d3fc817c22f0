//! The ids of all labels, one after another, in memory that does not move.
//!
//! A vector that grows in steps small enough to waste little is copied so often that a worker of the service
//! spent a twentieth of its time on it, and while it is copied it takes its room twice.

use super::prefetch::{LINE, LINES_AHEAD, prefetch};
use crate::units::heap::HeapBytes;
use crate::units::packed;
use crate::units::pages::PageIds;
use serde::Deserializer;

/// Ids allocated at once: 64 KiB, which the allocator takes from what it has. Tests cross many borders.
const CHUNK: usize = if cfg!(test) { 64 } else { 1 << 13 };

/// The least a first chunk grows by: a small pool has as much room as it has ids, nearly.
const STEP: usize = 8;

/// A growing list of ids.
#[derive(Debug, Default)]
pub(super) struct Arena {
    /// Those before the list's end are full; those behind it are empty, and kept for what comes next. Ids are
    /// kept as they lie in records, so that the C library copies them.
    chunks: Vec<Vec<[u8; 8]>>,
    len: usize,
}

impl Arena {
    /// Ids in the list.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The id at a place.
    #[inline]
    pub(super) fn id(&self, at: u32) -> u64 {
        u64::from_le_bytes(self.chunks[at as usize / CHUNK][at as usize % CHUNK])
    }

    /// Has the id at a place brought near.
    #[inline]
    pub(super) fn prefetch(&self, at: u32) {
        prefetch(&self.chunks[at as usize / CHUNK][at as usize % CHUNK]);
    }

    /// The ids from a place on, in as many runs as chunks hold them.
    #[inline]
    pub(super) fn runs(&self, start: u32, len: u32) -> impl Iterator<Item = PageIds<'_>> + Clone {
        let (mut at, end) = (start as usize, start as usize + len as usize);
        std::iter::from_fn(move || {
            let rest = end.checked_sub(at).filter(|rest| *rest > 0)?;
            let offset = at % CHUNK;
            let here = rest.min(CHUNK - offset);
            let ids = &self.chunks[at / CHUNK][offset..offset + here];
            at += here;
            Some(PageIds::from_le_bytes(ids))
        })
    }

    /// All ids in packed form, in order, in as many slices as chunks hold them.
    pub(super) fn as_packed(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.chunks.iter().map(|chunk| chunk.as_flattened())
    }

    /// How many of the `len` ids from a place on are the leading ones of `ids`.
    #[inline]
    pub(super) fn common_prefix(&self, start: u32, len: u32, ids: PageIds<'_>) -> usize {
        let (start, len) = (start as usize, len as usize);
        let (chunk, offset) = (&self.chunks[start / CHUNK], start % CHUNK);
        if offset + len <= CHUNK {
            return PageIds::from_le_bytes(&chunk[offset..offset + len]).common_prefix(ids);
        }
        self.common_prefix_of_several(start, len, ids)
    }

    #[inline(never)]
    fn common_prefix_of_several(&self, start: usize, len: usize, ids: PageIds<'_>) -> usize {
        let mut shared = 0;
        for run in self.runs(start as u32, len as u32) {
            let here = run.common_prefix(ids.from(shared));
            shared += here;
            if here < run.len() {
                break;
            }
        }
        shared
    }

    /// Appends an id.
    #[inline]
    pub(super) fn push(&mut self, id: u64) {
        let chunk = self.with_room(1);
        chunk.push(id.to_le_bytes());
        if let Some(later) = chunk.spare_capacity_mut().get(LINES_AHEAD * LINE / size_of::<u64>()) {
            prefetch(later);
        }
        self.len += 1;
    }

    /// Appends ids.
    pub(super) fn extend(&mut self, mut ids: PageIds<'_>) {
        while !ids.is_empty() {
            let chunk = self.with_room(ids.len());
            let here = ids.len().min(CHUNK - chunk.len());
            chunk.extend_from_slice(ids.first(here).as_le_bytes());
            self.len += here;
            ids = ids.from(here);
        }
    }

    /// The chunk that the list ends in, with room for so many ids or all it can ever hold.
    #[inline]
    fn with_room(&mut self, ids: usize) -> &mut Vec<[u8; 8]> {
        let last = self.len / CHUNK;
        if last == self.chunks.len() {
            if last == 0 {
                self.chunks.reserve_exact(1);
            }
            self.chunks.push(if last == 0 { Vec::new() } else { Vec::with_capacity(CHUNK) });
        }
        let chunk = &mut self.chunks[last];
        if chunk.capacity() - chunk.len() < ids && chunk.capacity() < CHUNK {
            let more = ids.max(STEP).max(chunk.len() / 4);
            chunk.reserve_exact(more.min(CHUNK - chunk.len()));
        }
        chunk
    }

    /// Copies ids to an earlier place, or to where they are.
    pub(super) fn move_earlier(&mut self, start: u32, len: u32, to: u32) {
        let (mut from, mut to, mut left) = (start as usize, to as usize, len as usize);
        debug_assert!(to <= from, "what is written over was read before");
        while left > 0 {
            let here = left.min(CHUNK - from % CHUNK).min(CHUNK - to % CHUNK);
            if from / CHUNK == to / CHUNK {
                let begin = from % CHUNK;
                self.chunks[to / CHUNK].copy_within(begin..begin + here, to % CHUNK);
            } else {
                let (earlier, later) = self.chunks.split_at_mut(from / CHUNK);
                let ids = &later[0][from % CHUNK..from % CHUNK + here];
                earlier[to / CHUNK][to % CHUNK..to % CHUNK + here].copy_from_slice(ids);
            }
            (from, to, left) = (from + here, to + here, left - here);
        }
    }

    /// Lets go of all ids but the first `len`; their room is kept.
    pub(super) fn truncate(&mut self, len: u32) {
        self.len = len as usize;
        for (index, chunk) in self.chunks.iter_mut().enumerate() {
            chunk.truncate(self.len.saturating_sub(index * CHUNK));
        }
    }

    /// Reads an array of ids that was written [packed].
    ///
    /// # Errors
    /// The deserializer's own, and bytes that are no ids.
    pub(super) fn from_packed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut arena = Self::default();
        packed::deserialize_chunks(deserializer, |ids: &[u64]| arena.extend(PageIds::from_slice(ids)))?;
        Ok(arena)
    }
}

impl HeapBytes for Arena {
    fn heap_bytes(&self) -> usize {
        // Only the first may have room for fewer than a chunk's.
        let first = self.chunks.first().map_or(0, Vec::capacity);
        let ids = first + self.chunks.len().saturating_sub(1) * CHUNK;
        ids * size_of::<u64>() + self.chunks.capacity() * size_of::<Vec<[u8; 8]>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_arena_equals_a_vector(steps in prop::collection::vec((0u8..4, 0usize..200, 0usize..200), 0..60)) {
            let (mut arena, mut model) = (Arena::default(), Vec::<u64>::new());
            for (action, a, b) in steps {
                let len = model.len();
                match action {
                    0 => {
                        let (start, to) = (len.min(a.max(b)), len.min(a.min(b)));
                        let moved = (len - start).min(170);
                        arena.move_earlier(start as u32, moved as u32, to as u32);
                        model.copy_within(start..start + moved, to);
                    }
                    1 => {
                        arena.truncate(len.saturating_sub(a) as u32);
                        model.truncate(len.saturating_sub(a));
                    }
                    2 => {
                        arena.push(len as u64);
                        model.push(len as u64);
                    }
                    _ => {
                        let ids: Vec<u64> = (0..a as u64).map(|id| id + 1000 * len as u64).collect();
                        arena.extend(PageIds::from_slice(&ids));
                        model.extend(ids);
                    }
                }
                prop_assert_eq!(arena.len(), model.len());
                prop_assert!((0..).zip(&model).all(|(at, id)| arena.id(at) == *id));
                let (start, end) = (a.min(b).min(model.len()), a.max(b).min(model.len()));
                let read: Vec<u64> = arena.runs(start as u32, (end - start) as u32).flat_map(PageIds::iter).collect();
                prop_assert_eq!(&read, &model[start..end]);
                if start < end {
                    let (shared, mut other) = (b % (end - start), read);
                    let upto = |other: &[u64]| arena.common_prefix(start as u32, (end - start) as u32, PageIds::from_slice(other));
                    prop_assert_eq!(upto(&other), end - start);
                    other[shared] = u64::MAX;
                    prop_assert_eq!(upto(&other), shared);
                    prop_assert_eq!(upto(&other[..shared]), shared);
                }
            }
        }
    }

    #[test]
    fn growing_moves_nothing_and_wastes_a_chunk_at_most() {
        let mut arena = Arena::default();
        arena.extend(PageIds::from_slice(&[7]));
        assert!(arena.heap_bytes() < 200, "{} bytes for one id", arena.heap_bytes());
        arena.extend(PageIds::from_slice(&[7; CHUNK]));
        let first = arena.chunks[0].as_ptr();
        arena.extend(PageIds::from_slice(&[7; 99 * CHUNK]));
        assert_eq!(arena.chunks[0].as_ptr(), first);
        assert!(arena.chunks.iter().map(Vec::capacity).sum::<usize>() <= arena.len() + CHUNK);
        let held = arena.heap_bytes();
        arena.truncate(1);
        arena.extend(PageIds::from_slice(&[7; 100 * CHUNK]));
        assert_eq!(arena.heap_bytes(), held, "room is used again");
    }
}
