//! How one value of the configuration is read, bounded and written back.

use super::load::from_environment;
use config::{Value, ValueKind};
use kvset_core::engines::chat_engine::ChatEngine;
use kvset_core::engines::profile::{Outputs, Profile};
use kvset_core::units::PageSize;
use kvset_core::units::ratio::Ratio;
use kvset_core::units::window::WindowKind;
use kvset_formats::trace::Format;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

/// Why a value was refused: a reason of its own, or just not what is allowed.
pub enum ValueRefusal {
    /// The value is not of the allowed kind.
    NotAllowed,
    /// The value has the right shape and this is wrong with it.
    Because(String),
}

/// A type that a setting may have.
pub trait Field: Sized {
    /// What a range bounds: the number itself, a text's characters, a list's entries.
    type Bound: PartialOrd + Display;

    /// Whether a refused value must not be repeated, as it may hold a secret.
    const MAY_BE_SECRET: bool = false;

    /// What may be written, in words, where no range says more.
    const ALLOWED: &'static str = "";

    /// What may be written, with the range, where there is one.
    fn allowed(_: Option<&RangeInclusive<Self::Bound>>) -> String {
        Self::ALLOWED.to_owned()
    }

    /// Reads the value; texts from the environment are parsed, texts from a file are not numbers.
    fn read(value: &Value) -> Result<Self, ValueRefusal>;

    /// What a range bounds; `None` when nothing is set, or nothing bounds it.
    fn measure(&self) -> Option<Self::Bound> {
        None
    }

    /// The value as TOML that reads back the same; `None` when it is not set.
    fn toml(&self) -> Option<String>;
}

/// What is counted, and where there is a range its ends, after a word.
pub fn bounded<B: Display>(range: Option<&RangeInclusive<B>>, what: &str, from: &str) -> String {
    let ends = range.map(|range| format!("{from} {} to {}", range.start(), range.end()));
    what.to_owned() + &ends.unwrap_or_default()
}

/// The text of a value, if it is one.
pub fn text_of(value: &Value) -> Result<&str, ValueRefusal> {
    match &value.kind {
        ValueKind::String(text) => Ok(text),
        _ => Err(ValueRefusal::NotAllowed),
    }
}

/// Quotes a text for TOML.
pub fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Reads a text, and says what is wrong with one that does not parse.
pub fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, ValueRefusal> {
    text.parse().map_err(|error: T::Err| ValueRefusal::Because(error.to_string()))
}

/// Declares types that are written as a text: what may be written, how it is read, and how it is written back.
macro_rules! text_fields {
    ($($Type:ty: $allowed:expr, $read:expr, $written:expr;)+) => {$(
        impl $crate::field::Field for $Type {
            type Bound = bool;

            const ALLOWED: &'static str = $allowed;

            fn read(value: &config::Value) -> Result<Self, $crate::field::ValueRefusal> {
                $crate::field::text_of(value).and_then($read)
            }

            fn toml(&self) -> Option<String> {
                let written: fn(&Self) -> String = $written;
                Some($crate::field::quoted(&written(self)))
            }
        }
    )+};
}

text_fields! {
    WindowKind: "\"tumbling:5m\", \"hopping:5m/1m\", \"last:3000\" or \"all\"", parsed, Self::to_string;
}

/// A whole number; decimals are refused rather than cut.
fn whole_number(value: &Value) -> Result<i128, ValueRefusal> {
    match &value.kind {
        ValueKind::I64(number) => Ok(i128::from(*number)),
        ValueKind::U64(number) => Ok(i128::from(*number)),
        ValueKind::I128(number) => Ok(*number),
        ValueKind::String(text) if from_environment(value) => {
            text.trim().replace('_', "").parse().map_err(|_| ValueRefusal::NotAllowed)
        }
        _ => Err(ValueRefusal::NotAllowed),
    }
}

/// A number, whole or decimal.
pub fn decimal(value: &Value) -> Result<f64, ValueRefusal> {
    match &value.kind {
        ValueKind::Float(number) => Ok(*number),
        ValueKind::String(text) if from_environment(value) => {
            text.trim().parse().map_err(|_| ValueRefusal::NotAllowed)
        }
        _ => whole_number(value).map(|number| number as f64),
    }
}

