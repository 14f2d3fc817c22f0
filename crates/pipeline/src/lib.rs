//! One partition's task, resume and commit decisions: sans-IO.
//!
//! Everything in here is a function from facts and records to decisions and outputs, over traits, so
//! that whole lives of the service can be driven without a broker.
// Bad input, a bad disk or a bad broker is an error with a name, never a panic.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

pub mod assignment;
pub mod dead_letter_policy;
pub mod facts;
pub mod gaps;
pub mod incoming;
pub mod offset_range;
pub mod ordered;
pub mod publish;
pub mod resume;
pub mod task;
pub mod worker;
