//! Numbers as logs write them, whoever wrote the log.
//!
//! A whole number that went through a table, a script or a database comes out as `8.0`, `8e0` or `"8"`. All of these
//! are
//! 8. What says no whole number is refused by its form, and nothing is rounded.

use crate::any_value::{Any, Scalar, TakeValue, pass_items, pass_members};
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess};
use std::fmt;
use xxhash_rust::xxh3::xxh3_64;

/// Above this an `f64` stands for several whole numbers.
const MAX_EXACT: f64 = (1u64 << 53) as f64;
/// The longest text that is a page id, in bytes: a SHA-512 in hexadecimal digits has 128.
const MAX_ID_BYTES: usize = 256;

/// Why a value is not the number that its field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberFault {
    /// Less than 0.
    Negative,
    /// Between two whole numbers, or no finite number.
    Fraction,
    /// More than its field holds.
    TooLarge,
    /// A float so large that it stands for several whole numbers.
    Inexact,
    /// A text that is no number.
    Text,
    /// A flag, a list or an object.
    Type,
}

impl fmt::Display for NumberFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Negative => "it is negative",
            Self::Fraction => "it is no whole number",
            Self::TooLarge => "it is too large",
            Self::Inexact => {
                "it is a float above 2^53, which is not exact: write it as an integer, or in quotes"
            }
            Self::Text => "it is a text that is no number",
            Self::Type => "it is neither a number nor a number in quotes",
        })
    }
}

/// A value that may be a whole number. `null`, an empty text and a dash, which gateways write for what is not there,
/// are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WholeNumber(pub Result<Option<i128>, NumberFault>);

impl WholeNumber {
    /// Reads a number that stood in quotes, or that a path led to.
    pub fn of_text(text: &str) -> Self {
        let text = text.trim();
        if matches!(text, "" | "-") {
            return Self(Ok(None));
        }
        if let Ok(number) = text.parse::<i128>() {
            return Self(Ok(Some(number)));
        }
        let digits = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
        let number = text.parse::<f64>().ok().filter(|_| digits);
        number.map_or(Self(Err(NumberFault::Text)), Self::of_float)
    }

    /// Reads a value of any kind.
    pub fn of_scalar(scalar: &Scalar<'_>) -> Self {
        match scalar {
            Scalar::Null => Self(Ok(None)),
            Scalar::Flag(_) => Self(Err(NumberFault::Type)),
            Scalar::Unsigned(number) => Self(Ok(Some((*number).into()))),
            Scalar::Signed(number) => Self(Ok(Some((*number).into()))),
            Scalar::Float(number) => Self::of_float(*number),
            Scalar::Text(text) => Self::of_text(text),
        }
    }

    /// A float is a whole number where it is one, and so small that it stands for no other.
    pub fn of_float(number: f64) -> Self {
        Self(match number {
            _ if number.is_nan() || number.fract() != 0.0 => Err(NumberFault::Fraction),
            _ if number.abs() > MAX_EXACT => Err(NumberFault::Inexact),
            _ => Ok(Some(number as i128)),
        })
    }

    /// The number, where it is at least 0 and at most `most`.
    fn up_to(self, most: u64) -> Result<Option<u64>, NumberFault> {
        let Some(number) = self.0? else { return Ok(None) };
        if number < 0 {
            return Err(NumberFault::Negative);
        }
        u64::try_from(number).ok().filter(|number| *number <= most).map(Some).ok_or(NumberFault::TooLarge)
    }
}

/// The count that a text says, as [`read_count`] reads it.
///
/// # Errors
/// It says something else.
pub fn count(text: &str) -> Result<Option<u64>, NumberFault> {
    WholeNumber::of_text(text).up_to(u64::MAX)
}

impl<'de> Deserialize<'de> for WholeNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Any(NumberScalar(|scalar| Self::of_scalar(&scalar).0)).deserialize(deserializer)?;
        Ok(Self(read))
    }
}

/// Reads a number of a value that holds no others; of a list or an object there is none.
struct NumberScalar<F>(F);

impl<'de, T, F: FnOnce(Scalar<'de>) -> Result<T, NumberFault>> TakeValue<'de> for NumberScalar<F> {
    type Taken = Result<T, NumberFault>;

    fn scalar<E: de::Error>(self, scalar: Scalar<'de>) -> Result<Self::Taken, E> {
        Ok((self.0)(scalar))
    }

    fn list<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Taken, A::Error> {
        pass_items(&mut list)?;
        Ok(Err(NumberFault::Type))
    }

    fn object<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Taken, A::Error> {
        pass_members(&mut object)?;
        Ok(Err(NumberFault::Type))
    }
}

/// A field's value as a count, a whole number from 0 on; nothing for `null`.
pub(crate) fn read_count<'de, A: MapAccess<'de>>(
    map: &mut A,
) -> Result<Result<Option<u64>, NumberFault>, A::Error> {
    Ok(map.next_value::<WholeNumber>()?.up_to(u64::MAX))
}

