//! The poll loop: reads the group's records, hands them to a stage, commits what came of them.
//!
//! What is done with the records is the stage's affair: [`crate::estimating`] or [`crate::prepare`].

pub mod clients;
mod conditions;
pub mod coordinator;
pub mod stage;
pub mod summary;

pub(crate) mod refusals;
mod same_topic;
mod standing;
