//! The only place that names rdkafka.
//!
//! - [`member`]: what a group member does, whoever does it
//! - [`source`]: a group member's records and rebalances as typed events
//! - [`outlet`]: outputs and offsets, in transactions or acknowledged before offsets
//! - [`feed`]: plain producing, for request events
//! - [`reader`]: committed records of a topic from where asked up to a captured end
//! - [`lookup`]: single records by their offset
//! - [`oauth`]: tokens for SASL/OAUTHBEARER
//! - [`offsets`]: ends of logs, committed offsets, moments
//! - [`topics`]: what exists, what is missing, creation
//! - [`mock`]: a broker in this process, for demonstrations and wiring tests

mod context;
mod error;

pub mod config;
pub mod feed;
pub mod lookup;
pub mod member;
pub mod mock;
pub mod oauth;
pub mod offsets;
pub mod outlet;
pub mod reader;
pub mod source;
pub mod topics;

pub use error::KafkaFailure;
