//! JSON read field by field into reused buffers, without building a tree.

use super::fault::RowFault;
use super::numbers::{NumberFault, PageId, read_count};
use crate::any_value::{Scalar, TakeValue, wrong_kind};
use crate::key::Key;
use crate::spelling::Spellings;
use crate::time::{NumberUnit, Numbers, Time, WrittenTime};
use kvset_core::request::labels::Label;
use kvset_core::units::names::listed;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;
use std::time::Duration;

/// The names a prompt's token ids go by.
pub const TOKEN_FIELDS: [&str; 6] =
    listed("input_ids token_ids tokens prompt_token_ids input_tok_ids prompt_ids");

/// The names of prompts and sessions in rows, in the usual spelling.
const ROW_NAMES: [&str; 8] =
    listed("hash_ids chunk_hashes block_hashes prefix_hashes page_ids session_id chat_id block_size");

/// The usual spelling of a name that rows have for a prompt, a session or a label.
pub(crate) fn row_name(key: &str) -> &str {
    static SPELLINGS: LazyLock<Spellings> = LazyLock::new(|| {
        let labels = Label::ALL.into_iter().map(Label::name);
        Spellings::of(ROW_NAMES.into_iter().chain(TOKEN_FIELDS).chain(labels))
    });
    SPELLINGS.standard(key)
}

/// Takes the fields of one object.
pub(crate) trait Fields<'de> {
    /// Reads or ignores the value of `key`.
    fn field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error>;
}

/// An object whose fields go to `F`; `null` has none.
pub(crate) struct Object<'a, F>(pub &'a mut F);

impl<'de, F: Fields<'de>> DeserializeSeed<'de> for Object<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: Fields<'de>> Visitor<'de> for Object<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(key)) = map.next_key()? {
            self.0.field(&key, &mut map)?;
        }
        Ok(())
    }
}

/// Reads one whole line as `seed` says.
pub(crate) fn read_line<'de, S: DeserializeSeed<'de>>(
    line: &'de [u8],
    seed: S,
) -> Result<S::Value, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let value = seed.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Passes over a field's value.
pub(crate) fn ignore<'de, A: MapAccess<'de>>(map: &mut A) -> Result<(), A::Error> {
    map.next_value::<IgnoredAny>().map(|_| ())
}

/// A list of page ids, appended to a buffer; gives the range it filled, or why one of them is none. A database may have
/// made one text of it: `[1, 2]`, `1,2` or `1 2`.
pub(crate) struct Ids<'a>(pub &'a mut Vec<u64>);

impl Ids<'_> {
    /// Takes ids one after another.
    fn take(self, ids: impl Iterator<Item = PageId>) -> Result<Range<usize>, NumberFault> {
        let start = self.0.len();
        for PageId(id) in ids {
            self.0.push(id?);
        }
        Ok(start..self.0.len())
    }
}

impl<'de> TakeValue<'de> for Ids<'_> {
    type Taken = Result<Range<usize>, NumberFault>;

    fn list<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Taken, A::Error> {
        let (start, mut fault) = (self.0.len(), None);
        while let Some(PageId(id)) = array.next_element()? {
            match id {
                Ok(id) => self.0.push(id),
                Err(why) => fault = fault.or(Some(why)),
            }
        }
        Ok(fault.map_or(Ok(start..self.0.len()), Err))
    }

    fn scalar<E: de::Error>(self, scalar: Scalar<'_>) -> Result<Self::Taken, E> {
        let Scalar::Text(text) = scalar else { return Err(wrong_kind()) };
        let list = text.trim();
        if list.starts_with('[') {
            let ids: Option<Vec<PageId>> = serde_json::from_str(list).ok();
            return Ok(ids.ok_or(NumberFault::Text).and_then(|ids| self.take(ids.into_iter())));
        }
        let ids = list.split([',', ';', ' ', '\t']).filter(|id| !id.is_empty());
        Ok(self.take(ids.map(PageId::of_text)))
    }
}

/// A name: a string, or an integer as its decimal text. Appended to a buffer; gives the range it
/// filled.
pub(crate) struct Name<'a>(pub &'a mut String);

impl<'de> TakeValue<'de> for Name<'_> {
    type Taken = Option<Range<usize>>;

    fn scalar<E: de::Error>(self, scalar: Scalar<'_>) -> Result<Self::Taken, E> {
        let start = self.0.len();
        match scalar {
            Scalar::Null => return Ok(None),
            Scalar::Flag(_) | Scalar::Float(_) => return Err(wrong_kind()),
            Scalar::Text(name) => self.0.push_str(&name),
            number => self.0.push_str(&number.to_string()),
        }
        Ok(Some(start..self.0.len()))
    }
}

/// Reads a field's value as a time; nothing for `null`. `trouble` names the field.
pub(crate) fn read_time<'de, A: MapAccess<'de>>(
    map: &mut A,
    numbers: Numbers,
    trouble: &mut ParseTrouble,
) -> Result<Option<Time>, A::Error> {
    let Some(written) = map.next_value::<Option<WrittenTime<'_>>>()? else { return Ok(None) };
    let field = trouble.field;
    written.time(numbers).map(Some).map_err(|fault| trouble.stop(RowFault::Time { field, fault }))
}

/// Reads a field's value as a length of time, whose numbers are in `unit`; nothing for `null`.
pub(crate) fn read_length<'de, A: MapAccess<'de>>(
    map: &mut A,
    unit: NumberUnit,
) -> Result<Option<Duration>, A::Error> {
    let Some(written) = map.next_value::<Option<WrittenTime<'_>>>()? else { return Ok(None) };
    let length = written.length(unit);
    length.map(Some).ok_or_else(|| de::Error::custom("no length of time"))
}

/// Why parsing stopped, kept alongside the parser's own error, whose text must not be shown.
#[derive(Debug, Default)]
pub(crate) struct ParseTrouble {
    /// The known field that is being read; empty in unknown ones.
    pub field: &'static str,
    /// A fault found by our own rules rather than by the parser.
    pub fault: Option<RowFault>,
}

impl ParseTrouble {
    /// Stops the parser for a reason of our own.
    pub fn stop<E: de::Error>(&mut self, fault: RowFault) -> E {
        self.fault = Some(fault);
        E::custom("refused")
    }

    /// Takes what was read as a number, or stops the parser for its form.
    pub fn number<T, E: de::Error>(
        &mut self,
        what: &'static str,
        read: Result<T, NumberFault>,
    ) -> Result<T, E> {
        read.map_err(|why| self.stop(RowFault::Number { field: self.field, what, why }))
    }

    /// Reads a field's value as a count; nothing for `null`.
    pub fn count<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<Option<u64>, A::Error> {
        let read = read_count(map)?;
        self.number("count", read)
    }

    /// The reason to report for the parser's `error`.
    pub fn fault(&mut self, error: &serde_json::Error) -> RowFault {
        self.fault.take().unwrap_or_else(|| RowFault::from_json(error, self.field))
    }
}
