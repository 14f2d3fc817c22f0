//! Token ids of one prompt or several.

use kvset_formats::record::numbers::{TokenId, WholeNumber};
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Unexpected, Visitor};
use std::fmt;

/// The prompts of a record, in memory reused from record to record. `Debug` is left out: token ids must
/// reach no log.
#[derive(Default)]
pub(super) struct RecordPrompts {
    ids: Vec<u32>,
    ends: Vec<usize>,
}

impl RecordPrompts {
    pub(super) fn clear(&mut self) {
        self.ids.clear();
        self.ends.clear();
    }

    /// One prompt of these tokens, and no other.
    pub(super) fn set(&mut self, tokens: Vec<u32>) {
        self.ids = tokens;
        self.ends = vec![self.ids.len()];
    }

    /// These prompts, and no other.
    pub(super) fn set_all(&mut self, prompts: &[Vec<u32>]) {
        self.clear();
        for tokens in prompts {
            self.ids.extend_from_slice(tokens);
            self.end_prompt();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.ids[start..*end])
    }

    fn end_prompt(&mut self) {
        self.ends.push(self.ids.len());
    }
}

/// An array of token ids, or of arrays of them; says whether it is one. Under the same names logs keep
/// numbers of tokens, which say nothing here.
pub(super) struct TokenArray<'p> {
    pub(super) prompts: &'p mut RecordPrompts,
    /// Whether this is an item of an array, where a number is a token.
    pub(super) is_item: bool,
}

impl TokenArray<'_> {
    fn token<E: Error>(self, token: WholeNumber) -> Result<bool, E> {
        let TokenId(token) = TokenId::of(token).map_err(E::custom)?;
        self.prompts.ids.push(token);
        Ok(false)
    }
}

impl<'de> DeserializeSeed<'de> for TokenArray<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TokenArray<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("token ids, or arrays of them")
    }

    fn visit_u64<E: Error>(self, token: u64) -> Result<bool, E> {
        if self.is_item { self.token(WholeNumber(Ok(Some(token.into())))) } else { Ok(false) }
    }

    fn visit_i64<E: Error>(self, token: i64) -> Result<bool, E> {
        self.token(WholeNumber(Ok(Some(token.into()))))
    }

    fn visit_f64<E: Error>(self, token: f64) -> Result<bool, E> {
        if self.is_item { self.token(WholeNumber::of_float(token)) } else { Ok(false) }
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        if self.is_item { Err(E::invalid_type(Unexpected::Unit, &self)) } else { Ok(false) }
    }

    /// A token in quotes; or a list of which a database has made a text, while another text says nothing here.
    fn visit_str<E: Error>(self, text: &str) -> Result<bool, E> {
        if self.is_item {
            return self.token(WholeNumber::of_text(text));
        }
        if !text.trim_start().starts_with('[') {
            return Ok(false);
        }
        let mut list = serde_json::Deserializer::from_str(text);
        let read = self.deserialize(&mut list).and_then(|read| list.end().map(|()| read));
        read.map_err(|_| E::custom("no list of token ids"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<bool, A::Error> {
        let (mut lone, mut lists) = (false, false);
        if self.is_item {
            while let Some(TokenId(token)) = array.next_element()? {
                self.prompts.ids.push(token);
            }
        } else {
            while let Some(is_list) =
                array.next_element_seed(TokenArray { prompts: self.prompts, is_item: true })?
            {
                (lone, lists) = (lone | !is_list, lists | is_list);
                if lone && lists {
                    return Err(A::Error::custom("tokens and arrays of tokens in one array"));
                }
            }
        }
        if !lists {
            self.prompts.end_prompt();
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<Vec<Vec<u32>>> {
        let mut prompts = RecordPrompts::default();
        let read = TokenArray { prompts: &mut prompts, is_item: false }
            .deserialize(&mut serde_json::Deserializer::from_str(json));
        read.ok().filter(|found| *found).map(|_| prompts.iter().map(<[u32]>::to_vec).collect())
    }

    #[test]
    fn one_prompt_or_several() {
        assert_eq!(read("[1, 2]"), Some(vec![vec![1, 2]]));
        assert_eq!(read("[[1], [], [2, 3]]"), Some(vec![vec![1], vec![], vec![2, 3]]));
        assert_eq!(read("[]"), Some(vec![vec![]]), "a prompt without tokens");
        assert_eq!(read("7").or(read("null")).or(read("1.5")), None, "a number of tokens is no prompt");
        for wrong in ["[1, [2]]", "[[1], 2]", "[[[1]]]", "[-1]", "[4294967296]", "[1.5]", "[true]", r#""1""#]
        {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn tokens_are_read_in_every_form_of_a_whole_number() {
        for ids in ["[1.0, 2e0]", r#"["1", "2"]"#, r#""[1, 2]""#, r#"[[1.0, "2"]]"#] {
            assert_eq!(read(ids), Some(vec![vec![1, 2]]), "{ids}");
        }
    }
}
