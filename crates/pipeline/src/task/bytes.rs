//! Bytes in a snapshot.

use serde::{Deserialize, Serialize};

/// Bytes that are written at once, not one by one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PackedBytes(#[serde(with = "kvset_core::units::packed")] pub Vec<u8>);

impl From<&[u8]> for PackedBytes {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}
