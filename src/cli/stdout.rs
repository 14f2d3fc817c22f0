//! Results on standard output.

use super::Failure;
use crate::present::words::{in_order, json_in_order};
use anyhow::Context as _;
use std::io::{self, Write as _};

/// A result as scripts read it.
pub fn json(result: &impl serde::Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string_pretty(result).context("cannot write the result as JSON")?;
    Ok(json_in_order(&json).into_owned() + "\n")
}

/// Puts a result on standard output.
pub fn print(text: &str) -> Result<(), Failure> {
    io::stdout().write_all(in_order(text).as_bytes()).context("cannot write the result")?;
    Ok(())
}
