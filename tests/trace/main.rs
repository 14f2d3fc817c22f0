//! Traces of every format, the broken ones too.

#[path = "../support/mod.rs"]
mod support;

mod avro;
mod events;
mod formats;
mod golden;
mod hostile;
mod measured;
#[cfg(feature = "tokenize")]
mod openai;
mod order;
mod workload;
