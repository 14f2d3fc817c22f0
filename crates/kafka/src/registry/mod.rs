//! Asking a Confluent Schema Registry over HTTP.
//!
//! - [`answer`]: what a registry's answers say
//! - [`client`]: single requests, their limits, and what a failure asks for
//! - [`cache`]: schemas by id, each requested once, waited for while the registry is away

pub mod answer;
pub mod cache;
pub mod client;
