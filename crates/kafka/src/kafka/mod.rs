//! The only place that names rdkafka.
//!
//! - [`member`]: what a group member does, whoever does it
//! - [`source`]: a group member's records and rebalances as typed events
//! - [`sink`]: outputs and offsets, in transactions or acknowledged before offsets
//! - [`topic_producer`]: plain producing, for request events
//! - [`reader`]: committed records of a topic from where asked up to a captured end
//! - [`lookup`]: single records by their offset
//! - `describe`: what the brokers say of topics and groups
//! - [`oauth`]: tokens for SASL/OAUTHBEARER
//! - [`offsets`]: ends of logs, committed offsets, moments
//! - [`statistics`]: what clients report on themselves
//! - [`topics`]: what exists, what is missing, creation
//! - [`unreadable`]: records that the client cannot read, and where they end
//! - [`writers`]: which groups wrote to an output topic
//! - [`mock`]: a broker in this process, for demonstrations and wiring tests

mod context;
mod describe;
mod error;

pub mod config;
pub mod lookup;
pub mod member;
pub mod mock;
pub mod oauth;
pub mod offsets;
pub mod reader;
pub mod sink;
pub mod source;
pub mod statistics;
pub mod topic_producer;
pub mod topics;
pub mod unreadable;
pub mod writers;

pub use kvset_pipeline::publish::KafkaFailure;
