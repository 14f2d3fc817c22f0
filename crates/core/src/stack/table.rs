//! A growing table that copies nothing once it has a thousand elements.
//!
//! A vector that grows is copied, and one whose elements are aligned to more than the allocator's usual
//! sixteen bytes is copied every time, into memory the kernel has to hand out anew.

use crate::units::heap::HeapBytes;
use std::mem::MaybeUninit;
use std::ops::{Index, IndexMut};

/// Elements allocated at once.
const CHUNK: usize = 1024;

/// A table of elements that are added at its end and never taken away.
#[derive(Debug)]
pub(super) struct AppendTable<T> {
    /// All are full but the last. The first grows as a vector does, so that a small table takes little room.
    chunks: Vec<Vec<T>>,
}

impl<T> AppendTable<T> {
    pub(super) fn new() -> Self {
        Self { chunks: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    /// In line, so that an element is written where it stays: one that is passed in memory is read again at once,
    /// in other parts than it was written in, and a processor lets that wait for all it wrote before.
    #[inline]
    pub(super) fn push(&mut self, value: T) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(value),
            _ => self.push_chunk().push(value),
        }
    }

    /// Where an element will lie once `ahead` others were added, if there is room for it yet.
    #[inline]
    pub(super) fn spare(&mut self, ahead: usize) -> Option<&MaybeUninit<T>> {
        self.chunks.last_mut()?.spare_capacity_mut().get(ahead)
    }

    /// Adds a chunk without elements. Only the first has no room for them yet.
    #[cold]
    fn push_chunk(&mut self) -> &mut Vec<T> {
        let room = if self.chunks.is_empty() { 0 } else { CHUNK };
        if self.chunks.is_empty() {
            self.chunks.reserve_exact(1);
        }
        self.chunks.push(Vec::with_capacity(room));
        let last = self.chunks.len() - 1;
        &mut self.chunks[last]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.chunks.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flatten()
    }
}

impl<T> HeapBytes for AppendTable<T> {
    /// Its elements hold nothing themselves.
    fn heap_bytes(&self) -> usize {
        // Only the first may have room for fewer than a chunk's.
        let first = self.chunks.first().map_or(0, Vec::capacity);
        let elements = first + self.chunks.len().saturating_sub(1) * CHUNK;
        elements * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }
}

impl<T> FromIterator<T> for AppendTable<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut table = Self::new();
        values.into_iter().for_each(|value| table.push(value));
        table
    }
}

impl<T> Index<usize> for AppendTable<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        &self.chunks[index / CHUNK][index % CHUNK]
    }
}

impl<T> IndexMut<usize> for AppendTable<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_where_they_are_and_in_order() {
        let mut table: AppendTable<usize> = (0..CHUNK).collect();
        let first: *const usize = &table[0];
        for value in CHUNK..3 * CHUNK + 5 {
            table.push(value);
            assert_eq!(table.len(), value + 1);
        }
        assert!(std::ptr::eq(first, &table[0]), "growing moved nothing");
        table[CHUNK] = 7;
        table.iter_mut().skip(2 * CHUNK).for_each(|value| *value += 1);
        let expected = (0..CHUNK).chain([7]).chain(CHUNK + 1..2 * CHUNK).chain(2 * CHUNK + 1..3 * CHUNK + 6);
        assert!(table.iter().copied().eq(expected));
        assert!((0..table.len()).all(|index| table[index] == *table.iter().nth(index).expect("an element")));
    }

    #[test]
    fn a_small_table_takes_little_room() {
        let table: AppendTable<u64> = (0..3).collect();
        assert!(table.heap_bytes() < 500, "{} bytes", table.heap_bytes());
        let table: AppendTable<u64> = (0..100_000).collect();
        assert!(table.heap_bytes() < 100_000 * 8 * 102 / 100, "{} bytes", table.heap_bytes());
    }
}
