//! What each command does, one module a command.

pub mod backfill;
pub mod config;
pub mod connect;
pub mod dead_letters;
pub mod demo;
pub mod doctor;
mod first_records;
pub mod generate;
pub mod health;
pub mod model;
pub mod prefixes;
pub mod prepare;
pub mod produce;
pub mod replay;
mod replicas;
pub mod run;
mod serving;
pub mod shell;
pub mod skip;
pub mod snapshot;
pub mod tune;
pub mod watch;
