//! What an emptied cache costs over a log that ends: each restart, and those of an hour of the day.
//!
//! What is counted, and how, is [`kvset_core::questions::restarts`]; here each day of the log is counted by itself.

mod result;
mod words;

pub use result::{
    AverageRestartHour, HourClock, RestartLoss, RestartsLog, RestartsOfSize, RestartsResult, TooManyRestarts,
};
pub use words::{columns, rows, sentences, size, title};
