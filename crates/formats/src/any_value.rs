//! A JSON value of any kind, taken as it is parsed: the one place that lists the kinds which a parser tells apart.

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// A value that holds no others.
pub enum Scalar<'de> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Flag(bool),
    /// A whole number from 0 on.
    Unsigned(u64),
    /// A whole number below 0.
    Signed(i64),
    /// Any other number.
    Float(f64),
    /// A text, borrowed from the line unless it is written with escapes.
    Text(Cow<'de, str>),
}

/// As a name has it: a text as it stands, a number in its usual digits.
impl fmt::Display for Scalar<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Flag(flag) => flag.fmt(f),
            Self::Unsigned(number) => number.fmt(f),
            Self::Signed(number) => number.fmt(f),
            Self::Float(number) => number.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// The refusal of a value of another kind than its field has. No message shows its words.
pub fn wrong_kind<E: Error>() -> E {
    E::custom("a value of another kind")
}

/// Takes one value. Lists and objects are of the wrong kind unless it says otherwise.
pub trait TakeValue<'de>: Sized {
    /// What it makes of the value.
    type Taken;

    /// Takes a value that holds no others.
    ///
    /// # Errors
    /// It is of the wrong kind, or refused.
    fn scalar<E: Error>(self, scalar: Scalar<'de>) -> Result<Self::Taken, E>;

    /// Takes a list.
    ///
    /// # Errors
    /// It is of the wrong kind, or refused.
    fn list<A: SeqAccess<'de>>(self, _list: A) -> Result<Self::Taken, A::Error> {
        Err(wrong_kind())
    }

    /// Takes an object.
    ///
    /// # Errors
    /// It is of the wrong kind, or refused.
    fn object<A: MapAccess<'de>>(self, _object: A) -> Result<Self::Taken, A::Error> {
        Err(wrong_kind())
    }
}

/// Reads a value of any kind as `T` takes it.
pub struct Any<T>(pub T);

impl<'de, T: TakeValue<'de>> DeserializeSeed<'de> for Any<T> {
    type Value = T::Taken;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T::Taken, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: TakeValue<'de>> Visitor<'de> for Any<T> {
    type Value = T::Taken;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of its kind")
    }

    fn visit_unit<E: Error>(self) -> Result<T::Taken, E> {
        self.0.scalar(Scalar::Null)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<T::Taken, E> {
        self.0.scalar(Scalar::Flag(flag))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T::Taken, E> {
        self.0.scalar(Scalar::Unsigned(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T::Taken, E> {
        self.0.scalar(Scalar::Signed(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T::Taken, E> {
        self.0.scalar(Scalar::Float(number))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<T::Taken, E> {
        self.0.scalar(Scalar::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T::Taken, E> {
        self.0.scalar(Scalar::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T::Taken, A::Error> {
        self.0.list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, object: A) -> Result<T::Taken, A::Error> {
        self.0.object(object)
    }
}

/// Passes over the items of a list.
///
/// # Errors
/// They do not parse.
pub fn pass_items<'de, A: SeqAccess<'de>>(list: &mut A) -> Result<(), A::Error> {
    while list.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

/// Passes over the members of an object.
///
/// # Errors
/// They do not parse.
pub fn pass_members<'de, A: MapAccess<'de>>(object: &mut A) -> Result<(), A::Error> {
    while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}