macro_rules! whole_number_fields {
    ($($Type:ty)+) => {$(
        impl Field for $Type {
            type Bound = $Type;

            fn allowed(range: Option<&RangeInclusive<$Type>>) -> String {
                bounded(range, "a whole number", " from")
            }

            fn read(value: &Value) -> Result<Self, ValueRefusal> {
                <$Type>::try_from(whole_number(value)?).map_err(|_| ValueRefusal::NotAllowed)
            }

            fn measure(&self) -> Option<$Type> {
                Some(*self)
            }

            fn toml(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )+};
}

whole_number_fields!(u16 u32 u64);

impl Field for bool {
    type Bound = bool;

    const ALLOWED: &'static str = "true or false";

    fn read(value: &Value) -> Result<Self, ValueRefusal> {
        match &value.kind {
            ValueKind::Boolean(flag) => Ok(*flag),
            ValueKind::String(text) if from_environment(value) => {
                text.trim().parse().map_err(|_| ValueRefusal::NotAllowed)
            }
            _ => Err(ValueRefusal::NotAllowed),
        }
    }

    fn toml(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Field for String {
    type Bound = usize;

    fn allowed(range: Option<&RangeInclusive<usize>>) -> String {
        bounded(range, "a text", " of") + if range.is_some() { " characters" } else { "" }
    }

    fn read(value: &Value) -> Result<Self, ValueRefusal> {
        match &value.kind {
            // Brokers above all, which many programs take as a list.
            ValueKind::Array(_) => Err(ValueRefusal::Because(
                "expected one text, not a list: write several values as \"a,b\"".to_owned(),
            )),
            _ => text_of(value).map(str::to_owned),
        }
    }

    fn measure(&self) -> Option<usize> {
        Some(self.chars().count())
    }

    fn toml(&self) -> Option<String> {
        Some(quoted(self))
    }
}

impl Field for PathBuf {
    type Bound = usize;

    const ALLOWED: &'static str = "a path that is not empty";

    fn read(value: &Value) -> Result<Self, ValueRefusal> {
        let text = text_of(value)?;
        if text.is_empty() { Err(ValueRefusal::NotAllowed) } else { Ok(Self::from(text)) }
    }

    fn toml(&self) -> Option<String> {
        Some(quoted(&self.to_string_lossy()))
    }
}

impl Field for Ratio {
    type Bound = Ratio;

    fn allowed(range: Option<&RangeInclusive<Ratio>>) -> String {
        bounded(range.or(Some(&(Ratio::ZERO..=Ratio::ONE))), "a decimal with at most 9 places", " from")
    }

    fn read(value: &Value) -> Result<Self, ValueRefusal> {
        match &value.kind {
            ValueKind::String(text) if from_environment(value) => {
                text.parse().map_err(|_| ValueRefusal::NotAllowed)
            }
            _ => Ratio::try_from(decimal(value)?).map_err(|_| ValueRefusal::NotAllowed),
        }
    }

    fn measure(&self) -> Option<Ratio> {
        Some(*self)
    }

    fn toml(&self) -> Option<String> {
        Some(format!("{:?}", self.as_f64()))
    }
}

impl Field for PageSize {
    type Bound = u32;

    fn allowed(range: Option<&RangeInclusive<u32>>) -> String {
        range.map_or_else(
            || "a whole number of tokens, not 0".to_owned(),
            |range| format!("{} to {} tokens", range.start(), range.end()),
        )
    }

    fn read(value: &Value) -> Result<Self, ValueRefusal> {
        PageSize::new(u32::read(value)?).ok_or(ValueRefusal::NotAllowed)
    }

    fn measure(&self) -> Option<u32> {
        Some(self.get())
    }

    fn toml(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl<T: Field> Field for Vec<T> {
    type Bound = usize;

    fn allowed(range: Option<&RangeInclusive<usize>>) -> String {
        let entries = T::allowed(None);
        range.map_or_else(
            || format!("a list, each entry {entries}"),
            |range| format!("a list of {} to {} entries, each {entries}", range.start(), range.end()),
        )
    }

    fn read(value: &Value) -> Result<Self, ValueRefusal> {
        match &value.kind {
            ValueKind::Array(entries) => entries.iter().map(T::read).collect(),
            ValueKind::String(text) if from_environment(value) => text
                .split(',')
                .map(str::trim)
                .filter(|entry| !entry.is_empty())
                .map(|entry| T::read(&Value::new(value.origin().map(str::to_owned).as_ref(), entry)))
                .collect(),
            _ => Err(ValueRefusal::NotAllowed),
        }
    }

    fn measure(&self) -> Option<usize> {
        Some(self.len())
    }

    fn toml(&self) -> Option<String> {
        let entries: Vec<String> = self.iter().filter_map(T::toml).collect();
        Some(format!("[{}]", entries.join(", ")))
    }
}

impl<T: Field> Field for Option<T> {
    type Bound = T::Bound;

    fn allowed(range: Option<&RangeInclusive<T::Bound>>) -> String {
        T::allowed(range)
    }

    fn read(value: &Value) -> Result<Self, ValueRefusal> {
        T::read(value).map(Some)
    }

    fn measure(&self) -> Option<T::Bound> {
        self.as_ref().and_then(T::measure)
    }

    fn toml(&self) -> Option<String> {
        self.as_ref().and_then(T::toml)
    }
}

/// A setting with a few named values.
pub trait Choice: Copy + PartialEq + Sized + 'static {
    /// Every value with the name users write.
    const NAMES: &'static [(&'static str, Self)];

    /// The name users write.
    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, value)| *value == self).map_or("", |(name, _)| name)
    }
}

impl Choice for Profile {
    const NAMES: &'static [(&'static str, Self)] = &Profile::NAMES;
}

impl Choice for ChatEngine {
    const NAMES: &'static [(&'static str, Self)] = &ChatEngine::NAMES;
}

impl Choice for Format {
    const NAMES: &'static [(&'static str, Self)] = &Format::NAMES;
}

impl Choice for Outputs {
    const NAMES: &'static [(&'static str, Self)] =
        &[("cached", Outputs::Cached), ("ignored", Outputs::Ignored)];
}

impl<T: Choice> Field for T {
    type Bound = bool;

    fn allowed(_: Option<&RangeInclusive<bool>>) -> String {
        let names: Vec<_> = T::NAMES.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        match names.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => names.concat(),
        }
    }

    fn read(value: &Value) -> Result<Self, ValueRefusal> {
        let text = text_of(value)?;
        let known = T::NAMES.iter().find(|(name, _)| *name == text);
        known.map(|(_, value)| *value).ok_or(ValueRefusal::NotAllowed)
    }

    fn toml(&self) -> Option<String> {
        Some(quoted(Choice::name(*self)))
    }
}
