//! The service on a real Kafka and alongside Schema Registries; a test that finds no broker says so and is skipped.

#[path = "../kafka_support/mod.rs"]
#[allow(dead_code, reason = "each test program uses its part of what they share")]
mod kafka_support;
#[path = "../parts_support/mod.rs"]
#[allow(dead_code, reason = "each test program uses its part of what they share")]
mod parts_support;
#[cfg(feature = "tokenize")]
#[path = "../prepare_support/mod.rs"]
#[allow(dead_code, reason = "each test program uses its part of what they share")]
mod prepare_support;
#[path = "../support/program.rs"]
mod program;
#[path = "../registry_support/mod.rs"]
#[allow(dead_code, reason = "each test program uses its part of what they share")]
mod registry_support;

mod backfill;
#[cfg(feature = "tokenize")]
mod compression;
mod doctor;
mod group;
mod hanging;
#[cfg(feature = "tokenize")]
mod logs;
mod measured;
mod pipeline;
mod poison;
#[cfg(feature = "tokenize")]
mod prepare;
mod recovery;
mod recreated;
mod registry;
mod registry_client;
mod registry_real;
#[cfg(feature = "object-store-s3")]
mod shared_snapshots;
mod shutdown;
mod suspended;
mod unowned;
