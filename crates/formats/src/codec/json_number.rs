//! Numbers of a JSON object, and where its values come from one after another.

use crate::any_value::{Any, Scalar, TakeValue, pass_items, pass_members, wrong_kind};
use kvset_core::request::refusal::{DecodeError, ErrorCode};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess};

/// The field whose faults have a code of their own.
pub(super) const CACHED_TOKENS: &str = "cached_tokens";

/// Where the values of an object come from, in their order.
pub(super) trait ValueSource<'de> {
    type Error;

    fn next<T: Deserialize<'de>>(&mut self) -> Result<T, Self::Error>;

    /// Reads page ids into the buffer of this field; false where they are null.
    fn ids(&mut self, field: &'static str) -> Result<bool, Self::Error>;

    /// That a field is there a second time.
    fn twice() -> Self::Error;
}

/// A JSON number, distinguished from other types so that a wrong number gets its own error code.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum JsonNumber {
    /// Not negative.
    Unsigned(u64),
    /// Negative.
    Signed(i64),
    /// Fractional, in exponent notation, or wider than 64 bits.
    Other,
}

impl JsonNumber {
    /// A whole number of 64 bits.
    pub(super) fn whole(self, field: &'static str) -> Result<i64, DecodeError> {
        let whole = match self {
            Self::Unsigned(value) => i64::try_from(value).ok(),
            Self::Signed(value) => Some(value),
            Self::Other => None,
        };
        whole.ok_or_else(|| {
            let code = match field {
                CACHED_TOKENS => ErrorCode::InvalidCachedTokens,
                _ => ErrorCode::InvalidNumber,
            };
            DecodeError::new(code, format!("{field} is no integer of 64 bits signed"))
        })
    }

    /// An id is unsigned, or the two's complement that a signed producer writes.
    pub(super) fn page_id(self) -> Option<u64> {
        match self {
            Self::Unsigned(id) => Some(id),
            Self::Signed(id) => Some(id as u64),
            Self::Other => None,
        }
    }
}

impl<'de> Deserialize<'de> for JsonNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Any(TakeNumber { is_lenient: false }).deserialize(deserializer)
    }
}

/// A number, or anything else, which is then no integer: so that what is no number gets the field's own code.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lenient(pub(super) JsonNumber);

impl<'de> Deserialize<'de> for Lenient {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Any(TakeNumber { is_lenient: true }).deserialize(deserializer).map(Self)
    }
}

struct TakeNumber {
    /// Whether what is no number is passed over.
    is_lenient: bool,
}

impl TakeNumber {
    fn other<E: Error>(self) -> Result<JsonNumber, E> {
        if self.is_lenient { Ok(JsonNumber::Other) } else { Err(wrong_kind()) }
    }
}

impl<'de> TakeValue<'de> for TakeNumber {
    type Taken = JsonNumber;

    fn scalar<E: Error>(self, scalar: Scalar<'_>) -> Result<JsonNumber, E> {
        match scalar {
            Scalar::Signed(value) => Ok(JsonNumber::Signed(value)),
            Scalar::Unsigned(value) => Ok(JsonNumber::Unsigned(value)),
            Scalar::Float(_) => Ok(JsonNumber::Other),
            // Null is what is not there, which is asked before.
            Scalar::Null => Err(wrong_kind()),
            Scalar::Flag(_) | Scalar::Text(_) => self.other(),
        }
    }

    fn list<A: SeqAccess<'de>>(self, mut list: A) -> Result<JsonNumber, A::Error> {
        if self.is_lenient {
            pass_items(&mut list)?;
        }
        self.other()
    }

    fn object<A: MapAccess<'de>>(self, mut object: A) -> Result<JsonNumber, A::Error> {
        if self.is_lenient {
            pass_members(&mut object)?;
        }
        self.other()
    }
}
