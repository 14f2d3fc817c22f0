//! Bytes that values hold on the heap: bounds of memory go by them.

use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap as StdHashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::mem::needs_drop;
use std::sync::Arc;
use std::vec;

/// What holds memory on the heap.
pub trait HeapBytes {
    /// Bytes on the heap, nearly: with the room that is kept, without the value itself.
    fn heap_bytes(&self) -> usize;
}

/// Declares types whose values hold nothing on the heap.
macro_rules! flat {
    ($($Type:ty),+ $(,)?) => {
        $(impl $crate::units::heap::HeapBytes for $Type {
            fn heap_bytes(&self) -> usize {
                0
            }
        })+
    };
}
pub(crate) use flat;

/// Declares what a struct holds on the heap: the fields that may hold something; behind `;` those that hold nothing.
/// Every field is named, so that a new one cannot be forgotten. Of an enum each variant is named, with what it holds.
macro_rules! heap_bytes {
    ($Type:ident $(<$($Part:ident),+>)? { $($field:ident),+ $(,)? $(; $($flat:ident),+ $(,)?)? }) => {
        impl $(<$($Part: $crate::units::heap::HeapBytes),+>)? $crate::units::heap::HeapBytes for $Type $(<$($Part),+>)? {
            fn heap_bytes(&self) -> usize {
                let Self { $($field,)+ $($($flat: _,)+)? } = self;
                0 $(+ $crate::units::heap::HeapBytes::heap_bytes($field))+
            }
        }
    };
    (enum $Type:ident $(<$($Part:ident),+>)? { $($Variant:ident $(($held:ident))?),+ $(,)? }) => {
        impl $(<$($Part: $crate::units::heap::HeapBytes),+>)? $crate::units::heap::HeapBytes for $Type $(<$($Part),+>)? {
            fn heap_bytes(&self) -> usize {
                match self {
                    $(Self::$Variant $(($held))? => 0 $(+ $crate::units::heap::HeapBytes::heap_bytes($held))?,)+
                }
            }
        }
    };
}
pub(crate) use heap_bytes;

flat!(bool, u8, u16, u32, u64, u128, usize, i32, i64, f64);

/// What these hold; none is visited of a type whose values hold nothing that would have to be dropped.
fn held<'a, T: HeapBytes + 'a>(values: impl IntoIterator<Item = &'a T>) -> usize {
    if needs_drop::<T>() { values.into_iter().map(T::heap_bytes).sum() } else { 0 }
}

impl<T: HeapBytes> HeapBytes for Vec<T> {
    fn heap_bytes(&self) -> usize {
        self.capacity() * size_of::<T>() + held(self)
    }
}

impl<T: HeapBytes> HeapBytes for VecDeque<T> {
    fn heap_bytes(&self) -> usize {
        self.capacity() * size_of::<T>() + held(self)
    }
}

impl<T: HeapBytes> HeapBytes for BinaryHeap<T> {
    fn heap_bytes(&self) -> usize {
        self.capacity() * size_of::<T>() + held(self)
    }
}

impl<T: HeapBytes> HeapBytes for vec::IntoIter<T> {
    fn heap_bytes(&self) -> usize {
        size_of_val(self.as_slice()) + held(self.as_slice())
    }
}

impl<K: HeapBytes + Eq + Hash, V: HeapBytes, S: BuildHasher> HeapBytes for HashMap<K, V, S> {
    fn heap_bytes(&self) -> usize {
        self.allocation_size() + held(self.keys()) + held(self.values())
    }
}

impl<K: HeapBytes, V: HeapBytes, S> HeapBytes for StdHashMap<K, V, S> {
    fn heap_bytes(&self) -> usize {
        // A byte more an entry, and an eighth of the room stays empty.
        let table = self.capacity() * (size_of::<(K, V)>() + 1) * 8 / 7;
        table + held(self.keys()) + held(self.values())
    }
}

impl<K: HeapBytes, V: HeapBytes> HeapBytes for BTreeMap<K, V> {
    fn heap_bytes(&self) -> usize {
        // A node has room for a few more.
        self.len() * size_of::<(K, V)>() * 3 / 2 + held(self.keys()) + held(self.values())
    }
}

impl HeapBytes for str {
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl<T: HeapBytes> HeapBytes for [T] {
    fn heap_bytes(&self) -> usize {
        held(self)
    }
}

impl<T: HeapBytes, const COUNT: usize> HeapBytes for [T; COUNT] {
    fn heap_bytes(&self) -> usize {
        held(self)
    }
}

impl<T: HeapBytes + ?Sized> HeapBytes for Box<T> {
    fn heap_bytes(&self) -> usize {
        size_of_val(&**self) + T::heap_bytes(self)
    }
}

/// As if it were not shared.
impl<T: HeapBytes + ?Sized> HeapBytes for Arc<T> {
    fn heap_bytes(&self) -> usize {
        size_of_val(&**self) + T::heap_bytes(self)
    }
}

impl<T: HeapBytes> HeapBytes for Option<T> {
    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, T::heap_bytes)
    }
}

impl<T: HeapBytes> HeapBytes for Reverse<T> {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

/// Declares the same of tuples.
macro_rules! tuples {
    ($(($($Part:ident $at:tt),+);)+) => {
        $(impl<$($Part: HeapBytes),+> HeapBytes for ($($Part,)+) {
            fn heap_bytes(&self) -> usize {
                0 $(+ self.$at.heap_bytes())+
            }
        })+
    };
}

tuples! {
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Node {
        ids: Vec<u64>,
        names: Vec<Option<Box<str>>>,
        depth: u32,
    }

    heap_bytes!(Node { ids, names; depth });

    #[test]
    fn counts_room_and_what_elements_hold_but_not_the_value() {
        let mut ids = Vec::with_capacity(4);
        ids.push(1);
        let node = Node { ids, names: vec![Some("abc".into()), None], depth: 0 };
        assert_eq!(node.depth, 0);
        assert_eq!(node.heap_bytes(), 4 * 8 + 2 * size_of::<Box<str>>() + 3);
        assert_eq!(Box::new(7_u64).heap_bytes(), 8);
        assert_eq!((7_u64, vec![0_u8; 5]).heap_bytes(), 5);
    }
}
