//! The values that an option of engines may have, and how its type reads and writes them.

use crate::engines::hybrid::{Attention, AttentionError, BlockRetention, DraftLayers};
use crate::engines::profile::OverlapMode;
use crate::engines::sglang::WritePolicy;
use crate::engines::vllm_offload::OffloadPolicy;
use crate::units::capacity::CapacitySpec;
use crate::units::ratio::{Proportion, Ratio};
use crate::units::window::{format_duration_ms, parse_duration_ms};
use std::fmt;
use std::ops::RangeInclusive;

/// The values that an option may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionValues {
    /// Whole numbers.
    Count(RangeInclusive<u32>),
    /// Shares of one.
    Share(RangeInclusive<Ratio>),
    /// How much of one thing there is for one of another.
    Proportion(RangeInclusive<Proportion>),
    /// Spans of time up to so many milliseconds, zero among them.
    Time(u64),
    /// A few names.
    Names(&'static [&'static str]),
    /// Texts that the option's type reads, in words.
    Text(&'static str),
}

impl OptionValues {
    /// Sizes of a cache.
    pub const CAPACITY: Self = Self::Text("a size like \"80GiB\" or pages like \"5000p\"");

    /// Whether a text is one of them; those of a type are judged where it is read.
    pub(super) fn contains(&self, text: &str) -> bool {
        match self {
            Self::Count(range) => text.parse().is_ok_and(|count| range.contains(&count)),
            Self::Share(range) => text.parse().is_ok_and(|share| range.contains(&share)),
            Self::Proportion(range) => text.parse().is_ok_and(|proportion| range.contains(&proportion)),
            Self::Time(most) => duration_ms(text).is_some_and(|ms| ms <= *most),
            Self::Names(names) => names.contains(&text),
            Self::Text(_) => *self != Self::CAPACITY || text.parse::<CapacitySpec>().is_ok(),
        }
    }

    /// Whether a configuration writes them as numbers.
    pub fn are_numbers(&self) -> bool {
        matches!(self, Self::Count(_) | Self::Share(_) | Self::Proportion(_))
    }
}

impl fmt::Display for OptionValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(range) => write!(f, "a whole number from {} to {}", range.start(), range.end()),
            Self::Share(range) => {
                write!(f, "a decimal with at most 9 places from {} to {}", range.start(), range.end())
            }
            Self::Proportion(range) => {
                write!(f, "a decimal with at most 9 places from {} to {}", range.start(), range.end())
            }
            Self::Time(most) => {
                write!(f, "a duration like \"30s\" or \"5m\" from 0s to {}", format_duration_ms(*most))
            }
            Self::Names(names) => {
                let quoted: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
                match quoted.split_last() {
                    Some((last, rest)) if !rest.is_empty() => write!(f, "{} or {last}", rest.join(", ")),
                    _ => f.write_str(&quoted.concat()),
                }
            }
            Self::Text(words) => f.write_str(words),
        }
    }
}

/// Why a text is no value of an option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableValue {
    /// It is not of the [`OptionValues`].
    #[error("not one of the values")]
    NotAllowed,
    /// It has the right shape, and this is wrong with it.
    #[error("{0}")]
    Because(#[from] AttentionError),
}

/// A type of an option.
pub(super) trait OptionType: Sized {
    fn read(text: &str) -> Result<Self, UnreadableValue>;
    fn written(&self) -> String;
}

/// Types that are written as they are shown.
macro_rules! written_as_shown {
    ($($Type:ty)+) => {$(
        impl OptionType for $Type {
            fn read(text: &str) -> Result<Self, UnreadableValue> {
                text.parse().map_err(|_| UnreadableValue::NotAllowed)
            }

            fn written(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

written_as_shown!(u32 Ratio Proportion BlockRetention CapacitySpec);

/// Types with a few named values.
macro_rules! written_by_name {
    ($($Type:ty)+) => {$(
        impl OptionType for $Type {
            fn read(text: &str) -> Result<Self, UnreadableValue> {
                let known = Self::NAMES.iter().find(|(name, _)| *name == text);
                known.map(|(_, value)| *value).ok_or(UnreadableValue::NotAllowed)
            }

            fn written(&self) -> String {
                self.name().to_owned()
            }
        }
    )+};
}

written_by_name!(WritePolicy OverlapMode OffloadPolicy DraftLayers);

impl OptionType for Attention {
    fn read(text: &str) -> Result<Self, UnreadableValue> {
        Ok(text.parse()?)
    }

    fn written(&self) -> String {
        self.to_string()
    }
}

/// A span of time in milliseconds.
impl OptionType for u64 {
    fn read(text: &str) -> Result<Self, UnreadableValue> {
        duration_ms(text).ok_or(UnreadableValue::NotAllowed)
    }

    fn written(&self) -> String {
        match self {
            0 => "0s".to_owned(),
            ms => format_duration_ms(*ms),
        }
    }
}

impl<T: OptionType> OptionType for Option<T> {
    fn read(text: &str) -> Result<Self, UnreadableValue> {
        T::read(text).map(Some)
    }

    fn written(&self) -> String {
        self.as_ref().map_or_else(|| "none".to_owned(), T::written)
    }
}

/// Reads a span of time, zero among them.
fn duration_ms(text: &str) -> Option<u64> {
    if text == "0s" { Some(0) } else { parse_duration_ms(text) }
}
