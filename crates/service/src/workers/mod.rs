//! The threads that process records, a partition always on the same one; the others may read its records ahead.

mod ahead;
pub mod batch;
pub mod pool;

pub(crate) mod threads;
