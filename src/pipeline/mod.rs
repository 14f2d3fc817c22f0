//! One partition's task, resume and commit decisions: sans-IO.

pub mod facts;
