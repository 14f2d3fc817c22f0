//! One request as it arrives: what its event says, its labels, whether a sample has it, what it found, and why one is
//! refused; prompts in memory.

pub mod endpoint;
pub mod event;
pub mod id_scheme;
pub mod labels;
pub mod longest;
pub mod outcome;
pub mod prompts;
pub mod refusal;
pub mod sample;
pub mod unshown;
