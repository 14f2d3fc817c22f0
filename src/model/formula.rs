//! Products shown twice: with names and with numbers.

use super::error::{ModelConfigError, ModelRead};
use serde::{Deserialize, Serialize};

/// One line of the calculation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostLine {
    /// What is cached (`full attention`).
    pub what: String,
    /// The formula in the config's field names.
    pub formula: String,
    /// The formula with the numbers put in.
    pub numbers: String,
    /// What it comes to, in bytes.
    pub bytes: u64,
}

/// One factor of a product.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Factor {
    name: String,
    number: String,
    value: u64,
    /// What the product is divided by for it; 1 for a whole number.
    divisor: u64,
}

/// A factor with a name.
pub(super) fn factor(name: impl Into<String>, value: u64) -> Factor {
    Factor { name: name.into(), number: value.to_string(), value, divisor: 1 }
}

/// A factor that is a sum or difference, shown as such.
pub(super) fn group(name: impl Into<String>, number: impl Into<String>, value: u64) -> Factor {
    Factor { name: name.into(), number: number.into(), value, divisor: 1 }
}

/// A factor that is a fraction, such as the bytes of an element of half a byte and its share of a scale.
pub(super) fn ratio(name: impl Into<String>, value: u64, divisor: u64) -> Factor {
    let number = if divisor == 1 { value.to_string() } else { format!("{value}/{divisor}") };
    Factor { name: name.into(), number, value, divisor }
}

impl Factor {
    /// Its name in the formula.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What it multiplies by.
    pub(super) fn value(&self) -> u64 {
        self.value
    }

    /// The sum of two factors.
    pub(super) fn plus(&self, other: &Self) -> Self {
        let join = |a: &str, b: &str| format!("({a} + {b})");
        group(join(&self.name, &other.name), join(&self.number, &other.number), self.value + other.value)
    }

    /// The sum with a number.
    pub(super) fn plus_number(&self, number: u64) -> Self {
        self.plus(&factor(number.to_string(), number))
    }

    /// Half of it.
    pub(super) fn halved(&self) -> Self {
        group(format!("{} / 2", self.name), (self.value / 2).to_string(), self.value / 2)
    }
}

/// Multiplies the factors, rounded up to whole bytes. Where ranks hold copies, `copies` comes in front.
///
/// # Errors
/// When the product exceeds 64 bits.
pub(super) fn product(what: impl Into<String>, copies: u64, factors: &[Factor]) -> ModelRead<CostLine> {
    let copied = factor("tp", copies);
    let shown: Vec<&Factor> = (copies > 1).then_some(&copied).into_iter().chain(factors).collect();
    let join = |part: fn(&Factor) -> &str| shown.iter().map(|f| part(f)).collect::<Vec<_>>().join(" * ");
    let (what, formula) = (what.into(), join(|f| &f.name));
    let multiply = |part: fn(&Factor) -> u64| {
        shown.iter().try_fold(1u128, |product, factor| product.checked_mul(part(factor).into()))
    };
    let bytes = multiply(|f| f.value).zip(multiply(|f| f.divisor)).map(|(value, by)| value.div_ceil(by));
    match bytes.and_then(|bytes| u64::try_from(bytes).ok()) {
        Some(bytes) => Ok(CostLine { what, formula, numbers: join(|f| &f.number), bytes }),
        None => Err(ModelConfigError::Overflow { what, formula }),
    }
}

/// Adds up lines.
///
/// # Errors
/// When the sum exceeds 64 bits.
pub(super) fn total<'a>(what: &str, lines: impl IntoIterator<Item = &'a CostLine>) -> ModelRead<u64> {
    let sum = lines.into_iter().try_fold(0u64, |sum, line| sum.checked_add(line.bytes));
    sum.ok_or_else(|| ModelConfigError::Overflow {
        what: what.to_owned(),
        formula: "the sum of all lines".to_owned(),
    })
}