/// A token's id in any form.
pub struct TokenId(pub u32);

impl TokenId {
    /// Takes a whole number for a token's id.
    ///
    /// # Errors
    /// It is none.
    pub fn of(whole: WholeNumber) -> Result<Self, NumberFault> {
        let id = whole.up_to(u32::MAX.into())?.ok_or(NumberFault::Type)?;
        u32::try_from(id).map(Self).map_err(|_| NumberFault::TooLarge)
    }
}

impl<'de> Deserialize<'de> for TokenId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::of(WholeNumber::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// A page's id in any form. Ids need be equal only where their pages are, so a negative one is taken by its bits, and
/// a text of one word, such as a hash in hexadecimal digits, by its hash.
pub(crate) struct PageId(pub Result<u64, NumberFault>);

impl PageId {
    /// Takes a text for a page's id: a whole number of 64 bits is that number, in quotes or not.
    pub fn of_text(text: &str) -> Self {
        let text = text.trim();
        let plain =
            |digits: &str| !digits.is_empty() && (digits == "0" || !digits.starts_with(['0', '+', '-']));
        let number = match text.strip_prefix('-') {
            Some(digits) if plain(digits) => text.parse::<i64>().ok().map(i64::cast_unsigned),
            None if plain(text) => text.parse().ok(),
            _ => None,
        };
        match number {
            Some(number) => Self(Ok(number)),
            None if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Self(Err(NumberFault::Text))
            }
            None if text.len() > MAX_ID_BYTES => Self(Err(NumberFault::TooLarge)),
            None => Self(Ok(xxh3_64(text.as_bytes()))),
        }
    }
}

impl<'de> Deserialize<'de> for PageId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = |scalar: Scalar<'_>| match scalar {
            Scalar::Unsigned(id) => Ok(id),
            Scalar::Signed(id) => Ok(id.cast_unsigned()),
            Scalar::Float(id) => WholeNumber::of_float(id).0.map(|id| id.unwrap_or_default() as i64 as u64),
            Scalar::Text(id) => Self::of_text(&id).0,
            Scalar::Null | Scalar::Flag(_) => Err(NumberFault::Type),
        };
        Any(NumberScalar(id)).deserialize(deserializer).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(json: &str) -> Result<Option<u64>, NumberFault> {
        serde_json::from_str::<WholeNumber>(json).expect(json).up_to(u64::MAX)
    }

    fn page(json: &str) -> Result<u64, NumberFault> {
        serde_json::from_str::<PageId>(json).expect(json).0
    }

    #[test]
    fn a_count_is_read_in_every_form_of_a_whole_number() {
        for eight in ["8", "8.0", "8e0", "0.8e1", "\"8\"", "\"8.0\"", "\" 8 \"", "\"8e0\""] {
            assert_eq!(counted(eight), Ok(Some(8)), "{eight}");
        }
        assert_eq!(counted("18446744073709551615"), Ok(Some(u64::MAX)));
        assert_eq!(counted("-0.0"), Ok(Some(0)));
        for none in ["null", "\"\"", "\"-\""] {
            assert_eq!(counted(none), Ok(None), "{none}");
        }
    }

    #[test]
    fn what_is_no_count_is_refused_by_its_form() {
        use NumberFault::{Fraction, Inexact, Negative, Text, TooLarge, Type};
        for (json, fault) in [
            ("-8", Negative),
            ("-8.0", Negative),
            ("\"-8\"", Negative),
            ("12.5", Fraction),
            ("\"12.5\"", Fraction),
            ("1e300", Inexact),
            ("\"18446744073709551616\"", TooLarge),
            ("\"many\"", Text),
            ("\"inf\"", Text),
            ("\"NaN\"", Text),
            ("\"1,024\"", Text),
            ("true", Type),
            ("[8]", Type),
            ("{\"tokens\": 8}", Type),
        ] {
            assert_eq!(counted(json), Err(fault), "{json}");
        }
    }

    #[test]
    fn a_page_is_the_same_in_every_form_of_its_id() {
        for seven in ["7", "7.0", "\"7\"", "7e0"] {
            assert_eq!(page(seven), Ok(7), "{seven}");
        }
        for negative in ["-7", "\"-7\"", "-7.0"] {
            assert_eq!(page(negative), Ok((-7_i64).cast_unsigned()), "{negative}");
        }
        assert_eq!(page("\"18446744073709551615\""), Ok(u64::MAX));
        let hashed = ["\"02\"", "\"2f\"", "\"0x2f\"", "\"-02\"", "\"sha256:ab\"", "\"18446744073709551616\""];
        let ids: std::collections::BTreeSet<u64> = hashed.iter().filter_map(|id| page(id).ok()).collect();
        assert_eq!(ids.len(), hashed.len(), "texts that differ are pages that differ");
        for wrong in ["1.5", "1e300", "null", "true", "[1]", "\"\"", "\"two words\"", "18446744073709551616"]
        {
            assert!(page(wrong).is_err(), "{wrong}");
        }
    }
}
