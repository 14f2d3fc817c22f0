//! The threads that process records, a partition always on the same one.

pub mod pool;

pub(crate) mod threads;
