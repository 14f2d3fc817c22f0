//! Page ids where they lie: a borrowed, unaligned view that a record's own bytes can back.

use crate::units::heap::flat;
use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A run of 64-bit page ids, little-endian, at any alignment.
///
/// A packed Avro record, a JSON array decoded into a buffer and the engine's own arena all read
/// through this one type, so the engine never copies ids to look at them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageIds<'a>(&'a [[u8; 8]]);

impl<'a> PageIds<'a> {
    /// No pages.
    pub const EMPTY: PageIds<'static> = PageIds(&[]);

    /// Reads packed little-endian ids; `None` when the length is not a multiple of eight.
    pub fn from_packed(bytes: &'a [u8]) -> Option<Self> {
        let (ids, rest) = bytes.as_chunks::<8>();
        rest.is_empty().then_some(Self(ids))
    }

    /// Views ids that each have their bytes, little-endian.
    pub fn from_le_bytes(ids: &'a [[u8; 8]]) -> Self {
        Self(ids)
    }

    /// Views ids held in memory.
    ///
    /// The in-memory order must be little-endian, which `lib.rs` asserts at compile time.
    pub fn from_slice(ids: &'a [u64]) -> Self {
        Self(bytemuck::cast_slice(ids))
    }

    /// Number of pages.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there is no page.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The id at `index`, if there is one.
    pub fn get(self, index: usize) -> Option<u64> {
        self.0.get(index).map(|id| u64::from_le_bytes(*id))
    }

    /// The ids in prefix order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = u64> + Clone + 'a {
        self.0.iter().map(|id| u64::from_le_bytes(*id))
    }

    /// The ids from `start` on; empty when `start` is past the end.
    pub fn from(self, start: usize) -> Self {
        Self(self.0.get(start..).unwrap_or_default())
    }

    /// The first `count` ids, or all where there are fewer.
    pub fn first(self, count: usize) -> Self {
        Self(&self.0[..count.min(self.0.len())])
    }

    /// The ids in blocks of `N`, and those that make no whole one.
    pub fn blocks<const N: usize>(self) -> (&'a [[[u8; 8]; N]], &'a [[u8; 8]]) {
        self.0.as_chunks::<N>()
    }

    /// The ids, each with its bytes, little-endian.
    pub fn as_le_bytes(self) -> &'a [[u8; 8]] {
        self.0
    }

    /// The packed bytes.
    pub fn as_packed(self) -> &'a [u8] {
        self.0.as_flattened()
    }

    /// How many leading ids both runs share.
    pub fn common_prefix(self, other: PageIds<'_>) -> usize {
        /// Ids compared at once: long enough for the C library's vector compare to pay, then short enough
        /// that finding the mismatch inside is cheap.
        const BLOCKS: [usize; 3] = [512, 32, 1];
        let length = self.len().min(other.len());
        let mut start = 0;
        for block in BLOCKS {
            let (left, right) = (self.0[start..length].chunks(block), other.0[start..length].chunks(block));
            let same = |(a, b): &(&[[u8; 8]], &[[u8; 8]])| a.as_flattened() == b.as_flattened();
            start += left.zip(right).take_while(same).map(|(ids, _)| ids.len()).sum::<usize>();
            if start == length {
                break;
            }
        }
        start
    }
}

/// The page that [`shared_near`] asks about first.
#[inline]
pub fn first_probe(guess: usize, length: usize) -> usize {
    guess.min(length).saturating_sub(1)
}

/// How many of `length` leading pages are shared where ids are chained, so that a page that is shared tells
/// of all before it: searched from `guess` on in steps that double, then by halving.
///
/// Where the ids are not chained after all, a number of pages of which the last is shared and the next is not.
#[inline]
pub fn shared_near(guess: usize, length: usize, is_shared: impl Fn(usize) -> bool) -> usize {
    // Those before `shared` are, the one at `end` is not, or there is none.
    let (mut shared, mut end) = (0, length);
    let (mut probe, mut step) = (first_probe(guess, length), 1);
    while shared < end {
        if is_shared(probe) {
            shared = probe + 1;
        } else {
            end = probe;
        }
        probe = match (shared, end) {
            (0, _) => end.saturating_sub(step),
            _ if end == length => (shared - 1 + step).min(length - 1),
            _ => usize::midpoint(shared, end),
        };
        step *= 2;
    }
    shared
}

/// What page ids are unique within: one id under two scopes is two pages.
///
/// The scope enters the first page only. Every later page is keyed by its whole prefix, so that is
/// enough, and costs nothing a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Pod, Zeroable, Serialize, Deserialize)]
#[repr(transparent)]
pub struct Scope(u64);

