//! What is asked of the network: brokers, Schema Registries, and other HTTP servers.

// Bad input, a bad disk or a bad broker is an error with a name, never a panic.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

mod authorities;
pub mod http;
pub mod kafka;
pub mod registry;
#[cfg(feature = "tls")]
mod tls;
