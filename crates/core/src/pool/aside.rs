//! A pool that is put aside: its state as a snapshot keeps it, until its next record.
//!
//! What a pool has in memory is made to be changed: arrays with room to grow, an index, places that are reserved. Of a
//! pool that nobody asks anything, its bytes are enough.

use super::RestoreError;
use super::kind::PoolKind;
use super::live::LivePool;
use crate::units::heap::HeapBytes;
use serde::ser::{Error, Serialize, Serializer};
use std::fmt;

/// The state of a pool, in bytes.
pub(super) struct Aside(Box<[u8]>);

impl Aside {
    /// The state in bytes, once they were read back and found to be the same; `None` where they are not, and where
    /// more is asked of the pool, which a snapshot keeps apart.
    pub(super) fn of(live: &LivePool, kind: &PoolKind) -> Option<Self> {
        if live.sections().is_some() {
            return None;
        }
        let aside = Self(postcard::to_allocvec(live).ok()?.into());
        let read = aside.read(kind).ok()?;
        let again = postcard::to_allocvec(&*read).ok()?;
        (*again == *aside.0).then_some(aside)
    }

    /// The state, to go on with.
    ///
    /// # Errors
    /// [`RestoreError`] where the bytes are no longer what they were.
    pub(super) fn read(&self, kind: &PoolKind) -> Result<Box<LivePool>, RestoreError> {
        let mut live: Box<LivePool> =
            postcard::from_bytes(&self.0).map_err(|_| RestoreError::Inconsistent)?;
        live.resume(kind, None)?;
        Ok(live)
    }
}

impl HeapBytes for Aside {
    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}

impl fmt::Debug for Aside {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Aside({} bytes)", self.0.len())
    }
}

/// Writes a pool's state into a snapshot: the same bytes, wherever it is.
pub(super) fn serialize_state<S: Serializer>(
    (live, aside): &(&Option<Box<LivePool>>, Option<&Aside>),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match aside {
        None => live.serialize(serializer),
        Some(aside) => {
            let live: Box<LivePool> = postcard::from_bytes(&aside.0).map_err(S::Error::custom)?;
            serializer.serialize_some(&live)
        }
    }
}
