//! The newest final estimate of each kind of window of a pool: what a restart shows before a window closes.
//!
//! They are kept as the topic's Avro records, which name their schema: a snapshot stays readable when the
//! estimate gains a field, numbers are kept to the last bit, and equal estimates have equal bytes.

use super::bytes::PackedBytes;
use kvset_core::estimate::{Estimate, Status};
use kvset_core::units::heap::HeapBytes;
use kvset_core::units::window::WindowKind;
use kvset_formats::codec::{EstimateEncoding, EstimateError, decode_estimate, encode_estimate};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The newest final estimates of one pool, as Avro records: at most one a configured kind of window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatestEstimates(BTreeMap<WindowKind, PackedBytes>);

impl HeapBytes for LatestEstimates {
    fn heap_bytes(&self) -> usize {
        let of_one = |record: &PackedBytes| record.0.capacity() + size_of::<(WindowKind, PackedBytes)>();
        self.0.values().map(of_one).sum()
    }
}

impl LatestEstimates {
    /// Takes the place of the estimate before it of the same kind of window.
    ///
    /// # Errors
    /// A number of it does not fit the topic's schema.
    pub(super) fn keep(&mut self, estimate: &Estimate) -> Result<(), EstimateError> {
        let mut record = self.0.remove(&estimate.window).map_or_else(Vec::new, |PackedBytes(old)| old);
        record.clear();
        encode_estimate(estimate, EstimateEncoding::Avro, &mut record)?;
        // Of many small pools these are the largest part, and room to grow would be half of it.
        record.shrink_to_fit();
        self.0.insert(estimate.window, PackedBytes(record));
        Ok(())
    }

    /// The estimates, in order of window.
    ///
    /// # Errors
    /// What is wrong with one that is not of this pool, of one of these windows.
    pub(super) fn read(&self, pool: &str, windows: &[WindowKind]) -> Result<Vec<Estimate>, Box<str>> {
        let read = |(window, record): (&WindowKind, &PackedBytes)| {
            let estimate = decode_estimate(&record.0).map_err(|error| error.to_string())?;
            let is_its_own = estimate.pool == pool && estimate.window == *window;
            let is_right = is_its_own && estimate.status == Status::Final && windows.contains(window);
            if is_right { Ok(estimate) } else { Err("it is of another pool or window".into()) }
        };
        self.0.iter().map(read).collect()
    }
}