flat!(Scope);

impl Scope {
    /// All ids of the pool share one space.
    pub const GLOBAL: Self = Self(0);

    /// The scope named by a session, tenant, cache salt or other field.
    pub fn named(name: &[u8]) -> Self {
        const SEED: u64 = 0x6b76_7365_7473_636f; // "kvsetsco"
        Self(xxh3_64_with_seed(name, SEED).max(1))
    }

    /// The scope of this value, which is not 0.
    pub(crate) const fn of_value(value: u64) -> Self {
        Self(value)
    }

    /// The scope as a number: 0 for [`Scope::GLOBAL`], never 0 for a named one.
    pub fn value(self) -> u64 {
        self.0
    }

    /// The first page's id within this scope; the identity for [`Scope::GLOBAL`].
    pub fn first_page(self, id: u64) -> u64 {
        if self == Self::GLOBAL { id } else { mix(id ^ self.0) ^ self.0 }
    }

    /// The id that [`Scope::first_page`] turned into `first_page`.
    pub fn id_of_first_page(self, first_page: u64) -> u64 {
        if self == Self::GLOBAL { first_page } else { unmix(first_page ^ self.0) ^ self.0 }
    }

    /// A key that tells ids of different scopes apart, for indexes over single ids.
    pub fn key(self, id: u64) -> u64 {
        mix(id ^ self.0)
    }
}

/// A bijective scrambling of 64 bits (the finaliser of MurmurHash3), so that small consecutive ids
/// spread over the whole range. Part of the sampling definition: changing it changes results.
pub fn mix(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// The number that [`mix`] makes `x` of.
fn unmix(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0x9cb4_b2f8_1293_37db);
    x ^= x >> 33;
    x = x.wrapping_mul(0x4f74_430c_22a5_4005);
    x ^ (x >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_mixed_can_be_told(id: u64) {
            prop_assert_eq!(unmix(mix(id)), id);
        }

        #[test]
        fn common_prefix_equals_the_obvious_loop(
            shared in prop::collection::vec(any::<u64>(), 0..300),
            a in prop::collection::vec(0u64..4, 0..100),
            b in prop::collection::vec(0u64..4, 0..100),
        ) {
            let left: Vec<u64> = shared.iter().chain(&a).copied().collect();
            let right: Vec<u64> = shared.iter().chain(&b).copied().collect();
            let expected = left.iter().zip(&right).take_while(|(x, y)| x == y).count();
            prop_assert_eq!(PageIds::from_slice(&left).common_prefix(PageIds::from_slice(&right)), expected);
        }

        #[test]
        fn halving_finds_what_comparing_every_id_of_chained_runs_finds(shared in 0usize..3000, more in 0usize..3000) {
            for guess in [0, 1, shared / 2, shared, shared + 1, shared + more, usize::MAX] {
                prop_assert_eq!(shared_near(guess, shared + more, |page| page < shared), shared);
            }
        }

        #[test]
        fn halving_ends_where_runs_differ_though_their_ids_are_not_chained(
            pages in prop::collection::vec(any::<bool>(), 0..200), guess in 0usize..250,
        ) {
            let end = shared_near(guess, pages.len(), |page| pages[page]);
            prop_assert!(end == pages.len() || !pages[end]);
            prop_assert!(end == 0 || pages[end - 1]);
        }
    }

    #[test]
    fn packed_bytes_are_read_where_they_lie_at_any_alignment() {
        let mut bytes = vec![0xffu8];
        bytes.extend(7u64.to_le_bytes());
        bytes.extend(9u64.to_le_bytes());
        let ids = PageIds::from_packed(&bytes[1..]).expect("two whole ids");
        assert_eq!(ids.iter().collect::<Vec<_>>(), [7, 9]);
        assert_eq!(ids.as_packed().as_ptr(), bytes[1..].as_ptr(), "no copy");
        assert_eq!(PageIds::from_packed(&bytes), None, "17 bytes are no whole number of ids");
    }

    #[test]
    fn a_scope_separates_equal_ids_and_the_global_one_changes_nothing() {
        let (a, b) = (Scope::named(b"a"), Scope::named(b"b"));
        assert_ne!(a.first_page(1), b.first_page(1));
        assert_eq!(Scope::GLOBAL.first_page(42), 42);
        for scope in [a, b, Scope::GLOBAL] {
            assert_eq!(scope.id_of_first_page(scope.first_page(7)), 7);
        }
    }
}
