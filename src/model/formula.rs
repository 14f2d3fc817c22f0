//! Products shown twice: with names and with numbers.

use super::error::ModelError;
use serde::{Deserialize, Serialize};

/// One line of the calculation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostLine {
    /// What is cached (`full attention`).
    pub what: String,
    /// The formula in the config's field names.
    pub formula: String,
    /// The same with the numbers put in.
    pub numbers: String,
    /// What it comes to, in bytes.
    pub bytes: u64,
}

/// One factor of a product.
#[derive(Debug, Clone)]
pub(super) struct Factor {
    name: String,
    number: String,
    value: u64,
}

/// A factor with a name.
pub(super) fn factor(name: impl Into<String>, value: u64) -> Factor {
    Factor { name: name.into(), number: value.to_string(), value }
}

/// A factor that is a sum or difference, shown as such.
pub(super) fn group(name: impl Into<String>, number: impl Into<String>, value: u64) -> Factor {
    Factor { name: name.into(), number: number.into(), value }
}

/// Multiplies the factors. Where ranks hold copies, `copies` comes in front.
///
/// # Errors
/// When the product exceeds 64 bits.
pub(super) fn product(
    what: impl Into<String>,
    copies: u64,
    factors: &[Factor],
) -> Result<CostLine, ModelError> {
    let copied = factor("tp", copies);
    let shown: Vec<&Factor> = (copies > 1).then_some(&copied).into_iter().chain(factors).collect();
    let join = |part: fn(&Factor) -> &str| shown.iter().map(|f| part(f)).collect::<Vec<_>>().join(" * ");
    let (what, formula) = (what.into(), join(|f| &f.name));
    let bytes = shown.iter().try_fold(1u64, |bytes, factor| bytes.checked_mul(factor.value));
    match bytes {
        Some(bytes) => Ok(CostLine { what, formula, numbers: join(|f| &f.number), bytes }),
        None => Err(ModelError::Overflow { what, formula }),
    }
}

/// Adds up lines.
///
/// # Errors
/// When the sum exceeds 64 bits.
pub(super) fn total<'a>(
    what: &str,
    lines: impl IntoIterator<Item = &'a CostLine>,
) -> Result<u64, ModelError> {
    let sum = lines.into_iter().try_fold(0u64, |sum, line| sum.checked_add(line.bytes));
    sum.ok_or_else(|| ModelError::Overflow {
        what: what.to_owned(),
        formula: "the sum of all lines".to_owned(),
    })
}
