//! Token ids of one prompt or several.

use kvset_formats::record::numbers::{TokenId, WholeNumber};
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
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
pub(super) struct TokenArray<'p>(pub(super) &'p mut RecordPrompts);

impl<'de> DeserializeSeed<'de> for TokenArray<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TokenArray<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of token ids, or of arrays of them")
    }

    fn visit_u64<E>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    /// A list of which a database has made a text; another one says nothing here.
    fn visit_str<E: Error>(self, text: &str) -> Result<bool, E> {
        if !text.trim_start().starts_with('[') {
            return Ok(false);
        }
        let mut list = serde_json::Deserializer::from_str(text);
        let read = self.deserialize(&mut list).and_then(|read| list.end().map(|()| read));
        read.map_err(|_| E::custom("no list of token ids"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<bool, A::Error> {
        let (mut lone, mut lists) = (false, false);
        while let Some(item) = array.next_element_seed(TokenItem(self.0))? {
            match item {
                TokenKind::Token => lone = true,
                TokenKind::List => lists = true,
            }
            if lone && lists {
                return Err(A::Error::custom("tokens and arrays of tokens in one array"));
            }
        }
        if !lists {
            self.0.end_prompt();
        }
        Ok(true)
    }
}

enum TokenKind {
    Token,
    List,
}

/// A token id, or an array of them.
struct TokenItem<'p>(&'p mut RecordPrompts);

impl TokenItem<'_> {
    fn token<E: Error>(self, token: WholeNumber) -> Result<TokenKind, E> {
        let TokenId(token) = TokenId::of(token).map_err(E::custom)?;
        self.0.ids.push(token);
        Ok(TokenKind::Token)
    }
}

impl<'de> DeserializeSeed<'de> for TokenItem<'_> {
    type Value = TokenKind;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<TokenKind, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TokenItem<'_> {
    type Value = TokenKind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token id or an array of token ids")
    }

    fn visit_u64<E: Error>(self, token: u64) -> Result<TokenKind, E> {
        self.token(WholeNumber(Ok(Some(token.into()))))
    }

    fn visit_i64<E: Error>(self, token: i64) -> Result<TokenKind, E> {
        self.token(WholeNumber(Ok(Some(token.into()))))
    }

    fn visit_f64<E: Error>(self, token: f64) -> Result<TokenKind, E> {
        self.token(WholeNumber::of_float(token))
    }

    fn visit_str<E: Error>(self, token: &str) -> Result<TokenKind, E> {
        self.token(WholeNumber::of_text(token))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<TokenKind, A::Error> {
        while let Some(TokenId(token)) = array.next_element()? {
            self.0.ids.push(token);
        }
        self.0.end_prompt();
        Ok(TokenKind::List)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<Vec<Vec<u32>>> {
        let mut prompts = RecordPrompts::default();
        let read = TokenArray(&mut prompts).deserialize(&mut serde_json::Deserializer::from_str(json));
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
