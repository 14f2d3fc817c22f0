//! One partition's task, resume and commit decisions: sans-IO.
//!
//! Everything in here is a function from facts and records to decisions and outputs, over traits, so
//! that whole lives of the service can be driven without a broker.

pub mod facts;
pub mod lanes;
pub mod ordered;
pub mod output;
pub mod pools;
pub mod position;
pub mod publish;
pub mod resume;
pub mod stretch;
pub mod task;
pub mod worker;
