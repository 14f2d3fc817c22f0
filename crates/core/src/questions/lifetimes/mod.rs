//! How long pages live in the stack, and on whose behalf: what follows from when each run was touched last.

mod boundaries;
mod boundary;
mod holders;
#[cfg(test)]
pub(crate) mod naive;

pub(crate) use boundaries::Boundaries;
pub(crate) use boundary::Boundary;
pub(crate) use holders::{HandedPages, Holder, Holders, Packed};
