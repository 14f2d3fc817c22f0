//! Authentication, TLS and secrets.

#[cfg(feature = "tls")]
#[path = "../registry_support/tls.rs"]
#[allow(dead_code, reason = "each test program uses its part of what they share")]
mod authority;
#[path = "../kafka_support/mod.rs"]
#[allow(dead_code, reason = "each test program uses its part of what they share")]
mod kafka_support;

mod kafka;
mod secrets;
