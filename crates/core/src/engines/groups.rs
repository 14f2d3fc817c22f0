//! Sets of groups of layers: whose pages a piece holds.

use crate::units::heap::flat;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Groups of layers by their places in the model, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::engines) struct GroupSet(u32);

flat!(GroupSet);

impl GroupSet {
    /// That group alone.
    pub fn of(group: u32) -> Self {
        Self(1 << group)
    }

    /// The groups with these bits.
    pub fn of_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub fn bits(self) -> u32 {
        self.0
    }

    pub fn has(self, group: u32) -> bool {
        self.0 >> group & 1 == 1
    }

    /// Whether some groups are in both.
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all of these are in the other.
    pub fn is_in(self, other: Self) -> bool {
        self.without(other).is_empty()
    }

    /// Those that are in both.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are in one of both.
    pub fn in_one(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }

    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub fn len(self) -> u64 {
        // One is the usual case, where this is a third of counting bits.
        self.iter().count() as u64
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether these are several.
    pub fn is_shared(self) -> bool {
        self.0 & self.0.wrapping_sub(1) != 0
    }

    /// The place of the first one; 32 where there is none.
    pub fn first(self) -> u32 {
        self.0.trailing_zeros()
    }

    /// The place of the last one.
    pub fn last(self) -> u32 {
        (u32::BITS - 1).saturating_sub(self.0.leading_zeros())
    }

    /// All but the first so many.
    pub fn skip(self, count: u64) -> Self {
        (0..count).fold(self, |left, _| Self(left.0 & left.0.wrapping_sub(1)))
    }

    /// Those behind a place.
    pub fn behind(self, group: u32) -> Self {
        Self(self.0 & (u32::MAX << group << 1))
    }

    /// The last so many.
    pub fn last_ones(self, count: u64) -> Self {
        self.skip(self.len().saturating_sub(count))
    }

    /// The places of all, ascending.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let first = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some(first)
        })
    }
}

/// In a snapshot each group is by itself, and its place is written.
impl Serialize for GroupSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.first().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for GroupSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let group = u32::deserialize(deserializer)?;
        1u32.checked_shl(group).map(Self).ok_or_else(|| serde::de::Error::custom("no group has this place"))
    }
}
