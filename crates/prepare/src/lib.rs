//! Raw request logs to request events: decode, tokenise, hash, sample.
//!
//! A [`Preparer`], one per thread, is a function of (recipe, record): it knows no clock and remembers
//! nothing that shapes what it gives out, so records may be prepared in any order and by anyone.
//!
//! | record | prompt |
//! |---|---|
//! | JSON with `messages`, `prompt` or `body` | tokenised with the model's own tokenizer and template |
//! | JSON with `input_ids`, `token_ids` or `tokens` | an array of token ids, or several of them |
//! | JSON with `page_ids`, or Avro of `schemas/request_event.avsc` | page ids as they are |
//! | Avro of `schemas/raw_request.avsc` | token ids, or a request's body |
//!
//! Avro is in single-object encoding, or in Confluent's wire format with schemas from a registry.
//!
//! Token ids become page ids as [`kvset_core::units::hashing`] says. No error quotes a record, and what goes
//! out holds page ids, counts and the names that templates make.
// Bad input, a bad disk or a bad broker is an error with a name, never a panic.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable, clippy::todo)
)]

mod events;
mod field_lookup;
mod fields;
mod logged;
mod models;
mod preparer;
mod recipe;
mod records;
pub mod template;
mod tokens;

pub use kvset_formats::logs::{FieldPath, Places, Preset};
pub use kvset_formats::time::NumberUnit;
#[cfg(feature = "tokenize")]
pub use models::Model;
pub use models::Tokenizers;
pub use preparer::Preparer;
pub use recipe::{PageRules, PrepareLimits, RawFormat, Recipe, TimeUnit};
pub use records::{PoolShare, PreparedRecord, RawRecord};
