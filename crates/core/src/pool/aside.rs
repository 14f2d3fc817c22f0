//! A pool that is put aside: its state as a snapshot keeps it, until its next record.
//!
//! What a pool has in memory is made to be changed: arrays with room to grow, an index, places that are reserved. Of a
//! pool that nobody asks anything, its bytes are enough.

use super::RestoreError;
use super::kind::PoolKind;
use super::live::LivePool;
use serde::ser::{Error, Serialize, Serializer};
use std::fmt;
use std::ops::Deref;

/// The state of a pool, in bytes.
pub(super) struct Aside(Box<[u8]>);

impl Aside {
    /// The state in bytes, once they were read back and found to be the same; `None` where they are not, and where
    /// more is asked of the pool, which a snapshot keeps apart.
    pub(super) fn of(live: &LivePool, kind: &PoolKind) -> Option<Self> {
        if live.observers_image().is_some() {
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

    /// Bytes of memory held.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.0.len() as u64
    }
}

impl fmt::Debug for Aside {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Aside({} bytes)", self.0.len())
    }
}

/// A pool's state, wherever it is.
pub(super) enum Opened<'a> {
    /// In the pool.
    Here(&'a LivePool),
    /// Read for this one time.
    Read(Box<LivePool>),
}

impl Deref for Opened<'_> {
    type Target = LivePool;

    fn deref(&self) -> &LivePool {
        match self {
            Self::Here(live) => live,
            Self::Read(live) => live,
        }
    }
}

/// A pool's state to be written into a snapshot: the same bytes, wherever it is.
#[derive(Debug)]
pub(super) enum LiveImage<'a> {
    Live(&'a Option<Box<LivePool>>),
    Aside(&'a Aside),
}

impl Serialize for LiveImage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Live(live) => live.serialize(serializer),
            Self::Aside(aside) => {
                let live: Box<LivePool> = postcard::from_bytes(&aside.0).map_err(S::Error::custom)?;
                serializer.serialize_some(&live)
            }
        }
    }
}
