//! Which pools a full set has forgotten, so that one that comes back is not taken for a new one.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use xxhash_rust::xxh3::xxh3_64;

/// Most names that are remembered, at 8 bytes each.
const MAX_NAMES: usize = 1 << 16;

/// The names of forgotten pools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    /// Hashes of their names.
    names: BTreeSet<u64>,
    /// More were forgotten than are remembered: from then on any pool may be one of them.
    overflowed: bool,
}

impl Forgotten {
    /// Remembers a pool that was forgotten.
    pub(super) fn insert(&mut self, name: &str) {
        if self.names.len() < MAX_NAMES {
            self.names.insert(xxh3_64(name.as_bytes()));
        } else {
            (self.names, self.overflowed) = (BTreeSet::new(), true);
        }
    }

    /// Whether a pool of this name may have been forgotten.
    pub(super) fn may_contain(&self, name: &str) -> bool {
        self.overflowed || self.names.contains(&xxh3_64(name.as_bytes()))
    }

    /// Whether this, read back from a snapshot, can have come about.
    pub(super) fn is_sound(&self) -> bool {
        self.names.len() <= MAX_NAMES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forgotten_pool_is_known_and_with_too_many_every_pool_may_be_one() {
        let mut forgotten = Forgotten::default();
        forgotten.insert("a");
        assert_eq!((forgotten.may_contain("a"), forgotten.may_contain("b")), (true, false));
        (0..=MAX_NAMES).for_each(|number| forgotten.insert(&number.to_string()));
        assert!(forgotten.may_contain("b") && forgotten.is_sound());
    }
}
