//! Plain arrays as runs of bytes, so that a snapshot of millions of pages is a copy, not a loop.
//!
//! An array is a sequence of chunks: a reader then holds one chunk alongside the array it fills, not the
//! whole file, which halves both the memory and the time of a restore.

use bytemuck::Pod;
use serde::de::{DeserializeSeed, Error, SeqAccess, Visitor};
use serde::ser::SerializeSeq;
use serde::{Deserializer, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;

/// Bytes a chunk holds at most; every chunk but the last holds as many whole elements as fit.
const CHUNK_BYTES: usize = 1 << 16;

/// Chunks for which room is made on the array's own word, before any has arrived.
const CHUNKS_ON_TRUST: usize = 16;

/// Writes the elements' own little-endian bytes.
pub fn serialize<T: Pod, S: Serializer>(values: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    let chunks = values.chunks(elements_a_chunk::<T>());
    let mut sequence = serializer.serialize_seq(Some(chunks.len()))?;
    for chunk in chunks {
        sequence.serialize_element(&RawBytes(bytemuck::cast_slice(chunk)))?;
    }
    sequence.end()
}

/// An array that is kept in memory otherwise than it is written: one written element for each of `count`,
/// made by the function a chunk at a time. Reads back with [`deserialize`].
pub struct DerivedArray<F> {
    /// Elements.
    pub count: usize,
    /// The element at an index.
    pub element: F,
}

impl<T: Pod, F: Fn(usize) -> T> Serialize for DerivedArray<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let size = elements_a_chunk::<T>();
        let mut sequence = serializer.serialize_seq(Some(self.count.div_ceil(size)))?;
        let mut chunk = Vec::with_capacity(size.min(self.count));
        for start in (0..self.count).step_by(size) {
            chunk.clear();
            chunk.extend((start..self.count.min(start + size)).map(&self.element));
            sequence.serialize_element(&RawBytes(bytemuck::cast_slice(&chunk)))?;
        }
        sequence.end()
    }
}

/// An array that lies in several slices. Reads back with [`deserialize`].
pub struct ConcatenatedSlices<I> {
    /// Elements of all slices together.
    pub count: usize,
    /// The slices, in order.
    pub slices: I,
}

impl<'a, T: Pod, I: Iterator<Item = &'a [T]> + Clone> Serialize for ConcatenatedSlices<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let size = elements_a_chunk::<T>();
        let mut sequence = serializer.serialize_seq(Some(self.count.div_ceil(size)))?;
        let mut chunk = Vec::with_capacity(size.min(self.count));
        for mut slice in self.slices.clone() {
            while let Some((fits, rest)) = slice.split_at_checked(size - chunk.len()) {
                // A whole chunk is written from where it lies.
                if chunk.is_empty() {
                    sequence.serialize_element(&RawBytes(bytemuck::cast_slice(fits)))?;
                } else {
                    chunk.extend_from_slice(fits);
                    sequence.serialize_element(&RawBytes(bytemuck::cast_slice(&chunk)))?;
                    chunk.clear();
                }
                slice = rest;
            }
            chunk.extend_from_slice(slice);
        }
        if !chunk.is_empty() {
            sequence.serialize_element(&RawBytes(bytemuck::cast_slice(&chunk)))?;
        }
        sequence.end()
    }
}

/// An array in which elements that are the same in some way are neighbours, each such group in chunks of its own: where
/// one group grows, the chunks of the others stay what they were. Reads back with [`deserialize`].
pub struct GroupedArray<'a, T, F> {
    /// The elements, group after group.
    pub elements: &'a [T],
    /// Whether two neighbours belong to one group.
    pub same: F,
}

impl<T: Pod, F: Fn(&T, &T) -> bool> Serialize for GroupedArray<'_, T, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let chunks = || {
            let groups = self.elements.chunk_by(&self.same);
            groups.flat_map(|group| group.chunks(elements_a_chunk::<T>()))
        };
        let mut sequence = serializer.serialize_seq(Some(chunks().count()))?;
        for chunk in chunks() {
            sequence.serialize_element(&RawBytes(bytemuck::cast_slice(chunk)))?;
        }
        sequence.end()
    }
}

/// Reads what [`serialize`] wrote.
pub fn deserialize<'de, T: Pod, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(EachChunk(|_: &mut Vec<T>| (), PhantomData))
}

/// Reads what [`serialize`] wrote and shows it a chunk at a time, for arrays that are kept otherwise.
pub fn deserialize_chunks<'de, T: Pod, D: Deserializer<'de>>(
    deserializer: D,
    mut show: impl FnMut(&[T]),
) -> Result<(), D::Error> {
    let take = |chunk: &mut Vec<T>| {
        show(chunk);
        chunk.clear();
    };
    deserializer.deserialize_seq(EachChunk(take, PhantomData)).map(drop)
}

const fn elements_a_chunk<T>() -> usize {
    CHUNK_BYTES / size_of::<T>()
}

struct RawBytes<'a>(&'a [u8]);

impl Serialize for RawBytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

/// Reads an array; after each chunk the function is given what is there, and may take it away.
struct EachChunk<F, T>(F, PhantomData<T>);

