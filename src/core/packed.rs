//! Plain arrays as one run of bytes, so that a snapshot of millions of pages is a copy, not a loop.

use bytemuck::Pod;
use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};
use std::fmt;
use std::marker::PhantomData;

/// Writes the elements' own little-endian bytes.
pub fn serialize<T: Pod, S: Serializer>(values: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytemuck::cast_slice(values))
}

/// Reads what [`serialize`] wrote.
pub fn deserialize<'de, T: Pod, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_bytes(Packed(PhantomData))
}

struct Packed<T>(PhantomData<T>);

impl<T: Pod> Visitor<'_> for Packed<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number of {}-byte elements", size_of::<T>())
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<T>, E> {
        if !bytes.len().is_multiple_of(size_of::<T>()) {
            return Err(E::invalid_length(bytes.len(), &self));
        }
        let mut values = vec![T::zeroed(); bytes.len() / size_of::<T>()];
        bytemuck::cast_slice_mut::<T, u8>(&mut values).copy_from_slice(bytes);
        Ok(values)
    }
}