impl<'de, T: Pod, F: FnMut(&mut Vec<T>)> Visitor<'de> for EachChunk<F, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array's chunks")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut chunks: A) -> Result<Vec<T>, A::Error> {
        let mut values = Vec::new();
        loop {
            // Room never exceeds twice what has arrived, whatever a rotten length promises.
            let promised = chunks.size_hint().unwrap_or(0);
            let trusted = promised.min(CHUNKS_ON_TRUST.max(values.len() / elements_a_chunk::<T>()));
            if values.capacity() - values.len() < elements_a_chunk::<T>() {
                values.reserve_exact(trusted * elements_a_chunk::<T>());
            }
            if chunks.next_element_seed(Chunk(&mut values))?.is_none() {
                values.shrink_to_fit();
                return Ok(values);
            }
            (self.0)(&mut values);
        }
    }
}

/// Appends one chunk to the array.
struct Chunk<'a, T>(&'a mut Vec<T>);

impl<'de, T: Pod> DeserializeSeed<'de> for Chunk<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_byte_buf(self)
    }
}

impl<T: Pod> Visitor<'_> for Chunk<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number of {}-byte elements, at most {CHUNK_BYTES} bytes", size_of::<T>())
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<(), E> {
        if bytes.len() > CHUNK_BYTES || !bytes.len().is_multiple_of(size_of::<T>()) {
            return Err(E::invalid_length(bytes.len(), &self));
        }
        self.0.extend(bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned::<T>));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Arrays {
        #[serde(with = "super")]
        wide: Vec<u64>,
        #[serde(with = "super")]
        odd: Vec<[u8; 5]>,
    }

    #[test]
    fn arrays_of_any_length_are_read_back_as_written() {
        let a_chunk = elements_a_chunk::<u64>();
        for length in [0, 1, a_chunk - 1, a_chunk, a_chunk + 1, 40 * a_chunk + 7] {
            let wide: Vec<u64> = (0..length as u64).map(crate::units::pages::mix).collect();
            let odd = wide.iter().map(|id| [*id as u8; 5]).collect();
            let arrays = Arrays { wide, odd };
            let bytes = postcard::to_allocvec(&arrays).expect("bytes");
            assert_eq!(postcard::from_bytes::<Arrays>(&bytes).expect("whole"), arrays, "{length}");
            let (mut shown, mut reader) = (Vec::new(), postcard::Deserializer::from_bytes(&bytes));
            deserialize_chunks(&mut reader, |ids: &[u64]| shown.extend_from_slice(ids)).expect("whole");
            assert_eq!(shown, arrays.wide, "{length}");
        }
    }

    #[test]
    fn a_made_array_is_written_as_the_array_itself() {
        for count in [0, 1, elements_a_chunk::<u64>(), 3 * elements_a_chunk::<u64>() + 7] {
            let wide: Vec<u64> = (0..count as u64).collect();
            let odd = wide.iter().map(|id| [*id as u8; 5]).collect();
            let made = (
                DerivedArray { count, element: |index| index as u64 },
                DerivedArray { count, element: |index| [index as u8; 5] },
            );
            assert_eq!(postcard::to_allocvec(&made), postcard::to_allocvec(&Arrays { wide, odd }), "{count}");
        }
    }

    #[test]
    fn joined_slices_are_written_as_one_array() {
        let a_chunk = elements_a_chunk::<u64>();
        for lengths in [&[][..], &[0, 1], &[a_chunk], &[a_chunk - 1, 1, 1], &[5, 3 * a_chunk, 0, 2 * a_chunk]]
        {
            let slices: Vec<Vec<u64>> = lengths
                .iter()
                .map(|&length| (0..length as u64).map(|id| id ^ length as u64).collect())
                .collect();
            let wide = slices.concat();
            let joined = ConcatenatedSlices { count: wide.len(), slices: slices.iter().map(Vec::as_slice) };
            let whole = Arrays { wide, odd: Vec::new() };
            let odd = DerivedArray { count: 0, element: |_| [0u8; 5] };
            assert_eq!(postcard::to_allocvec(&(joined, odd)), postcard::to_allocvec(&whole), "{lengths:?}");
        }
    }

    #[test]
    fn a_group_that_grows_leaves_the_chunks_of_the_others_as_they_were() {
        let written = |elements: &[u64]| {
            let same = |a: &u64, b: &u64| a / 1000 == b / 1000;
            let bytes = postcard::to_allocvec(&GroupedArray { elements, same });
            let bytes = bytes.expect("memory");
            let mut chunks = Vec::new();
            let mut reader = postcard::Deserializer::from_bytes(&bytes);
            deserialize_chunks(&mut reader, |ids: &[u64]| chunks.push(ids.to_vec())).expect("whole");
            chunks
        };
        assert_eq!(written(&[]), Vec::<Vec<u64>>::new());
        assert_eq!(written(&[1, 2, 1000, 5000]), [vec![1, 2], vec![1000], vec![5000]]);
        assert_eq!(written(&[1, 2, 3, 1000, 5000]), [vec![1, 2, 3], vec![1000], vec![5000]]);
        let a_chunk = elements_a_chunk::<u64>();
        assert_eq!(written(&vec![7; a_chunk + 1]), [vec![7; a_chunk], vec![7]]);
    }

    #[test]
    fn a_rotten_length_makes_no_room_for_what_never_comes() {
        let lies = [0xff, 0xff, 0xff, 0xff, 0x7f, 8, 0, 0, 0, 0, 0, 0, 0, 0];
        assert!(postcard::from_bytes::<Arrays>(&lies).is_err());
        let half_an_element = [1, 4, 0, 0, 0, 0, 0];
        assert!(postcard::from_bytes::<Arrays>(&half_an_element).is_err());
    }
}
